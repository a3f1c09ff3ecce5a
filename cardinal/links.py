"""The links of a chain: blocks in any order in, updates from one head to the next out.

An update removes the blocks after an ancestor and adds others on top of it, both oldest first. The
rules:

1  A block on the head is added at once, together with the blocks that waited for it.
2  Of all branches, the one with the heaviest block wins; equal ones never replace each other. From
   that block on, the path goes to the heaviest block after it, and so on to the end.
3  Blocks more than `threshold` blocks below the head are forgotten, and refused if they come.
   Where numbers have gaps, this reaches further down than `threshold` numbers.
4  A number must be above its parent's. If the whitelist names a block for a number, any other block
   with that number is refused, with its descendants.

Without a start, the first block whose parent is unknown becomes the start: `unlinked` in its update
tells the consumer that its state starts again. The reference does so up to nine times, as does
`bootstrap=9`. If the block below comes later, the state starts again with that one, as long as it
is not more than `threshold` blocks below the head; also after a restart, if the chain's first
number is given (`begun`).

Memory: the last `threshold` blocks of the chain; at most `spare_max` blocks, of `spare_bytes_max`
bytes, that are not on the chain: those of other branches, and those whose parent has not come; and
the hashes of the last `PAST_MAX` blocks that were on it. A block given up before it was linked is
reported (`Unlinked`); a copy of a block that was on the chain is not.
"""

# Theory of operation
#
# Blocks come in any order, twice, or never. The known blocks form one tree by parent hashes:
#
#     past . . . . | bottom --- 101 --- 102 --- 103 --- head      the chain
#     (hashes only)               `---- 102' -- 103'              a branch: linked, not on the chain
#                                                    ?--- 207     waits: its parent has not come
#
# Invariants between two method calls; the events let the consumer keep up:
#
#  * `_chain` has the hashes from the bottom to the head; each block's parent is the one before it.
#  * The consumer has applied exactly the chain: the updates, one after the other, lead from its
#    start to `head`. So an update removes only what an earlier one has added.
#  * No linked branch has a block heavier than the heaviest of those it would replace. A waiting
#    block does not count, however heavy it is, because its ancestors are not known.
#  * A block is in one place: on the chain, or in `_spare` (a branch, or waiting). A block in
#    neither fell below the bottom, was a copy, or was given up, and an event has said so.
#  * `_past` has hashes that were on the chain and fell below the bottom, so that a copy of an old
#    block is recognised.
#
# A block comes in by `_take`, and events go out by `_take_events`. Between the two, the tree may be
# ahead of the reported events; no other code sees it then. Making room comes last, in
# `_take_events`, so that a block that has just been linked is not given up as spare.

from collections.abc import Mapping

from cardinal.block import Block
from cardinal.branch import Branch
from cardinal.messages import HASH_SIZE, NUMBER_MAX
from cardinal.tree import Spare, Tree
from cardinal.update import ChainUpdate, Event, Stalled, Unlinked, Why

THRESHOLD = 128  # the choice of the reference's users
BOOTSTRAP = 9
SPARE_MAX = 4096  # some branches as long as the threshold, and a gap in the past
SPARE_BYTES_MAX = 256 << 20
PAST_MAX = 4096  # hashes of forgotten blocks of the chain
STALLED = 64  # waiting blocks, besides those of two thresholds, before it is reported
OUTWEIGHED = 16  # the same, of blocks that are heavier than the head and beside it, not after it
GIVEN_UP_MAX = 4096  # remembered hashes, to say which block a branch waits for
NO_PARENT = bytes(HASH_SIZE)  # of a chain's first block


