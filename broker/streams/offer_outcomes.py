"""Outcomes of offering a record to a consumer, and reasons to hold it back.

The compiled deliverer has the same in its .pxd.
"""

from typing import Final

STOP: Final = 0  # not now
DELIVER: Final = 1  # to be written now; with one or both of these bits:
FIRST: Final = 2  # requests have ended: send `take_endings` before it
THEN: Final = 4  # call `follow` after it

NOTHING: Final = 0  # nothing holds it back
ACKS: Final = 1  # too much is unacked
WINDOW: Final = 2  # the client has not answered the flow control
TIME: Final = 3  # the rate, or the pace of a replay; until `held_until`
DEMAND: Final = 4  # nobody waits any more
