"""A fixed set of patterns: whether one of them matches a subject, contains or meets a pattern.

takes      a subject is matched by one of them            allow `orders.>`, message `orders.1`
contains   all that a pattern matches, one of them does   allow `orders.>`, SUB `orders.*`
meets      some subject is matched by both                deny `*.secret`, SUB `orders.*`
"""

from collections.abc import Iterable

import cython

from sublist.subject import covers, has_wildcard
from sublist.subscription import Subscription
from sublist.trie import Trie


class PatternSet:
    """An immutable set of patterns. All patterns given to it, and to its methods, are valid."""

    def __init__(self, patterns: Iterable[bytes]) -> None:
        self.patterns: tuple[bytes, ...] = tuple(sorted(set(patterns)))
        self.trie = Trie()
        self.wild: list[list[bytes]] = []  # the tokens of those with wildcards, and of all
        self.parted: list[list[bytes]] = []
        for pattern in self.patterns:
            self.trie.insert(Subscription(pattern, b"", None, None))
            tokens = pattern.split(b".")
            self.parted.append(tokens)
            if has_wildcard(pattern):
                self.wild.append(tokens)

    def takes(self, subject: bytes) -> bool:
        """True if a pattern matches this subject; none does if it has an empty token."""
        return self.trie.takes(subject)

    def contains(self, pattern: bytes) -> bool:
        """True if one of the patterns matches everything that `pattern` matches."""
        if not has_wildcard(pattern):
            return self.takes(pattern)
        tokens = pattern.split(b".")
        return any(is_within(tokens, wide) for wide in self.wild)

    def meets(self, pattern: bytes) -> bool:
        """True if some subject is matched by `pattern` and by one of these."""
        tokens = pattern.split(b".")
        return any(do_meet(tokens, other) for other in self.parted)


def hears(sub: Subscription, subject: bytes) -> bool:
    """True if a subscription gets messages with this subject."""
    if not covers(sub.subject, subject):
        return False
    return sub.denied is None or not cython.cast(PatternSet, sub.denied).takes(subject)


def is_within(narrow: list[bytes], wide: list[bytes]) -> bool:
    """True if `wide` matches all that `narrow` matches; both are given as tokens."""
    for at, token in enumerate(wide):
        if at == len(narrow):
            return False
        if token == b">":
            return True
        if narrow[at] == b">" or (token != b"*" and token != narrow[at]):
            return False
    return len(narrow) == len(wide)


def do_meet(one: list[bytes], other: list[bytes]) -> bool:
    """True if some subject is matched by both patterns, given as tokens."""
    for mine, theirs in zip(one, other, strict=False):
        if mine == b">" or theirs == b">":
            return True
        if mine != theirs and mine != b"*" and theirs != b"*":
            return False
    return len(one) == len(other)
