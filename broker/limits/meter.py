"""How fast one user may publish, with all its connections: what is owed, and who waits for it.

    Allowance    what one user may publish; without users, one client
    Meter        one connection: counts what it publishes, and waits for its allowance

Nothing is dropped and nothing overtakes: what a client sends waits in its socket. Before a read the
reader asks its meter for `room`: how much may be read, or 0, and then the meter has paused it.
After it was served, `charge` takes what it has published from the allowance, which may then owe.
Connections of one user that wait for it go on in turn, one at a time: a read each.

A read is short enough for about one burst, so that a debt is paid within seconds; only one long
message may take longer.
"""

import asyncio
from collections import deque
from typing import Final, Protocol

from broker.limits.token_bucket import TokenBucket

SHORTEST: Final = 11  # bytes of the shortest message on the wire: `PUB a 0`, and two line ends
READ_MIN: Final = 128
READ_MAX: Final = 1 << 19
TURN_S: Final = 0.001  # between two connections of a user that go on
GRACE_S: Final = 0.1  # how long one may have its turn; it may have to wait for something else


class MeteredPublisher(Protocol):
    """What is measured and paused: a NATS client, or one of cquencer's port."""

    def published(self) -> tuple[int, int]:
        """Messages and payload bytes that it has published so far."""

    def need(self) -> int:
        """Bytes of the message of which a part is here."""

    def hold_back(self) -> None:
        """Read nothing until `proceed`."""

    def proceed(self) -> None:
        """Read again."""


class Pauses:
    """How often publishers were paused, and how many are now."""

    def __init__(self) -> None:
        self.begun = 0
        self.now = 0


class Allowance:
    """One per user, or per client; for the broker's one thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.read_size = READ_MAX
        self._messages: TokenBucket | None = None
        self._bytes: TokenBucket | None = None
        self._waiting: deque[Meter] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._turn: Meter | None = None  # whose turn it is: it has not been read yet
        self._turn_until = 0.0

    def limit(self, rate: int, size: int, burst: float) -> None:
        """Set messages and bytes a second (0: no limit), and how many seconds' worth at once."""
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

    def take(self, messages: int, size: int) -> None:
        """This was published."""
        now = self.loop.time()
        if self._messages is not None:
            self._messages.take(messages, now)
        if self._bytes is not None:
            self._bytes.take(size, now)

    def wait(self, now: float) -> float:
        """Seconds until nothing is owed."""
        buckets = (self._messages, self._bytes)
        return max((bucket.wait(now) for bucket in buckets if bucket is not None), default=0.0)

    def is_free(self) -> bool:
        """Whether the next connection may publish: nothing is owed, and nobody waits."""
        return not self._waiting and self.wait(self.loop.time()) <= 0

    def enter(self, meter: "Meter", *, first: bool) -> None:
        """Let a connection wait until nothing is owed, and those before it have had their turn."""
        if first:
            self._waiting.appendleft(meter)
        else:
            self._waiting.append(meter)
        if self._timer is None:
            self._set_timer(self.loop.time())

    def leave(self, meter: "Meter") -> None:
        """It does not wait any more."""
        self._waiting.remove(meter)
        if not self._waiting and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def turn_over(self, meter: "Meter") -> None:
        """It was read, or cannot be: if it was its turn, it is the next one's."""
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
        """If the debt is paid, the next connection goes on."""
        self._timer = None
        now = self.loop.time()
        if self._waiting and self.wait(now) <= 0:
            self._turn, self._turn_until = self._waiting.popleft(), now + GRACE_S
            self._turn.go_on()
        if self._waiting:
            self._set_timer(now)


class Meter:
    """One connection. `user` is the name of the user whose allowance it has; None: its own."""

    def __init__(
        self, allowance: Allowance, publisher: MeteredPublisher, pauses: Pauses, user: str | None
    ) -> None:
        self.allowance = allowance
        self.user = user
        self._publisher = publisher
        self._pauses = pauses
        self._messages, self._bytes = publisher.published()  # that need not be paid
        self._is_waiting = False
        self._has_turn = False  # it has waited, and goes before those that wait now

    def readable(self, now: float) -> int:
        """How many bytes may be read now; 0: none, and it is paused until there is room."""
        allowance = self.allowance
        had_turn, self._has_turn = self._has_turn, False
        free = allowance.wait(now) <= 0 if had_turn else allowance.is_free()
        if not free:
            self.pause(first=had_turn)
            return 0
        return max(allowance.read_size, self._publisher.need())

    def charge(self, rows: int = 0) -> None:
        """Take what it has published since, and `rows` that it has staged, from the allowance."""
        messages, size = self._publisher.published()
        self.allowance.take(messages - self._messages + rows, size - self._bytes)
        self._messages, self._bytes = messages, size
        self.allowance.turn_over(self)

    def pause(self, *, first: bool = False) -> None:
        """Read nothing more of this client until nothing is owed."""
        if not self._is_waiting:
            self._is_waiting = True
            self._pauses.begun += 1
            self._pauses.now += 1
            self._publisher.hold_back()
            self.allowance.enter(self, first=first)
            self.allowance.turn_over(self)

    def go_on(self) -> None:
        """Read it again. Called by the allowance, which has forgotten it."""
        self._has_turn = True
        self._resume()

    def leave(self) -> None:
        """It has ended, or it is measured differently from now on."""
        if self._is_waiting:
            self.allowance.leave(self)
            self._resume()
        self.allowance.turn_over(self)

    def _resume(self) -> None:
        self._is_waiting = False
        self._pauses.now -= 1
        self._publisher.proceed()


def _bucket(known: TokenBucket | None, rate: int, burst: float, now: float) -> TokenBucket | None:
    """The bucket for this limit: the one there was, so that a debt stays."""
    if not rate:
        return None
    size = max(rate * burst, 1.0)
    if known is None:
        return TokenBucket(rate, size, now)
    known.change(rate, size, now)
    return known
