"""The scenarios, as data: the work, its amount, the servers, and the goals.

The numbers of messages are chosen for about 4 seconds of the slower server on two cores. Memory is
not prepared, unless a scenario says "warm memory" (benchmarks/memory.py).

Each core scenario stands here once, and has two forms. In the first, nothing is kept. The kept form
has three servers in one run: the default, which keeps every message in its journal, the same broker
keeping nothing, and nats-server, which keeps nothing. So it has three goals: those of both brokers
against nats-server, and a limit for the journal's cost. Its messages make a gigabyte or two, so
that it writes far more than the journal's window holds.
"""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from benchmarks.servers import Server

LIVE = ("seriatim-bare", "nats-server")  # nothing is kept, on disk or in memory
DEFAULT = ("seriatim", *LIVE)  # the default, which keeps everything, beside the two
KEPT = ("seriatim", "jetstream")  # both keep everything
STREAMS = ("seriatim-js", "jetstream")  # both serve JetStream's API
PACED_SECONDS = 5  # of a run at a percentage of the greatest rate
JOURNAL_TIMES = 1.3  # the limit for a message's cost with the journal, relative to one without


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
    # The amounts that `--scale` multiplies, with the least of each.
    SCALED: ClassVar[tuple[tuple[str, int], ...]] = ()

    def scaled(self, factor: float) -> Self:
        """Return the scenario with `factor` times its messages, connections and subscriptions."""
        amounts = ((name, least, getattr(self, name)) for name, least in self.SCALED)
        changed: dict[str, Any] = {
            name: max(least, int(old * factor)) for name, least, old in amounts if old
        }
        return replace(self, **changed)

    def fits(self, server: Server) -> bool:
        """True if a server can run it: if it keeps, feeds and accepts enough."""
        return server.takes == "nats"


@dataclass(frozen=True, slots=True, kw_only=True)
class Flood(Scenario):
    """Publishers send as fast as the server reads; every subscriber gets every message."""

    messages: int
    size: int
    publishers: int = 1
    subscribers: int = 0
    subjects: int = 1  # more than one: the subscribers' pattern is `bench.>`
    burden: int = 0  # subscriptions on other, distinct subjects, made before
    headers: bool = False  # HPUB, with some of the size in headers
    warm: bool = False  # memory is touched before the run; otherwise it is not prepared
    SCALED = (("messages", 1), ("burden", 0))

    def fits(self, server: Server) -> bool:
        is_plain = self.publishers == self.subjects == 1 and not self.burden and not self.headers
        return server.takes == "nats" or (server.takes == "redis" and is_plain)


@dataclass(frozen=True, slots=True, kw_only=True)
class Paced(Scenario):
    """Messages go out one by one, each with a send() of its own, at a steady total rate."""

    messages: int
    size: int
    publishers: int = 1
    subscribers: int = 1
    rate: int = 0  # messages per second, of all publishers together; 0: as fast as it is read
    together: int = 1  # how many messages are sent at the same time, each by another publisher
    percent: int = 0  # the rate, relative to the greatest that every server of the run can take
    SCALED = (("messages", 1),)

    def at_its_percent(self, greatest: float) -> Self:
        """Return the scenario with its rate, and as many messages as go out in a few seconds."""
        rate = max(1, int(greatest * self.percent / 100))
        return replace(self, rate=rate, messages=min(self.messages, rate * PACED_SECONDS))


@dataclass(frozen=True, slots=True, kw_only=True)
class Requests(Scenario):
    """Clients with one request under way each, which one service answers."""

    requests: int
    size: int
    clients: int
    SCALED = (("requests", 100),)


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundTrip(Scenario):
    """One message in flight: published on one connection, received on another."""

    rounds: int
    size: int
    SCALED = (("rounds", 10),)


@dataclass(frozen=True, slots=True, kw_only=True)
class Idle(Scenario):
    """Connections that only wait, with one subscription each."""

    connections: int
    SCALED = (("connections", 2),)


@dataclass(frozen=True, slots=True, kw_only=True)
class Churn(Scenario):
    """Connections one after the other, each with a subscription and a message to itself."""

    connections: int
    size: int
    SCALED = (("connections", 10),)


