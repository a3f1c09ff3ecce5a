"""An event loop in a thread of its own: other threads give it work, and wait until it is done.

They wait with `SimpleQueue` (`take`), which is C. The locks of `Future`, `Condition` and
`Semaphore` are Python: an interrupt at the wrong moment leaves one locked, and the loop would wait
for it for ever.
"""

import asyncio
import math
import os
import threading
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, Final, TypeVar

from seriatim.client.errors import ConnectionLost, InvalidArgument

CLOSE_SECONDS: Final = 7.0  # longer than a connection takes to write the rest
WAKE_SECONDS: Final = 0.5  # the longest that an interrupt stays unnoticed; waking costs nothing
T = TypeVar("T")
Work = Callable[[], Coroutine[Any, Any, T]]


def take(queue: "SimpleQueue[T]", timeout: float | None = None) -> T:
    """Wait for the next item of a queue, at most `timeout` seconds. Raises `Empty`.

    A signal does not wake the waiting thread if it arrives just before the thread goes to sleep, or
    if the system gives it to another thread: Python sees it only when this one runs again. So it
    wakes up now and then.
    """
    end, wait = None, 0.0  # what is there needs no look at the clock
    while True:
        try:
            return queue.get(timeout=wait)
        except Empty:
            now = time.monotonic()
            if end is None:
                end = math.inf if timeout is None else now + timeout
            if now >= end:
                raise
            wait = min(end - now, WAKE_SECONDS)


class LoopCall:
    """One piece of work: begun by a thread, done in the loop."""

    def __init__(self, work: Work[Any]) -> None:
        self.done: SimpleQueue[tuple[Any, BaseException | None]] = SimpleQueue()
        self._work = work
        self._task: asyncio.Task[Any] | None = None
        self._is_cancelled = False

    def begin(self) -> None:
        """Begin it; called in the loop."""
        if not self._is_cancelled:
            self._task = asyncio.get_running_loop().create_task(self._work())
            self._task.add_done_callback(self._note)

    def cancel(self) -> None:
        """Cancel it: its caller has stopped waiting. To be called in the loop."""
        self._is_cancelled = True
        if self._task is not None:
            self._task.cancel()

    def _note(self, task: "asyncio.Task[Any]") -> None:
        if task.cancelled():
            self.done.put((None, ConnectionLost("the client was closed")))
        elif (error := task.exception()) is not None:
            self.done.put((None, error))
        else:
            self.done.put((task.result(), None))


class LoopThread:
    """The thread, which ends with `stop`, or with the program."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.is_stopped = False  # nothing is begun any more
        self._lock = threading.RLock()  # of that, and of what is begun; this one is C, too
        self._process = os.getpid()
        self._ending: asyncio.Task[None] | None = None
        self._thread = threading.Thread(target=self._run, name="seriatim-client", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
        finally:
            self.loop.run_until_complete(self.loop.shutdown_asyncgens())
            self.loop.close()

    def check(self) -> None:
        """Raise `InvalidArgument` where a client cannot be used, whatever its state is."""
        if os.getpid() != self._process:
            raise InvalidArgument("a client does not live in a child process: connect there")
        if threading.current_thread() is self._thread:
            raise InvalidArgument(
                "`on_event` is called in the client's own thread, and must not wait for the client"
            )

    def begin(self, work: Work[Any]) -> LoopCall:
        """Begin this in the loop. Raises `ConnectionLost` if the client is closed."""
        self.check()
        call = LoopCall(work)
        with self._lock:
            if self.is_stopped:
                raise ConnectionLost("the client is closed")
            self.loop.call_soon_threadsafe(call.begin)
        return call

    def call(self, work: Work[T], timeout: float | None = None) -> T:
        """Do this in the loop, and return what it returns; an interrupt cancels it.

        Raises `TimeoutError`; then it goes on.
        """
        call = self.begin(work)
        try:
            result, error = take(call.done, timeout)
        except Empty:
            raise TimeoutError from None
        except BaseException:
            self.soon(call.cancel)
            raise
        if error is not None:
            raise error
        found: T = result
        return found

    def soon(self, function: Callable[[], object]) -> None:
        """Call this in the loop; nothing happens if there is none any more."""
        with suppress(RuntimeError):  # it is closed
            self.loop.call_soon_threadsafe(function)

    def answers(self, seconds: float) -> bool:
        """True if the loop does what it is given, in this time."""
        answers: SimpleQueue[None] = SimpleQueue()
        self.soon(lambda: answers.put(None))
        try:
            take(answers, seconds)
        except Empty:
            return False
        return True

    def stop(self, seconds: float = CLOSE_SECONDS) -> None:
        """End the thread, when what is under way has been cancelled; wait for it so long."""
        if os.getpid() != self._process:
            return
        with self._lock:
            if not self.is_stopped:
                self.is_stopped = True
                self.soon(self._begin_end)
        self._thread.join(seconds)

    def _begin_end(self) -> None:
        self._ending = self.loop.create_task(self._end())

    async def _end(self) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        if others:
            await asyncio.wait(others, timeout=CLOSE_SECONDS)
        self.loop.stop()
