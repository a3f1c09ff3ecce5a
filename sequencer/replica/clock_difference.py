"""How far a member's clock is from another one's, by what they say in pulses and acknowledgements.

A clock is told in sixteenths of a second, as 32 bits: they begin again after 8.5 years, so a clock
that is wrong by more than 4.2 years is noticed, and the difference is not right.

    here     P pulse --.                    .--> R      its clock has said C
    there              '--> C acknowledged -'

In truth C was between P and R. So only what is outside of that is a difference: neither a slow
network nor a process that was stopped looks like a wrong clock.
"""

from typing import Final

TICK_NS: Final = 62_500_000
ROUND: Final = 1 << 32
TICKS_S: Final = 16.0
APART_S: Final = 1.0  # more than that is told: every member with NTP keeps it


def clock_of(wall: int) -> int:
    """What is told of a clock, in ns since 1970; never 0."""
    return wall // TICK_NS % ROUND or 1


def seconds_ahead(clock: int, sent: int, heard: int) -> float:
    """By how much `clock` is ahead, negative if behind; the pulse was sent, the answer heard then.

    Both by the clock here, in ns since 1970. Off by a sixteenth of a second at most.
    """
    early, late = clock - clock_of(sent), clock - clock_of(heard)
    if (behind := _signed(early)) < 0:
        return behind / TICKS_S
    return max(_signed(late), 0) / TICKS_S


def clock_words(ahead: float) -> str:
    """Such as "3.5 s ahead of"."""
    return f"{abs(ahead):.1f} s {'ahead of' if ahead > 0 else 'behind'}"


def _signed(difference: int) -> int:
    """The shortest way round."""
    return (difference + ROUND // 2) % ROUND - ROUND // 2
