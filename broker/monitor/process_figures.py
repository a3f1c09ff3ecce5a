"""The process that the broker is: its memory, its processor time, its build."""

import os
import platform
import sys
import threading
import time

from broker.version import is_compiled

PYTHON = f"{platform.python_implementation()} {platform.python_version()}"
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def resident_bytes() -> int:
    """The memory the process has in use."""
    with open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[1]) * _PAGE_BYTES


def build() -> str:
    """Whether the kernels run compiled."""
    return "compiled" if is_compiled() else "uncompiled"


def loop_name() -> str:
    """The event loop in use: uvloop is in memory only when it is."""
    return "uvloop" if "uvloop" in sys.modules else "asyncio"


class CpuMeter:
    """The processor's share since it was asked last, in percent of one core."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._asked_at = time.monotonic()
        self._used = time.process_time()
        self._percent = 0.0

    def percent(self) -> float:
        """The share; asked twice within a tenth of a second it answers the same again."""
        with self._lock:
            now, used = time.monotonic(), time.process_time()
            if now - self._asked_at >= 0.1:
                self._percent = round(100 * (used - self._used) / (now - self._asked_at), 1)
                self._asked_at, self._used = now, used
            return self._percent
