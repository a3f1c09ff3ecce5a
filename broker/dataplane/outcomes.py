"""How playing a buffer of records can end; replay_writer.pxd repeats the numbers."""

from typing import Final

MORE: Final = 0  # the buffer ended; go on with the next
BAD: Final = 2  # here is no record
GAP: Final = 3  # a later number came than the next
ENDED: Final = 4  # a number beyond the last one wanted came
FULL: Final = 5  # the outbox has enough for now, or nobody wants more
