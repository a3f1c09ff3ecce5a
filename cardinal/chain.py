"""The chain: blocks in any order, and the branches of reorg channels, in; updates out.

`links.py` has the rules for blocks. One more for channels:

5  The branch of a reorg channel is like any other if its ancestor is known. If the ancestor is
   below what is kept, the branch is parked until it is the heavier one; then it replaces the whole
   chain (`beyond`). So a late copy of a channel changes nothing.

Memory: that of the links, and as many spare blocks again for parked channels.
"""

# Theory of operation
#
# A reorg channel brings a whole branch at once, which may begin below everything that is kept here:
#
#     X --- Y --- (forgotten) ... | bottom --- 101 --- 102 --- head         the chain, see links.py
#      `--- 90' --- 91' --- ... --- 103'                                    a channel's branch, on X
#
# Each branch is parked in `_aside` until its kind is clear. `_settle` decides, and repeats as long
# as one decision may have changed another:
#
#     it belongs     its ancestor is linked, or waits like others: its blocks are like any other
#     it is hopeless its ancestor is not part of our chain, or a rule refuses it: given up
#     below, heavier `_leap`: the whole chain is removed, and the branch takes its place
#     below, lighter it stays parked; a later block on it may make it the heavier one
#     old            its last block is further below the head than the threshold: given up
#
# Invariants after `_settle`, besides those of links.py:
#
#  * No parked branch belongs to the tree: what can be linked is linked.
#  * No parked branch on a forgotten block of the chain is heavier than the chain.
#  * There are at most ASIDE_MAX of them, with no more blocks and bytes than spare ones may have.
#
# The loop ends, because each round but the last takes a branch out of `_aside`. After a leap other
# branches may belong, so each round examines all of them again.

from collections.abc import Mapping, Sequence

from cardinal.block import Block
from cardinal.branch import Branch
from cardinal.links import BOOTSTRAP, NO_PARENT, PAST_MAX, THRESHOLD, Links
from cardinal.update import ChainUpdate, Event, Why

__all__ = ["BOOTSTRAP", "NO_PARENT", "PAST_MAX", "THRESHOLD", "Chain"]

ASIDE_MAX = 16  # parked channels


