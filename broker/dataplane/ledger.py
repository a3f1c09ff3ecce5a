"""The ledger of a stream: what is visible in it, by subject, how many and how much.

A ledger takes every record of its stream once, in order (`note`); what leaves the stream is taken
out again (`drop`, `clear`, `forget_subject`). So it knows at any time how many messages are there,
and whether one is:

    entries[subject] -> SubjectEntry  first: nothing of this subject below it is visible
                                      last:  the newest one; count, size: of all that are visible
    deleted                           numbers that were deleted one by one

The ledger of the whole order (`is_whole`) has no entries: every number is visible in it.

A message is visible if its subject has an entry, its number is not below the entry's `first`, it
was not deleted by itself, and its subject was the stream's when it came. No rule is kept of what
was purged: a subject without visible messages has no entry, and the next message to it makes one
that begins with itself.

Memory: some 170 bytes for a subject of 30 letters.
"""

from collections.abc import Callable
from typing import Any

import cython

if not cython.compiled:
    # What nats-server counts for a message besides its text: a head of 22 bytes and a checksum of
    # 8, and 4 more if it has headers (`fileStoreMsgSize`). So a stream has the same size on both.
    STORED = 30
    HEADERED = 4
    SPARE = 131_072  # more messages than are numbered in a turn


class SubjectEntry:
    """The visible messages of one subject."""

    __slots__ = ("count", "first", "last", "size")

    first: int
    last: int
    count: int
    size: int


