"""The scenarios, as data: what is done, how often, and what it must reach.

A goal is nats-server's figure divided by Seriatim's, so 2 means half as much of it. The
numbers of messages are chosen for about 4 seconds of the slower server on two cores.
"""

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """What all scenarios have."""

    name: str
    about: str
    figure: str = "cpu_us"  # the figure of a sample that the ratio compares
    goal: float = 0.0  # the ratio to reach; 0: none
    memory_max_mib: int = 0  # 0: nats-server's peak
    compared_with: str = ""  # the scenario that differs in one thing
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


ALL: tuple[Scenario, ...] = (
    Flood(
        name="1:0-16", about="1 publisher, no subscriber, 16 B",
        messages=40_000_000, size=16, goal=3.5,
    ),
    Flood(
        name="1:0-128", about="1 publisher, no subscriber, 128 B",
        messages=24_000_000, size=128, goal=2.5,
    ),
    Flood(
        name="1:1-16", about="1 publisher, 1 subscriber, 16 B",
        messages=12_000_000, size=16, subscribers=1, goal=6,
    ),
    Flood(
        name="1:1-128", about="1 publisher, 1 subscriber, 128 B",
        messages=8_000_000, size=128, subscribers=1, goal=4.5,
    ),
    Flood(
        name="1:1-1024", about="1 publisher, 1 subscriber, 1 KiB",
        messages=3_000_000, size=1024, subscribers=1, goal=2,
    ),
    Flood(
        name="1:10-128", about="1 publisher, 10 subscribers, 128 B",
        messages=1_500_000, size=128, subscribers=10, goal=4.5,
    ),
    Flood(
        name="4:4-1000", about="4 publishers, 4 subscribers to bench.>, 1000 subjects, 128 B",
        messages=4_000_000, size=128, publishers=4, subscribers=4, subjects=1000, goal=4.5,
    ),
    Flood(
        name="4:4-100000", about="4 publishers, 4 subscribers to bench.>, 100 000 subjects, 128 B",
        messages=4_000_000, size=128, publishers=4, subscribers=4, subjects=100_000, goal=4,
        compared_with="4:4-1000",
    ),
    RoundTrip(
        name="round-trip", about="one message in flight, 16 B",
        rounds=20_000, size=16, figure="p50_us", goal=1,
    ),
    Idle(
        name="idle-10000", about="10 000 idle connections, one subscription each",
        connections=10_000, memory_max_mib=200, runs_max=3,
    ),
    Flood(
        name="1:1-128-million", about="1:1-128 amid 1 000 000 other subscriptions",
        messages=8_000_000, size=128, subscribers=1, burden=1_000_000, goal=4.5, runs_max=3,
        memory_max_mib=600, compared_with="1:1-128",
    ),
)  # fmt: skip


def scaled(scenario: Scenario, factor: float) -> Scenario:
    """Return the scenario with `factor` times its messages, connections and subscriptions."""
    match scenario:
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
