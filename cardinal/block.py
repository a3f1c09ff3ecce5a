"""A block that has been collected whole: what it sets, what it deletes, and where it came from."""

from dataclasses import dataclass, field


@dataclass(slots=True)
class Block:
    """One block, of what its consumer tracks. Apply the deletes before the updates.

    One key may be in both. `token` has for each source of messages the lowest offset at which one
    of the block's stood: who reads from there has all of it. `last` is the offset of the message
    that made it whole. `size` is what was counted for it when it was: its bytes, and what keeping
    them costs; 0 if nobody counted. Blocks compare without these three.
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
