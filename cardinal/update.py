"""The events of a chain: its changes, the blocks it gave up, and the parents it waits for."""

from dataclasses import dataclass
from enum import StrEnum

from cardinal.block import Block


class Why(StrEnum):
    """The reason why a block was given up."""

    OLD = "its number is too far below the head"
    PARENT = "its parent never came"
    NUMBER = "its number is not above its parent's"
    WHITELIST = "another block is whitelisted at its number, or below it"
    CROWD = "too many blocks are not on the chain"


@dataclass(frozen=True, slots=True)
class ChainUpdate:
    """Undo `removed`, the newest first; then apply `added`, the oldest first.

    `ancestor` is the hash of the block that both follow. `unlinked`: earlier blocks are unknown;
    the state starts again. It does so again if the block below comes later: then `removed` contains
    all that was added, and `added` contains it again after that block. `beyond`: the reorg goes
    deeper than the chain reaches, so everything after `ancestor` must be undone, which is more than
    `removed` contains.
    """

    added: list[Block]
    removed: list[Block]
    ancestor: bytes
    unlinked: bool = False
    beyond: bool = False


@dataclass(frozen=True, slots=True)
class Unlinked:
    """A block that was given up and never added, or was removed and cannot come back.

    If it is too old, it may also be a copy of a block that was added too long ago, or before a
    restart, to be remembered.
    """

    hash: bytes
    number: int
    parent: bytes
    why: Why

    def __str__(self) -> str:
        done = "not taken" if self.why is Why.OLD else "given up"
        return f"block {self.number} {self.hash.hex()} {done}: {self.why}"


@dataclass(frozen=True, slots=True)
class Stalled:
    """The chain does not advance: many whole blocks wait for a parent that has not come.

    The parent was lost, or refused; or the chain began with a block that is not their ancestor.
    Reported again when twice as many wait, and after a restart.
    """

    parent: bytes
    number: int  # of the block whose parent is missing
    waiting: int
    head: int
    refused: Why | None = None  # why the parent was given up, if it came
    heavier: bool = False  # whether the waiting blocks are heavier than the head

    def __str__(self) -> str:
        heavier = " heavier" if self.heavier else ""
        fate = (
            "which did not come" if self.refused is None else f"which was refused: {self.refused}"
        )
        return (
            f"the chain is stalled at block {self.head}: {self.waiting}{heavier} blocks wait for"
            f" the parent of block {self.number}, {self.parent.hex()}, {fate}. {HELP[self.refused]}"
        )


_AGAIN = "start again with an empty state"
HELP: dict[Why | None, str] = {
    None: f"Publish that block again, or {_AGAIN}",
    Why.OLD: f"Give a larger threshold, and {_AGAIN}",
    Why.PARENT: f"Publish the blocks below it again, or {_AGAIN}",
    Why.NUMBER: f"The blocks contradict each other: see to their producer, then {_AGAIN}",
    Why.WHITELIST: "Correct the whitelist, if this branch is the right one",
    Why.CROWD: f"Publish the blocks below it again, or {_AGAIN}",
}


Event = ChainUpdate | Unlinked | Stalled
