"""Outcomes of offering a record to a consumer, reasons to hold it back, and to end a delivery.

The compiled deliverer and delivery writer have the same in their .pxd.
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

# Why a `DeliveryWriter` has stopped, besides the outcomes of a walk.
BEYOND: Final = 3
ENOUGH: Final = 4
HELD: Final = 5
FULL: Final = 6
UNHEARD: Final = 7