@dataclass(frozen=True, slots=True, kw_only=True)
class Keeping(Scenario):
    """Scenarios of messages that the server keeps on disk."""

    servers: tuple[str, ...] = KEPT
    peer: str = "jetstream"
    messages: int
    size: int
    SCALED = (("messages", 1000),)

    def fits(self, server: Server) -> bool:
        return bool(server.keeps)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stalls(Keeping):
    """A live subscriber beside others that lag, catch up or replay: how long its messages take.

    `laggards` of the others read nothing in the first half of the run, and all that they can then.
    That half must be long enough to fill their sockets and outboxes: some 8 MB for each.
    """

    servers: tuple[str, ...] = ("seriatim",)
    rate: int  # messages per second
    kept: int = 0  # messages before, on another subject
    others: int  # connections
    subscriptions: int = 1  # of each of them
    laggards: int
    subject: str  # of their subscriptions


@dataclass(frozen=True, slots=True, kw_only=True)
class Storing(Keeping):
    """Publishers whose messages are kept. Only what was kept counts."""

    publishers: int = 1
    window: int = 0  # unacknowledged publications per publisher; 0: without acknowledgements
    warm: bool = False  # as in `Flood`

    def fits(self, server: Server) -> bool:
        is_plain = self.publishers == 1 and not self.window
        return bool(server.keeps) or (server.takes == "redis" and is_plain)


@dataclass(frozen=True, slots=True, kw_only=True)
class Replaying(Keeping):
    """One subscriber reads all kept messages, from the first on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Consuming(Keeping):
    """A client of a consumer takes all kept messages, and answers the server."""

    servers: tuple[str, ...] = STREAMS
    acked: bool = False  # it pulls and acknowledges; otherwise it answers flow control

    def fits(self, server: Server) -> bool:
        return server.keeps == "jetstream"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading(Keeping):
    """One client asks for all kept messages in columns ($SEQ.READ)."""

    def fits(self, server: Server) -> bool:
        return server.keeps == "journal"


@dataclass(frozen=True, slots=True, kw_only=True)
class Day(Keeping):
    """One publisher sends far more than the server retains."""

    servers: tuple[str, ...] = ("seriatim-day",)

    def fits(self, server: Server) -> bool:
        return server.keeps == "journal"


@dataclass(frozen=True, slots=True, kw_only=True)
class Starting(Scenario):
    """A server's process is started, on a store with so many messages after a SIGKILL."""

    servers: tuple[str, ...] = ("seriatim",)
    messages: int = 0  # none: an empty store
    stopped: bool = False  # by a SIGTERM instead
    size: int = 128
    SCALED = (("messages", 1),)

    def fits(self, server: Server) -> bool:
        return server.keeps == "journal" if self.messages else server.takes == "nats"


@dataclass(frozen=True, slots=True, kw_only=True)
class Casting(Scenario):
    """Scenarios with messages that are sent by multicast."""

    messages: int
    size: int
    SCALED = (("messages", 1000),)


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbering(Casting):
    """Clients of cquencer's port send a message and wait for its number. There is no receiver."""

    connections: int
    window: int = 1  # messages in flight per connection, if a server accepts netstrings
    servers: tuple[str, ...] = ("seriatim-cq", "cq")
    peer: str = "cq"

    def fits(self, server: Server) -> bool:
        return server.takes in ("recv", "netstring")


@dataclass(frozen=True, slots=True, kw_only=True)
class Feeding(Casting):
    """One publisher floods a feed, one receiver on this machine counts the messages."""

    peer: str = "floor"

    def fits(self, server: Server) -> bool:
        return server.feeds


@dataclass(frozen=True, slots=True, kw_only=True)
class Receiving(Casting):
    """One receiver gets messages at a steady rate, in datagrams per second."""

    rate: int
    packed: int = 1  # messages in a datagram
    servers: tuple[str, ...] = ("receiver", "listener")
    peer: str = "listener"

    def fits(self, server: Server) -> bool:
        return server.takes == "multicast"


def both(
    form: Flood | Paced | RoundTrip, nothing_kept: float, journal_on: float, messages: int = 0
) -> tuple[Scenario, Scenario]:
    """Return a core scenario with nothing kept, and its kept form, with `messages` if given.

    The two figures are the goals against nats-server.
    """
    bare, peer = "seriatim-bare", "nats-server"
    figure = "p50_us" if isinstance(form, RoundTrip) else "cpu_us"
    goals = [
        Goal(figure, journal_on, peer, "seriatim"),
        Goal(figure, nothing_kept, peer, bare),
    ]
    if figure == "cpu_us":
        goals += cpu(1 / JOURNAL_TIMES, bare, "seriatim")
    kept = replace(
        form,
        name=f"kept-{form.name}",
        about=f"{form.about}; the default, and what keeps nothing",
        servers=DEFAULT,
        goals=tuple(goals),
        compared_with="",
    )
    if messages and not isinstance(kept, RoundTrip):
        kept = replace(kept, messages=messages)
    return replace(form, goals=(Goal(figure, nothing_kept),)), kept


