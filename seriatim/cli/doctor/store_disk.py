"""Examines the file system of the store: its kind, what it can do, how fast it syncs, its room.

The store's files are not touched. Tests are made on a file without a name, in the same directory,
or in the nearest one that exists: it goes away however the command ends.
"""

import errno
import fcntl
import mmap
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from broker.settings.settings import Settings
from sequencer.journal.disk import PAGE, fallocate, file_system_of
from sequencer.journal.identity import LocksMissing, lock_file
from seriatim.cli.check.check_results import CheckResult
from seriatim.cli.doctor.examination import Patient, failed, hint, ok, warning
from seriatim.settings.amounts import show_size

WHAT: Final = "store"
SYNCS: Final = 100  # written and synced pages; enough for a median, and little for any disk
SYNCS_S: Final = 2.0
SLOW_S: Final = 0.02  # a spinning disk takes half of it
STUCK_S: Final = 1.0  # a sync that takes so long fills the window of a busy broker
NETWORK: Final = frozenset(
    {"9p", "afs", "ceph", "cifs", "glusterfs", "lustre", "nfs", "nfs4", "smb3", "virtiofs"}
)
MEMORY: Final = frozenset({"ramfs", "tmpfs"})
LAYERS: Final = frozenset({"aufs", "overlay"})
COPYING: Final = frozenset({"bcachefs", "btrfs", "zfs"})
ELSEWHERE: Final = "give another directory: --store_dir DIR"


def kind(patient: Patient) -> Iterator[CheckResult]:
    """Say on which kind of file system the store is, and what follows from that."""
    if not patient.settings.journal.enabled:
        yield ok(WHAT, "messages are not kept on disk (journal.enabled)")
        return
    path = patient.settings.store_dir
    folder = _folder(path)
    of = file_system_of(str(folder))
    there = path if str(folder) == path else f"{path} (not there yet)"
    text = f"{there} is on {of}"
    if os.statvfs(folder).f_flag & os.ST_RDONLY:
        yield failed(
            WHAT,
            f"{text}, mounted read-only",
            "the broker cannot keep messages, and does not start",
            f"mount it writable, such as a volume in a container; or {ELSEWHERE}",
        )
    elif of in NETWORK or of.startswith("fuse"):
        yield warning(
            WHAT,
            f"{text}, which a server or another program serves",
            "the broker waits as long as that does not answer; locks and syncs are as good as that"
            " makes them",
            f"use a disk of this machine; {ELSEWHERE}",
        )
    elif of in MEMORY:
        yield warning(
            WHAT,
            f"{text}, in memory",
            "all messages are lost when the machine restarts or this is unmounted",
            f"use a disk; {ELSEWHERE}",
        )
    elif of in LAYERS:
        yield warning(
            WHAT,
            f"{text}, the file system of a container",
            "all messages are lost when the container is removed",
            f"mount a volume there: -v seriatim:{path}",
        )
    elif of in COPYING:
        yield hint(
            WHAT,
            f"{text}, which copies on writing",
            "where that cannot be turned off, and after each snapshot, a page needs new room when"
            " it is written again: a full disk then refuses publishers",
            "keep a tenth of the disk free; or use ext4 or xfs for the store",
        )
    else:
        yield ok(WHAT, text)


def abilities(patient: Patient) -> Iterator[CheckResult]:
    """Try what the broker uses on a file: room in advance, O_DIRECT, locks, mappings."""
    if not patient.settings.journal.enabled:
        return
    folder = _folder(patient.settings.store_dir)
    try:
        file = _nameless(folder)
    except OSError as error:
        yield _unwritable(folder, error)
        return
    with file:
        try:
            lacks = [one for one in ABILITIES if not one.has(file.fileno())]
        except OSError as error:
            yield _broken("file system", folder, error)
            return
    if not lacks:
        yield ok("file system", f"it has {', '.join(one.name for one in ABILITIES)}")
    for one in lacks:
        say = failed if one.is_needed else hint
        yield say("file system", f"{folder} has no {one.name}", one.without, one.remedy)


