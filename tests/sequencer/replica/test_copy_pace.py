"""A member that catches up gets closer at a steady pace, however fast the log grows."""

import pytest

from sequencer.replica.coordinator_state import CopyPace

RATE = 1_000_000  # bytes a second
BURST = 10_000
BLOCK = 1000


@pytest.mark.parametrize("live", [0, 300_000, 50_000_000])
def test_given_a_growing_log_when_blocks_are_sent_then_the_distance_shrinks_at_the_rate(
    live: int,
) -> None:
    pace, sent = CopyPace(BURST), 0
    for now in range(1000):  # milliseconds
        written = live * now // 1000
        while pace.allowed(now, written, RATE):
            pace.spend(BLOCK)
            sent += BLOCK
    grown = min(live, 1000 * BURST)  # what one turn adds to it is at most a burst
    assert grown * 0.9 <= sent
    if live < RATE:
        assert abs(sent - live - RATE) <= BURST + 2 * BLOCK


def test_given_a_pause_when_sending_goes_on_then_at_most_one_burst_goes_at_once() -> None:
    pace = CopyPace(BURST)
    assert pace.allowed(0, 0, RATE)
    sent = 0
    while pace.allowed(3_600_000, 1 << 40, RATE):
        pace.spend(BLOCK)
        sent += BLOCK
        if not pace.allowed(3_600_000, 1 << 40, RATE):
            break
    assert sent == BURST
