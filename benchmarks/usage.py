"""The use of CPU time and memory by a process so far, by the system's counts."""

import time
from pathlib import Path


def cpu_seconds(process: int) -> float:
    """Return the user and system time of all the process's threads, including ended ones.

    This is the process's own CPU clock, in nanoseconds: /proc/PID/stat counts in ticks of 10 ms,
    and /proc/PID/task/*/schedstat omits threads that have ended. Raises `OSError` if there is no
    such process.
    """
    return time.clock_gettime_ns(~process << 3 | 2) / 1e9  # the id from clock_getcpuclockid(3)


def peak_bytes(process: int) -> int:
    """Return the process's peak of physical memory; 0 if it has ended."""
    status = Path(f"/proc/{process}/status").read_text()
    lines = [line for line in status.splitlines() if line.startswith("VmHWM:")]
    return int(lines[0].split()[1]) * 1024 if lines else 0
