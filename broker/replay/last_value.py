"""`PUB $SEQ.LAST.<subject> <reply>`: the number of the last message of one subject.

The pieces of the journal are searched from the newest to the oldest, until one contains the
subject:

    a sealed segment with a subject index   one block of the index is read
    the newest piece                        its table, which is first brought up to date
    any other                               it is read through, for this subject

The tables of the newest piece, and of the previous newest, are kept and shared by all questions. So
each record is read at most once, by the first question after it, and publishing costs nothing.
Memory: a table is bounded (sequencer/journal/subject_table.py); with more subjects, the piece is
read through for each question.

The result is only a number: `answer` then reads the message, and sends it.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from broker.dataplane.connection import Connection
from broker.dataplane.outcomes import BAD, ENDED, FULL, MORE
from broker.replay.cursor import Cursor
from sequencer.journal import chunk
from sequencer.journal.faces import Piece, ReadableJournal
from sequencer.journal.record import Walk
from sequencer.journal.subject_index import SubjectIndex, read_subjects
from sequencer.journal.subject_table import SubjectTable

if TYPE_CHECKING:
    from broker.replay.replays import Replays

PIECES_AT_ONCE: Final = 16  # pieces searched in one step
LOOK_WORK: Final = 4096  # cost of one of them, in bytes consumed
ENTRY_WORK: Final = 32
TABLES: Final = 2


@dataclass(frozen=True, slots=True)
class LastRequest:
    """One question: the wanted subject, the subject of the request, and the reply subject."""

    wanted: bytes
    subject: bytes
    reply: bytes


class NewestTables:
    """The tables of the newest pieces, shared by all questions."""

    def __init__(self) -> None:
        self._tables: dict[Piece, SubjectTable] = {}

    def of(self, piece: Piece) -> SubjectTable | None:
        """Return the table of a piece that is the newest, or was; None for others."""
        table = self._tables.get(piece)
        if table is None and piece.following is None:
            for old in [one for one in self._tables if one.gone]:
                del self._tables[old]
            while len(self._tables) >= TABLES:
                del self._tables[next(iter(self._tables))]
            table = self._tables[piece] = SubjectTable(piece.first)
        return table


class LastValue(Cursor):
    """The cursor for the unanswered questions of one connection, in their order.

    `answer` is called with each question and the number that was found, 0 for none.
    """

    __slots__ = (
        *("_answer", "_astray", "_head", "_pieces", "_plain", "_replays", "_table", "_tables"),
        *("_target", "_walk", "wanted"),
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
        self._pieces: list[Piece] = []  # not searched yet, oldest first; empty: not begun
        self._table: SubjectTable | None = None  # of the current piece, if that is read
        self._target: tuple[Piece, int] | None = None  # where to read
        self._plain: Piece | None = None  # the piece whose subject index is damaged
        self._astray = False  # moved past a damaged record, to the next good one

    @property
    def needs_socket(self) -> bool:
        return False

    def ready(self) -> bool:
        """Search pieces until one must be read, or all questions are answered."""
        if self._astray:
            self._find_way()
        for _ in range(PIECES_AT_ONCE):
            if not self.wanted or self._is_to_be_read():
                break
        if self.wanted and self._target is not None:
            if self.piece is not self._target[0] or self.offset != self._target[1]:
                self._replays.withdraw(self)
            return True
        self._replays.go_on(self)
        return False

    def place(self, journal: ReadableJournal) -> tuple[Piece, int]:
        if self._target is not None and not self._target[0].gone:
            return self._target
        return journal.locate(journal.last)  # nothing needs to be read here

    def onward(self) -> tuple[Piece, int] | None:
        """Answer from the table, at the end of the piece: records that it lacks are lost."""
        self._look_in_table()
        return None

    def play(self, buffer: bytearray, stop: int) -> int:
        self.outcome = FULL
        if self._target is None or self.piece is not self._target[0]:
            if self._target is not None:  # it moved to another piece: the rest of this is damaged
                self._look_in_table()
            return 0
        if isinstance(self.piece, SubjectIndex):
            self._look_in_index(self.piece, buffer, stop)
            return 0
        return self._read(buffer, stop)

    def lose(self, first: int, last: int) -> None:
        """Note that the current piece, or a part of it, cannot be read."""
        target = self._target
        if target is not None and isinstance(target[0], SubjectIndex):
            self._leave_index(target[0])
        else:
            self._astray = True

    def is_done(self) -> bool:
        self.number = 0  # so that damage is not reported as a loss from here
        return not self.wanted

    def at_head(self, number: int) -> bool:
        return not self.wanted

    def free(self) -> None:
        self.wanted.clear()
        self._leave()

    # How a piece is searched

    def _is_to_be_read(self) -> bool:
        """Return True if the current piece must be read; if not, it was searched or skipped."""
        self.work += LOOK_WORK
        journal = self._replays.journal
        if not self._pieces:
            self._head = journal.last
            self._pieces = [one for one in journal.pieces() if one.first <= self._head]
        while self._pieces and self._pieces[-1].gone:
            self._pieces.pop()
            self._table = self._target = None
        if not self._pieces:
            self._conclude(0)
            return False
        piece = self._pieces[-1]
        if self._target is not None and isinstance(self._target[0], SubjectIndex):
            return True
        if self._table is None and self._open(piece):
            return True
        assert self._table is not None, "a piece without an index has a table"
        if self._table.next > min(piece.last, self._head):
            self._look_in_table()
            return False
        self._target = piece, max(self._table.end, piece.start)
        return True

    def _open(self, piece: Piece) -> bool:
        """Choose how to search a piece; return True for its index, False for a table."""
        if piece.last <= self._head and piece is not self._plain:
            index = read_subjects(piece, self._replays.journal.id)
            if index is not None:
                self._target = index, index.block_of(self.wanted[0].wanted)
                return True
        self._table = self._tables.of(piece)
        if self._table is None or self._table.full:
            self._table = SubjectTable(piece.first, self.wanted[0].wanted)
        return False

    def _look_in_index(self, index: SubjectIndex, buffer: bytearray, stop: int) -> None:
        end = index.end_of_block(self.offset) - self.offset
        with memoryview(buffer) as view:
            entries = index.entries(self.offset, view[:end]) if end <= stop else None
        if entries is None:
            self._leave_index(index)
            return
        self.work += ENTRY_WORK * len(entries)
        wanted = self.wanted[0].wanted
        found = next((number for subject, number, _ in entries if subject == wanted), 0)
        self._pass(found)

    def _leave_index(self, index: SubjectIndex) -> None:
        """Read the segment itself, because its index is damaged or cannot be read."""
        self._plain = index.segment
        self._leave()

    def _read(self, buffer: bytearray, stop: int) -> int:
        """Bring the table up to date with the records in the buffer."""
        table, walk, base = self._table, self._walk, self.offset
        assert table is not None, "this piece is read into it"
        last = min(self.reading.last, self._head)
        walk.begin(buffer, 0, stop)
        while (state := table.take(walk, base, last)) == chunk.GAP:
            table.skip(walk.number)
            walk.begin(buffer, table.end - base, stop)
        if state == chunk.END or (table.full and table is self._tables.of(self.reading)):
            self._table = self._table if state == chunk.END else None
            self._target = None
            return 0
        self.outcome = BAD if state == BAD else MORE
        self._target = self.reading, table.end
        return max(table.end - base, 0)

    def _look_in_table(self) -> None:
        """Search the table, which is complete for the current piece."""
        table = self._table
        found = table.find(self.wanted[0].wanted) if table is not None else None
        self._pass(0 if found is None else found[0])

    def _pass(self, found: int) -> None:
        """Leave the current piece: answer, or go to the piece before it."""
        self._leave()
        self._pieces.pop()
        if found or not self._pieces:
            self._conclude(found if found >= self._replays.journal.first else 0)

    def _leave(self) -> None:
        self._table = self._target = None
        self._astray = False
        self._replays.withdraw(self)

    def _find_way(self) -> None:
        """Continue after damage in the same piece, or search the table if the piece has ended."""
        self._astray = False
        if self._table is not None and self._target is not None:
            if self.piece is self._target[0]:
                self._table.go_on_at(self.offset)
            else:
                self._look_in_table()

    def _conclude(self, number: int) -> None:
        """Answer the first question, and begin the next."""
        self._pieces = []
        self._leave()
        self._answer(self.wanted.popleft(), number)
        self.outcome = ENDED
