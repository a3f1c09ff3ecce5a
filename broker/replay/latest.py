"""`$SEQ.LAST`: the last message of every matching subject, in number order.

    survey   all segments of the journal, newest to oldest: the highest number of every subject.
             If a sealed segment has a subject index (sequencer/journal/subject_index.py), the index
             is read instead. Any other is read into a table first (subject_table.py), or if it has
             too many subjects, record by record. Ends early if the filter is a single subject
    sort     the numbers that were found, a part at a time
    play     these messages, and then, like a Replay, the later ones

Memory (replay/memory.py): during the survey, about 130 bytes per subject plus the subject; then 16
bytes per message. It may have to release this and start again; messages that were already played
are not played twice. A survey does not need the socket: it continues while its client reads
nothing.
"""

import heapq
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import islice, takewhile
from typing import TYPE_CHECKING

from broker.dataplane.outcomes import BAD, ENDED, FULL, MORE
from broker.dataplane.ownership import connection_of
from broker.replay.cursor import Replay, unlink
from broker.replay.memory import MARGIN, SurveyCursor
from parser.errors import ReplayRefused
from sequencer.journal import chunk
from sequencer.journal.layout import RECORD
from sequencer.journal.protocols import ReadableJournal, SegmentView
from sequencer.journal.record import Walk
from sequencer.journal.subject_index import SubjectIndex
from sequencer.journal.subject_table import SubjectTable
from sublist.pattern_set import hears
from sublist.subject import has_wildcard
from sublist.subscription import Subscription

if TYPE_CHECKING:
    from broker.replay.replays import Replays

PARTS = 1024  # tables of found subjects: each is small enough to grow, and to be sorted, quickly
SUBJECT = 130  # bytes that a subject takes besides its text: an entry, two objects
PICK = 16
OFFSET_BITS = 40  # of a position in a segment; the number is in the bits above
OFFSET = (1 << OFFSET_BITS) - 1
WORK = 192  # cost of looking at one record, in bytes consumed: about 2 us
AT_ONCE = 1024  # records looked at, sorted, or played in one step
LOST_AT_ONCE = 256


