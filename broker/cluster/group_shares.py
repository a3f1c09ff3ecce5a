"""Decides which messages of queue groups are for this member's subscribers.

    weights in force (notes) --> patterns in a trie --> GroupShare of (subject, group), remembered

A group gets a message once, even if several of its patterns match the subject: their weights are
added up, as a single broker treats all their subscribers as one group.
"""

import cython

from sequencer.replica.group_draw import seed_of
from sequencer.replica.notes.queue_weights import QueueWeights
from sublist.subscription import Subscription
from sublist.trie import Trie

if not cython.compiled:
    from sequencer.replica.group_draw import draw

    SHARES_MAX = 65536  # subjects whose shares are remembered


class GroupShare:
    """The share of this member in the draws for one subject and group: `low` up to `high`."""

    def __init__(self, low: int, high: int, total: int, seed: int) -> None:
        self.low = low
        self.high = high
        self.total = total
        self.seed = seed


class GroupShares:
    """The shares of one member in all groups. Numbers must be asked for in their order."""

    def __init__(self, member: str, weights: QueueWeights) -> None:
        self.member = member
        self.weights = weights
        self.trie = Trie()
        self.known: dict[tuple[str, str], Subscription] = {}  # the subscriptions in the trie
        self.shares: dict[tuple[bytes, bytes], GroupShare] = {}
        self.groups: dict[bytes, tuple[tuple[bytes, tuple[tuple[str, int], ...]], ...]] = {}
        self.until = 0  # the weights hold up to this number
        self.unknown_until = 0  # the takers of numbers up to this one are unknown
        self.begun = 0  # how many times weights have come into force

    def reload_notes(self) -> None:
        """Prepare to deliver more numbers: the notes may have changed since."""
        self.until = self.weights.next_after
        self.unknown_until = self.weights.since

    def advance(self, number: int) -> None:
        """Bring into force the weights that hold for `number`, whose notes are committed."""
        while self.weights.next_after < number:
            self._begin_next()

    def settle(self, delivered: int, note_watermark: int) -> None:
        """Bring into force the committed weights for the numbers above `delivered`."""
        weights = self.weights
        while weights.next_after <= delivered and weights.next_is_committed(note_watermark):
            self._begin_next()

    def _begin_next(self) -> None:
        for pattern, group, counts in self.weights.begin_next().fields["groups"]:
            self._know(pattern, group, bool(counts))
        self.shares.clear()
        self.groups.clear()
        self.begun += 1
        self.until = self.weights.next_after

    def takes(self, number: int, subject: bytes, group: bytes) -> bool:
        """True if a subscriber of this member gets the message."""
        if number > self.until:
            self.advance(number)
        if number <= self.unknown_until:
            return False
        share = self.shares.get((subject, group))
        if share is None:
            share = self._share_of(subject, group)
        if share.low == share.high:
            return False
        point = draw(number, share.seed) % share.total
        return share.low <= point < share.high

    def _share_of(self, subject: bytes, group: bytes) -> GroupShare:
        """Add up the weights of all matching patterns of the group."""
        sums: dict[str, int] = {}
        for sub in self.trie.literal(subject) + self.trie.wild(subject):
            if sub.queue == group:
                key = sub.subject.decode("latin-1"), group.decode("latin-1")
                for member, weight in self.weights.in_force[key].items():
                    sums[member] = sums.get(member, 0) + weight
        low = sum(weight for member, weight in sums.items() if member < self.member)
        high = low + sums.get(self.member, 0)
        share = GroupShare(low, high, sum(sums.values()), seed_of(group))
        if len(self.shares) >= SHARES_MAX:
            self.shares.clear()
        self.shares[subject, group] = share
        return share

    def takers(self, subject: bytes) -> tuple[tuple[bytes, tuple[tuple[str, int], ...]], ...]:
        """Return each group that takes messages of a subject, and its members' weights."""
        if not self.known:
            return ()
        found = self.groups.get(subject)
        if found is None:
            found = self._takers_of(subject)
            if found:  # subjects that no group takes may be many, and seldom come again
                if len(self.groups) >= SHARES_MAX:
                    self.groups.clear()
                self.groups[subject] = found
        return found

    def _takers_of(self, subject: bytes) -> tuple[tuple[bytes, tuple[tuple[str, int], ...]], ...]:
        sums: dict[bytes, dict[str, int]] = {}
        for sub in self.trie.literal(subject) + self.trie.wild(subject):
            assert sub.queue is not None, "only groups are in the trie"
            counts = sums.setdefault(sub.queue, {})
            key = sub.subject.decode("latin-1"), sub.queue.decode("latin-1")
            for member, weight in self.weights.in_force[key].items():
                counts[member] = counts.get(member, 0) + weight
        return tuple((group, tuple(sorted(counts.items()))) for group, counts in sums.items())

    def _know(self, pattern: str, group: str, has_takers: bool) -> None:
        key = pattern, group
        known = self.known.get(key)
        if has_takers and known is None:
            made = Subscription(pattern.encode("latin-1"), b"", group.encode("latin-1"), None)
            self.known[key] = made
            self.trie.insert(made)
        elif known is not None and not has_takers:
            self.trie.remove(known)
            del self.known[key]
