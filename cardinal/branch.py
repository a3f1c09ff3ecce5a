"""The blocks of a reorg channel, each on top of the one before; their ancestor may be unknown."""

from collections.abc import Collection, Mapping
from itertools import pairwise

from cardinal.block import Block


class Branch:
    """Blocks, oldest first. `token` says where its channel begins."""

    def __init__(
        self,
        ancestor: bytes,
        blocks: list[Block],
        token: Mapping[str, int],
        number: int | None = None,
    ) -> None:
        """`number` is the ancestor's; if unknown or impossible, one less than the first block's."""
        below = blocks[0].number - 1
        self.ancestor = ancestor
        self.number = below if number is None else min(number, below)
        self.blocks = blocks
        self.hashes = {block.hash for block in blocks}
        self.weight = max(block.weight for block in blocks)
        self.bytes = sum(block.size for block in blocks)
        self.token = dict(token)  # where to read again to have all of it
        for block in blocks:
            for source, offset in block.token.items():
                self.token[source] = min(offset, self.token.get(source, offset))

    def upon(self, below: "Branch") -> "Branch":
        """Return this branch on top of the part of another branch that it continues."""
        hashes = [block.hash for block in below.blocks]
        stem = below.blocks[: hashes.index(self.ancestor) + 1]
        token = below.token | {
            source: min(offset, below.token.get(source, offset))
            for source, offset in self.token.items()
        }
        return Branch(below.ancestor, stem + self.blocks, token, below.number)

    @property
    def rises(self) -> bool:
        """True if no hash occurs twice, and each number is above the one before."""
        single = len(self.hashes) == len(self.blocks) and self.ancestor not in self.hashes
        return single and all(low.number < high.number for low, high in pairwise(self.blocks))

    def rewind(self, source: str, first: int) -> None:
        """Lower the token to `first`: messages from this offset on will come again."""
        if source in self.token:
            self.token[source] = min(self.token[source], first)

    def touches(self, known: Collection[bytes]) -> bool:
        """True if the known hashes include its ancestor or one of its blocks."""
        return self.ancestor in known or not self.hashes.isdisjoint(known)
