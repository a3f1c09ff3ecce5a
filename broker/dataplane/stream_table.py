"""Finds the stream of a subject, and puts each new record into the ledger of its stream.

    find          the publisher's side: a message with a reply, or with headers of NATS'
    add_records   the records that were just written, as the sequencer hands them to its feeds
    take          records that are read again: after a start, or for a stream with a past
    leave         records that leave their streams: purged, or about to be deleted

Streams' subjects do not overlap, so a subject has one stream at most. They are in a sublist of
their own, whose subscriptions are owned by ledgers: a record costs one look-up in its table of
routes, and one in the ledger's dictionary, by a key whose hash is known.
"""

import cython

from broker.dataplane.ledger import Ledger
from sequencer.journal.record import Walk
from sublist.sublist import Sublist
from sublist.subscription import Subscription

if not cython.compiled:
    from broker.dataplane.ledger import stored_size
    from sequencer.journal.layout import RECORD


class StreamTable:
    """The subjects of all streams. One per broker; `salt` is of the records' checksums."""

    def __init__(self, salt: int) -> None:
        self.subjects = Sublist()
        self.walk = Walk(salt)
        self.records = 0  # that were taken as they were written
        self.dropped = 0  # messages that have left a ledger
        self.state = 0  # why `take` stopped
        self.next = 0  # the number after the last one that it took
        self._subscriptions: dict[tuple[bytes, object], Subscription] = {}

    def open_to(self, pattern: bytes, ledger: Ledger) -> None:
        """Give the messages of these subjects to a stream from now on."""
        if (pattern, ledger) in self._subscriptions:
            return
        sub = Subscription(pattern, b"", None, ledger)
        self._subscriptions[pattern, ledger] = sub
        self.subjects.insert(sub)

    def close_to(self, pattern: bytes, ledger: Ledger) -> None:
        """Give a stream no more messages of these subjects."""
        self.subjects.remove(self._subscriptions.pop((pattern, ledger)))

    def find(self, data: bytes | bytearray, start: int, size: int) -> Ledger | None:
        """Return the ledger of the stream that has the subject in that span."""
        plain = self.subjects.find(data, start, size).fanout.plain
        if not plain:
            return None
        return cython.cast(Ledger, cython.cast(Subscription, plain[0]).owner)

    def stream_of(self, subject: bytes) -> Ledger | None:
        """Return the ledger of the stream that has a subject."""
        return self.find(subject, 0, len(subject))

    def add_records(self, buffer: bytearray | memoryview, stop: int) -> int:
        """Take the records in `buffer[:stop]`, which were just written."""
        walk, subjects = self.walk, self.subjects
        walk.attach(buffer, 0, stop)
        while walk.skim() == RECORD:
            self.records += 1
            route = subjects.find(walk.data, walk.subject, walk.subject_size)
            for item in route.fanout.plain:
                ledger = cython.cast(Ledger, cython.cast(Subscription, item).owner)
                size = stored_size(walk.subject_size, walk.size, walk.header_size)
                ledger.note(route.subject, walk.number, walk.time, size)
        return 0

    def take(self, buffer: bytearray, stop: int, limit: int) -> int:
        """Take records that were read again, those below number `limit`; return where it stopped.

        `state` says why, as of a walk: RECORD if the next one is not below the limit.
        """
        walk, subjects = self.walk, self.subjects
        walk.attach(buffer, 0, stop)
        while True:
            self.state = walk.next()
            if self.state != RECORD or walk.number >= limit:
                return walk.at
            self.next = walk.number + 1
            route = subjects.find(walk.data, walk.subject, walk.subject_size)
            for item in route.fanout.plain:
                ledger = cython.cast(Ledger, cython.cast(Subscription, item).owner)
                size = stored_size(walk.subject_size, walk.size, walk.header_size)
                ledger.note(route.subject, walk.number, walk.time, size)

    def leave(self, buffer: bytearray, stop: int, limit: int) -> int:
        """Take records out of the ledgers, those below number `limit`; the same as `take` else."""
        walk, subjects = self.walk, self.subjects
        walk.attach(buffer, 0, stop)
        while True:
            self.state = walk.next()
            if self.state != RECORD or walk.number >= limit:
                return walk.at
            self.next = walk.number + 1
            route = subjects.find(walk.data, walk.subject, walk.subject_size)
            for item in route.fanout.plain:
                ledger = cython.cast(Ledger, cython.cast(Subscription, item).owner)
                size = stored_size(walk.subject_size, walk.size, walk.header_size)
                self.dropped += ledger.drop(route.subject, walk.number, size, True)

    def flush(self, safe: int) -> int:
        """Do nothing: as a feed of the sequencer it sends nothing."""
        return 0
