"""When turns wait for more: with streams that do not wait themselves, and with nothing else.

Clients and clock are a model, so that each turn is known; the pace is the broker's own.
"""

from collections.abc import Callable, Iterator
from heapq import heappop, heappush
from typing import NamedTuple

import pytest

from broker.clients.turn_pace import TurnPace

US = 1e-6
SIZE = 100  # bytes of a message
GAP_MAX = 250 * US
TRIAL_SHARE = 0.01  # of the turns, once clients that wait are known


class Turn(NamedTuple):
    """One turn of the model."""

    messages: int
    slept: float  # seconds
    waited: float  # seconds, the message that waited longest


def turns(
    count: int, release: float, first: list[float], following: Callable[[float, float], float]
) -> Iterator[Turn]:
    """Play turns. `following(sent, released)` is when a message's publisher sends the next one."""
    pace, now, due = TurnPace(GAP_MAX), 0.0, list(first)
    for _ in range(count):
        now = max(now, due[0])
        slept = pace.delay(now)
        begun = now + slept
        taken: list[float] = []
        while due and due[0] <= begun:
            taken.append(heappop(due))
        served = begun + len(taken) * US / 10
        now = served + release
        pace.end(begun, served, now, len(taken) * SIZE)
        for sent in taken:
            heappush(due, following(sent, now))
        yield Turn(len(taken), slept, begun - taken[0])


def stream(count: int, release: float, spacing: float) -> list[Turn]:
    """Many publishers, none of which waits for anything: messages come evenly spaced."""
    publishers = 4000
    first = [at * spacing for at in range(publishers)]
    return list(turns(count, release, first, lambda sent, released: sent + publishers * spacing))


def in_flight(count: int, release: float, clients: int, back: float) -> list[Turn]:
    """Clients that send again `back` seconds after their last message was released."""
    return list(turns(count, release, [0.0] * clients, lambda sent, released: released + back))


@pytest.mark.parametrize("spacing", [5, 15, 40])
def test_given_a_stream_and_costly_releases_then_a_turn_serves_what_comes_in_four_of_them(
    spacing: int,
) -> None:
    last = stream(3000, 40 * US, spacing * US)[-1000:]
    served = sum(turn.messages for turn in last) / len(last)
    assert served == pytest.approx(4 * 40 / spacing, rel=0.15)


@pytest.mark.parametrize("clients", [1, 2, 4, 16])
@pytest.mark.parametrize("back", [5, 15])
def test_given_clients_that_wait_for_each_message_then_no_turn_waits_for_them(
    clients: int, back: int
) -> None:
    last = in_flight(40_000, 10 * US, clients, back * US)[-20_000:]
    assert sum(turn.slept > 0 for turn in last) < TRIAL_SHARE * len(last)


def test_given_clients_that_wait_when_a_stream_comes_then_its_turns_wait_again() -> None:
    publishers, spacing = 4000, 10 * US
    begins = 0.5

    def following(sent: float, released: float) -> float:
        return released + 10 * US if sent < begins else sent + publishers * spacing

    first = [0.0, *(begins + at * spacing for at in range(publishers))]
    played = list(turns(50_000, 40 * US, first, following))
    assert sum(turn.messages for turn in played[-1000:]) / 1000 > 10


def test_given_a_sparse_stream_or_short_bursts_then_no_turn_waits() -> None:
    assert not any(turn.slept for turn in stream(3000, 10 * US, 60 * US))
    assert not any(turn.slept for turn in in_flight(3000, 10 * US, 7, 1e-3))


def test_given_a_release_of_any_cost_then_no_message_waits_longer_than_the_setting() -> None:
    release = 1000 * US
    for turn in stream(3000, release, 100 * US):
        assert turn.slept <= GAP_MAX
        assert turn.waited <= release + GAP_MAX + 1e-4


def test_given_large_reads_then_no_turn_waits() -> None:
    pace, now = TurnPace(GAP_MAX), 0.0
    for _ in range(1000):
        assert pace.delay(now) == 0
        pace.end(now, now + 50 * US, now + 70 * US, 1 << 16)
        now += 70 * US
