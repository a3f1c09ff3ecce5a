"""The declaration of a setting: a dataclass field whose metadata is its documentation.

    port: int = setting(4222, "port", "The port to listen on.", bounds=(-1, 65_535))

All code that reads settings, explains them, or writes the reference page uses this metadata, so the
three cannot diverge:

    kind      how its text is read: a kind that its table knows, such as size, flag or choice
    about     what it does, and why the default is what it is
    low, high the bounds of a number, both allowed; None for no bound
    choices   the words of a choice
    more      further facts that its table needs, such as flags

The running broker imports this module, so it imports nothing that asyncio does not import anyway.
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
    """Declare one setting; `about` is its line in the manual."""
    low, high = bounds or (None, None)
    metadata = {
        "kind": kind,
        "about": about,
        "low": low,
        "high": high,
        "choices": choices,
        **more,
    }
    secret = kind == "secret"  # left out of repr
    if default is dataclasses.MISSING:
        return dataclasses.field(metadata=metadata, repr=not secret)
    return dataclasses.field(default=default, metadata=metadata, repr=not secret)
