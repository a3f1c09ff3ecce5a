"""The chain: blocks in any order, to updates that lead from one head to the next.

An update removes the blocks behind an ancestor and adds others on it, both oldest first. The rules:

1  A block on the head is added at once, and what waited for it with it.
2  Of branches the one with the heaviest block wins, strictly: equals never replace each other.
   From there on the path goes to the heaviest block behind, and so on to the end.
3  What is more than `threshold` numbers below the head is forgotten, and not taken any more.
4  A number must be above its parent's. At a number of the whitelist only the block named there is
   taken; what stands on another is refused with it.
5  While a reorg channel is open its blocks replace what they replace, whatever their weight, and
   all others wait. A second producer's channel, which brings the same blocks, changes nothing.

Without a start the first block from nowhere is taken for one: `unlinked` in its update tells the
consumer that its state begins anew. The reference does so with up to nine; so does `bootstrap=9`.

Memory: the blocks of the last `threshold` numbers, and at most `spare_max` that are not on the
chain: those of other branches, and those whose parent did not come yet. What is given up before it
was linked is told (`Unlinked`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from cardinal.block import Block
from cardinal.message import HASH_SIZE
from cardinal.tree import Tree

THRESHOLD = 128  # what the reference's users take
BOOTSTRAP = 9
SPARE_MAX = 4096  # some branches of the length of the threshold, and a gap in the past
NO_PARENT = bytes(HASH_SIZE)  # of the first block of a chain


class Why(StrEnum):
    """Why a block was given up."""

    OLD = "its number is too far below the head"
    PARENT = "its parent never came"
    NUMBER = "its number is not above its parent's"
    WHITELIST = "another block is whitelisted at its number, or below it"
    CROWD = "too many blocks are not on the chain"
    CHANNEL = "its parent is neither on the chain nor the ancestor of a reorg channel"


@dataclass(frozen=True, slots=True)
class ChainUpdate:
    """Take `removed` back, the newest first; then apply `added`, the oldest first.

    `ancestor` is the hash of the block that both stand on. `unlinked`: nothing is known of what
    came before; the state begins anew. `beyond`: the reorg goes deeper than the chain reaches, so
    that more is to be taken back than `removed` has: all that stands on `ancestor`.
    """

    added: list[Block]
    removed: list[Block]
    ancestor: bytes
    unlinked: bool = False
    beyond: bool = False


@dataclass(frozen=True, slots=True)
class Unlinked:
    """A block that was given up and never added, or was removed and can not come back."""

    hash: bytes
    number: int
    parent: bytes
    why: Why

    def __str__(self) -> str:
        return f"block {self.number} {self.hash.hex()} given up: {self.why}"


Event = ChainUpdate | Unlinked


class Chain:
    """One chain and its branches; one writer."""

    def __init__(
        self,
        start: bytes | None = None,
        *,
        number: int | None = None,
        threshold: int = THRESHOLD,
        whitelist: Mapping[int, bytes] | None = None,
        bootstrap: int = BOOTSTRAP,
        spare_max: int = SPARE_MAX,
    ) -> None:
        """`start` is the hash of the last block that was applied, `number` its number if known."""
        self.head = NO_PARENT if start is None else start
        self.number = number
        self.threshold = threshold
        self.spare_max = spare_max
        self.repeated = 0  # blocks that came though they were known
        self._whitelist = dict(whitelist or {})
        self._bootstrap = bootstrap if start is None else 0  # so many may still be a start
        self._tree = Tree()
        self._chain = {self.head}  # hashes, from the bottom to the head
        self._bottom = self.head
        self._tree.linked.add(self.head)
        self._spare: dict[bytes, None] = {}  # blocks that are not on the chain, as they came
        self._refused: dict[bytes, None] = {}  # by the whitelist
        self._channels: set[bytes] = set()
        self._deferred: list[Block] = []
        self._events: list[Event] = []

    def add(self, block: Block, channel: bool = False) -> list[Event]:
        """Take a block, from a reorg channel or not; return what came of it."""
        if block.hash == block.parent:
            self._give_up(block, Why.NUMBER)
        elif channel:
            self._take_from_channel(block)
        elif self._channels:
            self._defer(block)
        else:
            self._take(block)
        return self._told()

    def reorg(self, ancestor: bytes, number: int) -> list[Event]:
        """A producer opened a channel for a branch on this block."""
        del number  # said for those who keep blocks by number
        self._channels.add(ancestor)
        return []

    def reorg_complete(self, ancestor: bytes, number: int) -> list[Event]:
        """The channel was closed, or is given up: what waited for it comes now."""
        del number
        self._channels.discard(ancestor)
        if not self._channels:
            self._choose(extend=True)
            deferred, self._deferred = self._deferred, []
            for block in deferred:
                self._take(block)
        return self._told()

    def floor(self, source: str) -> int | None:
        """The lowest offset of a block that is retained; None if there is none."""
        floors = [one.token[source] for one in self._deferred if source in one.token]
        retained = self._tree.floor(source)
        return min(floors if retained is None else [*floors, retained], default=None)

    @property
    def waiting(self) -> list[Block]:
        """The blocks whose parents have not come, in the order they came."""
        return [self._tree.blocks[one] for one in self._spare if one not in self._tree.linked]

    @property
    def retained(self) -> list[Block]:
        """Every block that is kept: of the chain, of its branches, and those that wait."""
        return [*self._tree.blocks.values(), *self._deferred]

    def __contains__(self, hash: object) -> bool:
        return hash in self._chain

    def _told(self) -> list[Event]:
        """What came of it all, after making room."""
        self._forget_old()
        while len(self._spare) > self.spare_max:
            self._cut(next(iter(self._spare)), Why.CROWD)
        events, self._events = self._events, []
        return events

    def _give_up(self, block: Block, why: Why) -> None:
        self._events.append(Unlinked(block.hash, block.number, block.parent, why))

    def _take(self, block: Block) -> None:
        if not self._retain(block):
            return
        if self._bootstrap > 0:
            self._bootstrap -= 1
            if block.parent not in self._tree.linked and block.parent != NO_PARENT:
                self._begin_with(block)
                return
        self._spare[block.hash] = None
        if block.hash == self._bottom:
            self._grow_down()
        elif block.parent in self._tree.linked:
            self._tree.link(block.hash)
            self._consider(block.hash)

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
        elif self.number is not None and block.number < self.number - self.threshold:
            self._give_up(block, Why.OLD)
        elif (parent is not None and block.number <= parent.number) or (
            any(hash in self._chain for hash in low)
        ):
            self._give_up(block, Why.NUMBER)
        else:
            for hash in low:
                self._cut(hash, Why.NUMBER)
            tree.add(block)
            return True
        return False

    def _is_refused(self, block: Block) -> bool:
        named = self._whitelist.get(block.number, block.hash)
        return named != block.hash or block.parent in self._refused

    def _refuse(self, block: Block) -> None:
        """The whitelist does not let this block in, nor what stands on it."""
        self._give_up(block, Why.WHITELIST)
        self._refused[block.hash] = None
        for hash in tuple(self._tree.children.get(block.hash, ())):
            if hash not in self._chain:  # on which one was told to start
                self._refused.update(dict.fromkeys(self._tree.under(hash)))
                self._cut(hash, Why.WHITELIST)
        while len(self._refused) > self.spare_max:
            del self._refused[next(iter(self._refused))]

    def _begin_with(self, block: Block) -> None:
        """Take a block from nowhere for the start of the chain."""
        self._spare = dict.fromkeys(hash for hash in self._tree.blocks if hash != block.hash)
        self._rest_on(block.parent)
        self._chain.add(block.hash)
        self.head, self.number = block.hash, block.number
        self._reach_down()
        self._events.append(ChainUpdate([block], [], block.parent, unlinked=True))

    def _rest_on(self, bottom: bytes) -> None:
        """Let the chain be one hash, whose block need not be known."""
        self._chain = {bottom}
        self._bottom = self.head = bottom
        self._tree.linked.clear()
        self._tree.link(bottom)

    def _grow_down(self) -> None:
        """The block at the bottom has come: the chain reaches to its parent, and further."""
        if self.number is None:
            self.number = self._tree.blocks[self._bottom].number
        self._reach_down()
        self._choose(extend=False)

    def _reach_down(self) -> None:
        while self._bottom in self._tree.blocks:
            self._spare.pop(self._bottom)
            self._bottom = self._tree.blocks[self._bottom].parent
            self._chain.add(self._bottom)
        self._tree.link(self._bottom)

    def _choose(self, extend: bool) -> None:
        """Move to the heaviest of all branches; on the head itself only if `extend`."""
        _, path = self._tree.heaviest(self._bottom, self._chain)
        shared = next((at for at, hash in enumerate(path) if hash not in self._chain), len(path))
        ancestor, added = path[shared - 1], path[shared:]
        if added and (extend or ancestor != self.head):
            self._move(self._behind(ancestor), ancestor, added)

    def _consider(self, hash: bytes) -> None:
        """Move to a linked branch if what it ends with is heavier than all that it replaces."""
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
        """The hashes of the chain behind one of it, oldest first."""
        found, at = [], self.head
        while at != ancestor:
            found.append(at)
            at = self._tree.blocks[at].parent
        found.reverse()
        return found

    def _move(self, removed: list[bytes], ancestor: bytes, added: list[bytes]) -> None:
        blocks = self._tree.blocks
        self._chain.difference_update(removed)
        self._chain.update(added)
        self._spare.update(dict.fromkeys(removed))
        for hash in added:
            self._spare.pop(hash, None)
        self.head, self.number = added[-1], blocks[added[-1]].number
        self._events.append(
            ChainUpdate([blocks[hash] for hash in added], [blocks[h] for h in removed], ancestor)
        )

    def _forget_old(self) -> None:
        """Drop what is too far below the head, with the branches that stood on it."""
        if self.number is None:
            return
        tree, least = self._tree, self.number - self.threshold
        while (block := tree.lowest()) is not None and block.number < least:
            if block.hash in self._chain:
                self._raise_bottom(block)
            elif block.hash in tree.linked:
                self._cut(block.hash, None)
            else:
                tree.remove(block.hash)
                del self._spare[block.hash]
                self._give_up(block, Why.PARENT)

    def _raise_bottom(self, block: Block) -> None:
        """Forget the lowest block of the chain; its hash is the bottom now."""
        for hash in tuple(self._tree.children[self._bottom]):
            if hash != block.hash:
                self._cut(hash, None)
        self._tree.remove(block.hash)
        self._chain.discard(self._bottom)
        self._tree.linked.discard(self._bottom)
        self._bottom = block.hash
        self._tree.linked.add(block.hash)

    def _cut(self, hash: bytes, why: Why | None) -> None:
        """Forget a block that is not on the chain, and all that hangs on it."""
        for one in tuple(self._tree.under(hash)):
            block = self._tree.remove(one)
            del self._spare[one]
            if why is not None:
                self._give_up(block, why)

    def _defer(self, block: Block) -> None:
        self._deferred.append(block)
        if len(self._deferred) > self.spare_max:
            self._give_up(self._deferred.pop(0), Why.CROWD)

    def _take_from_channel(self, block: Block) -> None:
        block = self._tree.blocks.get(block.hash, block)
        if block.hash in self._chain:
            self.repeated += 1  # another channel brought it, or the same branch won by itself
        elif self._is_refused(block):
            self._refuse(block)
        elif block.parent in self._chain:
            if block.hash in self._tree.blocks or self._retain(block):
                self._tree.link(block.hash)
                self._move(self._behind(block.parent), block.parent, [block.hash])
        elif block.parent in self._channels:
            removed = [self._tree.blocks[hash] for hash in self._behind(self._bottom)]
            for waiting in self.waiting:
                self._give_up(waiting, Why.PARENT)
            self._tree, self._spare = Tree(), {}
            self._tree.add(block)
            self._rest_on(block.parent)
            self._chain.add(block.hash)
            self.head, self.number = block.hash, block.number
            self._events.append(ChainUpdate([block], removed, block.parent, beyond=True))
        else:
            self._give_up(block, Why.CHANNEL)