CORE = (
    both(
        Flood(
            name="1:0-16", about="1 publisher, no subscriber, 16 B",
            messages=40_000_000, size=16,
        ), 5, 3, 20_000_000,
    ),
    both(
        Flood(
            name="1:0-128", about="1 publisher, no subscriber, 128 B",
            messages=24_000_000, size=128,
        ), 4.5, 2.5, 10_000_000,
    ),
    both(
        Flood(
            name="1:1-16", about="1 publisher, 1 subscriber, 16 B",
            messages=12_000_000, size=16, subscribers=1,
        ), 7.5, 5.5,
    ),
    both(
        Flood(
            name="1:1-128", about="1 publisher, 1 subscriber, 128 B",
            messages=8_000_000, size=128, subscribers=1,
        ), 5.5, 4,
    ),
    both(
        Flood(
            name="1:1-1024", about="1 publisher, 1 subscriber, 1 KiB",
            messages=3_000_000, size=1024, subscribers=1,
        ), 2.4, 1.8, 1_500_000,
    ),
    both(
        Flood(
            name="1:10-128", about="1 publisher, 10 subscribers, 128 B",
            messages=1_500_000, size=128, subscribers=10,
        ), 6.5, 5.5,
    ),
    both(
        Flood(
            name="4:4-1000", about="4 publishers, 4 subscribers to bench.>, 1000 subjects, 128 B",
            messages=4_000_000, size=128, publishers=4, subscribers=4, subjects=1000,
        ), 6, 4.5,
    ),
    both(
        Flood(
            name="4:4-100000",
            about="4 publishers, 4 subscribers to bench.>, 100 000 subjects, 128 B",
            messages=4_000_000, size=128, publishers=4, subscribers=4, subjects=100_000,
            compared_with="4:4-1000",
        ), 5, 4,
    ),
    both(
        Paced(
            name="many-small-1",
            about="500 publishers, each a message in 25 ms, 1 subscriber, 128 B",
            messages=100_000, size=128, publishers=500, rate=20_000, together=20, subscribers=1,
        ), 3.5, 3,
    ),
    both(
        Paced(
            name="many-small-10",
            about="500 publishers, each a message in 25 ms, 10 subscribers, 128 B",
            messages=100_000, size=128, publishers=500, rate=20_000, together=20, subscribers=10,
        ), 5, 4,
    ),
    both(
        RoundTrip(name="round-trip", about="one message in flight, 16 B", rounds=20_000, size=16),
        1, 1,
    ),
)  # fmt: skip

# More subjects than any server remembers. Without a subscriber, little but the look-up is left.
MANY_SUBJECTS = tuple(
    Flood(
        name=f"1:{ears}-subjects-{name}",
        about=f"1 publisher, {'1 subscriber' if ears else 'no subscriber'}, {about} subjects, 16 B",
        servers=("seriatim", "nats-server"), messages=max(8_000_000, 2 * subjects), size=16,
        subscribers=ears, subjects=subjects, goals=cpu(1), runs_max=3,
    )
    for name, about, subjects in (
        ("100000", "100 000", 100_000),
        ("million", "1 million", 1_000_000),
        ("5-million", "5 million", 5_000_000),
    )
    for ears in (1, 0)
)  # fmt: skip

