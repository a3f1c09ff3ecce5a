"""The scenarios, as data: the work, its amount, the servers, and the goals.

The numbers of messages are chosen for about 4 seconds of the slower server on two cores. Memory is
not prepared, unless a scenario says "warm memory" (benchmarks/memory.py).
"""

from dataclasses import replace

from benchmarks.core import core_scenarios
from benchmarks.kinds import (
    DEFAULT,
    Casting,
    Day,
    Feeding,
    Flood,
    Goal,
    Idle,
    Keeping,
    ManySmall,
    Numbering,
    Reading,
    Receiving,
    Replaying,
    RoundTrip,
    Scenario,
    Starting,
    Storing,
    cpu,
)
from benchmarks.servers import Server

ALL: tuple[Scenario, ...] = (
    *core_scenarios(),
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
    ManySmall(
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
    """True if a server can run the scenario: if it keeps, feeds and accepts enough."""
    match scenario:
        case Numbering():
            return server.takes in ("recv", "netstring")
        case Feeding():
            return server.feeds
        case Receiving():
            return server.takes == "multicast"
        case Reading() | Day():
            return server.keeps == "journal"
        case Starting() if scenario.messages:
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
        case ManySmall() | Starting():
            least = 1 if scenario.messages else 0
            return replace(scenario, messages=max(least, int(scenario.messages * factor)))
        case RoundTrip():
            return replace(scenario, rounds=max(10, int(scenario.rounds * factor)))
        case Idle():
            return replace(scenario, connections=max(2, int(scenario.connections * factor)))
        case _:
            raise TypeError(scenario)
