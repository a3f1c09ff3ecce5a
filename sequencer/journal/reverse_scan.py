"""Look into segments that are already written: for the next good record, or the newest ids.

Both check every record that they return. What retention deletes in the meantime is skipped.
"""

import os
from collections.abc import Iterator, Sequence
from typing import Final

from sequencer.journal.header import NUMBER_MAX, START
from sequencer.journal.layout import BAD, ID_FLAG, RECORD, SCOPE_FLAG, STREAM_FLAG
from sequencer.journal.record import Walk
from sequencer.journal.segment import Segment
from sequencer.journal.survey import Survey
from sequencer.journal.window_file import Progress, no_progress

CHUNK: Final = 4 << 20

# Number, time, the subject for which alone the id counts, headers, the subject in a stream.
Ids = tuple[int, int, bytes, bytes, bytes]


def next_good(
    segment: Segment, offset: int, number: int, last: int, salt: int
) -> tuple[Segment, int, int] | None:
    """Find the next good record after `offset` with this number or a later one, up to `last`."""
    found: Segment | None = segment
    while found is not None:
        limit = last + 1 if found.following is None else found.following.first
        if number < limit:
            try:
                fd = os.open(found.name_now(), os.O_RDONLY | os.O_CLOEXEC)
            except FileNotFoundError:
                fd = -1
            if fd >= 0:
                try:
                    survey = Survey(fd, salt, found.first, found.in_file, limit)
                    survey.begin_at(START, max(number, found.first))
                    at, _ = survey.next_good(offset)
                finally:
                    os.close(fd)
                if at:
                    return found, at, survey.walk.number
                if found.in_file < found.size and (good := _first_after(found, number, salt)):
                    return good
        found = found.following
        offset = START - 8  # the first record there counts too
    return None


def _first_after(segment: Segment, number: int, salt: int) -> tuple[Segment, int, int] | None:
    """Return the first record from this number on that is only in the window."""
    walk = Walk(salt)
    at = segment.in_file
    while at < segment.size:
        chunk = bytearray(min(CHUNK, segment.size - at))
        with memoryview(chunk) as view:
            try:
                got = segment.read(at, view, True)
            except OSError:  # the window is lost
                return None
        walk.attach(chunk, 0, got)
        while walk.next() == RECORD:
            if walk.number >= number:
                return segment, at + walk.at, walk.number
        if walk.at == 0:
            return None
        at += walk.at
    return None


def id_blocks(
    segments: Sequence[Segment], since: int, number: int
) -> Iterator[tuple[Segment, int, int]]:
    """Yield where records with a Nats-Msg-Id may be, newest first: segment, start, end."""
    for segment in reversed(segments):
        marks = segment.own_marks() if segment.has_ids else None
        if not segment.has_ids:
            pass
        elif marks is None:
            yield segment, START, segment.size
        else:
            for block in reversed(marks.id_blocks(segment.size)):
                yield segment, *block
        if segment.oldest and segment.oldest < since and segment.first < number:
            return


def recent_ids(
    segments: Sequence[Segment],
    since: int,
    most: int,
    salt: int,
    number: int = 1 << 63,
    progress: Progress = no_progress,
) -> Iterator[Ids]:
    """Yield the newest `most` records with a Nats-Msg-Id, in number order.

    Only those since time `since`, or from `number` on, count.
    """
    blocks: list[list[Ids]] = []
    count = 0
    for segment, start, end in id_blocks(segments, since, number):
        progress(f"reading message ids in {segment.file}", segment.size - start, segment.size)
        found, before = _ids_in(segment, start, end, (since, number), salt)
        blocks.append(found)
        count += len(found)
        if count >= most or before:
            break
    skip = count - most
    for block in reversed(blocks):
        for one in block:
            if skip <= 0:
                yield one
            skip -= 1


def _ids_in(
    segment: Segment, start: int, end: int, since: tuple[int, int], salt: int
) -> tuple[list[Ids], bool]:
    """Return the records with an id in a block, and whether the block begins before `since`."""
    time, number = since
    found: list[Ids] = []
    before = False
    walk = Walk(salt)
    last = segment.first - 1  # that was read
    chunk = bytearray(min(CHUNK, end - start))  # one: new memory costs as much as reading into it
    while start < end:
        with memoryview(chunk) as view:
            try:
                got = segment.read(start, view[: end - start], True)
            except OSError:
                break  # the keeper, or a reader, will meet the error too and report it
        walk.attach(chunk, 0, got)
        while (state := walk.next()) == RECORD:
            last = walk.number
            if walk.time < time and walk.number < number:
                before = True
            elif walk.flags & ID_FLAG:
                subject = bytes(chunk[walk.subject : walk.subject + walk.subject_size])
                scope = subject if walk.flags & SCOPE_FLAG else b""
                within = subject if walk.flags & STREAM_FLAG else b""
                headers = bytes(chunk[walk.body : walk.payload])
                found.append((walk.number, walk.time, scope, headers, within))
            if not walk.flags & ID_FLAG:
                walk.advance(NUMBER_MAX + 1, got)  # neither has any of these, nor is it older
                last = walk.number
        if state == BAD:  # damage: the ids after it count
            good = next_good(segment, start + walk.at, last + 1, segment.last, salt)
            if good is None or good[0] is not segment:
                break
            start = good[1]
            continue
        if walk.at == 0 and start + got >= end:
            break
        if walk.at == 0:
            chunk = bytearray(2 * len(chunk))
        start += walk.at
    return found, before
