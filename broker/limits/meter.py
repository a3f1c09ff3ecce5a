"""Limits how fast one user may publish, with all its connections.

    Allowance    how much one user may publish; without users, one client
    Meter        one connection: counts its messages, and waits for its allowance

Nothing is dropped or reordered: a paused client's input waits in its socket. Before a read the
gatherer asks the meter how much is `readable`; 0 means that the meter has paused the client. After
the read was served, `charge` takes its messages from the allowance, which may then be in debt. The
paused connections of one user take turns, one read each.

A read is short enough for about one burst, so that a debt is paid within seconds; only one long
message may take longer.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

from sequencer.token_bucket import TokenBucket

SHORTEST: Final = 11  # bytes of the shortest message on the wire: `PUB a 0`, and two line ends
READ_MIN: Final = 128
READ_MAX: Final = 1 << 19
TURN_S: Final = 0.001  # between the turns of two connections of a user
GRACE_S: Final = 0.1  # the longest turn: the connection may have to wait for something else


class MeteredPublisher(Protocol):
    """A publisher that is measured and paused: a NATS client, or one of cquencer's port."""

    def published(self) -> tuple[int, int]:
        """Return the messages and payload bytes published so far."""

    def need(self) -> int:
        """Return the size in bytes of the message that has arrived in part."""

    def hold_back(self) -> None:
        """Stop reading until `proceed`."""

    def proceed(self) -> None:
        """Read again."""


class Pauses:
    """The number of pauses so far, and of publishers that are paused now."""

    def __init__(self) -> None:
        self.begun = 0
        self.now = 0


class Allowance:
    """The messages and bytes that one user, or one client, may still publish."""

    def __init__(self, loop: asyncio.AbstractEventLoop, read_size: int = READ_MAX) -> None:
        self.loop = loop
        self.read_size = read_size
        self._messages: TokenBucket | None = None
        self._bytes: TokenBucket | None = None
        self._waiting: deque[Meter] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._turn: Meter | None = None  # has its turn, and has not been read yet
        self._turn_until = 0.0

    def limit(self, rate: int, size: int, burst: float) -> None:
        """Set messages and bytes a second (0: no limit), and the burst in seconds."""
        now = self.loop.time()
        self._messages = _bucket(self._messages, rate, burst, now)
        self._bytes = _bucket(self._bytes, size, burst, now)
        read = float(READ_MAX)
        if rate:
            read = min(read, SHORTEST * rate * burst)
        if size:
            read = min(read, size * burst)
        self.read_size = max(int(read), READ_MIN)
        if self._waiting:
            self._set_timer(now)

    def charge(self, messages: int, size: int) -> None:
        """Take published messages and bytes from the allowance."""
        now = self.loop.time()
        if self._messages is not None:
            self._messages.spend(messages, now)
        if self._bytes is not None:
            self._bytes.spend(size, now)

    def wait(self, now: float) -> float:
        """Return the seconds until the debt is paid."""
        buckets = (self._messages, self._bytes)
        return max((bucket.wait(now) for bucket in buckets if bucket is not None), default=0.0)

    def is_free(self) -> bool:
        """True if the next connection may publish: there is no debt, and no connection waits."""
        return not self._waiting and self.wait(self.loop.time()) <= 0

    def enter(self, meter: "Meter", *, first: bool) -> None:
        """Queue a connection until the debt is paid, after all others or `first`."""
        if first:
            self._waiting.appendleft(meter)
        else:
            self._waiting.append(meter)
        if self._timer is None:
            self._set_timer(self.loop.time())

    def remove(self, meter: "Meter") -> None:
        """Remove a connection from the queue."""
        self._waiting.remove(meter)
        if not self._waiting and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def turn_over(self, meter: "Meter") -> None:
        """End the turn of a connection, if it has the turn: it was read, or cannot be read now."""
        if meter is self._turn:
            self._turn = None
            if self._waiting:
                self._set_timer(self.loop.time())

    def _set_timer(self, now: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        delay = max(self.wait(now), TURN_S)
        if self._turn is not None:
            delay = max(delay, self._turn_until - now)
        self._timer = self.loop.call_later(delay, self._go_on)

    def _go_on(self) -> None:
        """Give the turn to the next connection, if the debt is paid."""
        self._timer = None
        now = self.loop.time()
        if self._waiting and self.wait(now) <= 0:
            self._turn, self._turn_until = self._waiting.popleft(), now + GRACE_S
            self._turn.read_again()
        if self._waiting:
            self._set_timer(now)


class Meter:
    """The count of one connection. `user` is the name of the allowance's user; None: its own."""

    def __init__(
        self, allowance: Allowance, publisher: MeteredPublisher, pauses: Pauses, user: str | None
    ) -> None:
        self.allowance = allowance
        self.user = user
        self._publisher = publisher
        self._pauses = pauses
        self._messages, self._bytes = publisher.published()  # charged already, or free
        self._is_waiting = False
        self._has_turn = False  # has waited, and goes before those that wait now

    def readable(self, now: float) -> int:
        """Return how many bytes may be read now; 0: the client is now paused until its turn."""
        allowance = self.allowance
        had_turn, self._has_turn = self._has_turn, False
        free = allowance.wait(now) <= 0 if had_turn else allowance.is_free()
        if not free:
            self.pause(first=had_turn)
            return 0
        return max(allowance.read_size, self._publisher.need())

    def charge(self, rows: int = 0) -> None:
        """Charge the messages since the last call, and `rows` that the client has staged."""
        messages, size = self._publisher.published()
        self.allowance.charge(messages - self._messages + rows, size - self._bytes)
        self._messages, self._bytes = messages, size
        self.allowance.turn_over(self)

    def pause(self, *, first: bool = False) -> None:
        """Stop reading this client until the debt is paid."""
        if not self._is_waiting:
            self._is_waiting = True
            self._pauses.begun += 1
            self._pauses.now += 1
            self._publisher.hold_back()
            self.allowance.enter(self, first=first)
            self.allowance.turn_over(self)

    def read_again(self) -> None:
        """Read the client again. Called by the allowance, which has dequeued it."""
        self._has_turn = True
        self._resume()

    def detach(self) -> None:
        """Detach from the allowance: the client has gone, or gets another meter."""
        if self._is_waiting:
            self.allowance.remove(self)
            self._resume()
        self.allowance.turn_over(self)

    def _resume(self) -> None:
        self._is_waiting = False
        self._pauses.now -= 1
        self._publisher.proceed()


class StrangerMeter(Meter):
    """The meter of a client before authentication: it only keeps its reads short."""

    def __init__(self, allowance: Allowance, need: Callable[[], int]) -> None:
        self.allowance = allowance
        self.user = None
        self._need = need

    def readable(self, now: float) -> int:
        return max(self.allowance.read_size, self._need())

    def charge(self, rows: int = 0) -> None:
        """Do nothing: nothing that a stranger sends is published."""

    def detach(self) -> None:
        """Do nothing: no allowance counts it."""


def _bucket(known: TokenBucket | None, rate: int, burst: float, now: float) -> TokenBucket | None:
    """Return the bucket for this limit: the known one if there is one, so that a debt stays."""
    if not rate:
        return None
    size = max(rate * burst, 1.0)
    if known is None:
        return TokenBucket(rate, size)
    known.change(rate, size, now)
    return known
