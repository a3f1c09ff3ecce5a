"""The kinds of scenarios, with their attributes; and goals."""

from dataclasses import dataclass

LIVE = ("seriatim-bare", "nats-server")  # nothing is kept, on disk or in memory
DEFAULT = ("seriatim", *LIVE)  # the default, which keeps everything, beside the two
KEPT = ("seriatim", "jetstream")  # both keep everything


@dataclass(frozen=True, slots=True)
class Goal:
    """A figure that must be `least` times better than another server's, or a fixed limit.

    Better means lower for a cost (CPU, a wait, memory) and higher for anything else.
    """

    figure: str  # of a sample
    least: float  # of a cost without a peer: the most
    peer: str = "nats-server"  # with none, `least` is the figure itself
    server: str = ""  # the goal's server; empty: all but those that serve as a comparison


def cpu(least: float, peer: str = "nats-server", server: str = "") -> tuple[Goal, ...]:
    """Return the most usual goal."""
    return (Goal("cpu_us", least, peer, server),)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """The attributes of all scenarios."""

    name: str
    about: str
    servers: tuple[str, ...] = LIVE
    peer: str = "nats-server"  # the server that the table compares with
    goals: tuple[Goal, ...] = ()  # not for servers that serve as a comparison
    memory_max_mib: int = 0  # 0: the peer's peak
    compared_with: str = ""  # a scenario that differs in one respect
    runs_max: int = 99


@dataclass(frozen=True, slots=True, kw_only=True)
class Flood(Scenario):
    """Publishers send as fast as the server reads; every subscriber gets every message."""

    messages: int
    size: int
    publishers: int = 1
    subscribers: int = 0
    subjects: int = 1  # more than one: the subscribers' pattern is `bench.>`
    burden: int = 0  # subscriptions on other, distinct subjects, made before
    warm: bool = False  # memory is touched before the run; otherwise it is not prepared


@dataclass(frozen=True, slots=True, kw_only=True)
class ManySmall(Scenario):
    """Many publishers, at a steady total rate: each read event of the server has one message."""

    messages: int
    size: int
    publishers: int
    rate: int  # messages per second, of all publishers together
    together: int  # how many publishers send at the same time, one message each
    subscribers: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundTrip(Scenario):
    """One message in flight: published on one connection, received on another."""

    rounds: int
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Idle(Scenario):
    """Connections that only wait, with one subscription each."""

    connections: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Keeping(Scenario):
    """Scenarios of messages that the server keeps on disk."""

    servers: tuple[str, ...] = KEPT
    peer: str = "jetstream"
    messages: int
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Storing(Keeping):
    """Publishers whose messages are kept. Only what was kept counts."""

    publishers: int = 1
    window: int = 0  # unacknowledged publications per publisher; 0: without acknowledgements
    warm: bool = False  # as in `Flood`


@dataclass(frozen=True, slots=True, kw_only=True)
class Replaying(Keeping):
    """One subscriber reads all kept messages, from the first on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading(Keeping):
    """One client asks for all kept messages in columns ($SEQ.READ)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Day(Keeping):
    """One publisher sends far more than the server retains."""

    servers: tuple[str, ...] = ("seriatim-day",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Starting(Scenario):
    """A server's process is started, on a store with so many messages after a SIGKILL."""

    servers: tuple[str, ...] = ("seriatim",)
    messages: int = 0  # none: an empty store
    size: int = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class Casting(Scenario):
    """Scenarios with messages that are sent by multicast."""

    messages: int
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbering(Casting):
    """Clients of cquencer's port send a message and wait for its number. There is no receiver."""

    connections: int
    window: int = 1  # messages in flight per connection, if a server accepts netstrings
    servers: tuple[str, ...] = ("seriatim-cq", "cq")
    peer: str = "cq"


@dataclass(frozen=True, slots=True, kw_only=True)
class Feeding(Casting):
    """One publisher floods a feed, one receiver on this machine counts the messages."""

    peer: str = "floor"


@dataclass(frozen=True, slots=True, kw_only=True)
class Receiving(Casting):
    """One receiver gets messages at a steady rate, in datagrams per second."""

    rate: int
    packed: int = 1  # messages in a datagram
    servers: tuple[str, ...] = ("receiver", "listener")
    peer: str = "listener"
