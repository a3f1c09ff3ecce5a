"""Finds a number or a time in a row of segments. A place is a segment and an offset in it."""

from bisect import bisect_left, bisect_right

from sequencer.journal.header import START
from sequencer.journal.segment import Segment


def place_of(segments: list[Segment], number: int) -> tuple[Segment, int]:
    """A place at or before this number's record; for a deleted one, that of the first record."""
    place = bisect_right(segments, number, key=lambda segment: segment.first)
    segment = segments[max(place - 1, 0)]
    marks = segment.own_marks()
    return segment, START if marks is None else marks.before_number(number)


def place_of_time(segments: list[Segment], time_ns: int) -> tuple[Segment, int]:
    """A place at or before the first record of this time or later."""
    if segments[-1].size == START and len(segments) > 1:
        segments = segments[:-1]  # it is empty, so it has no time
    place = bisect_left(segments, time_ns, key=lambda segment: segment.oldest)
    segment = segments[max(place - 1, 0)]
    marks = segment.own_marks()
    return segment, START if marks is None else marks.before_time(time_ns)