class SubjectTotal:
    """How many subjects with messages all streams together have, of `most`.

    A publisher that wants a pub ack is refused beforehand (`Ledger.is_closed_to`). Messages of the
    same turn are not counted yet then, so those that were acknowledged find `SPARE` more.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.count = 0
        self.left_out = 0  # messages that are in no stream, because they would need another one


class Ledger:
    """The ledger of one stream. `since`: the number from which the stream begins.

    `acknowledgement` is what its pub acks begin with; `scope` is where its message ids count, for
    `window` ns.
    """

    def __init__(
        self,
        stream: object,
        since: int,
        acknowledgement: bytes,
        scope: bytes,
        total: SubjectTotal,
    ) -> None:
        self.stream = stream  # whose it is; for those that read it
        self.acknowledgement = acknowledgement
        self.scope = scope
        self.total = total
        self.acknowledges = True
        self.is_whole = False
        # Tells whether a subject was the stream's at a number; None: its subjects never changed.
        self.belongs: Callable[[bytes, int], bool] | None = None
        self.window = 0
        self.next = since  # the records before this one were taken
        self.messages = self.size = 0
        self.first = self.first_time = 0  # of the first visible message; 0: it must be looked up
        self.last = self.last_time = 0  # of the newest message there ever was
        self.watchers: list[Any] | None = None  # want every record; see `StreamTable`
        self.entries: dict[bytes, SubjectEntry] = {}
        self.deleted: set[int] = set()

    def note(self, subject: bytes, number: int, time: int, size: int) -> int:
        """Take a message of the stream: the next one, or one that was taken already."""
        if number < self.next:
            return 0
        self.next = number + 1
        self.last = number
        self.last_time = time
        if self.deleted and number in self.deleted:  # it is read again
            return 0
        known = self.entries.get(subject)
        if known is None:
            if self.total.count >= self.total.most + SPARE:
                self.total.left_out += 1
                return 0
            entry = new_entry(number)
            self.entries[subject] = entry
            self.total.count += 1
        else:
            entry = cython.cast(SubjectEntry, known)
        entry.last = number
        entry.count += 1
        entry.size += size
        self.size += size
        self.messages += 1
        if self.messages == 1:
            self.first = number
            self.first_time = time
        return 1

    def is_closed_to(self, subject: bytes) -> bool:
        """True if a message to this subject would need room for one more than there may be."""
        return self.total.count >= self.total.most and subject not in self.entries

    def note_whole(self, number: int, time: int, size: int) -> int:
        """Take the next message of the whole order."""
        self.next = number + 1
        self.last = number
        self.last_time = time
        self.size += size
        self.messages += 1
        return 0

    def set_whole(self, first: int, first_time: int, last: int, last_time: int, size: int) -> None:
        """Take which messages of the whole order are there."""
        self.first, self.first_time = first, first_time
        self.next, self.last, self.last_time = last + 1, last, last_time
        self.messages = last + 1 - first if first else 0
        self.size = size

    def restore_entry(self, subject: bytes, first: int, last: int, count: int, size: int) -> None:
        """Take an entry as it was."""
        entry = new_entry(first)
        entry.last, entry.count, entry.size = last, count, size
        self.entries[subject] = entry
        self.total.count += 1

    def restore(
        self,
        taken: int,
        messages: int,
        size: int,
        first: int,
        first_time: int,
        last: int,
        last_time: int,
    ) -> None:
        """Take the figures as they were when the records up to `taken` had been taken."""
        self.next = max(self.next, taken + 1)
        self.messages, self.size = messages, size
        self.first, self.first_time = first, first_time
        self.last, self.last_time = last, last_time

    def drop(self, subject: bytes, number: int, size: int, below: bool) -> bool:
        """Take a visible message out; False if it is not visible.

        `below`: all that are visible before it have been dropped, too.
        """
        is_shown = self.shows(subject, number)
        known = self.entries.get(subject)
        if known is None:
            return False
        entry = cython.cast(SubjectEntry, known)
        if not is_shown:
            if below and number in self.deleted and number >= entry.first:
                self.deleted.discard(number)  # what is below `first` need not be remembered
                entry.first = number + 1
            return False
        self.messages -= 1
        self.size -= size
        entry.count -= 1
        entry.size -= size
        if entry.count == 0:
            del self.entries[subject]
            self.total.count -= 1
        elif below or number == entry.first:
            entry.first = number + 1
        if number == self.first:
            self.first = self.first_time = 0
        return True

    def shows(self, subject: bytes, number: int) -> bool:
        """True if the message of this number, to this subject, is visible."""
        return self.shows_in(self.entry(subject), subject, number)

    def entry(self, subject: bytes) -> SubjectEntry | None:
        """Return the entry of a subject; None if it has no visible messages."""
        known = self.entries.get(subject)
        return None if known is None else cython.cast(SubjectEntry, known)

    def shows_in(self, entry: SubjectEntry | None, subject: bytes, number: int) -> bool:
        """`shows`, for those who have the subject's entry."""
        if self.is_whole:
            return True
        if entry is None:
            return False
        if not entry.first <= number <= entry.last:
            return False
        if self.deleted and number in self.deleted:
            return False
        return self.belongs is None or self.belongs(subject, number)

    def clear(self) -> int:
        """Take all messages out; return how many there were."""
        count = self.messages
        self.total.count -= len(self.entries)
        self.entries.clear()
        # Those above are known from the notes, and have not been read again yet.
        self.deleted = {number for number in self.deleted if number >= self.next}
        self.messages = self.size = self.first = self.first_time = 0
        return count

    def forget_subject(self, subject: bytes) -> int:
        """Take all messages of a subject out; return how many there were."""
        known = self.entries.pop(subject, None)
        if known is None:
            return 0
        self.total.count -= 1
        entry = cython.cast(SubjectEntry, known)
        self.messages -= entry.count
        self.size -= entry.size
        if entry.first <= self.first <= entry.last:  # it may have been the first one
            self.first = self.first_time = 0
        return entry.count

    def lower_last(self, subject: bytes, number: int) -> None:
        """Note which message of a subject is the last one, after a later one was dropped."""
        cython.cast(SubjectEntry, self.entries[subject]).last = number

    def begin_with(self, number: int, time: int) -> None:
        """Note which visible message is the first one."""
        self.first = number
        self.first_time = time

    def last_of(self, subject: bytes) -> int:
        """Return the number of a subject's last visible message; 0 if there is none."""
        known = self.entries.get(subject)
        return 0 if known is None else cython.cast(SubjectEntry, known).last

    def count_of(self, subject: bytes) -> int:
        """Return how many visible messages a subject has."""
        known = self.entries.get(subject)
        return 0 if known is None else cython.cast(SubjectEntry, known).count

    def begins(self, subject: bytes) -> int:
        """Return the number below which nothing of a subject is visible; 0 if nothing is."""
        known = self.entries.get(subject)
        return 0 if known is None else cython.cast(SubjectEntry, known).first


def new_entry(number: int) -> SubjectEntry:
    """Make the entry of a subject whose first message has this number."""
    entry: SubjectEntry = SubjectEntry.__new__(SubjectEntry)
    entry.first = number
    entry.last = entry.count = entry.size = 0
    return entry


def stored_size(subject_size: int, size: int, header_size: int) -> int:
    """Return what a message counts in a stream's size; `size` is with the headers."""
    return STORED + subject_size + size + (HEADERED if header_size else 0)
