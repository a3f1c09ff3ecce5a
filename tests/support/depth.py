"""How far a test goes: as far as the gate needs, or in a soak (`pytest --explore`) much further."""

import os
from typing import Final

VARIABLE: Final = "TESTS_EXPLORE"  # set by `--explore`, for test modules read it when imported
IS_SOAK: Final = bool(os.environ.get(VARIABLE) or os.environ.get("SOAK_SECONDS"))


def depth(gate: int, soak: int) -> int:
    """A count of rounds, cuts or examples."""
    return soak if IS_SOAK else gate
