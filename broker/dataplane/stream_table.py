"""Finds the stream of a subject, and puts each new record into the ledger of its stream.

    find          the publisher's side: a message with a reply, or with headers of NATS'
    add_records   the records that were just written, as the sequencer hands them to its feeds
    take          records that are read again: after a start, or for a stream with a past
    leave         records that leave their streams: purged, or about to be deleted

Streams' subjects do not overlap, so a subject has one stream at most. They are in a sublist of
their own, whose subscriptions are owned by ledgers: a record costs one look-up in its table of
routes, and one in the ledger's dictionary, by a key whose hash is known.
"""

from collections.abc import Callable

import cython

from broker.dataplane.ledger import Ledger
from sequencer.journal.record import Walk
from sequencer.message import Message
from sublist.sublist import Sublist
from sublist.subscription import Subscription

if not cython.compiled:
    from broker.dataplane.ledger import stored_size
    from sequencer.journal.layout import RECORD


class RecordWatcher:
    """Waits for new records of a stream; a consumer's `Deliverer` is one. `seen`: the last one."""

    def __init__(self) -> None:
        self.ledger: Ledger | None = None
        self.seen = 0
        self.is_woken = False  # it is among those that are woken next

    def matched(self, number: int) -> bool:
        """Take a new record; return True if somebody waits for it."""
        return False


class AckTaker:
    """Takes acks where they are parsed; the streams' `AckReader` is one."""

    def take(self, message: Message) -> bool:
        """Take an ack; return False, and do nothing, if others must."""
        return False


class StreamTable:
    """The subjects of all streams. One per broker; `salt` is of the records' checksums."""

    def __init__(self, salt: int) -> None:
        self.subjects = Sublist()
        self.walk = Walk(salt)
        self.whole: Ledger | None = None  # of the whole order, while it has consumers
        self.records = 0  # that were taken as they were written
        self.dropped = 0  # messages that have left a ledger
        self.state = 0  # why `take` stopped
        self.next = 0  # the number after the last one that it took
        self.woken: list[RecordWatcher] = []  # somebody waits for what has come for these
        self.wake: Callable[[], object] | None = None  # is called when there is the first of them
        self.last_safe = 0
        self._subscriptions: dict[tuple[bytes, object], Subscription] = {}

    def open_to(self, pattern: bytes, ledger: "Ledger | RecordWatcher") -> None:
        """Give the messages of these subjects to a stream, or to a watcher, from now on."""
        if (pattern, ledger) in self._subscriptions:
            return
        sub = Subscription(pattern, b"", None, ledger)
        self._subscriptions[pattern, ledger] = sub
        self.subjects.insert(sub)

    def close_to(self, pattern: bytes, ledger: "Ledger | RecordWatcher") -> None:
        """Give a stream, or a watcher, no more messages of these subjects."""
        self.subjects.remove(self._subscriptions.pop((pattern, ledger)))

    def find(self, data: bytes | bytearray, start: int, size: int) -> Ledger | None:
        """Return the ledger of the stream that has the subject in that span."""
        for item in self.subjects.find(data, start, size).fanout.plain:
            owner = cython.cast(Subscription, item).owner
            if isinstance(owner, Ledger):
                return owner
        return None

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
            if self.whole is not None:
                size = stored_size(walk.subject_size, walk.size, walk.header_size)
                self.whole.note_whole(walk.number, walk.time, size)
                if self.whole.watchers is not None:
                    self._tell(self.whole.watchers, walk.number)
            watched = False
            for item in route.fanout.plain:
                owner = cython.cast(Subscription, item).owner
                if isinstance(owner, Ledger):
                    ledger = cython.cast(Ledger, owner)
                    size = stored_size(walk.subject_size, walk.size, walk.header_size)
                    ledger.note(route.subject, walk.number, walk.time, size)
                    if ledger.watchers is not None:
                        self._tell(ledger.watchers, walk.number)
                else:
                    watched = True
            if watched:  # after the ledgers: what is in no stream is not for them
                self._tell_filters(route.fanout.plain, walk.number)
        return 0

    def _tell(self, watchers: list[RecordWatcher], number: int) -> int:
        """Tell those that want every record of a stream."""
        for item in watchers:
            watcher = cython.cast(RecordWatcher, item)
            watcher.seen = number
            if watcher.matched(number):
                self.note_woken(watcher)
        return 0

    def _tell_filters(self, plain: tuple[Subscription, ...], number: int) -> int:
        """Tell those that want some subjects. Two of their patterns may match the same one."""
        for item in plain:
            owner = cython.cast(Subscription, item).owner
            if isinstance(owner, RecordWatcher):
                watcher = cython.cast(RecordWatcher, owner)
                ledger = watcher.ledger
                if ledger is None or ledger.last != number or watcher.seen == number:
                    continue
                watcher.seen = number
                if watcher.matched(number):
                    self.note_woken(watcher)
        return 0

    def note_woken(self, watcher: RecordWatcher) -> int:
        """Let a watcher be woken when what has come may be shown."""
        if not watcher.is_woken:
            watcher.is_woken = True
            self.woken.append(watcher)
            if len(self.woken) == 1 and self.wake is not None:
                self.wake()
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
        """Note what may be shown, and wake those that wait for that."""
        self.last_safe = safe
        if self.woken and self.wake is not None:
            self.wake()
        return 0
