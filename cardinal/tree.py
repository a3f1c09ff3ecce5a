"""The blocks that a chain knows, as a tree by parent hashes; it makes no decisions.

A block is *linked* if its parents lead to a hash of the chain; otherwise it waits for a parent. The
bottom of the chain may be a hash whose block is unknown: the start, or its parent. Each method
takes time for the blocks it touches, not for all that are known.
"""

import heapq
from collections.abc import Container, Iterator

from cardinal.block import Block


class Lowest:
    """A heap to find the present block with the lowest number, or lowest offset in a source."""

    def __init__(self, blocks: dict[bytes, Block], source: str | None = None) -> None:
        self._blocks = blocks
        self._source = source
        self._heap: list[tuple[int, bytes]] = []  # may name blocks that are gone

    def _holds(self, entry: tuple[int, bytes]) -> bool:
        """True if the entry's block is present, and not another one with the same hash."""
        block = self._blocks.get(entry[1])
        if block is None:
            return False
        own = block.number if self._source is None else block.token.get(self._source)
        return own == entry[0]

    def add(self, number: int, hash: bytes) -> None:
        """Add a block that has come, or is about to."""
        if len(self._heap) > 2 * len(self._blocks) + 64:
            self._heap = [one for one in self._heap if self._holds(one)]
            heapq.heapify(self._heap)
        heapq.heappush(self._heap, (number, hash))

    def first(self) -> tuple[int, bytes] | None:
        """The lowest number, and its block."""
        heap = self._heap
        while heap and not self._holds(heap[0]):
            heapq.heappop(heap)
        return heap[0] if heap else None


class Spare:
    """The blocks that are not on the chain, in order of arrival, and their total bytes."""

    def __init__(self) -> None:
        self.bytes = 0
        self._sizes: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self._sizes)

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._sizes)

    def add(self, block: Block) -> None:
        """Add a block that is not, or no longer, on the chain."""
        self.drop(block.hash)
        self._sizes[block.hash] = block.size
        self.bytes += block.size

    def drop(self, hash: bytes) -> None:
        """Remove a block that is on the chain now, or forgotten."""
        self.bytes -= self._sizes.pop(hash, 0)


class Tree:
    """All retained blocks; only its chain changes it."""

    def __init__(self) -> None:
        self.blocks: dict[bytes, Block] = {}
        self.children: dict[bytes, list[bytes]] = {}  # of a hash, in order of arrival
        self.linked: set[bytes] = set()  # hashes of the chain, and of its descendants
        self._by_number = Lowest(self.blocks)
        self._by_offset: dict[str, Lowest] = {}  # by source

    def add(self, block: Block) -> None:
        """Retain a block; the chain decides whether it is linked."""
        self.blocks[block.hash] = block
        self.children.setdefault(block.parent, []).append(block.hash)
        self._by_number.add(block.number, block.hash)
        for source, offset in block.token.items():
            if source not in self._by_offset:
                self._by_offset[source] = Lowest(self.blocks, source)
            self._by_offset[source].add(offset, block.hash)

    def rewind(self, source: str, first: int) -> None:
        """Lower the blocks' tokens to `first`: messages from this offset on will come again."""
        lowest = self._by_offset[source] = Lowest(self.blocks, source)
        for block in self.blocks.values():
            if source in block.token:
                block.token[source] = min(block.token[source], first)
                lowest.add(block.token[source], block.hash)

    def remove(self, hash: bytes) -> Block:
        """Forget one block, but not its descendants."""
        block = self.blocks.pop(hash)
        self.linked.discard(hash)
        siblings = self.children[block.parent]
        siblings.remove(hash)
        if not siblings:
            del self.children[block.parent]
        return block

    def under(self, hash: bytes) -> Iterator[bytes]:
        """Yield this hash and its descendants, parents before their children."""
        stack = [hash]
        while stack:
            one = stack.pop()
            yield one
            stack.extend(self.children.get(one, ()))

    def link(self, hash: bytes) -> None:
        """Mark this hash and its descendants as linked to the chain."""
        self.linked.update(self.under(hash))

    def heaviest(self, hash: bytes, chain: Container[bytes] = ()) -> tuple[int, list[bytes]]:
        """The greatest weight of a block in the branch, and the path to the end of it.

        From each block the path goes to the child under which the heaviest block is. Of equal
        children it chooses the one on the chain, or else the one that came first. The path begins
        with `hash` itself, whose block may be unknown.
        """
        weights: dict[bytes, int] = {}
        onward: dict[bytes, bytes] = {}
        for one in reversed(list(self.under(hash))):
            best, child = -1, b""
            for other in self.children.get(one, ()):
                weight = weights[other]
                if weight > best or (weight == best and other in chain):
                    best, child = weight, other
            own = self.blocks.get(one)
            weights[one] = best if own is None else max(own.weight, best)
            onward[one] = child
        path = [hash]
        while onward[path[-1]]:
            path.append(onward[path[-1]])
        return weights[hash], path

    def lowest(self) -> Block | None:
        """The block with the lowest number."""
        found = self._by_number.first()
        return None if found is None else self.blocks[found[1]]

    def floor(self, source: str) -> int | None:
        """The lowest offset of a source in the tokens of these blocks."""
        found = self._by_offset[source].first() if source in self._by_offset else None
        return None if found is None else found[0]
