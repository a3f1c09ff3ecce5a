"""The digest of a subject by its definition; a seed for tests, and subjects with one digest.

A broker draws its seed from the system, so what shares a slot differs from run to run. With `SEED`
it does not.
"""

from hashlib import sha256
from typing import Final

SEED: Final = sha256(b"a seed for tests").digest()
TWINS: Final = (  # pairs with one digest under `SEED`
    (b"bpzjl", b"pjqwm"),
    (b"a.onkr", b"a.suan"),
    (b"kmjwvfidd", b"sbpz"),
    (b"fdun", b"long.uqmddhqacojhgnxyxuuz"),
    (b"a" * 25 + b".pgif", b"a" * 25 + b".tlor"),
)


def digest(seed: bytes, subject: bytes) -> int:
    """The digest of a subject in a table with this seed, from its definition."""
    key = [int.from_bytes(seed[at : at + 8], "little") for at in range(0, 32, 8)]
    steps = [subject[at : at + 16] for at in range(0, max(len(subject) - 16, 0), 16)]
    pairs = [(step[:8], step[8:]) for step in steps]
    ending = subject[-16:]
    pairs.append((ending[:8], ending[-8:] if len(ending) >= 8 else b""))
    total = key[0]
    for words in pairs:
        one, other = (int.from_bytes(word, "little") for word in words)
        total = folded((one ^ key[1]) * (other ^ total))
    return folded((total ^ key[2]) * (len(subject) ^ key[3])) % (1 << 32)


def folded(product: int) -> int:
    """The exclusive or of both halves of 128 bits."""
    high, low = divmod(product, 1 << 64)
    return high ^ low