def latency(patient: Patient) -> Iterator[CheckResult]:
    """Measure how long it takes until a page is on the disk."""
    journal = patient.settings.journal
    if not journal.enabled:
        return
    folder = _folder(patient.settings.store_dir)
    try:
        file = _nameless(folder)
    except OSError:
        return  # `abilities` says so
    with file:
        try:
            times = sync_times(file.fileno(), SYNCS, SYNCS_S)
        except OSError as error:
            yield _broken("disk", folder, error)
            return
    median, worst = statistics.median(times), max(times)
    text = (
        f"a page is on the disk after {median * 1000:.2f} ms (median), {worst * 1000:.2f} ms"
        f" (worst of {len(times)})"
    )
    waits = journal.sync == "always"
    if waits and median > SLOW_S:
        yield warning(
            "disk",
            text,
            "with --sync always nothing is shown before it is on disk: publishers wait so long",
            "use a faster disk, best with a cache that survives a power cut; or --sync interval",
        )
    elif worst > STUCK_S or (journal.sync == "interval" and median > journal.sync_interval):
        yield warning(
            "disk",
            text,
            f"the journal window ({show_size(journal.window_bytes)}) fills while the disk is busy,"
            " and publishers wait",
            "find out what else uses it (`iostat -x 1`), or give the store a disk of its own",
        )
    else:
        yield ok("disk", text)


def room(patient: Patient) -> Iterator[CheckResult]:
    """Compare the free room with what retention lets the journal take."""
    settings = patient.settings
    if not settings.journal.enabled:
        return
    path = Path(settings.store_dir)
    state = os.statvfs(_folder(settings.store_dir))
    if not state.f_blocks:
        yield ok("room", "unknown: the file system does not say")
        return
    free, used = state.f_bavail * state.f_frsize, _used(path)
    text = f"{_shown(free)} free, {_shown(used)} used by the store"
    if not settings.journal.retain_bytes:
        yield hint(
            "room",
            f"{text}; journal.retain_bytes has no limit",
            "a full disk refuses publishers",
            f"--retain_bytes {show_size(_fitting(free + used, settings) or 1 << 30)}",
        )
        return
    need = _most(settings)
    text += (
        f"; journal.retain_bytes {show_size(settings.journal.retain_bytes)} needs {_shown(need)}"
    )
    if free + used >= need:
        yield ok("room", text)
        return
    fitting = _fitting(free + used, settings)
    lower = f", or --retain_bytes {show_size(fitting)}" if fitting else ""
    yield warning(
        "room",
        text,
        "the disk is full before the oldest messages are deleted, and then refuses publishers",
        f"make room for {_shown(need - free - used)} more{lower}",
    )


@dataclass(frozen=True, slots=True)
class Ability:
    """A thing that a file system can do, a test of it, and what the broker is without it."""

    name: str
    has: Callable[[int], bool]
    without: str
    remedy: str
    is_needed: bool = False


def write_directly(fd: int) -> bool:
    """Have pages written past the page cache, as the journal writes segments; False if refused."""
    flags = fcntl.fcntl(fd, fcntl.F_GETFL)
    try:
        fcntl.fcntl(fd, fcntl.F_SETFL, flags | os.O_DIRECT)
        with mmap.mmap(-1, PAGE) as aligned:
            os.pwrite(fd, aligned, 0)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.EOPNOTSUPP):
            raise
        fcntl.fcntl(fd, fcntl.F_SETFL, flags)
        return False
    return True


def _has_locks(fd: int) -> bool:
    try:
        lock_file(fd)
    except LocksMissing:
        return False
    return True


def _has_mappings(fd: int) -> bool:
    os.ftruncate(fd, PAGE)
    try:
        mmap.mmap(fd, PAGE).close()
    except OSError:
        return False
    return True


