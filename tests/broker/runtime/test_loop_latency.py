"""The longest time the loop was busy: remembered for at least one minute, at most two."""

import pytest

from broker.runtime.loop_latency import WINDOW, LoopLatency
from tests.support.processes import STAND_IN
from tests.support.raw import QUIET, RawClient
from tests.support.web import get, http_port, metrics, monitored


def test_given_turns_then_the_longest_is_known_for_a_window_and_forgotten_after_two() -> None:
    turns = LoopLatency()
    turns.note(100.0, 99.5)
    turns.note(101.0, 100.9)
    assert turns.worst(101.0) == 0.5
    turns.note(100.0 + WINDOW, 99.8 + WINDOW)
    assert turns.worst(101.0 + WINDOW) == 0.5
    assert turns.worst(100.0 + 2 * WINDOW) == pytest.approx(0.2)
    assert turns.worst(100.0 + 5 * WINDOW) == 0.0


@pytest.mark.skipif(STAND_IN, reason="of our own process")
def test_given_a_broker_at_work_then_both_pages_tell_its_longest_turn() -> None:
    with monitored() as broker, RawClient(broker.port, QUIET) as client:
        client.ask(b"".join(b"SUB a.%d %d\r\n" % (n, n) for n in range(5000)))
        worst = metrics(http_port(broker))["seriatim_loop_turn_seconds_max"]
        assert worst > 0
        assert get(http_port(broker), "/varz").json["loop_turn_seconds_max"] >= worst
