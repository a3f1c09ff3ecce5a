"""What a reorg channel has brought: blocks on each other, whose ancestor need not be known."""

from collections.abc import Collection, Mapping

from cardinal.block import Block


class Branch:
    """Blocks, the oldest first. `token` says where its channel begins."""

    def __init__(self, ancestor: bytes, blocks: list[Block], token: Mapping[str, int]) -> None:
        self.ancestor = ancestor
        self.blocks = blocks
        self.hashes = {block.hash for block in blocks}
        self.weight = max(block.weight for block in blocks)
        self.bytes = sum(block.size for block in blocks)
        self.token = dict(token)

    def upon(self, below: "Branch") -> "Branch":
        """This one with what it stands on, which is a part of another one."""
        hashes = [block.hash for block in below.blocks]
        stem = below.blocks[: hashes.index(self.ancestor) + 1]
        token = below.token | {
            source: min(offset, below.token.get(source, offset))
            for source, offset in self.token.items()
        }
        return Branch(below.ancestor, stem + self.blocks, token)

    def floor(self, source: str) -> int | None:
        """Where to read again to have all of it; None: it is from elsewhere."""
        offsets = [one.token[source] for one in self.blocks if source in one.token]
        if source in self.token:
            offsets.append(self.token[source])
        return min(offsets, default=None)

    def touches(self, known: Collection[bytes]) -> bool:
        """Whether its ancestor is one of these, or one of its blocks is."""
        return self.ancestor in known or not self.hashes.isdisjoint(known)
