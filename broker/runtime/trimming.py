"""Returns free memory inside the C library's heap to the system.

glibc only returns memory at the end of the heap. Everything below stays with the process, for
example what a flood's outboxes have freed: one small object at the end is enough. `malloc_trim`
returns every free page. It is called from time to time, in a thread; if nothing is free, it takes a
millisecond.
"""

import asyncio
import ctypes
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

SECONDS = 10.0  # between two calls


class Trimmer:
    """Trims the heap every `SECONDS`, if the C library can. Used by the loop's thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop, drop_spare: Callable[[], None]) -> None:
        self._loop = loop
        self._drop_spare = drop_spare  # frees what is kept only to be used again
        self._timer: asyncio.TimerHandle | None = None
        self._thread: ThreadPoolExecutor | None = None
        self._trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc only

    def start(self) -> None:
        """Start trimming."""
        if self._trim is not None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="trim")
            self._timer = self._loop.call_later(SECONDS, self._begin)

    def stop(self) -> None:
        """Stop trimming."""
        if self._timer is not None and self._thread is not None:
            self._timer.cancel()
            self._thread.shutdown(wait=False)
            self._timer = self._thread = None

    def _begin(self) -> None:
        assert self._thread is not None, "the timer stops with the thread"
        self._drop_spare()
        self._thread.submit(self._trim, 0)  # type: ignore[arg-type]
        self._timer = self._loop.call_later(SECONDS, self._begin)