# The broker's default beside nats-server, where a cost hides that the core does not have: large
# messages, many subscribers, one message at a time, headers.
WIDER = (
    *(
        Flood(
            name=f"1:1-{name}", about=f"1 publisher, 1 subscriber, {about}",
            servers=("seriatim", "nats-server"), messages=messages, size=size, subscribers=1,
            goals=cpu(1),
        )
        for name, about, size, messages in (
            ("8KiB", "8 KiB", 8 << 10, 300_000),
            ("64KiB", "64 KiB", 64 << 10, 30_000),
            ("512KiB", "512 KiB", 512 << 10, 4_000),
            ("1MiB", "1 MiB", 1 << 20, 2_000),
        )
    ),
    *(
        Flood(
            name=f"1:{ears}-128", about=f"1 publisher, {ears} subscribers, 128 B",
            servers=("seriatim", "nats-server"), messages=4_000_000 // ears // 10 * 10, size=128,
            subscribers=ears, goals=cpu(1),
        )
        for ears in (100, 1000)
    ),
    Flood(
        name="1:1-headers-128", about="1 publisher, 1 subscriber, 128 B of which 33 are headers",
        servers=("seriatim", "nats-server"), messages=8_000_000, size=128, subscribers=1,
        headers=True, goals=cpu(1), compared_with="kept-1:1-128",
    ),
    Paced(
        name="one-per-send-128", about="1:1-128, with a send() for each message",
        servers=("seriatim", "nats-server"), messages=3_000_000, size=128,
        goals=(Goal("in_per_second", 0.95), *cpu(1)),
    ),
    *(
        Paced(
            name=f"many-50-{ears}",
            about=f"50 publishers, one at a time, each in 2.5 ms, {ears} subscribers, 128 B",
            servers=("seriatim", "nats-server"), messages=100_000, size=128, publishers=50,
            rate=20_000, subscribers=ears,
            goals=(*cpu(3), Goal("p50_us", 1), Goal("p99_us", 1)),
        )
        for ears in (1, 10)
    ),
    *(
        Paced(
            name=f"latency-{percent}",
            about=f"1 publisher, 1 subscriber, 128 B, at {percent} % of the greatest common rate",
            servers=("seriatim", "nats-server"), messages=4_000_000, size=128, percent=percent,
        )
        for percent in (1, 10, 25, 50, 75, 90)
    ),
    Requests(
        name="requests-100", about="100 clients, each waits for the answer of one service, 16 B",
        servers=("seriatim", "seriatim-requests", "nats-server"), requests=300_000, size=16,
        clients=100, goals=(
            *cpu(1, server="seriatim"), *cpu(1, server="seriatim-requests"),
            *cpu(1, "seriatim", "seriatim-requests"),
        ),
    ),
)  # fmt: skip

