"""What a reorg channel has brought: blocks on each other, whose ancestor need not be known."""

from collections.abc import Collection, Mapping
from itertools import pairwise

from cardinal.block import Block


class Branch:
    """Blocks, the oldest first. `token` says where its channel begins."""

    def __init__(
        self,
        ancestor: bytes,
        blocks: list[Block],
        token: Mapping[str, int],
        number: int | None = None,
    ) -> None:
        """`number` is the ancestor's; where it is not given, or cannot be, that below the first."""
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
        """This one with what it stands on, which is a part of another one."""
        hashes = [block.hash for block in below.blocks]
        stem = below.blocks[: hashes.index(self.ancestor) + 1]
        token = below.token | {
            source: min(offset, below.token.get(source, offset))
            for source, offset in self.token.items()
        }
        return Branch(below.ancestor, stem + self.blocks, token, below.number)

    @property
    def rises(self) -> bool:
        """Whether no hash is there twice, and each number is above the one before it."""
        single = len(self.hashes) == len(self.blocks) and self.ancestor not in self.hashes
        return single and all(low.number < high.number for low, high in pairwise(self.blocks))

    def rewind(self, source: str, first: int) -> None:
        """What stood at this offset or above is to come again."""
        if source in self.token:
            self.token[source] = min(self.token[source], first)

    def touches(self, known: Collection[bytes]) -> bool:
        """Whether its ancestor is one of these, or one of its blocks is."""
        return self.ancestor in known or not self.hashes.isdisjoint(known)
