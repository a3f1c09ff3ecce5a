"""Publishers wait for the subscribers that they outrun, but not for long."""

from typing import Any, cast

from broker.dataplane.backpressure import PausedPublishers, hold
from broker.dataplane.connection import Connection
from broker.dataplane.gate import Gate
from parser.machine import Parser
from sequencer.sequencer import Sequencer
from testkit.manual_loop import ManualLoop


class Publisher:
    """One that counts how often it was let go."""

    def __init__(self) -> None:
        self.held_by = self.gone_on = 0

    def resume(self) -> None:
        assert self.held_by == 0
        self.gone_on += 1


class Subscriber:
    """One whose socket takes nothing, and the loop of its broker."""

    def __init__(self, turns: ManualLoop) -> None:
        loop: Any = turns
        self.connection = Connection(cast(Any, self), Parser(4096, 1 << 20), 1 << 20)
        self.connection.writable = False
        self.held = PausedPublishers(loop, self.connection)
        self.hold = self.held.hold


def crowd(*subscribers: Subscriber) -> Gate:
    gate = Gate(Sequencer(0), 1 << 16)
    gate.crowded.extend(one.connection for one in subscribers)
    return gate


def test_given_two_crowded_subscribers_when_both_have_drained_then_the_publisher_goes_on() -> None:
    turns, publisher = ManualLoop(), Publisher()
    one, other = Subscriber(turns), Subscriber(turns)
    gate = crowd(one, other)
    hold(publisher, gate, 1.0)
    assert (publisher.held_by, gate.crowded) == (2, [])
    one.held.drained()
    turns.run()
    assert publisher.gone_on == 0
    other.held.drained()
    turns.run()
    assert publisher.gone_on == 1


def test_given_one_subscriber_when_it_outruns_it_again_then_the_publisher_waits_once() -> None:
    turns, publisher = ManualLoop(), Publisher()
    one = Subscriber(turns)
    hold(publisher, crowd(one), 1.0)
    hold(publisher, crowd(one), 1.0)
    assert publisher.held_by == 1


def test_given_who_reads_or_has_gone_or_nobody_may_hold_then_the_publisher_does_not_wait() -> None:
    turns, publisher = ManualLoop(), Publisher()
    reads, gone, dead = (Subscriber(turns) for _ in range(3))
    reads.connection.writable, gone.connection.closed = True, True
    hold(publisher, crowd(reads, gone), 1.0)
    hold(publisher, crowd(dead), 0.0)
    assert publisher.held_by == 0


def test_given_the_time_is_over_then_all_go_on_and_the_subscriber_lags_until_it_drains() -> None:
    turns, publishers = ManualLoop(), [Publisher(), Publisher()]
    dead = Subscriber(turns)
    for publisher in publishers:
        hold(publisher, crowd(dead), 1.0)
    turns.later(1.0)
    assert [one.gone_on for one in publishers] == [1, 1]
    assert dead.connection.lagging
    dead.held.drained()
    assert not dead.connection.lagging


def test_given_it_drains_in_time_then_it_does_not_lag_later() -> None:
    turns, publisher = ManualLoop(), Publisher()
    one = Subscriber(turns)
    hold(publisher, crowd(one), 1.0)
    one.held.drained()
    turns.later(2.0)
    assert not one.connection.lagging
