"""How a knob is declared: a field of a dataclass, whose metadata is its documentation.

The validator (`broker.settings.resolve`), the flags of `seriatim serve`, `seriatim config` and
docs/configuration.md all read the metadata, so they cannot drift apart:

    kind      port, size (bytes), duration (seconds), count, flag, choice, list (of subjects),
              subject, pattern (a subject with wildcards), group (a multicast address),
              interface, codec, or text
    about     what it does, and why the default is what it is
    low, high the bounds of a number, both allowed; None for what is no number
    choices   the words of a choice
    flags     its names on the command line
    zero      what 0 (or an empty text) means, where that is not obvious
"""

import dataclasses
from typing import Any

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30


def knob(
    default: Any,
    kind: str,
    about: str,
    *,
    flags: tuple[str, ...] = (),
    bounds: tuple[float, float] | None = None,
    choices: tuple[str, ...] = (),
    zero: str = "",
) -> Any:
    """Declare one knob; `about` is the line a reader of the manual sees."""
    low, high = bounds or (None, None)
    metadata = {
        "kind": kind,
        "about": about,
        "low": low,
        "high": high,
        "choices": choices,
        "flags": flags,
        "zero": zero,
    }
    if default is dataclasses.MISSING:
        return dataclasses.field(metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)