ABILITIES: Final = (
    Ability(
        "fallocate",
        lambda fd: fallocate(fd, 0, PAGE),
        "room in segments is not reserved, so a full disk is noticed late",
        "use ext4, xfs or btrfs for the store",
    ),
    Ability(
        "O_DIRECT",
        write_directly,
        "messages are written through the system's page cache, which costs more and evicts files of"
        " others",
        "use ext4, xfs or btrfs for the store",
    ),
    Ability(
        "file locks",
        _has_locks,
        "two brokers could write one store, so the broker does not start",
        f"mount it with locks, or {ELSEWHERE}",
        is_needed=True,
    ),
    Ability(
        "shared mappings",
        _has_mappings,
        "the journal window must be mapped, so the broker does not start",
        ELSEWHERE,
        is_needed=True,
    ),
)


def sync_times(fd: int, most: int, seconds: float) -> list[float]:
    """Write and sync a page again and again, as the journal does; at least once. In seconds."""
    fallocate(fd, 0, most * PAGE)
    write_directly(fd)
    times: list[float] = []
    begun = time.monotonic()
    with mmap.mmap(-1, PAGE) as page:
        page.write(os.urandom(PAGE))  # some disks leave out zeros
        while not times or (len(times) < most and time.monotonic() - begun < seconds):
            at = time.perf_counter()
            os.pwrite(fd, page, len(times) * PAGE)
            os.fdatasync(fd)
            times.append(time.perf_counter() - at)
    return times


def _folder(path: str) -> Path:
    """The directory of the store, or the nearest one above it that exists."""
    folder = Path(path).absolute()
    while not folder.is_dir():
        folder = folder.parent
    return folder


def _nameless(folder: Path) -> IO[bytes]:
    """Open a file that has no name, and is gone when it is closed. Raises `OSError`."""
    return tempfile.TemporaryFile(dir=folder, buffering=0, prefix=".seriatim-doctor-")


def _unwritable(folder: Path, error: OSError) -> CheckResult:
    text = f"{folder}: a file cannot be made: {error.strerror}"
    if error.errno in (errno.EACCES, errno.EPERM):
        return warning(
            "file system",
            text,
            f"a broker of user {os.getuid()} could not keep messages there, and would not start",
            f"run this as the broker's user (`sudo -u seriatim seriatim doctor`), or {ELSEWHERE}",
        )
    why = "the broker cannot keep messages there, and does not start"
    return failed("file system", text, why, ELSEWHERE)


def _broken(what: str, folder: Path, error: OSError) -> CheckResult:
    return failed(
        what,
        f"{folder}: a file cannot be written: {error.strerror}",
        "publishers are refused while the disk is full or fails",
        f"make room, or look at the disk (`dmesg`, `smartctl`); or {ELSEWHERE}",
    )


def _used(path: Path) -> int:
    """Add up the bytes on the disk of a store, which may change meanwhile. May raise `OSError`."""

    def note(error: OSError) -> None:
        if isinstance(error, PermissionError):
            raise error

    total = 0
    for folder, _, names in os.walk(path, onerror=note):
        for name in names:
            with suppress(OSError):
                total += os.lstat(os.path.join(folder, name)).st_blocks * 512
    return total


def _most(settings: Settings) -> int:
    """Return the most bytes that the journal takes: retention deletes by whole segments."""
    journal = settings.journal
    return journal.retain_bytes + journal.segment_limit + journal.window_bytes


def _fitting(room: int, settings: Settings) -> int:
    """Return a `retain_bytes` that fits into so much room, in whole MiB; 0 if none does.

    A segment is at most a quarter of it, and a tenth is left free.
    """
    return max(int((room - settings.journal.window_bytes) * 0.9 / 1.25), 0) >> 20 << 20


def _shown(size: int) -> str:
    return f"{size / (1 << 30):.1f} GiB" if size >= 1 << 30 else f"{size >> 20} MiB"
