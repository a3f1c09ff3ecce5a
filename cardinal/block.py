"""A complete block: the keys it sets and deletes, and its origin."""

from dataclasses import dataclass, field


@dataclass(slots=True)
class Block:
    """One block, with the keys that its consumer tracks. Apply the deletes before the updates.

    A key may be in both. `token` has, for each source, the lowest offset of the block's messages:
    reading from there gives all of it. `last` is the offset of the message that completed it.
    `size` is its size in memory, overhead included; 0 if it was not measured. Comparisons ignore
    these three.
    """

    hash: bytes
    number: int
    weight: int
    parent: bytes
    updates: dict[str, bytes]
    deletes: set[str]
    token: dict[str, int] = field(default_factory=dict, compare=False)
    last: int = field(default=-1, compare=False)
    size: int = field(default=0, compare=False)

    def __str__(self) -> str:
        return f"block {self.number} {self.hash.hex()}"
