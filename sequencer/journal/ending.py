"""Finds where a segment is to be cut: where the record of a number ends.

Only the records from the last mark before it are read, so a cut of a long segment is quick.
Without a good index, or where records are damaged, the segment is read from its start.
"""

import os
from typing import Final, NamedTuple

from sequencer.journal.errors import Damage
from sequencer.journal.index import Marks
from sequencer.journal.layout import BAD, RECORD
from sequencer.journal.record import Walk
from sequencer.journal.segment import Segment
from sequencer.journal.survey import Survey

CHUNK: Final = 1 << 20


class Place(NamedTuple):
    """The position where a segment is to end, and what it contains up to there."""

    number: int  # of the last record before it
    offset: int
    oldest: int  # the time of the first record
    newest: int  # and of the last one
    marks: Marks
    damage: list[Damage] | None  # found in the segment; None: nothing new


def end_of(segment: Segment, number: int, salt: int) -> Place:
    """Find the end of the record of `number`, or of the last good one before it. May be OSError."""
    marks = segment.own_marks()
    fd = os.open(segment.file, os.O_RDONLY | os.O_CLOEXEC)
    try:
        found = None
        if marks is not None:
            found = _walk_to(fd, marks.before_number(number), number, salt)
        if found is not None and marks is not None:
            offset, time = found
            return Place(number, offset, segment.oldest, time, marks.until(offset), None)
        size = min(segment.size, os.fstat(fd).st_size)
        survey = Survey(fd, salt, segment.first, size, limit=number + 1).run()
    finally:
        os.close(fd)
    damage = list(survey.damage)
    if survey.last < number:
        damage.append(Damage(segment.first, survey.end, survey.end, survey.last + 1, number))
    times = (survey.first_time, survey.last_time)
    return Place(survey.last, survey.end, *times, survey.marks, damage)


def _walk_to(fd: int, offset: int, number: int, salt: int) -> tuple[int, int] | None:
    """Walk from `offset` to the record of `number`; return its end and time, None if not found."""
    walk = Walk(salt)
    want = CHUNK
    while True:
        data = os.pread(fd, want, offset)
        walk.begin(data, 0, len(data))
        while (state := walk.next()) == RECORD:
            if walk.number >= number:
                return (offset + walk.after, walk.time) if walk.number == number else None
        if state == BAD or len(data) < want:
            return None
        want = CHUNK if walk.at else 2 * want
        offset += walk.at
