"""An event loop that does nothing on its own: tests say what happens when.

loop = ManualLoop()       handed to code that needs a loop
loop.run()                run everything that is due, threads' work too, until nothing is left
loop.turn()               one turn: the calls scheduled before it
loop.threads              work given to threads; `work()` does the oldest
loop.later(0.25)          let time pass
loop.held = executor      all of these leave its work alone, until `work_held()`
"""

import heapq
from collections import deque
from collections.abc import Callable
from itertools import count
from typing import Any

MANY = 50_000


class Job:
    """Work for a thread: the part of a Future that the broker uses."""

    def __init__(self, loop: "ManualLoop", work: Callable[[], Any]) -> None:
        self._loop = loop
        self._work = work
        self._result: Any = None
        self._error: BaseException | None = None
        self._listeners: list[Callable[[Any], None]] = []

    def do(self) -> None:
        try:
            self._result = self._work()
        except Exception as error:
            self._error = error
        for tell in self._listeners:
            self._loop.call_soon(tell, self)

    def add_done_callback(self, tell: Callable[[Any], None]) -> None:
        self._listeners.append(tell)

    def cancelled(self) -> bool:
        return False

    def exception(self) -> BaseException | None:
        return self._error

    def result(self) -> Any:
        if self._error is not None:
            raise self._error
        return self._result


class Timer:
    """A call that can be cancelled."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self.call: Callable[[], Any] | None = call

    def cancel(self) -> None:
        self.call = None


class ManualLoop:
    """The part of an event loop that the broker needs, and no more."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.threads: deque[Job] = deque()
        self.held: Any = None
        self._held: deque[Job] = deque()
        self._soon: deque[Callable[[], Any]] = deque()
        self._timers: list[tuple[float, int, Timer]] = []
        self._order = count()

    # Called by the broker

    def time(self) -> float:
        return self.now

    def call_soon(self, call: Callable[..., Any], *arguments: Any) -> None:
        self._soon.append(lambda: call(*arguments))

    def call_later(self, delay: float, call: Callable[..., Any], *arguments: Any) -> Timer:
        return self.call_at(self.now + delay, call, *arguments)

    def call_at(self, when: float, call: Callable[..., Any], *arguments: Any) -> Timer:
        timer = Timer(lambda: call(*arguments))
        heapq.heappush(self._timers, (when, next(self._order), timer))
        return timer

    def run_in_executor(self, executor: Any, work: Callable[..., Any], *arguments: Any) -> Job:
        def after_the_thread() -> Any:
            """The broker may itself have given the thread something that is not done yet."""
            if executor is not None:
                executor.submit(int).result()
            return work(*arguments)

        job = Job(self, after_the_thread)
        is_held = self.held is not None and executor is self.held
        (self._held if is_held else self.threads).append(job)
        return job

    # Called by tests

    @property
    def quiet(self) -> bool:
        return not self._soon and not self.threads

    def turn(self) -> None:
        for _ in range(len(self._soon)):
            self._soon.popleft()()

    def work(self) -> None:
        """Do the oldest job; its callback runs in the next turn."""
        self.threads.popleft().do()

    def work_held(self) -> bool:
        """Do the oldest held job and everything that follows; return whether there was one."""
        if not self._held:
            return False
        self._held.popleft().do()
        self.run()
        return True

    def run(self, *, threads: bool = True) -> None:
        """Run until nothing is left to do; a broker that never becomes idle is a failure."""
        for _ in range(MANY):
            if self._soon:
                self.turn()
            elif threads and self.threads:
                self.work()
            else:
                return
        raise AssertionError("it is busy for ever")

    def later(self, seconds: float) -> None:
        """Let time pass, and run everything that is due by then."""
        until = self.now + seconds
        while self._timers and self._timers[0][0] <= until:
            self.now, _, timer = heapq.heappop(self._timers)
            if timer.call is not None:
                timer.call()
            self.run()
        self.now = until
        self.run()