class Chain(Links):
    """One chain and its branches; one writer."""

    def add(self, block: Block) -> list[Event]:
        """Add a block; return the resulting events."""
        self._take(block)
        self._settle()
        return self._take_events()

    def branch(
        self,
        ancestor: bytes,
        blocks: Sequence[Block],
        token: Mapping[str, int] | None = None,
        number: int | None = None,
    ) -> list[Event]:
        """Add all blocks of a reorg channel, in any order. They descend from `ancestor`.

        `number` is the ancestor's; `token` says where to read again to get the channel from its
        beginning.
        """
        line = self._line(ancestor, blocks)
        if line and not any(line[-1].hash in one.hashes for one in self._aside):
            made = Branch(ancestor, line, token or {}, number)
            below = next((one for one in self._aside if ancestor in one.hashes), None)
            made = made if below is None else made.upon(below)
            self._aside.append(made)
            if not made.rises:
                self._put_away(made, Why.NUMBER)
        self._settle()
        return self._take_events()

    def rewind(self, source: str, first: int) -> None:
        """Go back: a source reuses the offsets from `first` on for other messages."""
        super().rewind(source, first)
        for one in self._aside:
            one.rewind(source, first)

    def floor(self, source: str) -> int | None:
        """The lowest offset of the retained blocks; None if there are none."""
        floors = [one.token[source] for one in self._aside if source in one.token]
        retained = super().floor(source)
        return min(floors if retained is None else [*floors, retained], default=None)

    @property
    def retained(self) -> list[Block]:
        """All retained blocks: of the chain, of its branches, and those that wait."""
        return [*super().retained, *(block for one in self._aside for block in one.blocks)]

    def knows(self, hash: bytes) -> bool:
        """True if this block has arrived, as far as remembered."""
        return super().knows(hash) or any(hash in one.hashes for one in self._aside)

    def _line(self, ancestor: bytes, blocks: Sequence[Block]) -> list[Block]:
        """The blocks that form a line on the ancestor; others are added like ordinary blocks."""
        # of two blocks on the same parent, the first
        on = {block.parent: block for block in reversed(blocks)}
        line: list[Block] = []
        taken = {ancestor}
        parent, number = ancestor, -1
        while (block := on.pop(parent, None)) is not None and not self._is_refused(block):
            if block.number <= number or block.hash in taken:
                break
            line.append(block)
            taken.add(block.hash)
            parent, number = block.hash, block.number
        for block in blocks:
            if block.hash not in taken or block.hash == ancestor:
                self._take(block)
        return line

    def _settle(self) -> None:
        """Re-examine parked branches: attach, switch to, or drop them."""
        seen = -1
        while self._aside and len(self._aside) != seen:
            seen = len(self._aside)
            self._forget_old()
            for branch in tuple(self._aside):
                if self._belongs(branch):
                    self._aside.remove(branch)
                    for block in branch.blocks:
                        if not self._is_old(block):  # or all those below a known one
                            self._take(block)
                elif why := self._is_hopeless(branch):
                    self._put_away(branch, why)
                elif self._is_below(branch) and self._is_heavier(branch):
                    self._aside.remove(branch)
                    self._leap(branch)
                elif self.head in self._tree.blocks and self._is_old(branch.blocks[-1]):
                    self._put_away(branch, Why.OLD)
        while self._aside and (
            len(self._aside) > ASIDE_MAX
            or sum(len(one.blocks) for one in self._aside) > self.spare_max
            or sum(one.bytes for one in self._aside) > self.spare_bytes_max
        ):
            self._put_away(self._aside[0], Why.CROWD)

    def _put_away(self, branch: Branch, why: Why) -> None:
        self._aside.remove(branch)
        for block in branch.blocks:
            self._give_up(block, why)

    def _belongs(self, branch: Branch) -> bool:
        """True if a branch is an ordinary one: on the chain, or on a block that waits."""
        tree = self._tree
        if self._bootstrap > 0 or branch.touches(tree.linked):
            return True
        waits = self.head in tree.blocks and branch.ancestor in tree.blocks
        return waits and not self._is_below(branch)

    def _is_below(self, branch: Branch) -> bool:
        """True if a branch's ancestor is, or may be, a forgotten block of the chain.

        False until the head's block is known: after a start the channel may belong to its past.
        """
        blocks = self._tree.blocks
        if self.head not in blocks:
            return False
        known = blocks.get(branch.ancestor)
        number = branch.number if known is None else known.number
        lowest = next(iter(self._past.values()), self._lowest - 1)
        return branch.ancestor in self._past or number < lowest

    def _is_hopeless(self, branch: Branch) -> Why | None:
        """Return why a branch can never be linked, or None if it may be."""
        if self._whitelist and any(self._is_refused(block) for block in branch.blocks):
            return Why.WHITELIST
        blocks = self._tree.blocks
        at = branch.ancestor
        while at in blocks:
            at = blocks[at].parent
        if at in branch.hashes:
            return Why.NUMBER
        passed = self.head in blocks and branch.number < self._lowest
        return Why.PARENT if passed and not self._is_below(branch) else None

    def _is_heavier(self, branch: Branch) -> bool:
        """True if a branch from below outweighs the chain, counting the blocks that wait for it."""
        blocks, children = self._tree.blocks, self._tree.children
        waiting = [self._tree.heaviest(one)[0] for one in branch.hashes & children.keys()]
        replaced = max(blocks[hash].weight for hash in self._behind(self._bottom))
        return max([branch.weight, *waiting]) > replaced

    def _leap(self, branch: Branch) -> None:
        """Replace the whole chain, with its branches, by a branch on another ancestor."""
        tree = self._tree
        removed = [tree.blocks[hash] for hash in self._behind(self._bottom)]
        for hash in tree.linked & tree.blocks.keys():
            tree.remove(hash)
            self._spare.drop(hash)
        for block in branch.blocks:
            other = tree.blocks.get(block.hash)
            if other is not None and (other.parent, other.number) != (block.parent, block.number):
                self._cut(block.hash, Why.PARENT)
        other = tree.blocks.get(branch.ancestor)
        if other is not None and other.number >= branch.blocks[0].number:
            self._cut(branch.ancestor, Why.NUMBER)
        if self.begun is not None:
            self.begun = branch.blocks[0].number
        number = self._past.get(branch.ancestor, branch.number)
        self._past = {hash: one for hash, one in self._past.items() if one <= number}
        self._rest_on(branch.ancestor)
        self.number = None  # so that none of these counts as old
        for block in branch.blocks:
            if self._retain(block):
                self._spare.add(block)
        tree.link(branch.ancestor)
        self._reach_down()
        _, path = tree.heaviest(branch.ancestor)
        self._adopt(path[1:])
        added = [tree.blocks[hash] for hash in path[1:]]
        self._events.append(ChainUpdate(added, removed, branch.ancestor, beyond=True))
