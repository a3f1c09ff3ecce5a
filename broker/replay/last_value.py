"""`PUB $SEQ.LAST.<subject> <reply>`: the number of the last message of one subject.

The segments of the journal are searched from the newest to the oldest, until one contains the
subject:

    a sealed segment with a subject index   one block of the index is read
    the newest segment                        its table, which is first brought up to date
    any other                               it is read through, for this subject

The tables of the newest segment, and of the previous newest, are kept and shared by all questions.
So each record is read at most once, by the first question after it, and publishing costs nothing.
Memory: a table is bounded (sequencer/journal/subject_table.py); with more subjects, the segment is
read through for each question.

The result is only a number: `answer` then reads the message, and sends it.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from broker.dataplane.connection import Connection
from broker.dataplane.outcomes import BAD, ENDED, FULL, MORE
from broker.replay.cursor import BUFFER, Cursor
from sequencer.journal import chunk
from sequencer.journal.protocols import ReadableJournal, SegmentView
from sequencer.journal.record import Walk
from sequencer.journal.subject_index import Probe, SubjectIndex, probe_of
from sequencer.journal.subject_table import SubjectTable

if TYPE_CHECKING:
    from broker.replay.replays import Replays

PIECES_AT_ONCE: Final = 16  # pieces searched in one step
LOOK_WORK: Final = 4096  # cost of one of them, in bytes consumed
ENTRY_WORK: Final = 4096  # cost of reading a block
TABLES: Final = 2


@dataclass(frozen=True, slots=True)
class LastRequest:
    """One question: the wanted subject, the subject of the request, and the reply subject."""

    wanted: bytes
    subject: bytes
    reply: bytes


class NewestTables:
    """The tables of the newest segments, shared by all questions."""

    def __init__(self) -> None:
        self._tables: dict[SegmentView, SubjectTable] = {}

    def of(self, segment: SegmentView) -> SubjectTable | None:
        """Return the table of a segment that is the newest, or was; None for others."""
        table = self._tables.get(segment)
        if table is None and segment.following is None:
            for old in [one for one in self._tables if one.gone]:
                del self._tables[old]
            while len(self._tables) >= TABLES:
                del self._tables[next(iter(self._tables))]
            table = self._tables[segment] = SubjectTable(segment.first)
        return table


class LastValue(Cursor):
    """The cursor for the unanswered questions of one connection, in their order.

    `answer` is called with each question and the number that was found, 0 for none.
    """

    __slots__ = (
        *("_answer", "_astray", "_head", "_segments", "_plain", "_replays", "_table", "_tables"),
        *("_probe", "_target", "_walk", "wanted"),
    )

    def __init__(
        self,
        replays: "Replays",
        connection: Connection,
        tables: NewestTables,
        answer: Callable[[LastRequest, int], None],
    ) -> None:
        super().__init__(connection, 0)
        self.wanted: deque[LastRequest] = deque()
        self._replays = replays
        self._tables = tables
        self._answer = answer
        self._walk = Walk(replays.journal.salt, False)
        self._head = 0
        self._segments: list[SegmentView] = []  # not searched yet, oldest first; empty: not begun
        self._table: SubjectTable | None = None  # of the current segment, if that is read
        self._target: tuple[SegmentView, int] | None = None  # where to read
        self._plain: SegmentView | None = None  # the segment whose subject index is damaged
        self._astray = False  # moved past a damaged record, to the next good one
        self._probe: Probe = (0, 0)  # of the subject of the first question

    @property
    def span(self) -> int:
        target = self._target
        if target is not None and isinstance(target[0], SubjectIndex):
            return min(target[0].end_of_block(target[1]) - target[1], BUFFER)
        return BUFFER

    @property
    def needs_socket(self) -> bool:
        return False

    def ready(self) -> bool:
        """Search segments until one must be read, or all questions are answered."""
        if self._astray:
            self._find_way()
        for _ in range(PIECES_AT_ONCE):
            if not self.wanted or self._is_to_be_read():
                break
        if self.wanted and self._target is not None:
            if self.segment is not self._target[0] or self.offset != self._target[1]:
                self._replays.withdraw(self)
            return True
        self._replays.step_again(self)
        return False

    def locate(self, journal: ReadableJournal) -> tuple[SegmentView, int]:
        if self._target is not None and not self._target[0].gone:
            return self._target
        return journal.locate(journal.last)  # nothing needs to be read here

    def onward(self) -> tuple[SegmentView, int] | None:
        """Answer from the table, at the end of the segment: records that it lacks are lost."""
        self._look_in_table()
        return None

    def play(self, buffer: bytearray, stop: int) -> int:
        self.outcome = FULL
        if self._target is None or self.segment is not self._target[0]:
            if self._target is not None:  # it moved to another segment: the rest of this is damaged
                self._look_in_table()
            return 0
        if isinstance(self.segment, SubjectIndex):
            self._look_in_index(self.segment, buffer, stop)
            return 0
        return self._read(buffer, stop)

    def report_lost(self, first: int, last: int) -> None:
        """Note that the current segment, or a part of it, cannot be read."""
        target = self._target
        if target is not None and isinstance(target[0], SubjectIndex):
            self._leave_index(target[0])
        else:
            self._astray = True

    def is_done(self) -> bool:
        self.number = 0  # so that damage is not reported as a loss from here
        return not self.wanted

    def reached_head(self, number: int) -> bool:
        return not self.wanted

    def free(self) -> None:
        self.wanted.clear()
        self._leave()

    # How a segment is searched

    def _is_to_be_read(self) -> bool:
        """Return True if the current segment must be read; if not, it was searched or skipped."""
        self.work += LOOK_WORK
        journal = self._replays.journal
        if not self._segments:
            self._head = journal.last
            self._segments = [one for one in journal.segments() if one.first <= self._head]
            self._probe = probe_of(self.wanted[0].wanted)
        while self._segments and self._segments[-1].gone:
            self._segments.pop()
            self._table = self._target = None
        if not self._segments:
            self._conclude(0)
            return False
        segment = self._segments[-1]
        if self._target is not None and isinstance(self._target[0], SubjectIndex):
            return True
        if self._table is None and self._is_passed(segment):
            return False
        if self._table is None and self._open(segment):
            return True
        assert self._table is not None, "a segment without an index has a table"
        if self._table.next > min(segment.last, self._head):
            self._look_in_table()
            return False
        self._target = segment, max(self._table.end, segment.start)
        return True

    def _is_passed(self, segment: SegmentView) -> bool:
        """Pass a segment by if its index says that it has not the subject."""
        if segment.last > self._head or segment is self._plain or segment.following is None:
            return False
        index = self._replays.indexes.of(segment)
        if index is None or index.may_have(self._probe):
            return False
        self._pass(0)
        return True

    def _open(self, segment: SegmentView) -> bool:
        """Choose how to search a segment; return True for its index, False for a table."""
        if segment.last <= self._head and segment is not self._plain:
            index = self._replays.indexes.of(segment)
            if index is not None:
                self._target = index, index.block_of(self.wanted[0].wanted)
                return True
        self._table = self._tables.of(segment)
        if self._table is None or self._table.full:
            self._table = SubjectTable(segment.first, self.wanted[0].wanted)
        return False

    def _look_in_index(self, index: SubjectIndex, buffer: bytearray, stop: int) -> None:
        end = index.end_of_block(self.offset) - self.offset
        self.work += ENTRY_WORK
        found: int | None = None
        if end <= stop:
            with memoryview(buffer) as view:
                found = index.number_in(self.offset, view[:end], self.wanted[0].wanted)
        if found is None:
            self._leave_index(index)
        else:
            self._pass(found)

    def _leave_index(self, index: SubjectIndex) -> None:
        """Read the segment itself, because its index is damaged or cannot be read."""
        self._plain = index.segment
        self._replays.indexes.forget(index.segment)
        self._leave()

    def _read(self, buffer: bytearray, stop: int) -> int:
        """Bring the table up to date with the records in the buffer."""
        table, walk, base = self._table, self._walk, self.offset
        assert table is not None, "this segment is read into it"
        last = min(self.reading.last, self._head)
        walk.attach(buffer, 0, stop)
        while (state := table.add_records(walk, base, last)) == chunk.GAP:
            table.skip(walk.number)
            walk.attach(buffer, table.end - base, stop)
        if state == chunk.END or (table.full and table is self._tables.of(self.reading)):
            self._table = self._table if state == chunk.END else None
            self._target = None
            return 0
        self.outcome = BAD if state == BAD else MORE
        self._target = self.reading, table.end
        return max(table.end - base, 0)

    def _look_in_table(self) -> None:
        """Search the table, which is complete for the current segment."""
        table = self._table
        found = table.find(self.wanted[0].wanted) if table is not None else None
        self._pass(0 if found is None else found[0])

    def _pass(self, found: int) -> None:
        """Leave the current segment: answer, or go to the segment before it."""
        self._leave()
        self._segments.pop()
        if found or not self._segments:
            self._conclude(found if found >= self._replays.journal.first else 0)

    def _leave(self) -> None:
        self._table = self._target = None
        self._astray = False
        self._replays.withdraw(self)

    def _find_way(self) -> None:
        """Continue after damage in the same segment, or search the table if that has ended."""
        self._astray = False
        if self._table is not None and self._target is not None:
            if self.segment is self._target[0]:
                self._table.go_on_at(self.offset)
            else:
                self._look_in_table()

    def _conclude(self, number: int) -> None:
        """Answer the first question, and begin the next."""
        self._segments = []
        self._leave()
        self._answer(self.wanted.popleft(), number)
        self.outcome = ENDED
