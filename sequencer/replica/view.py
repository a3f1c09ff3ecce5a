"""The view: which members a cluster has, and which of them coordinates.

The engine keeps one view for a cluster, as JSON. It changes only by compare-and-swap of its
revision, and each change is proposed by a member of the view.
"""

import json
from typing import NamedTuple

FORMAT = 1
U32_MAX = (1 << 32) - 1
LIMITS = {"run": (1 << 31) - 1, "first": (1 << 63) - 1}


class View(NamedTuple):
    """A value that the engine has, had, or may get."""

    journal: str  # the journal's id, 16 hex digits: the same for all members
    epoch: int  # one more for each process that comes to coordinate
    coordinator: str  # the id of a member, 16 hex digits
    run: int  # the process that coordinates; another process of that member does not
    members: tuple[str, ...]  # ids of those in sync: each has every number that was committed
    min_in_sync: int = 2  # nothing is committed with fewer members
    stream: int = 1  # rises only when numbers may have been lost (`cluster recover`)
    first: int = 1  # the cluster's first number; what is before counts as epoch 0
    protocol: int = 1  # the version that the members speak

    def to_json(self) -> bytes:
        """Return the value as the engine keeps it."""
        fields = {"format": FORMAT, **self._asdict()}
        return json.dumps(fields, separators=(",", ":")).encode()


class BadView(ValueError):
    """The engine's value is not a view; the text says what is wrong with it."""


def view_from_json(data: bytes) -> View:
    """Read what the engine keeps. Raises BadView."""
    try:
        fields = json.loads(data)
        if fields.pop("format") != FORMAT:
            raise BadView("its format is newer than this Seriatim knows")
        fields["members"] = tuple(fields["members"])
        view = View(**fields)
    except BadView:
        raise
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise BadView(f"not a view: {data[:200]!r}") from error
    for name, value in view._asdict().items():
        texts = name in ("journal", "coordinator")
        number = type(value) is int and 0 <= value <= LIMITS.get(name, U32_MAX)
        if name != "members" and not (isinstance(value, str) if texts else number):
            raise BadView(f"its {name} is {value!r}")
    if not view.members or not all(isinstance(one, str) for one in view.members):
        raise BadView(f"its members are {view.members!r}")
    return view
