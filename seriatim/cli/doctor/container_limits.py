"""Reads the limits of control groups (v1 and v2): memory, processor, processes.

The strictest limit of a group and of those above it counts, as far as they are visible.

    /proc/PID/cgroup      0::/system.slice/seriatim.service          v2
                          4:memory:/docker/3f1c                      v1, a line for each controller
    /proc/PID/mountinfo   ... / /sys/fs/cgroup ... - cgroup2 ...     where the groups are folders
"""

import math
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from seriatim.cli.check.check_results import CheckResult
from seriatim.cli.doctor.examination import Patient, hint, ok, warning
from seriatim.cli.doctor.process_limits import THREADS

BASE_BYTES: Final = 64 << 20  # a broker under load, without the journal window, with some room
UNLIMITED: Final = 1 << 60  # v1 writes 2^63 - 4096
PROC: Final = Path("/proc")


class ControlGroups:
    """The control groups of a process, as far as they are visible. Methods may raise `OSError`."""

    def __init__(self, pid: int, proc: Path = PROC) -> None:
        self._own = proc / str(pid)

    def least(self, controller: str, *files: str) -> float:
        """Return the smallest of a limit in all groups; infinite if there is none."""
        found = [_number(one / file) for one in self.folders(controller) for file in files]
        return min(found, default=math.inf)

    def processors(self) -> float:
        """Return the smallest share of a processor in all groups; infinite without a limit."""
        shares = [math.inf]
        for group in self.folders("cpu"):
            with suppress(OSError):
                quota, period = (group / "cpu.max").read_text().split()
                if quota != "max":
                    shares.append(int(quota) / int(period))
            if 0 < (quota_v1 := _number(group / "cpu.cfs_quota_us")) < math.inf:
                shares.append(quota_v1 / _number(group / "cpu.cfs_period_us"))
        return min(shares)

    def folders(self, controller: str) -> Iterator[Path]:
        """The groups of the process and those above them, of v2 and of v1's controller."""
        mounts = list(self._mounts(controller))
        for line in (self._own / "cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers and controller not in controllers.split(","):
                continue
            for is_v2, root, mount in mounts:
                if is_v2 == (not controllers):
                    yield from _upwards(mount, _below(root, path))

    def _mounts(self, controller: str) -> Iterator[tuple[bool, str, Path]]:
        """The places of mounted groups: whether it is v2, which group is there, and the folder."""
        for line in (self._own / "mountinfo").read_text().splitlines():
            front, _, back = line.partition(" - ")
            root, mount = front.split(" ")[3:5]
            kind, _, options = back.split(" ", 2)
            if kind == "cgroup2" or (kind == "cgroup" and controller in options.split(",")):
                yield kind == "cgroup2", root, Path(mount)


def memory(patient: Patient, groups: ControlGroups | None = None) -> Iterator[CheckResult]:
    """Compare the limit of memory with what the settings let the broker use."""
    groups = groups or ControlGroups(patient.pid)
    limit = groups.least("memory", "memory.max", "memory.limit_in_bytes")
    if limit >= UNLIMITED:
        yield ok("memory", f"no limit by a control group{patient.whose}")
        return
    journal, limits = patient.settings.journal, patient.settings.limits
    kept = journal.window_bytes if journal.enabled else journal.ring_bytes
    least, most = kept + BASE_BYTES, kept + BASE_BYTES + limits.max_pending_total
    text = f"the control group may use {_mib(limit)}{patient.whose}"
    if limit < least:
        yield warning(
            "memory",
            f"{text}; the broker needs some {_mib(least)} under load",
            "the kernel kills a broker that needs more, and its clients must connect again",
            f"--memory {least >> 20}m for a container, MemoryMax={least >> 20}M in systemd's unit;"
            " or a smaller --journal_window_bytes",
        )
    elif limit < most or not limits.max_pending_total:
        pending = _mib(limits.max_pending_total) if limits.max_pending_total else "unlimited"
        fitting = max(int(limit - least) >> 20, 1)
        yield hint(
            "memory",
            f"{text}; slow readers may take limits.max_pending_total ({pending}) beside"
            f" {_mib(least)} for the broker",
            "slow readers can bring the broker so far that the kernel kills it",
            f"--max_pending_total {fitting}MiB, or more memory",
        )
    else:
        yield ok("memory", text)


def processor(patient: Patient, groups: ControlGroups | None = None) -> Iterator[CheckResult]:
    """Compare the processor's share with the one thread that serves all clients."""
    share = (groups or ControlGroups(patient.pid)).processors()
    if share == math.inf:
        yield ok("processor", f"no limit by a control group{patient.whose}")
        return
    text = f"the control group may use {share:g} processors{patient.whose}"
    if share >= 1:
        yield ok("processor", text)
        return
    yield warning(
        "processor",
        text,
        "a busy event loop uses up its share, and then stands still for the rest of each period,"
        " usually 100 ms: messages wait so long",
        "give it at least 1, better 2: --cpus 2 for a container, CPUQuota=200% in systemd's unit",
    )


def processes(patient: Patient, groups: ControlGroups | None = None) -> Iterator[CheckResult]:
    """Compare the room for processes with the threads of a broker."""
    left, limit = math.inf, math.inf
    for group in (groups or ControlGroups(patient.pid)).folders("pids"):
        most = _number(group / "pids.max")
        if most < math.inf and most - _number(group / "pids.current") < left:
            left, limit = most - _number(group / "pids.current"), most
    if left >= THREADS:
        return  # `threads` speaks of the usual limit
    yield warning(
        "threads",
        f"the control group has room for {left:g} more of {limit:g} processes{patient.whose}",
        f"the broker has up to {THREADS} threads, and fails at the first that it may not start",
        f"--pids-limit {limit + THREADS:g} for a container, TasksMax={limit + THREADS:g} in"
        " systemd's unit",
    )


def _number(file: Path) -> float:
    """The number in a file; infinite for "max", and without such a file."""
    try:
        text = file.read_text().strip()
    except OSError:
        return math.inf
    return math.inf if text == "max" else float(text)


def _below(root: str, path: str) -> str:
    """The path of a group below the one that is mounted; "/" if it is not visible there."""
    path = path.removeprefix(root.rstrip("/")) or "/"
    return "/" if ".." in path.split("/") else path


def _upwards(mount: Path, path: str) -> Iterator[Path]:
    folder = mount / path.lstrip("/")
    while not folder.is_dir() and folder != mount:
        folder = folder.parent
    yield folder
    while folder != mount:
        folder = folder.parent
        yield folder


def _mib(size: float) -> str:
    return f"{int(size) >> 20} MiB"
