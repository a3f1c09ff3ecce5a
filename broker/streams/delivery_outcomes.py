"""Outcomes of a `DeliveryWriter`, besides those of a walk; as in its .pxd."""

from typing import Final

BEYOND: Final = 3
ENOUGH: Final = 4
HELD: Final = 5
FULL: Final = 6
UNHEARD: Final = 7
