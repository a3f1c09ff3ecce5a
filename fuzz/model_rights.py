"""The permissions of users, by definition: tests every possible subject, one by one.

A pattern is within another if the other matches each subject that it matches. There are only a few
tokens and lengths in the programs, so all subjects can be tried.
"""

from dataclasses import dataclass, field
from functools import cache
from itertools import product

from testkit.model_subject import has_wildcard, tokens_match

TOKENS = (b"a", b"b", b"c", b"another")
LONGEST = 4  # one more than a pattern has
EVERYWHERE = tuple(
    b".".join(one) for length in range(1, LONGEST + 1) for one in product(TOKENS, repeat=length)
)


@cache
def matched(pattern: bytes) -> frozenset[bytes]:
    """All subjects that a pattern matches."""
    return frozenset(subject for subject in EVERYWHERE if tokens_match(pattern, subject))


@cache
def is_within(narrow: bytes, wide: bytes) -> bool:
    """True if `wide` matches all subjects that `narrow` matches."""
    if narrow.startswith(b"$"):  # of the broker: `$SEQ.`, some words, and a pattern
        words = narrow.split(b".")
        at = next(at for at, word in enumerate(words) if word in (*TOKENS, b"*", b">"))
        begin, inner = words[:at], b".".join(words[at:])
        return all(tokens_match(wide, b".".join([*begin, one])) for one in matched(inner))
    return matched(narrow) <= matched(wide)


@dataclass
class Side:
    """The allowed and denied entries: `(pattern, group)`, the group empty for all."""

    allow: list[tuple[bytes, bytes]] | None
    deny: list[tuple[bytes, bytes]]

    def entries(self) -> tuple[list[bytes] | None, list[bytes]]:
        """Return the entries in the form of a configuration."""
        lists = (self.allow, self.deny)
        allow, deny = ([b" ".join(filter(None, one)) for one in some or ()] for some in lists)
        return (None if self.allow is None else allow), deny

    def takes(self, subject: bytes) -> bool:
        """True if a message may pass."""
        allowed = self.allow is None or self._names(self.allow, subject, b"")
        return allowed and not self._names(self.deny, subject, b"")

    def admits(self, pattern: bytes, group: bytes) -> bool:
        """True if a subscription is allowed."""
        allowed = True
        if self.allow is not None:
            allowed = self._decide(self.allow, pattern, group)
        return allowed and not self._decide(self.deny, pattern, group)

    def _decide(self, entries: list[tuple[bytes, bytes]], pattern: bytes, group: bytes) -> bool:
        """Decide by the entries for groups, if there is a group and one of them has the pattern."""
        groups = [name for wide, name in entries if name and is_within(pattern, wide)]
        if group and groups:
            return any(tokens_match(name, group) for name in groups)
        return self._names(entries, pattern, b"")

    def _names(self, entries: list[tuple[bytes, bytes]], pattern: bytes, group: bytes) -> bool:
        return any(name == group and is_within(pattern, wide) for wide, name in entries)


@dataclass
class Rights:
    """The rights of a user."""

    publish: Side
    subscribe: Side
    responses: int  # to each request; 0: none, -1: any number


@dataclass
class Sub:
    """A subscription that was accepted."""

    pattern: bytes
    group: bytes


@dataclass
class Person:
    """A client and its subscriptions; without rights it may do everything."""

    rights: Rights | None
    subs: dict[bytes, Sub] = field(default_factory=dict)
    requests: dict[bytes, int] = field(default_factory=dict)  # reply: how often it was used

    def may_publish(self, subject: bytes) -> bool:
        """True if it may publish; a response uses up one of the allowed ones."""
        if self.rights is None or self.rights.publish.takes(subject):
            return True
        if subject not in self.requests:
            return False
        self.requests[subject] += 1
        if 0 < self.rights.responses <= self.requests[subject]:
            del self.requests[subject]
        return True

    def may_subscribe(self, pattern: bytes, group: bytes) -> bool:
        return self.rights is None or self.rights.subscribe.admits(pattern, group)

    def hears(self, sub: Sub, subject: bytes) -> bool:
        """True if a message on `subject` reaches the subscription."""
        if not tokens_match(sub.pattern, subject):
            return False
        if self.rights is None or not has_wildcard(sub.pattern):
            return True
        deny = self.rights.subscribe.deny
        return not any(
            tokens_match(wide, subject) and (not group or tokens_match(group, sub.group))
            for wide, group in deny
        )

    def got(self, reply: bytes) -> None:
        """Record a request, for its responses."""
        if self.rights is not None and self.rights.responses:
            self.requests[reply] = 0
