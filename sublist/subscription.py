"""One client's wish for one subject, and its place among those with the same subject.

A million of these may be alive: no dictionary, no container each. Those of one subject are
a chain through `following` and `preceding`, so that one is taken out without a search.
Nor does the collector of cycles look at them: whoever drops a subscription takes
it out of its chain and out of its owner's table, which breaks every cycle it is in. One that
was taken out has no owner any more: a fan-out that still holds it passes it over.
"""

from collections import deque
from typing import Any

import cython


class Subscription:
    """The data plane writes `delivered`, `seen` and `deferred_numbers`; the conversation `limit`;
    the trie the chain; and whoever plays the past to it, `replay`."""

    __slots__ = (
        "deferred_numbers",
        "delivered",
        "following",
        "limit",
        "owner",
        "preceding",
        "queue",
        "replay",
        "seen",
        "sid",
        "subject",
    )

    def __init__(self, subject: bytes, sid: bytes, queue: bytes | None, owner: Any) -> None:
        self.subject = subject
        self.sid = sid
        self.queue = queue
        self.owner = owner
        self.delivered = 0
        self.limit = 0  # deliveries after which it ends; 0: none
        self.seen = 0  # the last number it got, or at its making; none below comes any more
        self.deferred_numbers: deque[int] | None = (
            None  # numbers that only this member of its group gets
        )
        self.replay: Any = None  # while the past is played to it, and it is in no sublist
        self.following: Subscription | None = None
        self.preceding: Subscription | None = None
        if cython.compiled:
            PyObject_GC_UnTrack(self)
