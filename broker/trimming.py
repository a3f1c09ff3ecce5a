"""Memory that is free inside the C library's heap goes back to the system.

glibc gives back by itself what is free at the heap's end. Below that, what a flood's outboxes have
left stays with the process, until some later flood uses it: one small object at the end is
enough. `malloc_trim` gives back every page that is free. It is asked for now and then, in a
thread; where nothing is free, that takes a millisecond.
"""

import asyncio
import ctypes
from concurrent.futures import ThreadPoolExecutor

SECONDS = 10.0  # between two trims


class Trimmer:
    """Trims the heap every `SECONDS`, where the C library can. Used by the loop's thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._timer: asyncio.TimerHandle | None = None
        self._thread: ThreadPoolExecutor | None = None
        self._trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc's alone

    def start(self) -> None:
        """Trim from now on."""
        if self._trim is not None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="trim")
            self._timer = self._loop.call_later(SECONDS, self._begin)

    def stop(self) -> None:
        """Trim no more."""
        if self._timer is not None and self._thread is not None:
            self._timer.cancel()
            self._thread.shutdown(wait=False)
            self._timer = self._thread = None

    def _begin(self) -> None:
        assert self._thread is not None, "the timer is stopped with it"
        self._thread.submit(self._trim, 0)  # type: ignore[arg-type]
        self._timer = self._loop.call_later(SECONDS, self._begin)
