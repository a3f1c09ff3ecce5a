"""Measures how far members' clocks differ, from their pulses and acknowledgements.

A clock is sent in sixteenths of a second, as 32 bits: they wrap around after 8.5 years, so a clock
that is wrong by more than 4.2 years is noticed, but the difference is not right.

    here     P pulse --.                    .--> R      its clock has said C
    there              '--> C acknowledged -'

C was really between P and R. So only a value outside of that is a difference: neither a slow
network nor a process that was stopped looks like a wrong clock.
"""

from typing import Final

TICK_NS: Final = 62_500_000
ROUND: Final = 1 << 32
TICKS_S: Final = 16.0
APART_S: Final = 1.0  # more than that is reported: members with NTP stay below it


def clock_of(wall: int) -> int:
    """Return the value to send for a clock in ns since 1970; never 0."""
    return wall // TICK_NS % ROUND or 1


def seconds_ahead(clock: int, sent: int, heard: int) -> float:
    """Return the seconds by which `clock` is ahead; negative if it is behind.

    `sent` (the pulse) and `heard` (the answer) are by the clock here, in ns since 1970. The
    result is off by a sixteenth of a second at most.
    """
    early, late = clock - clock_of(sent), clock - clock_of(heard)
    if (behind := _signed(early)) < 0:
        return behind / TICKS_S
    return max(_signed(late), 0) / TICKS_S


def clock_words(ahead: float) -> str:
    """Return words such as "3.5 s ahead of"."""
    return f"{abs(ahead):.1f} s {'ahead of' if ahead > 0 else 'behind'}"


def _signed(difference: int) -> int:
    """Return the difference by the shortest way round."""
    return (difference + ROUND // 2) % ROUND - ROUND // 2