ALL: tuple[Scenario, ...] = (
    *(bare for bare, _ in CORE),
    *(kept for _, kept in CORE),
    *WIDER,
    *MANY_SUBJECTS,
    Idle(
        name="idle-10000", about="10 000 idle connections, one subscription each",
        connections=10_000, memory_max_mib=200, runs_max=3,
    ),
    Churn(
        name="churn", about="connect, SUB, PUB, close, one after the other, 16 B",
        servers=DEFAULT, connections=10_000, size=16, goals=cpu(1, server="seriatim"),
    ),
    Churn(
        name="churn-password", about="the same with a user and a password",
        servers=("seriatim-password", "nats-server-password"), peer="nats-server-password",
        connections=10_000, size=16, goals=cpu(1, "nats-server-password", "seriatim-password"),
    ),
    Flood(
        name="1:1-128-million", about="1:1-128 amid 1 000 000 other subscriptions",
        messages=8_000_000, size=128, subscribers=1, burden=1_000_000, goals=cpu(4.5), runs_max=3,
        memory_max_mib=600, compared_with="1:1-128",
    ),
    Flood(
        name="permissions-128", about="1:1-128, publisher and subscriber with permissions",
        servers=("seriatim-permitted", "seriatim-bare"), peer="seriatim-bare",
        messages=8_000_000, size=128, subscribers=1,
        goals=cpu(1 / 1.05, "seriatim-bare", server="seriatim-permitted"),
    ),
    Flood(
        name="permissions-100000-128", about="the same with 100 000 subjects",
        servers=("seriatim-permitted", "seriatim-bare"), peer="seriatim-bare",
        messages=8_000_000, size=128, subscribers=1, subjects=100_000,
    ),
    Paced(
        name="many-apart-1", about="many-small-1, evenly spaced: never two messages at a time",
        servers=DEFAULT, messages=100_000, size=128, publishers=500, rate=20_000, together=1,
        subscribers=1,
    ),
    Flood(
        name="warm-1:1-128", about="1 publisher, 1 subscriber, 128 B, warm memory",
        servers=DEFAULT, warm=True, messages=8_000_000, size=128, subscribers=1,
        goals=cpu(4, server="seriatim"),
    ),
    Storing(
        name="store-flood-128", about="1 publisher, no acknowledgement, 128 B",
        messages=5_000_000, size=128,
        goals=(*cpu(30, "jetstream"), Goal("in_per_second", 10, "jetstream")),
    ),
    Storing(
        name="warm-store-flood-128", about="1 publisher, no acknowledgement, 128 B, warm memory",
        messages=5_000_000, size=128, warm=True, goals=cpu(30, "jetstream"),
    ),
    Storing(
        name="store-acked-128", about="1 publisher, 4000 publications on their way, 128 B",
        messages=4_000_000, size=128, window=4000,
        goals=(*cpu(20, "jetstream"), Goal("in_per_second", 10, "jetstream")),
    ),
    Flood(
        name="redis-publish-128", about="1 publisher, 1 subscriber, 128 B, beside Redis (PUBLISH)",
        servers=("seriatim", "seriatim-bare", "redis"), peer="redis", messages=4_000_000, size=128,
        subscribers=1,
    ),
    Storing(
        name="redis-streams-128",
        about="1 publisher, no acknowledgement, 128 B, beside Redis (XADD, a sync each second)",
        servers=("seriatim", "redis"), peer="redis", messages=2_000_000, size=128,
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
    Storing(
        name="js-flood-128", about="a stream, 1 publisher, no pub ack, 128 B",
        servers=STREAMS, messages=4_000_000, size=128, goals=cpu(12, "jetstream"),
    ),
    Storing(
        name="js-acked-128", about="a stream, 1 publisher, 4000 without a pub ack yet, 128 B",
        servers=STREAMS, messages=2_000_000, size=128, window=4000, goals=cpu(6, "jetstream"),
    ),
    Replaying(
        name="js-push-128", about="a push consumer without acks, 128 B",
        servers=STREAMS, messages=2_000_000, size=128, goals=cpu(2.5, "jetstream"),
    ),
    Consuming(
        name="js-pull-128", about="a durable pull consumer, 500 at once, each acknowledged, 128 B",
        messages=1_000_000, size=128, acked=True, goals=cpu(4, "jetstream"),
    ),
    Consuming(
        name="js-ordered-128", about="an ordered consumer, with flow control, 128 B",
        messages=2_000_000, size=128, goals=cpu(2.5, "jetstream"),
    ),
    Stalls(
        name="lag-50-of-100", about="1 live subscriber of 100, 50 lag, then catch up, 512 B",
        messages=36_000, size=512, rate=2000, others=99, laggards=50, subject="bench.>",
        goals=(Goal("p999_us", 10_000, ""),),
    ),
    Stalls(
        name="replays-1000", about="1 live subscriber beside 1000 replays, 512 B",
        messages=24_000, size=512, rate=2000, kept=300_000, others=5, subscriptions=200,
        laggards=5, subject="$SEQ.FROM.1.>", goals=(Goal("p999_us", 10_000, ""),),
    ),
    Reading(
        name="read-128", about="1 client reads all that is kept in columns, 128 B",
        servers=("seriatim",), messages=4_000_000, size=128,
        goals=(Goal("per_cpu_second", 5e6, ""),),
    ),
    Day(
        name="day-128", about="10 GiB through the journal, of which 2 GiB are retained, 128 B",
        messages=56_000_000, size=128, runs_max=3,
        goals=(Goal("growth", 1.15, ""), Goal("cache_mib", 128, ""), Goal("peak_mib", 100, "")),
    ),
    Starting(
        name="start", about="from the start of the process to the first connection, empty store",
        servers=DEFAULT, goals=(Goal("start_ms", 120, "", "seriatim"),),
    ),
    Starting(
        name="recovery-0.1", about="start after SIGKILL, with 0.1 GiB in the journal",
        messages=560_000, runs_max=3,
    ),
    Starting(
        name="recovery-1", about="start after SIGKILL, with 1 GiB in the journal",
        messages=5_600_000, runs_max=3,
    ),
    Starting(
        name="recovery-4", about="start after SIGKILL, with 4 GiB in the journal",
        messages=22_400_000, runs_max=3,
    ),
    Starting(
        name="recovery-10", about="start after SIGKILL, with 10 GiB in the journal",
        messages=56_000_000, runs_max=1,
    ),
    Starting(
        name="restart-10", about="start after a clean stop, with 10 GiB in the journal",
        messages=56_000_000, stopped=True, runs_max=1, goals=(Goal("start_ms", 300, ""),),
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
