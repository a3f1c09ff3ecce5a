"""One client's subscription to one subject, linked with the others of the same subject.

There may be a million of these, so none has a dictionary or a container of its own.
Subscriptions to one subject form a chain through `following` and `preceding`, so that one
can be removed without a search. The garbage collector does not track them: the code that drops a
subscription removes it from its chain and from its owner's table, which breaks every cycle.
After that it has no owner; a fan-out that still holds it skips it.
"""

from collections import deque
from typing import Any

import cython


class Subscription:
    """A subscription. The data plane writes `delivered`, `last_seen`, `deferred_numbers`; the
    client's session `limit`; the trie the chain; a replay `replay`.
    """

    __slots__ = (
        "deferred_numbers",
        "delivered",
        "denied",
        "following",
        "last_seen",
        "limit",
        "owner",
        "preceding",
        "queue",
        "replay",
        "sid",
        "subject",
        "unframed",
    )

    def __init__(
        self, subject: bytes, sid: bytes, queue: bytes | None, owner: object | None
    ) -> None:
        self.subject = subject
        self.sid = sid
        self.queue = queue
        self.owner = owner
        self.delivered = 0
        self.denied: Any = None  # a `PatternSet` of subjects that it must not get; None: no such
        self.limit = 0  # deliveries after which it ends; 0: no limit
        self.last_seen = 0  # the last number delivered to it, or the newest when it was made
        self.deferred_numbers: deque[int] | None = None  # numbers for this group member only
        self.unframed = False  # what it gets is as published, whatever frame the client has
        self.replay: object | None = None  # while a replay serves it, and it is not in a sublist
        self.following: Subscription | None = None
        self.preceding: Subscription | None = None
        if cython.compiled:
            PyObject_GC_UnTrack(self)
