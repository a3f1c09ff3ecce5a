"""The beginning of a chain without a given start: the lowest block on its way.

Blocks become complete in any order: a sub-batch may come long after the rest of its block, and then
the block's child is complete first. So if messages of its parent have come, the first complete
block does not begin the chain at once. It is held back, with all blocks that become complete
meanwhile, until the parent is complete or was given up; the same goes for the parent's parent.

A block that was partly sent before we began to read never becomes complete, so there are limits: a
number of blocks, the bytes of the waiting blocks, and a number of seconds. Then the chain begins
with the blocks that are there. No block is lost: if the parent comes later, the chain starts again
with it.
"""

from collections.abc import Container

from cardinal.block import Block

BLOCKS_MAX = 64  # some minutes of most chains, and quickly read from a journal
SECONDS = 5.0  # a sub-batch that is not here by then is not on its way


class Start:
    """The whole blocks that are held back; one writer."""

    def __init__(
        self, bytes_max: int, seconds: float = SECONDS, blocks_max: int = BLOCKS_MAX
    ) -> None:
        self.held: list[Block] = []  # in order of arrival
        self._bytes = 0
        self._bytes_max = bytes_max
        self._seconds = seconds
        self._blocks_max = blocks_max
        self._since = 0.0

    def hold(self, block: Block, now: float) -> None:
        """Hold a block back."""
        if not self.held:
            self._since = now
        self.held.append(block)
        self._bytes += block.size

    def is_over(self, pending: Container[bytes], now: float) -> bool:
        """True if the chain must begin now; `pending` are the hashes of the blocks on their way."""
        return bool(self.held) and (
            _path(self.held)[0].parent not in pending
            or len(self.held) > self._blocks_max
            or self._bytes > self._bytes_max
            or now > self._since + self._seconds
        )

    def release(self) -> list[Block]:
        """The held blocks: first the one to begin with and its descendants up to the block that was
        whole first, then the others in order of arrival.
        """
        blocks, self.held, self._bytes = self.held, [], 0
        path = _path(blocks) if blocks else []
        known = {block.hash for block in path}
        return [*path, *(block for block in blocks if block.hash not in known)]

    def rewind(self, source: str, first: int) -> None:
        """Go back: a source reuses the offsets from `first` on for other messages."""
        for block in self.held:
            if source in block.token:
                block.token[source] = min(block.token[source], first)


def _path(blocks: list[Block]) -> list[Block]:
    """Return the first block and its ancestors among these, the lowest first."""
    by_hash = {block.hash: block for block in blocks}
    path = [blocks[0]]
    while (parent := by_hash.get(path[0].parent)) and parent.number < path[0].number:
        path.insert(0, parent)
    return path
