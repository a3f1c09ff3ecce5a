"""Limits the subscriptions of all connections together, weighted by the memory they take.

A usual subscription takes about 340 bytes, and counts as one. A larger one counts for more:

    one more for each 256 bytes of its subject, its sid and its queue group
    one more for every two tokens of a pattern with a wildcard: each is a node of the tree

So a pattern of 2000 tokens, which takes 460 KB, counts as a thousand. A subscription counts from
its SUB until it is removed: also while it is replayed, and after its connection has closed until
its turn to be removed.
"""

import cython

from sublist.subject import has_wildcard
from sublist.subscription import Subscription

if not cython.compiled:
    TEXT = 256  # bytes that count as one more


class SubscriptionTotal:
    """The weight of all subscriptions. One per broker, for its one thread.

    The limit may change at any time; 0 is no limit.
    """

    def __init__(self) -> None:
        self.used = 0
        self.refused = 0

    def acquire(self, sub: Subscription, most: int) -> bool:
        """Count a new subscription until `release`; return False if that would be over `most`."""
        weight = weight_of(sub)
        if most and self.used + weight > most:
            self.refused += 1
            return False
        self.used += weight
        return True

    def release(self, sub: Subscription) -> None:
        """Stop counting a subscription that was removed."""
        self.used -= weight_of(sub)


def weight_of(sub: Subscription) -> int:
    """Return the number of usual subscriptions that it counts as."""
    subject = sub.subject
    text = len(subject) + len(sub.sid) + (0 if sub.queue is None else len(sub.queue))
    nodes = subject.count(b".") + 1 if has_wildcard(subject) else 0
    return 1 + text // TEXT + nodes // 2
