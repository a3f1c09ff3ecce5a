"""The one order: who gives each message its number.

A number is taken when nothing can refuse the message any more, and is never given back.
This is the seam for the journal: `take` is where a message's record will be handed over,
`release` where the records of one read event will be written, before anything that shows
one of their numbers leaves the process. Numbers are kept in memory for now.
"""

NUMBER_MAX = (1 << 63) - 1


class Sequencer:
    """Written by the data plane alone. `number` is the last one given; 0 before the first."""

    def __init__(self, number: int = 0) -> None:
        assert 0 <= number < NUMBER_MAX, "a number is 1 to 2^63-1"
        self.number = number

    def take(self) -> int:
        """The next number: one more than the last, 1 to 2^63-1."""
        self.number += 1
        return self.number

    def release(self) -> None:
        """Make what was numbered so far safe to be seen."""
