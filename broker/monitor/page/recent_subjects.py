"""The subjects of the newest messages, counted: what is busy now, at no cost to a message.

Nothing is counted while messages pass. The newest records are copied from the journal's memory when
the page asks, a few hundred kilobytes at most, and counted in the request's thread. If more
messages came since the page has asked before, the rest is a sample: the newest ones.
"""

from bisect import bisect_left
from collections import Counter
from typing import Any, Final, NamedTuple

from sequencer.journal.layout import RECORD
from sequencer.journal.protocols import ReadableJournal
from sequencer.journal.record import Walk

MESSAGES_MAX: Final = 4096
BYTES_MAX: Final = 1 << 19  # copying takes 50 us of the broker's thread
SUBJECTS_MAX: Final = 1000  # in an answer; the busiest


class NewestRecords(NamedTuple):
    """A copy of the newest records, in pieces that each begin with a record."""

    salt: int
    first: int  # the first number that is wanted
    last: int
    pieces: list[bytes]


def take_newest(journal: ReadableJournal | None, after: int) -> NewestRecords:
    """Copy the newest records, of numbers above `after`; in the broker's thread."""
    if journal is None:
        return NewestRecords(0, 1, 0, [])
    last = journal.last
    first = max(after + 1, last - MESSAGES_MAX + 1, journal.first)
    pieces: list[bytes] = []
    if first > last:
        return NewestRecords(journal.salt, first, last, pieces)
    begin = first + bisect_left(
        range(first, last), True, key=lambda number: _is_near_the_end(journal, number)
    )
    segment, offset = journal.locate(begin)
    left = BYTES_MAX
    while left > 0:
        buffer = bytearray(min(left, max(segment.size - offset, 0)))
        try:
            count = segment.read(offset, memoryview(buffer), False) if buffer else 0
        except OSError:  # the disk must be read, which would hold up the broker; or it fails
            break
        if count:
            pieces.append(bytes(memoryview(buffer)[:count]))
        left -= count
        following = segment.following
        if following is None:
            break
        segment, offset = following, following.start
    return NewestRecords(journal.salt, first, last, pieces)


def _is_near_the_end(journal: ReadableJournal, number: int) -> bool:
    """True if what begins at this number, or shortly before it, has `BYTES_MAX` at most."""
    segment, offset = journal.locate(number)
    left = BYTES_MAX
    while (left := left - (segment.size - offset)) >= 0:
        following = segment.following
        if following is None:
            return True
        segment, offset = following, following.start
    return False


def subjects_page(taken: NewestRecords) -> dict[str, Any]:
    """/recentz: the busiest subjects, each with its messages and their bytes."""
    messages: Counter[bytes] = Counter()
    sizes: Counter[bytes] = Counter()
    first = last = 0
    for piece in taken.pieces:
        walk = Walk(taken.salt, False)
        walk.attach(piece, 0, len(piece))
        while walk.next() == RECORD:
            if walk.number < taken.first or walk.number > taken.last:
                continue
            first = first or walk.number
            last = walk.number
            subject = piece[walk.subject : walk.subject + walk.subject_size]
            messages[subject] += 1
            sizes[subject] += walk.size
    return {
        "first": first,
        "last": last,
        "newest": taken.last,
        "messages": messages.total(),
        "num_subjects": len(messages),
        "subjects": [
            {"subject": subject.decode("utf-8", "replace"), "msgs": count, "bytes": sizes[subject]}
            for subject, count in messages.most_common(SUBJECTS_MAX)
        ],
    }
