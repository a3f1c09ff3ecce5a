"""How fast clients may publish: who has published too much is not read until that is paid off.

    Metering     one per broker: the limits, and the allowance of each user
    Allowance    what one user may publish, with all of its connections; without users, one client
    Meter        one connection: counts what it publishes, and waits for its allowance

Nothing is dropped and nothing overtakes: what a client sends waits in its socket. Before a read the
reader asks its meter for `room`: how much may be read, or 0, and then the meter has paused it.
After it was served, `charge` takes what it has published from the allowance, which may then owe.
Connections of one user that wait for it go on in turn, one at a time: a read each.

A read is short enough for about one burst, so that a debt is paid within seconds; only one long
message may take longer. A client without limits has no meter, and costs nothing.
"""

import asyncio
from collections import deque
from typing import Final, Protocol

from broker.clients.token_bucket import TokenBucket
from broker.dataplane.connection import Connection

SHORTEST: Final = 11  # bytes of the shortest message on the wire: `PUB a 0`, and two line ends
READ_MIN: Final = 128
READ_MAX: Final = 1 << 19
TURN_S: Final = 0.001  # after that the next connection of a user goes on


class MeteredUser(Protocol):
    """A user with limits of its own. None: those of the settings; 0: no limit."""

    @property
    def name(self) -> str: ...
    @property
    def publish_rate(self) -> int | None: ...
    @property
    def publish_bytes(self) -> int | None: ...


class Paused(Protocol):
    """What is paused: a session, or a client of cquencer's port."""

    def hold_back(self) -> None:
        """Read nothing until `proceed`."""

    def proceed(self) -> None:
        """Read again."""


class Allowance:
    """What may be published. `rate`: messages a second, `bytes`: payload bytes; 0: no limit."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._messages: TokenBucket | None = None
        self._bytes: TokenBucket | None = None
        self._waiting: deque[Meter] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self.read_size = READ_MAX

    def limit(self, rate: int, size: int, burst: float) -> None:
        """Set the limits, and how many seconds' worth may come at once."""
        now = self._loop.time()
        self._messages = _bucket(self._messages, rate, burst, now)
        self._bytes = _bucket(self._bytes, size, burst, now)
        read = READ_MAX
        if rate:
            read = min(read, int(SHORTEST * rate * burst))
        if size:
            read = min(read, int(size * burst))
        self.read_size = max(read, READ_MIN)
        if self._waiting:
            self._set_timer(now)

    @property
    def is_limited(self) -> bool:
        """Whether there is a limit at all."""
        return self._messages is not None or self._bytes is not None

    def take(self, messages: int, size: int, now: float) -> None:
        """This was published."""
        if self._messages is not None:
            self._messages.take(messages, now)
        if self._bytes is not None:
            self._bytes.take(size, now)

    def wait(self, now: float) -> float:
        """Seconds until nothing is owed."""
        buckets = (self._messages, self._bytes)
        return max((bucket.wait(now) for bucket in buckets if bucket is not None), default=0.0)

    def is_free(self, now: float) -> bool:
        """Whether the next connection may publish, because nothing is owed and nobody waits."""
        return not self._waiting and self.wait(now) <= 0

    def enter(self, meter: "Meter", now: float, *, first: bool) -> None:
        """Let a connection wait until nothing is owed, and those before it have had their turn."""
        if first:
            self._waiting.appendleft(meter)
        else:
            self._waiting.append(meter)
        if self._timer is None:
            self._set_timer(now)

    def leave(self, meter: "Meter") -> None:
        """It does not wait any more."""
        self._waiting.remove(meter)
        if not self._waiting and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _set_timer(self, now: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(max(self.wait(now), TURN_S), self._go_on)

    def _go_on(self) -> None:
        """The debt is paid: the next connection may go on."""
        self._timer = None
        now = self._loop.time()
        if self._waiting and self.wait(now) <= 0:
            self._waiting.popleft().go_on()
        if self._waiting:
            self._set_timer(now)


class Meter:
    """One connection. Its reader asks it before each read, and tells it what came of it."""

    def __init__(
        self, metering: "Metering", allowance: Allowance, connection: Connection, paused: Paused
    ) -> None:
        self.allowance = allowance
        self.is_waiting = False
        self._metering = metering
        self._connection = connection
        self._paused = paused
        self._messages = connection.in_msgs  # that have been charged
        self._bytes = connection.in_bytes
        self._has_turn = False  # it has waited, and may go on before those that wait now

    def room(self, now: float) -> int:
        """How many bytes may be read now; 0: none, and it is paused until there is room."""
        allowance = self.allowance
        had_turn, self._has_turn = self._has_turn, False
        free = allowance.wait(now) <= 0 if had_turn else allowance.is_free(now)
        if not free:
            self.pause(now, first=had_turn)
            return 0
        return max(allowance.read_size, self._connection.parser.need)

    def charge(self, now: float, rows: int = 0) -> None:
        """It was served: take what it has published, and `rows` that it has staged."""
        messages, size = self._connection.in_msgs, self._connection.in_bytes
        self.allowance.take(messages - self._messages + rows, size - self._bytes, now)
        self._messages, self._bytes = messages, size

    def pause(self, now: float, *, first: bool = False) -> None:
        """Read nothing more of this client until nothing is owed."""
        if not self.is_waiting:
            self.is_waiting = True
            self._metering.pauses += 1
            self._metering.paused += 1
            self._paused.hold_back()
            self.allowance.enter(self, now, first=first)

    def go_on(self) -> None:
        """Called by the allowance, which has forgotten it."""
        self._ended_waiting()
        self._has_turn = True
        self._paused.proceed()

    def leave(self) -> None:
        """The connection has ended, or gets another meter, or needs none any more."""
        if self.is_waiting:
            self.allowance.leave(self)
            self._ended_waiting()
            self._paused.proceed()

    def _ended_waiting(self) -> None:
        self.is_waiting = False
        self._metering.paused -= 1


class Metering:
    """One per broker, for its one thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.rate = self.size = 0  # of those who have no limits of their own
        self.burst = 1.0  # seconds' worth that may come at once
        self.pauses = 0  # how often a client was paused
        self.paused = 0  # clients that are paused now
        self._users: dict[str, Allowance] = {}  # kept: a debt outlives the connection

    def set_limits(self, rate: int, size: int, burst: float) -> None:
        """Limits of those who have no others, from the next `meter` on."""
        self.rate, self.size, self.burst = rate, size, burst

    def meter(
        self, connection: Connection, paused: Paused, user: MeteredUser | None
    ) -> Meter | None:
        """A meter for a connection; None if it may publish as fast as it can."""
        rate, size = self._limits_of(user)
        known = self._users.get(user.name) if user is not None else None
        if not (rate or size):
            if known is not None:
                known.limit(0, 0, self.burst)
            return None
        allowance = known or Allowance(self._loop)
        if user is not None:
            self._users[user.name] = allowance
        allowance.limit(rate, size, self.burst)
        return Meter(self, allowance, connection, paused)

    def _limits_of(self, user: MeteredUser | None) -> tuple[int, int]:
        rate = user.publish_rate if user is not None else None
        size = user.publish_bytes if user is not None else None
        return self.rate if rate is None else rate, self.size if size is None else size


def _bucket(known: TokenBucket | None, rate: int, burst: float, now: float) -> TokenBucket | None:
    """The bucket for this limit: the one there was, so that a debt stays."""
    if not rate:
        return None
    size = max(rate * burst, 1.0)
    if known is None:
        return TokenBucket(rate, size, now)
    known.change(rate, size, now)
    return known
