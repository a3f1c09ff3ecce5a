"""How a setting is declared: a field of a dataclass, whose metadata is its documentation.

    port: int = setting(4222, "port", "The port to listen on.", bounds=(-1, 65_535))

Whatever reads settings, explains them, or writes their page of the manual reads this metadata, so
that they cannot drift apart:

    kind      how its text is read: one of the kinds of its table, such as size, flag or choice
    about     what it does, and why the default is what it is
    low, high the bounds of a number, both allowed; None where there are none
    choices   the words of a choice
    more      what the table knows of its settings besides, such as flags

The running broker imports this module, so it imports nothing that asyncio does not.
"""

import dataclasses
from typing import Any

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30


def setting(
    default: Any,
    kind: str,
    about: str,
    *,
    bounds: tuple[float, float] | None = None,
    choices: tuple[str, ...] = (),
    **more: Any,
) -> Any:
    """Declare one setting; `about` is the line a reader of the manual sees."""
    low, high = bounds or (None, None)
    metadata = {
        "kind": kind,
        "about": about,
        "low": low,
        "high": high,
        "choices": choices,
        **more,
    }
    secret = kind == "secret"  # in no repr
    if default is dataclasses.MISSING:
        return dataclasses.field(metadata=metadata, repr=not secret)
    return dataclasses.field(default=default, metadata=metadata, repr=not secret)
