"""`$SEQ.LAST`: the last message of every matching subject, in number order.

    survey   all pieces of the journal, newest to oldest: the highest number of every subject.
             If a sealed segment has a subject index (sequencer/journal/subject_index.py), the index
             is read instead. Ends early if the filter is a single subject
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
from collections.abc import Iterator
from itertools import takewhile
from typing import TYPE_CHECKING

from broker.dataplane.outcomes import BAD, ENDED, FULL, MORE
from broker.dataplane.ownership import connection_of
from broker.replay.cursor import Replay, unlink
from broker.replay.memory import MARGIN, SurveyCursor
from parser.errors import ReplayRefused
from sequencer.journal.faces import Piece, ReadableJournal
from sequencer.journal.layout import RECORD
from sequencer.journal.record import Walk
from sequencer.journal.subject_index import SubjectIndex, read_subjects
from sublist.pattern_set import hears
from sublist.subject import has_wildcard
from sublist.subscription import Subscription

if TYPE_CHECKING:
    from broker.replay.replays import Replays

PARTS = 1024  # tables of found subjects: each is small enough to grow, and to be sorted, quickly
SUBJECT = 130  # bytes that a subject takes besides its text: an entry, two objects
PICK = 16
PLACE_BITS = 40  # of a position in a piece; the number is in the bits above
PLACE = (1 << PLACE_BITS) - 1
WORK = 192  # cost of looking at one record, in bytes consumed: about 2 us
AT_ONCE = 1024  # records looked at, sorted, or played in one step
LOST_AT_ONCE = 256


class Latest(SurveyCursor):
    """The cursor of a subscription that begins with the last messages."""

    __slots__ = (
        *("_fixed", "_found", "_head", "_literal", "_pick", "_picks", "_pieces", "_places"),
        *("_plain", "_played", "_size", "_sorted", "_unreadable", "_walk", "replays", "sub"),
    )

    def __init__(self, replays: "Replays", sub: Subscription) -> None:
        super().__init__(connection_of(sub), age=replays.started)
        self.replays = replays
        self.sub = sub
        sub.replay = self
        self._head = replays.journal.last
        self._walk = Walk(replays.journal.salt, replays.journal.checked)
        self._literal = not has_wildcard(sub.subject)
        self._fixed = fixed_part(sub.subject)
        self._played = 0  # all picks up to this number were played
        self._found: list[dict[bytes, int]] = []  # by subject: its highest number, and the position
        self._sorted: list[tuple[array[int], array[int]]] = []  # numbers and positions
        self._size = 0
        self._picks: Iterator[tuple[int, int]] | None = None
        self._pick: tuple[int, int] | None = None  # the next one to play
        self._places: list[Piece] = []  # all pieces, oldest first
        self._pieces: list[Piece] = []  # those not surveyed yet
        self._unreadable = False  # the rest of the current piece cannot be surveyed
        self._plain: Piece | None = None  # the piece whose subject index is damaged

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
        if not self._pieces:
            self._sort()
            self.replays.go_on(self)
            return False
        return surveys.extend(self, self._size + MARGIN) or self._is_refused()

    def forget(self) -> None:
        """Release all memory; the next step starts again."""
        self.surveying = False
        self.replays.memory.surveys.throw_away(self._found)
        self._found, self._sorted, self._picks, self._pick = [], [], None, None
        self.replays.memory.surveys.hold(self, 0)

    def play(self, buffer: bytearray, stop: int) -> int:
        return self._survey(buffer, stop) if self._picks is None else self._play(buffer, stop)

    def place(self, journal: ReadableJournal) -> tuple[Piece, int]:
        if self._picks is None:
            if self._pieces and (self._unreadable or self._pieces[-1].gone):
                self._take_piece()  # the piece was not entered, or was left
            if self._pieces:
                return self._open_piece()
        else:
            for _ in range(LOST_AT_ONCE):
                if self._pick is None:
                    break
                piece = self._piece_of(self._pick[0])
                if not piece.gone:
                    return piece, self._pick[1]
                self._lose_pick()
        return journal.locate(self._head)  # nothing needs to be read here

    def onward(self) -> tuple[Piece, int] | None:
        if self._picks is None:
            self._take_piece()
            return self.place(self.replays.journal) if self._pieces else None
        return self.place(self.replays.journal) if self._pick is not None else None

    def lose(self, first: int, last: int) -> None:
        """Ignore losses in the survey; they are reported when the messages are played."""
        if self._pick is not None:
            self._lose_pick()
        elif self._pieces and isinstance(self._pieces[-1], SubjectIndex):
            self._leave_index(self._pieces[-1])
        else:
            self._unreadable = True  # unless `_survey` continues in it

    def is_done(self) -> bool:
        if self.sub.owner is None:
            return True
        self.number = 0  # so that damage is not reported as a loss from here
        if self._picks is None or self._pick is not None:
            return False
        onward = Replay(self.replays, self.sub, self._head + 1)
        onward.asked = self.asked
        self.replays.begin(onward)
        return True

    def at_head(self, number: int) -> bool:
        return False

    def free(self) -> None:
        self.forget()
        self.replays.memory.surveys.leave(self)
        self._places, self._pieces = [], []
        unlink(self.sub, self)

    def _is_refused(self) -> bool:
        """Refuse the subscription, unless the cursor waits for memory; return False.

        A cursor that does not wait is the only one, and needs more memory than there is.
        """
        if self.home is None:
            why = b"more subjects match than limits.answers_pending has room for"
            error = ReplayRefused(b"$SEQ.LAST." + self.sub.subject, why)
            self.replays.plane.say(self.connection, error.reply)
            self.replays.conclude(self.sub)
        return False

    # The survey

    def _begin(self) -> None:
        self.replays.withdraw(self)
        self.surveying = True
        self._found = [{} for _ in range(1 if self._literal else PARTS)]
        self._size = 0
        self._unreadable = False
        self._places = list(self.replays.journal.pieces())
        self._pieces = self._places[:]
        while self._pieces and (self._pieces[-1].first > self._head or self._pieces[-1].gone):
            self._pieces.pop()

    def _take_piece(self) -> None:
        """Go to the next older piece that may contain a wanted message."""
        self._pieces.pop()  # the newest; they are ordered oldest first
        self._unreadable = False
        while self._pieces and self._pieces[-1].gone:
            self._pieces.pop()
        found = self._literal and self._found[0]
        if self._pieces and (found or self._pieces[-1].last <= self._played):
            self._pieces = []

    def _open_piece(self) -> tuple[Piece, int]:
        """Return where to read the current piece: its subject index, or else all of it."""
        piece = self._pieces[-1]
        if piece.last <= self._head and piece is not self._plain:
            index = read_subjects(piece, self.replays.journal.id)
            if index is not None:
                self._pieces[-1] = index
                return index, index.block_of(self._fixed)
        return piece, piece.start

    def _leave_index(self, index: SubjectIndex) -> None:
        """Read the segment itself, because its index is damaged or cannot be read."""
        self._pieces[-1] = self._plain = index.segment

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
                    return self._turn_to_piece()
                at = end
                looked_at += len(entries)
                for subject, number, offset in entries:
                    if subject >= fixed:
                        self._note(subject, number << PLACE_BITS | offset)
                last = entries[-1][0]
                if last >= fixed and (self._literal or not last.startswith(fixed)):
                    self.work += WORK * looked_at
                    self._take_piece()
                    return self._turn_to_piece()
        self.work += WORK * looked_at
        self.outcome = MORE
        return at

    def _turn_to_piece(self) -> int:
        """Move to the piece that is now the current one."""
        self.outcome = FULL
        if self._pieces:
            self.replays.move(self)
        return 0

    def _note(self, subject: bytes, pick: int) -> None:
        """Note the last known message of a subject; ignore older and unwanted ones."""
        part = self._found[hash(subject) % len(self._found)]
        known = part.get(subject)
        if known is None:
            if pick >> PLACE_BITS <= self._played or not hears(self.sub, subject):
                return
            self._size += SUBJECT + len(subject)
        elif known > pick:
            return  # a later message is known already
        part[subject] = pick

    def _survey(self, buffer: bytearray, stop: int) -> int:
        if not self._pieces:
            self.outcome = FULL
            return 0
        if isinstance(self.piece, SubjectIndex):
            return self._survey_index(self.piece, buffer, stop)
        walk, offset, head, played = self._walk, self.offset, self._head, self._played
        self._unreadable = False
        looked_at = 0
        walk.begin(buffer, 0, stop)
        while (outcome := walk.skim()) == RECORD and looked_at < AT_ONCE:
            looked_at += 1
            number = walk.number
            if not played < number <= head:
                continue
            subject = bytes(buffer[walk.subject : walk.subject + walk.subject_size])
            self._note(subject, number << PLACE_BITS | offset + walk.at)
        self.work += WORK * looked_at
        self.outcome = BAD if outcome == BAD else MORE
        return walk.at

    def _sort(self) -> None:
        """Sort the next part of the found numbers; after the last part, get ready to play."""
        count = 0
        while self._found and count < AT_ONCE:
            picks = sorted(self._found.pop().values())
            if picks:  # a step may sort several parts: each is small
                numbers = array("Q", [pick >> PLACE_BITS for pick in picks])
                self._sorted.append((numbers, array("Q", [pick & PLACE for pick in picks])))
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

    def _piece_of(self, number: int) -> Piece:
        if self.piece is not None and self.piece.first <= number <= self.piece.last:
            return self.piece
        place = bisect_right(self._places, number, key=lambda piece: piece.first)
        return self._places[max(place - 1, 0)]

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
            if self._piece_of(number) is not self.piece or not 0 <= offset - self.offset < stop:
                self.outcome = FULL
                self.replays.move(self)
                return 0
            at = offset - self.offset
            at = replay_writer.play(self.connection, self.sub, number, number, 0, buffer, at, stop)
            if (
                replay_writer.outcome == MORE and replay_writer.number == number
            ):  # cut by the end of the buffer
                self.outcome = MORE
                return at
            if replay_writer.outcome == BAD:
                self._lose_pick()
            elif replay_writer.outcome not in (MORE, ENDED):
                self.outcome = replay_writer.outcome
                return at
            else:
                self._next_pick()
        self.outcome = FULL
        return at


def fixed_part(pattern: bytes) -> bytes:
    """Return the prefix of all subjects that a pattern matches: `orders.` of `orders.*.eu`."""
    tokens = pattern.split(b".")
    fixed = list(takewhile(lambda token: token not in (b"*", b">"), tokens))
    return b"".join(token + b"." for token in fixed) if len(fixed) < len(tokens) else pattern
