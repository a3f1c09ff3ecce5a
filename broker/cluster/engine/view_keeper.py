"""The engine that keeps a cluster's view: its calls, and how they can fail.

The engine keeps one value, the view, and a list of the members that are there. It is called a few
times a minute, never per message. broker/cluster/engine/etcd_keeper.py implements it with etcd.

1. The view changes by compare-and-swap of its revision alone.
2. The fate of a swap may be unknown: it may still be carried out after the caller has given up.
   So no swap is repeated here; its proposer asks again for the same revision.
3. The list only gives the members that are there, and their addresses. It decides nothing.
"""

import json
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from sequencer.replica.view import View


class KeptView(NamedTuple):
    """The view that the engine keeps; revision 0 and no view if there is none yet."""

    revision: int
    view: View | None


class Swapped(NamedTuple):
    """The result of a swap, and the view that the engine has now."""

    done: bool
    now: KeptView


class Presence(NamedTuple):
    """A member's entry about itself in the engine's list."""

    name: str  # for people
    run: int  # the process
    cluster: str  # HOST:PORT for other members
    clients: tuple[str, ...]  # HOST:PORT for clients
    http: str  # HOST:PORT of monitoring; empty: none
    version: str
    protocols: tuple[int, int]  # the lowest and the highest between members
    state: str  # coordinator, follower or learner
    last: int  # the newest number in its journal, up to a minute ago
    # Of a coordinator: the members whose clocks are wrong, and by how many seconds.
    clocks: tuple[tuple[str, int], ...] = ()
    direct: bool = False  # takes messages without a number; an older member does not

    def to_json(self) -> bytes:
        """Encode the entry as the engine keeps it."""
        return json.dumps(self._asdict(), separators=(",", ":")).encode()


def presence_from_json(data: bytes) -> Presence | None:
    """Read a member's entry; None if this version cannot read it."""
    try:
        fields: dict[str, Any] = json.loads(data)
        fields["clients"] = tuple(fields["clients"])
        low, high = fields["protocols"]
        fields["protocols"] = low, high
        clocks = fields.get("clocks", ())  # an older member does not give them
        fields["clocks"] = tuple((str(one), int(ahead)) for one, ahead in clocks)
        fields["direct"] = fields.get("direct") is True
        return Presence(**{name: fields[name] for name in Presence._fields})
    except (ValueError, TypeError, KeyError):
        return None


ViewChanged = Callable[[KeptView], None]
MembersChanged = Callable[[dict[str, Presence]], None]


class EngineError(Exception):
    """The engine did not do what it was asked; `str()` says why, and at which endpoint."""


class EngineDown(EngineError):
    """No endpoint answers. The call was not carried out, or does no harm if it was."""


class FateUnknown(EngineError):
    """A swap was sent and not answered: it is done, will be done, or never will be."""


class EngineRefused(EngineError):
    """The engine answered with an error: a wrong password, no permission, no space."""


class WrongEngine(EngineError):
    """The endpoint belongs to another etcd cluster than the one that keeps the view."""


class ViewKeeper(Protocol):
    """The engine. All calls but `watch` and `keep_announced` raise `EngineError`."""

    @property
    def engine_id(self) -> str:
        """The engine's id, remembered beside the view; empty until it has answered."""

    @property
    def problem(self) -> str:
        """The reason why the newest call failed; empty if it did not."""

    async def read(self) -> KeptView:
        """Return the current view, never a stale one. Raises `BadView` if it is not a view."""

    async def swap(self, revision: int, view: View) -> Swapped:
        """Set the view if its revision is still this one; 0: if there is none. See rule 2."""

    async def next_run(self, above: int) -> int:
        """Return a number for a process, above this one, that is never given twice."""

    async def newest_run(self, member: str) -> tuple[int, int]:
        """Return the number of a member's newest registered process, and its revision."""

    async def register_run(self, member: str, run: int, revision: int) -> bool:
        """Register a member's newest process, if none was registered since that revision."""

    async def members(self) -> dict[str, Presence]:
        """Return the members in the list, by id."""

    async def watch(self, view_changed: ViewChanged, members_changed: MembersChanged) -> None:
        """Report the view and the list as they are, and then each change, until cancelled."""

    def announce(self, member: str, presence: Presence) -> None:
        """Set the list's entry for this member from now on."""

    async def keep_announced(self) -> None:
        """Keep this member in the list until cancelled; then remove it."""

    async def close(self) -> None: ...
