"""How far a test goes: as far as the gate needs, or much further in a soak (`pytest --explore`).

The gate is passed before every change, so it runs what has found defects before at the smallest
size that still finds them, and draws its examples with a fixed seed. A soak takes the full sizes
and draws at random. The uncompiled build has the same sources as the compiled one: it needs fewer
examples to show that it says the same.
"""

import os
from typing import Final

import pytest
from _pytest.mark import ParameterSet

# conftest.py sets them for `--explore` and `--pure`, before it imports this.
IS_SOAK: Final = bool(os.environ.get("TESTS_EXPLORE") or os.environ.get("SOAK_SECONDS"))
IS_PURE: Final = bool(os.environ.get("TESTS_PURE"))
# For a test in a file that runs in both builds, which says nothing of the uncompiled one.
compiled_only = pytest.mark.skipif(
    IS_PURE and not IS_SOAK,
    reason="a bound of the build that users run, or the same in both; a soak tries it in both",
)


def in_soak(*values: object) -> list[ParameterSet]:
    """More values of a parameter, for which a test runs only in a soak, or if its file is named."""
    return [
        pytest.param(*(value if isinstance(value, tuple) else (value,)), marks=pytest.mark.slow)
        for value in values
    ]


def depth(gate: int, soak: int) -> int:
    """A count of rounds, cuts or seeds."""
    return soak if IS_SOAK else gate


def examples(count: int) -> int:
    """How many examples a property is tried with: a third in the gate, in a soak three times it."""
    if IS_SOAK:
        return 3 * count
    return max(count // (10 if IS_PURE else 3), 10)
