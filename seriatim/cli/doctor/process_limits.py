"""Limits of a process: open files, threads, locked memory.

They are read from /proc: those of a running broker, which systemd or a container may have given it,
or else those of this process.
"""

import math
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from seriatim.cli.check.check_results import CheckResult
from seriatim.cli.doctor.examination import Patient, hint, ok, warning
from seriatim.settings.amounts import show_size

THREADS: Final = 40  # asyncio's pool has up to 32; the disk, monitoring and the log have their own
NET_ADMIN: Final = 12  # capabilities: for larger buffers,
IPC_LOCK: Final = 14  # to lock memory,
SYS_RESOURCE: Final = 24  # and to exceed limits
PROC: Final = Path("/proc")


def open_files(patient: Patient) -> Iterator[CheckResult]:
    """Compare the limit of open files with the connections that the settings allow."""
    from broker.clients.acceptor import RESERVED  # slow to import, and another module may hide it

    soft, hard = _limit(patient.pid, "open files")
    most = patient.settings.limits.max_connections
    need = most + RESERVED
    text = (
        f"soft {soft:.0f}, hard {hard:.0f}{patient.whose}; limits.max_connections {most} and"
        f" {RESERVED} for the broker need {need}"
    )
    if hard >= need:
        yield ok("open files", text)
        return
    fit = max(int(hard) - RESERVED, 1)
    yield warning(
        "open files",
        text,
        f"more than {fit} clients do not fit: they connect, and wait until others leave",
        f"LimitNOFILE={need} in systemd's unit, --ulimit nofile={need} for a container;"
        f" or --max_connections {fit}",
    )


def threads(patient: Patient) -> Iterator[CheckResult]:
    """Compare the limit of processes with those that the broker's user has."""
    limit, _ = _limit(patient.pid, "processes")
    user = os.stat(PROC / str(patient.pid)).st_uid
    if user == 0 or limit == math.inf or is_able(patient.pid, SYS_RESOURCE):
        yield ok("threads", f"no limit of processes{patient.whose}")
        return
    count = _threads_of(user)
    text = f"user {user} has {count} of {limit:.0f} processes and threads{patient.whose}"
    if limit - count >= THREADS:
        yield ok("threads", text)
        return
    yield warning(
        "threads",
        text,
        f"the broker has up to {THREADS} threads, and fails at the first that it may not start",
        f"LimitNPROC={count + THREADS} in systemd's unit, or `ulimit -u {count + THREADS}`",
    )


def locked_memory(patient: Patient) -> Iterator[CheckResult]:
    """Compare the limit of locked memory with the journal window."""
    journal = patient.settings.journal
    if not journal.enabled:
        return
    limit, _ = _limit(patient.pid, "locked memory")
    if limit >= journal.window_bytes + (1 << 16) or is_able(patient.pid, IPC_LOCK):
        yield ok("locked memory", f"enough for the journal window{patient.whose}")
        return
    need = (journal.window_bytes >> 20) + 1
    yield hint(
        "locked memory",
        f"{show_size(int(limit))}{patient.whose}; journal.window_bytes is"
        f" {show_size(journal.window_bytes)}",
        "the system may take away pages of the journal window when memory is short, and the broker"
        " asks for them again each time it uses them",
        f"LimitMEMLOCK={need}M in systemd's unit, --ulimit memlock={need << 20} for a container",
    )


def _limit(pid: int, name: str) -> tuple[float, float]:
    """The soft and the hard limit of a process; infinite if there is none. May raise `OSError`."""
    text = (PROC / str(pid) / "limits").read_text()
    found = re.search(rf"^Max {name} +(\S+) +(\S+)", text, re.MULTILINE)
    if found is None:
        raise ValueError(f"/proc/{pid}/limits has no {name}")
    soft, hard = (math.inf if one == "unlimited" else float(one) for one in found.groups())
    return soft, hard


def is_able(pid: int, capability: int) -> bool:
    """True if a process has a capability. May raise `OSError`."""
    found = re.search(r"^CapEff:\s*(\w+)", (PROC / str(pid) / "status").read_text(), re.MULTILINE)
    return found is not None and bool(int(found[1], 16) >> capability & 1)


def _threads_of(user: int) -> int:
    """Count the threads of all processes of a user that are visible here."""
    count = 0
    for folder in PROC.iterdir():
        with suppress(OSError):  # it has ended, or is none of our business
            if folder.name.isdigit() and folder.stat().st_uid == user:
                count += len(os.listdir(folder / "task"))
    return count
