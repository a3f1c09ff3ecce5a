"""Figures of the broker's process: memory, processor time, build."""

import os
import platform
import sys
import threading
import time

from broker.version import is_compiled

PYTHON = f"{platform.python_implementation()} {platform.python_version()}"
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def resident_bytes() -> int:
    """Return the memory that the process uses."""
    with open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[1]) * _PAGE_BYTES


def build() -> str:
    """Say if the hot modules run compiled or uncompiled."""
    return "compiled" if is_compiled() else "uncompiled"


def loop_name() -> str:
    """The name of the event loop; uvloop is imported only if it is used."""
    return "uvloop" if "uvloop" in sys.modules else "asyncio"


class CpuMeter:
    """The share of processor time since the last call, in percent of one core."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._asked_at = time.monotonic()
        self._used = time.process_time()
        self._percent = 0.0

    def percent(self) -> float:
        """Return the share; a second call within a tenth of a second returns the same again."""
        with self._lock:
            now, used = time.monotonic(), time.process_time()
            if now - self._asked_at >= 0.1:
                self._percent = round(100 * (used - self._used) / (now - self._asked_at), 1)
                self._asked_at, self._used = now, used
            return self._percent
