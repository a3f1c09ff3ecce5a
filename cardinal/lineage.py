"""Checks whether the blocks of a file, or of a pipe, can be one chain with its branches.

Each block is checked against the known blocks before it: a block is not its own parent, its number
is above its parent's, one hash is one block (an identical copy does no harm), and the blocks of a
reorg are above its ancestor. So what a consumer would drop is reported to the author, with its
line.

Memory: hash, number and a digest of the contents of the last `remember` blocks.
"""

from typing import Any

from cardinal.draft import Draft, ReorgDraft
from cardinal.errors import LineError

REMEMBER = 1 << 16  # blocks: 24 MB; nine days of Ethereum, longer than any fork

Known = tuple[int, int, int]  # number, digest, line


class Lineage:
    """Checks blocks in the order of their lines; one writer."""

    def __init__(self, remember: int = REMEMBER) -> None:
        self._remember = remember
        self._known: dict[bytes, Known] = {}
        self._awaited: dict[bytes, tuple[int, int]] = {}  # by parent: its lowest child, its line

    def check(self, draft: Draft | ReorgDraft, line: int) -> None:
        """Check the block or the reorg of a line. Raises `LineError`."""
        if isinstance(draft, Draft):
            self._take(draft, line, "")
            return
        known = self._known.get(draft.hash)
        if known is not None and known[0] != draft.number:
            raise LineError(
                f"reorg.number: {draft.number}, but block {_short(draft.hash)} of line {known[2]}"
                f" is number {known[0]}"
            )
        below, whose = draft.number, "the ancestor's"
        for at, block in enumerate(draft.blocks):
            where = f"blocks[{at}]."
            if block.number <= below:
                raise LineError(f"{where}number: {block.number} is not above {whose}, {below}")
            self._take(block, line, where)
            below, whose = block.number, "that of the block before it"

    def _take(self, block: Draft, line: int, where: str) -> None:
        number, hash, parent = block.number, block.hash, block.parent
        if hash == parent:
            raise LineError(f"{where}parent: {_short(hash)} is the block itself")
        above = self._known.get(parent)
        if above is not None and number <= above[0]:
            raise LineError(
                f"{where}number: {number} is not above that of its parent, {above[0]} in line"
                f" {above[2]}"
            )
        digest = _digest(block)
        before = self._known.get(hash)
        if before is not None and before[1] != digest:
            raise LineError(
                f"{where}hash: {_short(hash)} is another block in line {before[2]}; a hash names"
                " one block"
            )
        child = self._awaited.pop(hash, None)
        if child is not None and child[0] <= number:
            raise LineError(
                f"{where}number: {number} is not below {child[0]}, the number of the block that"
                f" stands on it in line {child[1]}"
            )
        if before is None:
            self._known[hash] = number, digest, line
            _forget(self._known, self._remember)
        if above is None and number < self._awaited.get(parent, (number + 1, 0))[0]:
            self._awaited[parent] = number, line
            _forget(self._awaited, self._remember)


def _forget(some: dict[bytes, Any], remember: int) -> None:
    while len(some) > remember:
        del some[next(iter(some))]


def _digest(block: Draft) -> int:
    """A digest that does not depend on the order of keys; valid in this process."""
    batches = [
        (prefix, one.id, frozenset(one.updates.items()), frozenset(one.deletes))
        for prefix, one in block.batches.items()
    ]
    content = frozenset(block.updates.items()), frozenset(block.deletes), frozenset(batches)
    return hash((block.number, block.parent, block.weight, *content))


def _short(hash: bytes) -> str:
    return "0x" + (hash.lstrip(b"\0").hex() or "00")