class Latest(SurveyCursor):
    """The cursor of a subscription that begins with the last messages."""

    __slots__ = (
        *("_crowded", "_everything", "_fixed", "_found", "_head", "_literal", "_merging"),
        *("_pick", "_picks", "_plain", "_played", "_segments", "_size", "_sorted", "_table"),
        *("_unreadable", "_walk", "replays", "sub"),
    )

    def __init__(self, replays: "Replays", sub: Subscription) -> None:
        super().__init__(connection_of(sub), age=replays.started)
        self.replays = replays
        self.sub = sub
        sub.replay = self
        self._head = replays.journal.last
        self._walk = Walk(replays.journal.salt, False)
        self._literal = not has_wildcard(sub.subject)
        self._fixed = fixed_part(sub.subject)
        self._played = 0  # all picks up to this number were played
        self._found: list[dict[bytes, int]] = []  # by subject: its highest number, and the position
        self._sorted: list[tuple[array[int], array[int]]] = []  # numbers and positions
        self._size = 0
        self._picks: Iterator[tuple[int, int]] | None = None
        self._pick: tuple[int, int] | None = None  # the next one to play
        self._everything: list[SegmentView] = []  # all segments, oldest first
        self._segments: list[SegmentView] = []  # those not surveyed yet
        self._unreadable = False  # the rest of the current segment cannot be surveyed
        self._plain: SegmentView | None = None  # the segment whose subject index is damaged
        self._table: SubjectTable | None = None  # of the current segment, while that is read
        self._merging: Iterator[tuple[bytes, int, int]] | None = None  # what is left of it
        self._crowded: SegmentView | None = None  # the segment that a table has no room for

    @property
    def needs_socket(self) -> bool:
        return not self.surveying

    def ready(self) -> bool:
        surveys = self.replays.memory.surveys
        if self._picks is not None:
            return True
        if not self.surveying:
            if not surveys.extend(self, MARGIN):
                return self._is_refused()
            self._begin()
        if self._merging is not None:
            self._merge(self._merging)
            self.replays.step_again(self)
            return False
        if not self._segments:
            self._sort()
            self.replays.step_again(self)
            return False
        return surveys.extend(self, self._size + self._table_size + MARGIN) or self._is_refused()

    def release_memory(self) -> None:
        """Release all memory; the next step starts again."""
        self.surveying = False
        self.replays.memory.surveys.throw_away(self._found)
        self._found, self._sorted, self._picks, self._pick = [], [], None, None
        self._table = self._merging = None
        self.replays.memory.surveys.hold(self, 0)

    def play(self, buffer: bytearray, stop: int) -> int:
        return self._survey(buffer, stop) if self._picks is None else self._play(buffer, stop)

    def locate(self, journal: ReadableJournal) -> tuple[SegmentView, int]:
        if self._picks is None:
            if self._segments and (self._unreadable or self._segments[-1].gone):
                if self._table is not None and not self._segments[-1].gone:
                    self._note_all(self._table.entries_as_they_are())
                self._next_segment()  # the segment was not entered, or was left
            if self._segments:
                return self._open_segment()
        else:
            for _ in range(LOST_AT_ONCE):
                if self._pick is None:
                    break
                segment = self._segment_of(self._pick[0])
                if not segment.gone:
                    return segment, self._pick[1]
                self._lose_pick()
        return journal.locate(self._head)  # nothing needs to be read here

    def onward(self) -> tuple[SegmentView, int] | None:
        if self._picks is None:
            if self._table is not None:
                self._merging = self._table.entries_as_they_are()
                return None
            self._next_segment()
            return self.locate(self.replays.journal) if self._segments else None
        return self.locate(self.replays.journal) if self._pick is not None else None

    def report_lost(self, first: int, last: int) -> None:
        """Ignore losses in the survey; they are reported when the messages are played."""
        if self._pick is not None:
            self._lose_pick()
        elif self._segments and isinstance(self._segments[-1], SubjectIndex):
            self._leave_index(self._segments[-1])
        else:
            self._unreadable = True  # unless `_survey` continues in it

    def is_done(self) -> bool:
        if self.sub.owner is None:
            return True
        self.number = 0  # so that damage is not reported as a loss from here
        if self._picks is None or self._pick is not None:
            return False
        onward = Replay(self.replays, self.sub, self._head + 1)
        onward.asked, onward.asked_at = self.asked, self.asked_at
        self.replays.start_cursor(onward)
        return True

    def reached_head(self, number: int) -> bool:
        return False

    def free(self) -> None:
        self.release_memory()
        self.replays.memory.surveys.release(self)
        self._everything, self._segments = [], []
        unlink(self.sub, self)

    def _is_refused(self) -> bool:
        """Refuse the subscription, unless the cursor waits for memory; return False.

        A cursor that does not wait is the only one, and needs more memory than there is.
        """
        if self.queue is None:
            why = b"more subjects match than limits.answers_pending has room for"
            error = ReplayRefused(b"$SEQ.LAST." + self.sub.subject, why)
            self.replays.plane.send_control(self.connection, error.reply)
            self.replays.conclude(self.sub)
        return False

    # The survey

    def _begin(self) -> None:
        self.replays.withdraw(self)
        self.surveying = True
        self._found = [{} for _ in range(1 if self._literal else PARTS)]
        self._size = 0
        self._unreadable = False
        self._table = self._merging = None
        self._everything = list(self.replays.journal.segments())
        self._segments = self._everything[:]
        while self._segments and (self._segments[-1].first > self._head or self._segments[-1].gone):
            self._segments.pop()

    def _next_segment(self) -> None:
        """Go to the next older segment that may contain a wanted message."""
        self._segments.pop()  # the newest; they are ordered oldest first
        self._unreadable = False
        self._table = self._merging = None
        while self._segments and self._segments[-1].gone:
            self._segments.pop()
        found = self._literal and self._found[0]
        if self._segments and (found or self._segments[-1].last <= self._played):
            self._segments = []

    def _open_segment(self) -> tuple[SegmentView, int]:
        """Return where to read the current segment: its subject index, or else all of it."""
        segment = self._segments[-1]
        if segment.last <= self._head and segment is not self._plain:
            index = self.replays.indexes.of(segment)
            if index is not None:
                self._segments[-1] = index
                return index, index.block_of(self._fixed)
        if segment is not self._crowded:
            self._table = SubjectTable(segment.first, self.sub.subject if self._literal else None)
        return segment, segment.start

    def _leave_index(self, index: SubjectIndex) -> None:
        """Read the segment itself, because its index is damaged or cannot be read."""
        self._segments[-1] = self._plain = index.segment
        self.replays.indexes.forget(index.segment)

    def _survey_index(self, index: SubjectIndex, buffer: bytearray, stop: int) -> int:
        """Survey the blocks of a subject index that are in this buffer."""
        fixed, at, looked_at = self._fixed, 0, 0
        with memoryview(buffer) as view:
            while at < stop and looked_at < AT_ONCE:
                end = index.end_of_block(self.offset + at) - self.offset
                if end > stop > at > 0:
                    break
                entries = index.entries(self.offset + at, view[at:end])
                if entries is None:
                    self._leave_index(index)
                    return self._turn_to_segment()
                at = end
                looked_at += len(entries)
                for subject, number, offset in entries:
                    if subject >= fixed:
                        self._note(subject, number << OFFSET_BITS | offset)
                last = entries[-1][0]
                if last >= fixed and (self._literal or not last.startswith(fixed)):
                    self.work += WORK * looked_at
                    self._next_segment()
                    return self._turn_to_segment()
        self.work += WORK * looked_at
        self.outcome = MORE
        return at

    def _turn_to_segment(self) -> int:
        """Move to the segment that is now the current one."""
        self.outcome = FULL
        if self._segments:
            self.replays.move(self)
        return 0

    def _note(self, subject: bytes, pick: int) -> None:
        """Note the last known message of a subject; ignore older and unwanted ones."""
        part = self._found[hash(subject) % len(self._found)]
        known = part.get(subject)
        if known is None:
            if pick >> OFFSET_BITS <= self._played or not hears(self.sub, subject):
                return
            self._size += SUBJECT + len(subject)
        elif known > pick:
            return  # a later message is known already
        part[subject] = pick

    def _survey(self, buffer: bytearray, stop: int) -> int:
        if not self._segments:
            self.outcome = FULL
            return 0
        if isinstance(self.segment, SubjectIndex):
            return self._survey_index(self.segment, buffer, stop)
        self._unreadable = False
        if self._table is not None:
            return self._tabulate(self._table, buffer, stop)
        walk, offset, head, played = self._walk, self.offset, self._head, self._played
        looked_at = 0
        walk.attach(buffer, 0, stop)
        while (outcome := walk.skim()) == RECORD and looked_at < AT_ONCE:
            looked_at += 1
            number = walk.number
            if not played < number <= head:
                continue
            subject = bytes(buffer[walk.subject : walk.subject + walk.subject_size])
            self._note(subject, number << OFFSET_BITS | offset + walk.at)
        self.work += WORK * looked_at
        self.outcome = BAD if outcome == BAD else MORE
        return walk.at

    def _tabulate(self, table: SubjectTable, buffer: bytearray, stop: int) -> int:
        """Take the records of this buffer into the table of their segment."""
        walk, base, segment = self._walk, self.offset, self._segments[-1]
        last = min(segment.last, self._head)
        walk.attach(buffer, 0, stop)
        while (state := table.add_records(walk, base, last)) == chunk.GAP:
            table.skip(walk.number)
            walk.attach(buffer, max(table.end - base, 0), stop)
        if table.full:
            self._table, self._crowded = None, segment
            return self._turn_to_segment()
        if state == chunk.END:
            self._merging = table.entries_as_they_are()
            self.outcome = FULL
            return 0
        self.outcome = BAD if state == BAD else MORE
        return max(table.end - base, 0)

    @property
    def _table_size(self) -> int:
        """The memory of the table, as `limits.answers_pending` counts it."""
        table = self._table
        return 0 if table is None else SUBJECT * len(table) + table.text

    def _merge(self, entries: Iterator[tuple[bytes, int, int]]) -> None:
        """Note some of the entries of the table; after the last, leave its segment."""
        some = list(islice(entries, AT_ONCE))
        self._note_all(some)
        self.work += WORK * len(some)
        if len(some) < AT_ONCE:
            self._next_segment()
            self.replays.withdraw(self)

    def _note_all(self, entries: Iterable[tuple[bytes, int, int]]) -> None:
        for subject, number, offset in entries:
            self._note(subject, number << OFFSET_BITS | offset)

    def _sort(self) -> None:
        """Sort the next part of the found numbers; after the last part, get ready to play."""
        count = 0
        while self._found and count < AT_ONCE:
            picks = sorted(self._found.pop().values())
            if picks:  # a step may sort several parts: each is small
                numbers = array("Q", [pick >> OFFSET_BITS for pick in picks])
                self._sorted.append((numbers, array("Q", [pick & OFFSET for pick in picks])))
                count += len(picks)
        self.work += WORK * count
        if not self._found:
            self.surveying = False
            self._picks = heapq.merge(*(zip(*part, strict=True) for part in self._sorted))
            self._pick = next(self._picks, None)
            self.replays.withdraw(self)
            size = PICK * sum(len(numbers) for numbers, _ in self._sorted)
            self.replays.memory.surveys.hold(self, size)

    # The picks: the messages that were found

    def _segment_of(self, number: int) -> SegmentView:
        if self.segment is not None and self.segment.first <= number <= self.segment.last:
            return self.segment
        index = bisect_right(self._everything, number, key=lambda segment: segment.first)
        return self._everything[max(index - 1, 0)]

    def _next_pick(self) -> None:
        assert self._picks is not None, "the survey is over"
        assert self._pick is not None, "there is one"
        self._played = self._pick[0]
        self._pick = next(self._picks, None)

    def _lose_pick(self) -> None:
        """Report the next pick as lost: it was deleted, or cannot be read."""
        assert self._pick is not None, "there is one"
        number = self._pick[0]
        self._next_pick()
        self.replays.tell(self.sub, b"$SEQ.LOST.%d.%d" % (number, number), number)

    def _play(self, buffer: bytearray, stop: int) -> int:
        """Play the picks that are in this buffer."""
        replay_writer = self.replays.replay_writer
        at = 0
        for _ in range(AT_ONCE):
            if self._pick is None:
                self.outcome = ENDED
                return at
            number, offset = self._pick
            self.work += WORK
            if self._segment_of(number) is not self.segment or not 0 <= offset - self.offset < stop:
                self.outcome = FULL
                self.replays.move(self)
                return 0
            at = offset - self.offset
            at = replay_writer.play(self.connection, self.sub, number, number, 0, buffer, at, stop)
            # Cut by the end of the buffer?
            if replay_writer.outcome == MORE and replay_writer.number == number:
                self.outcome = MORE
                return at
            if replay_writer.outcome == BAD:
                self._lose_pick()
            elif replay_writer.outcome not in (MORE, ENDED):
                self.outcome = replay_writer.outcome
                return at
            else:
                self.replays.count_wait(self)
                self._next_pick()
        self.outcome = FULL
        return at


def fixed_part(pattern: bytes) -> bytes:
    """Return the prefix of all subjects that a pattern matches: `orders.` of `orders.*.eu`."""
    tokens = pattern.split(b".")
    fixed = list(takewhile(lambda token: token not in (b"*", b">"), tokens))
    return b"".join(token + b"." for token in fixed) if len(fixed) < len(tokens) else pattern
