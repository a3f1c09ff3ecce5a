"""The event loop of a broker: asyncio's, which waits for clients in compiled code.

asyncio looks at its selector, makes a list of what is ready, and calls back. That was a seventh of
what a lone message costs. So this loop's selector lets the gatherer wait, and the gatherer serves
clients before it returns. It returns as soon as asyncio has something to do:

    asyncio -- select(timeout) --> Gatherer.serve_for <--> clients: epoll, recv, send
        ^                               |
        `-- a file of its own is ready, `-- something was scheduled, or the time is over

The gatherer's epoll holds the epoll of this selector as one file more. So one system call waits for
both, and a client's socket may be in both: to be read in one, to be written in the other.

With another loop (uvloop), the gatherer's epoll is a file of that loop. broker/clients/gatherer.py
draws both.
"""

import asyncio
import selectors
from collections.abc import Callable
from contextvars import Context
from typing import Any, Protocol, TypeVarTuple, Unpack

Ts = TypeVarTuple("Ts")
Ready = list[tuple[selectors.SelectorKey, int]]


class Waiter(Protocol):
    """The waiter in the selector's place: the gatherer."""

    asked: bool  # the loop has something to do; `serve_for` returns soon

    def serve_for(self, timeout: float) -> bool:
        """Serve clients for `timeout` seconds, without end if negative, or until `asked`.

        True if a file of the loop's own is ready. It may return early.
        """

    def defer(self, action: Callable[[Any], object], value: Any) -> bool:
        """Call this at the end of the turn; False if none is under way."""


class WaitingSelector(selectors.EpollSelector):
    """A selector that asks the loop's waiter first, once there is one."""

    def __init__(self) -> None:
        super().__init__()
        self.waiter: Waiter | None = None
        self.failed: Callable[[BaseException], None]

    def select(self, timeout: float | None = None) -> Ready:
        waiter = self.waiter
        if waiter is None:
            return super().select(timeout)
        try:
            own = waiter.serve_for(-1.0 if timeout is None else max(timeout, 0.0))
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as error:
            self.failed(error)  # as if a callback had raised it: the loop goes on
            own = True
        return super().select(0) if own else []


class BrokerLoop(asyncio.SelectorEventLoop):
    """Like any loop of asyncio, until `wait_with`: then a waiter waits in the selector's place."""

    def __init__(self) -> None:
        self._waiting = WaitingSelector()
        self._waiting.failed = self._wait_failed
        super().__init__(self._waiting)

    def wait_with(self, waiter: Waiter | None) -> int:
        """Let `waiter` wait from now on; return the file that it must watch for the loop."""
        assert waiter is None or self._waiting.waiter is None, "one at a time"
        self._waiting.waiter = waiter
        return self._waiting.fileno()

    # A callback that a client's input has scheduled must not wait until the waiter returns by
    # itself. `call_later` comes here through `call_at`; `call_soon_threadsafe` need not: it writes
    # to the loop's self-pipe, which the waiter watches.

    def call_soon(
        self,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.Handle:
        if self._waiting.waiter is not None:
            self._waiting.waiter.asked = True
        return super().call_soon(callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        if self._waiting.waiter is not None:
            self._waiting.waiter.asked = True
        return super().call_at(when, callback, *args, context=context)

    def after_turn(self, action: Callable[[Any], object], value: Any) -> None:
        """Call this when the clients of this turn are served: for less than `call_soon`."""
        waiter = self._waiting.waiter
        if waiter is None or not waiter.defer(action, value):
            self.call_soon(action, value)

    def _wait_failed(self, error: BaseException) -> None:
        details: dict[str, Any] = {"message": "Serving clients failed", "exception": error}
        self.call_exception_handler(details)
