"""The sequencer: where numbers begin and end, and that each is given once."""

import pytest

from sequencer.journal.ring import Ring
from sequencer.sequencer import NUMBER_MAX, Sequencer
from testkit.stage import QUIET, Stage


def test_given_a_new_sequencer_then_no_number_has_been_given() -> None:
    assert Sequencer().number == 0
    assert Sequencer(88_484).number == 88_484


@pytest.mark.parametrize("number", [-1, NUMBER_MAX, NUMBER_MAX + 1, 1 << 70])
def test_given_a_start_that_leaves_no_number_to_give_then_it_is_refused(number: int) -> None:
    with pytest.raises(AssertionError, match=r"a number is 1 to 2\^63-1"):
        Sequencer(number)


@pytest.mark.parametrize("start", [0, 99_999_990, (1 << 32) - 5, NUMBER_MAX - 20])
def test_given_messages_then_each_takes_the_next_number(start: int) -> None:
    stage = Stage(number=start)
    publisher = stage.join(QUIET)
    for taken in range(1, 21):
        publisher.send(b"PUB a 1\r\nx\r\n")
        assert stage.number == start + taken


def test_given_a_release_then_it_gives_no_number() -> None:
    sequencer = Sequencer(5)
    sequencer.release()
    assert sequencer.number == 5


def test_given_a_clock_that_jumps_then_only_times_that_were_written_bind_those_to_come() -> None:
    ring = Ring(1 << 20)
    stage = Stage(journal=ring)
    publisher = stage.join(QUIET)
    times = []
    for now, publishes in ((50, 1), (9000, 0), (60, 1), (500, 1), (70, 0), (80, 1), (501, 1)):
        stage.sequencer.tick(now, 7)
        if publishes:
            publisher.send(b"PUB a 1\r\nx\r\n")
            times.append(ring.newest_time)
    assert times == [50, 60, 500, 500, 501]
    assert stage.sequencer.steady == 7
