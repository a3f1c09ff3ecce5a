"""`$SEQ.LAST`: the last message of every matching subject, in the order of their numbers.

First the survey: all pieces of the store from the newest to the oldest, each from its start,
noting the last record of every subject that no newer piece had. It ends early where the
filter is one subject. Then the picks are played, and what has come since; then it is live.

Memory: some 300 bytes a subject while it lasts, `SUBJECTS_MAX` subjects.
"""

from typing import TYPE_CHECKING, Any

from broker.cursor import Cursor, Replay, unlink
from broker.outcomes import BAD, ENDED, FULL, MORE
from sequencer.journal.layout import RECORD
from sequencer.journal.record import Walk
from sublist.subject import covers, has_wildcard
from sublist.subscription import Subscription

if TYPE_CHECKING:
    from broker.replays import Replays

SUBJECTS_MAX = 1 << 20  # as many as a client that asks for all of them can want at once


class Latest(Cursor):
    """One subscription that begins with the last messages."""

    __slots__ = (
        *("_found", "_head", "_newer", "_picks", "_pieces", "_unreadable", "_walk", "replays"),
        "sub",
    )

    def __init__(self, replays: "Replays", sub: Subscription) -> None:
        super().__init__(sub.owner, 0)
        self.replays = replays
        self.sub = sub
        sub.replay = self
        self._head = replays.store.last
        self._walk = Walk(replays.store.salt, replays.store.checked)
        self._found: dict[bytes, tuple[int, Any, int]] = {}  # number, piece, offset
        self._newer: set[bytes] = set()  # subjects found in pieces that are done
        self._picks: list[tuple[int, Any, int]] | None = None
        self._pieces = replays.store.pieces()
        self._unreadable = False  # the piece that is surveyed, or what is left of it
        self._take_piece()

    def play(self, store: bytearray, stop: int) -> int:
        return self._survey(store, stop) if self._picks is None else self._play(store, stop)

    def place(self, store: Any) -> tuple[Any, int]:
        if self._picks is None and (self._unreadable or self._pieces[-1].gone):
            self._newer.update(self._found)
            self._take_piece()  # it was not entered, or it was left
        if self._picks is None:
            return self._pieces[-1], self._pieces[-1].start
        while self._picks and self._picks[-1][1].gone:
            self._lose_pick()
        if not self._picks:
            place: tuple[Any, int] = store.locate(self._head)
            return place  # nothing is left: is_done comes next
        return self._picks[-1][1:]

    def onward(self) -> tuple[Any, int] | None:
        if self._picks is None:
            self._newer.update(self._found)
            self._take_piece()
        return self.place(self.replays.store) if self._picks is None or self._picks else None

    def lose(self, first: int, last: int) -> None:
        """What is damaged is told when it is played, not when it is surveyed."""
        if self._picks:
            self._lose_pick()
        else:
            self._unreadable = True  # as far as `_survey` does not go on in it

    def _lose_pick(self) -> None:
        """The next pick is not there any more, or cannot be read."""
        assert self._picks, "there is one"
        number = self._picks.pop()[0]
        self.replays.tell(self.sub, b"$SEQ.LOST.%d.%d" % (number, number))

    def is_done(self) -> bool:
        if self.sub.owner is None:
            return True
        self.number = 0  # be there damage: what it surveys or plays next is not told by that
        if self._picks is None or self._picks:
            return False
        self.replays.begin(Replay(self.replays, self.sub, self._head + 1))
        return True

    def at_head(self, number: int) -> bool:
        return False

    def free(self) -> None:
        unlink(self.sub, self)
        self._found, self._newer, self._picks, self._pieces = {}, set(), [], []

    def _take_piece(self) -> None:
        """Go to the next older piece; after the oldest, to the first pick."""
        literal = not has_wildcard(self.sub.subject)
        if self.piece is not None or self._unreadable:
            self._pieces.pop()  # the newest; they are from the oldest on
        self._unreadable = False
        while self._pieces and self._pieces[-1].gone:
            self._pieces.pop()
        if not self._pieces or (literal and self._found):
            self._picks = sorted(self._found.values(), key=lambda pick: -pick[0])
            self._found = {}
            self._newer = set()

    def _survey(self, store: bytearray, stop: int) -> int:
        walk, found, newer = self._walk, self._found, self._newer
        pattern, piece, offset, head = self.sub.subject, self.piece, self.offset, self._head
        self._unreadable = False
        walk.begin(store, 0, stop)
        while (outcome := walk.skim()) == RECORD:
            subject = bytes(store[walk.subject : walk.subject + walk.subject_size])
            known = subject in found
            if subject in newer or walk.number > head or not (known or covers(pattern, subject)):
                continue
            if not known and len(found) >= SUBJECTS_MAX:
                self.replays.plane.gate.cut(self.link)
                break
            found[subject] = (walk.number, piece, offset + walk.at)
        self.outcome = BAD if outcome == BAD else MORE
        return walk.at

    def _play(self, store: bytearray, stop: int) -> int:
        """Play the picks that are in this buffer."""
        player, picks = self.replays.player, self._picks
        assert picks is not None, "the survey is over"
        at = 0
        while picks:
            number, piece, offset = picks[-1]
            if piece is not self.piece or not 0 <= offset - self.offset < stop:
                self.outcome = FULL
                self.replays.move(self)
                return 0
            at = offset - self.offset
            at = player.play(self.link, self.sub, number, number, 0, store, at, stop)
            if player.outcome == MORE and player.number == number:  # cut by the buffer's end
                self.outcome = MORE
                return at
            if player.outcome == BAD:
                self._lose_pick()
                continue
            if player.outcome not in (MORE, ENDED):
                self.outcome = player.outcome
                return at
            picks.pop()
        self.outcome = ENDED
        return at
