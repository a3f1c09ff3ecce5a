"""The identity of a store: store.json, and the lock that allows only one writer.

The file has a checksum of its own: with a flipped digit it would still be valid JSON. The head
of each segment has the same data, so the file can be rewritten from there.
"""

import contextlib
import errno
import fcntl
import json
import os
import struct
from typing import Any, NamedTuple

from sequencer.journal.crc import crc32c
from sequencer.journal.disk import FILE_MODE, file_system_of, replace_or_overwrite
from sequencer.journal.errors import ELSEWHERE, StoreError, StoreLocked

FORMAT = 3  # 1: before there was a window; 2: before its newest number had a checksum
FORMATS = (1, 2, FORMAT)
UNKNOWN_SIZE = 1  # of a window
FILE = "store.json"
CUT = "cut"
ANEW = "begin anew"
LOCK = "lock"
LOCK_BYTES = 20  # a process id, and perhaps that it is stopping
LEAVING = b"leaving"
NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)
FLOCK = struct.Struct("@hhqqi0q")  # struct flock: type, whence, start, length, pid


class LocksMissing(OSError):
    """A file system has no file locks of either kind."""


class Underway(NamedTuple):
    """A change that is under way; the next opening completes it, or lets it be (recovery.py)."""

    kind: str  # CUT or ANEW
    number: int  # the last one that is kept, or after which the store goes on
    epoch: int  # of that number


class Identity(NamedTuple):
    """The content of store.json. `epoch` is the highest in use; 0 until there is a first segment.

    `cuts`, `cut` and `pending` are set if the store took numbers back: in a cluster, uncommitted
    numbers are removed when another coordinator has given them to other messages.
    """

    journal: str  # 16 hex digits
    salt: int
    epoch: int
    created: int  # ns since 1970
    cuts: int = 0  # how often numbers were taken back
    cut: int = 0  # the last number that the latest one left; 0: the store was begun again
    pending: Underway | None = None  # set while the latest change is not complete
    window: int = 0  # bytes of the journal window, where a writer keeps the newest records
    format: int = FORMAT


def new_identity(now: int) -> Identity:
    """Make the identity of a new store."""
    salt = int.from_bytes(os.urandom(4), "little")
    return Identity(os.urandom(8).hex(), salt, 0, now)


def read_identity(path: str) -> Identity | None:
    """Read store.json; None if it is missing or damaged. StoreError if its format is newer."""
    file = os.path.join(path, FILE)
    try:
        with open(file, "rb") as opened:
            fields = checked_json(opened.read())
    except FileNotFoundError:
        return None
    if fields is None:
        return None
    if fields["format"] not in FORMATS:
        raise StoreError(
            f"{file}: this store has format {fields['format']}, and this Seriatim knows format"
            f" {FORMAT}; open it with the newer Seriatim that wrote it"
        )
    pending = Underway(*fields["pending"]) if "pending" in fields else None
    identity = Identity(fields["journal"], fields["salt"], fields["epoch"], fields["created"])
    cuts, cut, window = fields.get("cuts", 0), fields.get("cut", 0), int(fields.get("window", 0))
    changed = identity._replace(cuts=cuts, cut=cut, pending=pending, window=window)
    return changed._replace(format=fields["format"])


def json_with_checksum(fields: dict[str, Any]) -> bytes:
    """Return a small file's content: these fields, and `crc` over them."""
    return json.dumps({**fields, "crc": _checksum(fields)}).encode() + b"\n"


def checked_json(data: bytes) -> dict[str, Any] | None:
    """Read what `json_with_checksum` has made; None if it is damaged."""
    try:
        fields = json.loads(data)
    except (ValueError, RecursionError):
        return None
    is_whole = isinstance(fields, dict) and fields.pop("crc", None) == _checksum(fields)
    return fields if is_whole else None


def write_identity(path: str, identity: Identity) -> None:
    """Write and sync store.json.

    It is written even if the disk is full, so that a store can still be opened and retention can
    make room. A crash may then leave it damaged, but the segments have the same data.
    """
    fields = {"format": FORMAT, **identity._replace(format=FORMAT)._asdict()}
    for name in ("cuts", "cut", "pending", "window"):
        if not fields[name]:
            del fields[name]
    replace_or_overwrite(os.path.join(path, FILE), json_with_checksum(fields))


def lock(path: str) -> int:
    """Lock the store for writing, until the returned descriptor is closed or the process ends."""
    file = os.path.join(path, LOCK)
    fd = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
    try:
        lock_file(fd)
        with contextlib.suppress(OSError):  # on a full disk the pid cannot be stored
            os.pwrite(fd, f"{os.getpid()}\n".encode().ljust(LOCK_BYTES), 0)
    except BlockingIOError:
        text, _, rest = os.pread(fd, LOCK_BYTES, 0).partition(b"\n")
        os.close(fd)
        pid = int(text) if text.isdigit() else 0
        who = f"process {pid}" if pid else "another process"
        raise StoreLocked(
            f"{path}: {who} writes this store; stop it first, or {ELSEWHERE}",
            pid,
            rest.startswith(LEAVING),
        ) from None
    except LocksMissing as error:
        os.close(fd)
        raise StoreError(
            f"{path}: the file system ({file_system_of(path)}) has no file locks"
            f" ({error.strerror}), and without them two brokers could write one store; mount it"
            f" with locks, or {ELSEWHERE}"
        ) from error
    except BaseException:
        os.close(fd)
        raise
    return fd


def say_leaving(fd: int) -> None:
    """Note in the lock that its process is stopping, for one that waits to open the store."""
    with contextlib.suppress(OSError):
        os.pwrite(fd, f"{os.getpid()}\n".encode() + LEAVING, 0)


def lock_file(fd: int) -> None:
    """Lock an open file. BlockingIOError if another process has it; LocksMissing without locks.

    A file system may support only one of the two kinds of locks; all processes that open a store
    find the same one.
    """
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise
    try:
        fcntl.fcntl(fd, fcntl.F_OFD_SETLK, FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EAGAIN):
            raise BlockingIOError(error.errno, error.strerror) from None
        raise LocksMissing(error.errno, error.strerror) from error


def _checksum(fields: dict[str, Any]) -> int:
    return crc32c(json.dumps(fields, sort_keys=True).encode())
