"""The scenarios, as data: what is done, how often, on which servers, and the goals.

The numbers of messages are chosen for about 4 seconds of the slower server on two cores, and less
if they are kept: benchmarks/memory.py says why a gigabyte is enough.
"""

from dataclasses import dataclass, replace

from benchmarks.servers import Server

LIVE = ("seriatim-bare", "nats-server")  # nothing is kept, on disk or in memory
KEPT = ("seriatim", "jetstream")  # both keep everything


@dataclass(frozen=True, slots=True)
class Goal:
    """A figure that must be so many times better than another server's, or a limit of its own.

    Better means lower for a cost (CPU, a wait, memory) and higher for anything else.
    """

    figure: str  # of a sample
    least: float
    peer: str = "nats-server"  # with none, `least` is the figure itself


def cpu(least: float, peer: str = "nats-server") -> tuple[Goal, ...]:
    """Return the most usual goal."""
    return (Goal("cpu_us", least, peer),)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Replaying(Keeping):
    """One subscriber reads all that is kept, from the first message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading(Keeping):
    """One client asks for all that is kept in columns ($SEQ.READ)."""


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
    """One publisher floods a feed, one receiver on this machine counts what it gets."""

    peer: str = "floor"


@dataclass(frozen=True, slots=True, kw_only=True)
class Receiving(Casting):
    """One receiver gets what is sent at a steady rate, in datagrams per second."""

    rate: int
    packed: int = 1  # messages in a datagram
    servers: tuple[str, ...] = ("receiver", "listener")
    peer: str = "listener"


ALL: tuple[Scenario, ...] = (
    Flood(
        name="1:0-16", about="1 publisher, no subscriber, 16 B",
        messages=40_000_000, size=16, goals=cpu(3.5),
    ),
    Flood(
        name="1:0-128", about="1 publisher, no subscriber, 128 B",
        messages=24_000_000, size=128, goals=cpu(2.5),
    ),
    Flood(
        name="1:1-16", about="1 publisher, 1 subscriber, 16 B",
        messages=12_000_000, size=16, subscribers=1, goals=cpu(6),
    ),
    Flood(
        name="1:1-128", about="1 publisher, 1 subscriber, 128 B",
        messages=8_000_000, size=128, subscribers=1, goals=cpu(4.5),
    ),
    Flood(
        name="1:1-1024", about="1 publisher, 1 subscriber, 1 KiB",
        messages=3_000_000, size=1024, subscribers=1, goals=cpu(2),
    ),
    Flood(
        name="1:10-128", about="1 publisher, 10 subscribers, 128 B",
        messages=1_500_000, size=128, subscribers=10, goals=cpu(4.5),
    ),
    Flood(
        name="4:4-1000", about="4 publishers, 4 subscribers to bench.>, 1000 subjects, 128 B",
        messages=4_000_000, size=128, publishers=4, subscribers=4, subjects=1000, goals=cpu(4.5),
    ),
    Flood(
        name="4:4-100000", about="4 publishers, 4 subscribers to bench.>, 100 000 subjects, 128 B",
        messages=4_000_000, size=128, publishers=4, subscribers=4, subjects=100_000, goals=cpu(4),
        compared_with="4:4-1000",
    ),
    RoundTrip(
        name="round-trip", about="one message in flight, 16 B",
        rounds=20_000, size=16, goals=(Goal("p50_us", 1),),
    ),
    Idle(
        name="idle-10000", about="10 000 idle connections, one subscription each",
        connections=10_000, memory_max_mib=200, runs_max=3,
    ),
    Flood(
        name="1:1-128-million", about="1:1-128 amid 1 000 000 other subscriptions",
        messages=8_000_000, size=128, subscribers=1, burden=1_000_000, goals=cpu(4.5), runs_max=3,
        memory_max_mib=600, compared_with="1:1-128",
    ),
    Flood(
        name="kept-1:1-128", about="1:1-128, and every message is kept",
        servers=("seriatim", "seriatim-no-journal", "nats-server"),
        messages=4_000_000, size=128, subscribers=1,
        goals=cpu(3) + cpu(1 / 1.6, "seriatim-no-journal"),
    ),
    Storing(
        name="store-flood-128", about="1 publisher, no acknowledgement, 128 B",
        messages=5_000_000, size=128,
        goals=(*cpu(15, "jetstream"), Goal("in_per_second", 10, "jetstream")),
    ),
    Storing(
        name="store-acked-128", about="1 publisher, 4000 publications on their way, 128 B",
        messages=4_000_000, size=128, window=4000,
        goals=(*cpu(15, "jetstream"), Goal("in_per_second", 10, "jetstream")),
    ),
    Storing(
        name="sync-always-100", about="100 publishers, each waits for the disk each time, 128 B",
        servers=("seriatim-always", "jetstream-always"), peer="jetstream-always",
        messages=200_000, size=128, publishers=100, window=1,
        goals=(Goal("in_per_second", 3, "jetstream-always"),),
    ),
    Replaying(
        name="replay-128", about="1 subscriber reads all that is kept, 128 B",
        messages=4_000_000, size=128,
        goals=(Goal("out_per_second", 3e6, ""),),
    ),
    Reading(
        name="read-128", about="1 client reads all that is kept in columns, 128 B",
        servers=("seriatim",), messages=4_000_000, size=128,
        goals=(Goal("per_cpu_second", 5e6, ""),),
    ),
    Numbering(
        name="cq-1", about="cquencer's port: 1 client waits for each number, 128 B",
        messages=150_000, size=128, connections=1,
    ),
    Numbering(
        name="cq-8", about="cquencer's port: 8 clients wait for each number, 128 B",
        messages=300_000, size=128, connections=8, goals=(Goal("in_per_second", 1.2, "cq"),),
    ),
    Numbering(
        name="cq-pipelined-8", about="8 clients with 1000 netstrings on their way (cq: 1), 128 B",
        servers=("seriatim-cq-netstring", "cq"),
        messages=200_000, size=128, connections=8, window=1000,
        goals=(Goal("in_per_second", 15, "cq"),),
    ),
    Feeding(
        name="feed-128", about="1 publisher, a datagram for each message, 1 receiver, 128 B",
        servers=("seriatim-feed", "floor-segmented", "floor", "cq"),
        messages=3_000_000, size=128, goals=cpu(8, "cq") + cpu(1 / 1.3, "floor"),
    ),
    Feeding(
        name="feed-plain-128", about="feed-128 without UDP_SEGMENT",
        servers=("seriatim-feed-plain", "floor"),
        messages=600_000, size=128, goals=cpu(1 / 1.3, "floor"),
    ),
    Feeding(
        name="feed-packed-128", about="feed-128, as many messages in a datagram as it takes",
        servers=("seriatim-feed-packed", "floor"),
        messages=5_000_000, size=128, goals=(Goal("in_per_second", 1e6, ""),),
    ),
    Receiving(
        name="receive-128", about="1 receiver, 50 000 datagrams/s of one message each, 128 B",
        messages=150_000, size=128, rate=50_000,
    ),
    Receiving(
        name="receive-packed-128", about="1 receiver, 25 000 datagrams/s of 10 messages, 128 B",
        messages=750_000, size=128, rate=25_000, packed=10,
    ),
)  # fmt: skip


def fits(scenario: Scenario, server: Server) -> bool:
    """Say whether a server can run the scenario: whether it keeps, feeds and accepts enough."""
    match scenario:
        case Numbering():
            return server.takes in ("recv", "netstring")
        case Feeding():
            return server.feeds
        case Receiving():
            return server.takes == "multicast"
        case Reading():
            return server.keeps == "journal"
        case Keeping():
            return bool(server.keeps)
        case _:
            return server.takes == "nats"


def scaled(scenario: Scenario, factor: float) -> Scenario:
    """Return the scenario with `factor` times its messages, connections and subscriptions."""
    match scenario:
        case Keeping() | Casting():
            return replace(scenario, messages=max(1000, int(scenario.messages * factor)))
        case Flood():
            return replace(
                scenario,
                messages=max(1, int(scenario.messages * factor)),
                burden=int(scenario.burden * factor),
            )
        case RoundTrip():
            return replace(scenario, rounds=max(10, int(scenario.rounds * factor)))
        case Idle():
            return replace(scenario, connections=max(2, int(scenario.connections * factor)))
        case _:
            raise TypeError(scenario)
