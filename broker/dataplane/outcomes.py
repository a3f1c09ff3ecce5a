"""The outcomes of replaying a buffer of records; replay_writer.pxd repeats the numbers."""

from typing import Final

MORE: Final = 0  # the buffer ended; continue with the next
BAD: Final = 2  # this is not a valid record
GAP: Final = 3  # a number other than the next one came
ENDED: Final = 4  # a number after the last one wanted came
FULL: Final = 5  # the outbox has enough for now, or the subscription has ended