class Links:
    """A chain and its branches, without reorg channels; see `Chain`."""

    def __init__(
        self,
        start: bytes | None = None,
        *,
        number: int | None = None,
        threshold: int = THRESHOLD,
        whitelist: Mapping[int, bytes] | None = None,
        bootstrap: int = BOOTSTRAP,
        spare_max: int = SPARE_MAX,
        spare_bytes_max: int = SPARE_BYTES_MAX,
    ) -> None:
        """`start` is the hash of the last applied block, `number` its number if known."""
        self.head = NO_PARENT if start is None else start
        self.number = number
        self.threshold = threshold
        self.spare_max = spare_max
        self.spare_bytes_max = spare_bytes_max
        self.repeated = 0  # copies of known blocks
        # The number of the first block ever added, while those below it may still come.
        self.begun: int | None = None
        self._whitelist = dict(whitelist or {})
        self._bootstrap = bootstrap if start is None else 0  # how many more blocks may be a start
        # with a late block from below; the reference does not do this
        self._begins_anew = bootstrap == 1
        self._tree = Tree()
        self._chain = {self.head}  # hashes, from the bottom to the head
        self._bottom = self.head
        # the bottom's block, if it was forgotten
        self._forgotten: tuple[bytes, int, bytes] | None = None
        # forgotten blocks of the chain, by hash, the lowest first
        self._past: dict[bytes, int] = {}
        self._tree.linked.add(self.head)
        self._spare = Spare()
        self._refused: dict[bytes, None] = {}  # by the whitelist
        self._aside: list[Branch] = []  # of channels, in order of arrival; for `Chain`
        self._stalled = self._patience  # how many spare blocks cause a report
        self._heavier = 0  # waiting blocks that came since the head's, and are heavier
        self._outweighed = 1  # how many of them cause an examination
        self._given_up: dict[bytes, Why] = {}
        self._events: list[Event] = []

    def add(self, block: Block) -> list[Event]:
        """Add a block; return the resulting events."""
        self._take(block)
        return self._take_events()

    def rewind(self, source: str, first: int) -> None:
        """Go back: a source reuses the offsets from `first` on for other messages."""
        self._tree.rewind(source, first)

    def floor(self, source: str) -> int | None:
        """The lowest offset of the retained blocks; None if there are none."""
        return self._tree.floor(source)

    @property
    def begins(self) -> bool:
        """True if the next block may be a start, whatever its parent is."""
        return self._bootstrap > 0

    @property
    def waiting(self) -> list[Block]:
        """The blocks whose parents have not come, in order of arrival."""
        return [self._tree.blocks[one] for one in self._spare if one not in self._tree.linked]

    @property
    def retained(self) -> list[Block]:
        """All retained blocks: of the chain, of its branches, and those that wait."""
        return [*self._tree.blocks.values()]

    def __contains__(self, hash: object) -> bool:
        return hash in self._chain

    def knows(self, hash: bytes) -> bool:
        """True if this block has arrived, as far as remembered."""
        return hash in self._chain or hash in self._tree.blocks or hash in self._past

    def _take_events(self) -> list[Event]:
        """The resulting events, after making room."""
        self._forget_old()
        spare = self._spare
        while len(spare) > self.spare_max:
            self._cut(next(iter(spare)), Why.CROWD)
        while spare.bytes > self.spare_bytes_max and (hash := self._too_much()) is not None:
            self._cut(hash, Why.CROWD)
        if len(spare) >= self._stalled:
            self._report_a_gap()
        if self._heavier >= self._outweighed:
            self._report_a_heavier_branch()
        events, self._events = self._events, []
        return events

    def _too_much(self) -> bytes | None:
        """The oldest spare block to give up; after a start, none that may belong to the chain."""
        spare, blocks = self._spare, self._tree.blocks
        if self.head in blocks or self.number is None:
            return next(iter(spare)) if len(spare) > 1 else None
        return next((one for one in spare if blocks[one].number > self.number), None)

    def _give_up(self, block: Block, why: Why) -> None:
        if block.hash in self._past and why in (Why.OLD, Why.PARENT, Why.CROWD):
            self.repeated += 1  # a copy of a block that was on the chain
            return
        self._given_up[block.hash] = why
        if len(self._given_up) > GIVEN_UP_MAX:
            del self._given_up[next(iter(self._given_up))]
        self._events.append(Unlinked(block.hash, block.number, block.parent, why))

    @property
    def _patience(self) -> int:
        return 2 * self.threshold + STALLED

    def _report_a_gap(self) -> None:
        """Report now and then that nothing can be linked, and which parent is missing."""
        self._stalled = 2 * len(self._spare)
        waiting = self.waiting
        if self.head not in self._tree.blocks or len(waiting) < self._patience:
            return  # the chain's first parent may still come
        self._report_stalled(min(waiting, key=lambda block: block.number), len(waiting))

    def _report_a_heavier_branch(self) -> None:
        """Report that the chain is not the heaviest: a heavier branch waits for a parent.

        Not if the parent may only be late: blocks after the head often come before their parents.
        But a parent that was given up does not come, and one beside the head should have come long
        ago.
        """
        blocks = self._tree.blocks
        head = blocks.get(self.head)
        if head is None:
            return
        self._outweighed = 2 * self._heavier
        branches: dict[bytes, list[Block]] = {}  # by the missing parent
        for block in self.waiting:
            if block.weight > head.weight:
                branches.setdefault(self._missing(block), []).append(block)
        for parent, found in branches.items():
            lowest = min(blocks[one].number for one in self._tree.children[parent])
            refused = self._given_up.get(parent)
            if refused is not None or (lowest <= head.number and len(found) >= OUTWEIGHED):
                first = next(
                    blocks[one]
                    for one in self._tree.children[parent]
                    if blocks[one].number == lowest
                )
                self._report_stalled(first, len(found), refused, heavier=True)

    def _missing(self, block: Block) -> bytes:
        """The hash of the first ancestor of a waiting block that has not come."""
        blocks, parent = self._tree.blocks, block.parent
        while parent in blocks:
            parent = blocks[parent].parent
        return parent

    def _report_stalled(
        self, lowest: Block, waiting: int, refused: Why | None = None, heavier: bool = False
    ) -> None:
        number = self._tree.blocks[self.head].number
        refused = refused or self._given_up.get(lowest.parent)
        self._events.append(
            Stalled(lowest.parent, lowest.number, waiting, number, refused, heavier)
        )

    def _take(self, block: Block) -> None:
        if not self._retain(block):
            return
        if self._bootstrap > 0:
            self._bootstrap -= 1
            if block.parent not in self._tree.linked and block.parent != NO_PARENT:
                self._begin_with(block)
                return
        self._spare.add(block)
        if block.hash == self._bottom:
            self._grow_down()
        elif block.parent in self._tree.linked:
            self._tree.link(block.hash)
            self._consider(block.hash)
        elif (head := self._tree.blocks.get(self.head)) and block.weight > head.weight:
            self._heavier += 1

    def _retain(self, block: Block) -> bool:
        """Put a block into the tree, unless it is known already or a rule forbids it."""
        tree = self._tree
        if block.hash in tree.blocks:
            self.repeated += 1
            return False
        parent = tree.blocks.get(block.parent)
        low = [
            hash
            for hash in tree.children.get(block.hash, ())
            if tree.blocks[hash].number <= block.number
        ]
        if self._is_refused(block):
            self._refuse(block)
        elif self._is_old(block):
            self._give_up(block, Why.OLD)
        elif (
            block.hash == block.parent
            or self._is_another_bottom(block)
            or (parent is not None and block.number <= parent.number)
            or any(hash in self._chain for hash in low)
        ):
            self._give_up(block, Why.NUMBER)
        else:
            for hash in low:
                self._cut(hash, Why.NUMBER)
            tree.add(block)
            return True
        return False

    def _is_another_bottom(self, block: Block) -> bool:
        """True if a block has the bottom's hash, but is not the block that was there."""
        was = self._forgotten
        own = (block.hash, block.number, block.parent)
        return was is not None and block.hash == self._bottom == was[0] and own != was

    def _is_old(self, block: Block) -> bool:
        """True if a block is too far below the head.

        After a start with a given head, this is unknown until the head's block has come.
        """
        if self.number is None or (self.head not in self._tree.blocks and len(self._chain) == 1):
            return False
        if block.hash == self._bottom and len(self._chain) <= self.threshold:
            return False  # the chain's own next block, whatever gap is above it
        return block.number < self._least

    @property
    def _least(self) -> int:
        """The lowest kept number, of the block `threshold` blocks below the head.

        If the chain does not reach down so far, its missing blocks are assumed to have no gaps.
        """
        assert self.number is not None
        kept = len(self._chain) - 1  # without the bottom, whose block is not here
        lowest = self._lowest if kept else self.number + 1
        return lowest + kept - self.threshold - 1

    @property
    def _lowest(self) -> int:
        """The number of the chain's lowest kept block."""
        kept = (one for one in self._tree.children.get(self._bottom, ()) if one in self._chain)
        first = next(kept, None)
        return NUMBER_MAX if first is None else self._tree.blocks[first].number

    def _is_refused(self, block: Block) -> bool:
        named = self._whitelist.get(block.number, block.hash)
        return named != block.hash or block.parent in self._refused

    def _refuse(self, block: Block) -> None:
        """Refuse a block because of the whitelist, with its descendants."""
        self._give_up(block, Why.WHITELIST)
        self._refused[block.hash] = None
        for hash in tuple(self._tree.children.get(block.hash, ())):
            if hash not in self._chain:  # the start that was given
                self._refused.update(dict.fromkeys(self._tree.under(hash)))
                self._cut(hash, Why.WHITELIST)
        while len(self._refused) > self.spare_max:
            del self._refused[next(iter(self._refused))]

    def _begin_with(self, block: Block) -> None:
        """Make a block with an unknown parent the start of the chain."""
        for hash in self._behind(self._bottom):
            self._spare.add(self._tree.blocks[hash])
        self._rest_on(block.parent)
        self._chain.add(block.hash)
        self.head, self.number = block.hash, block.number
        self._reach_down()
        if self._begins_anew:
            self.begun = block.number
        self._events.append(ChainUpdate([block], [], block.parent, unlinked=True))

    def _rest_on(self, bottom: bytes) -> None:
        """Reduce the chain to one hash, whose block may be unknown."""
        self._chain = {bottom}
        self._bottom = self.head = bottom
        self._tree.linked.clear()
        self._tree.link(bottom)

    def _grow_down(self) -> None:
        """Extend the chain down past its bottom, whose block has come, as far as possible."""
        if self.number is None:
            self.number = self._tree.blocks[self._bottom].number
        self._reach_down()
        if self.begun is not None:
            self._begin_below(self.begun)
        self._choose(extend=False)

    def _begin_below(self, begun: int) -> None:
        """Start again with the blocks below the chain's first block, if they are here."""
        blocks = [self._tree.blocks[hash] for hash in self._behind(self._bottom)]
        if not blocks or blocks[0].number >= begun:
            return
        applied = [block for block in blocks if block.number >= begun]
        first = self._bottom == NO_PARENT  # the very first block: nothing is below
        self.begun = None if first else blocks[0].number
        self._events.append(ChainUpdate(blocks, applied, self._bottom, unlinked=not first))

    def _reach_down(self) -> None:
        while self._bottom in self._tree.blocks:
            self._spare.drop(self._bottom)
            self._bottom = self._tree.blocks[self._bottom].parent
            self._chain.add(self._bottom)
        self._tree.link(self._bottom)

    def _choose(self, extend: bool) -> None:
        """Move to the heaviest of all branches; to extend the head only if `extend`."""
        _, path = self._tree.heaviest(self._bottom, self._chain)
        shared = next((at for at, hash in enumerate(path) if hash not in self._chain), len(path))
        ancestor, added = path[shared - 1], path[shared:]
        if added and (extend or ancestor != self.head):
            self._move(self._behind(ancestor), ancestor, added)

    def _consider(self, hash: bytes) -> None:
        """Move to a linked branch if its heaviest block is heavier than all blocks it replaces."""
        blocks = self._tree.blocks
        weight, path = self._tree.heaviest(hash)
        ancestor = blocks[hash].parent
        while ancestor not in self._chain:
            path.insert(0, ancestor)
            ancestor = blocks[ancestor].parent
        removed = self._behind(ancestor)
        if not removed or weight > max(blocks[hash].weight for hash in removed):
            self._move(removed, ancestor, path)

    def _behind(self, ancestor: bytes) -> list[bytes]:
        """The hashes of the chain after one of them, oldest first."""
        found, at = [], self.head
        while at != ancestor:
            found.append(at)
            at = self._tree.blocks[at].parent
        found.reverse()
        return found

    def _move(self, removed: list[bytes], ancestor: bytes, added: list[bytes]) -> None:
        blocks = self._tree.blocks
        if removed and blocks[removed[0]].number == self.begun:
            self.begun = blocks[added[0]].number
        self._chain.difference_update(removed)
        for hash in removed:
            self._spare.add(blocks[hash])
        self._adopt(added)
        self._events.append(
            ChainUpdate([blocks[hash] for hash in added], [blocks[h] for h in removed], ancestor)
        )

    def _adopt(self, added: list[bytes]) -> None:
        """Put these on the chain; the last becomes the head."""
        self._chain.update(added)
        for hash in added:
            self._spare.drop(hash)
        self.head, self.number = added[-1], self._tree.blocks[added[-1]].number
        self._stalled = len(self._spare) + self._patience
        self._heavier, self._outweighed = 0, 1

    def _forget_old(self) -> None:
        """Drop blocks that are too far below the head, with the branches on them."""
        if self.number is None or self.head not in self._tree.blocks:
            return
        tree = self._tree
        while (block := tree.lowest()) is not None and block.number < self._least:
            if block.hash in self._chain:
                self._raise_bottom(block)
            elif block.hash in tree.linked:
                self._cut(block.hash, None)
            else:
                tree.remove(block.hash)
                self._spare.drop(block.hash)
                self._give_up(block, Why.PARENT)

    def _raise_bottom(self, block: Block) -> None:
        """Forget the lowest block of the chain; its hash becomes the bottom."""
        for hash in tuple(self._tree.children[self._bottom]):
            if hash != block.hash:
                self._cut(hash, None)
        self._tree.remove(block.hash)
        self._chain.discard(self._bottom)
        self._tree.linked.discard(self._bottom)
        self._bottom = block.hash
        self._forgotten = (block.hash, block.number, block.parent)
        self._tree.linked.add(block.hash)
        self._past[block.hash] = block.number
        if len(self._past) > PAST_MAX:
            del self._past[next(iter(self._past))]
        if self.begun is not None and block.number >= self.begun:
            self.begun = None  # from now on, all blocks below are too old

    def _cut(self, hash: bytes, why: Why | None) -> None:
        """Forget a block that is not on the chain, with its descendants."""
        for one in tuple(self._tree.under(hash)):
            block = self._tree.remove(one)
            self._spare.drop(one)
            if why is not None:
                self._give_up(block, why)
