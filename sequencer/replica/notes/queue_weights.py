"""Queue groups that span members: which member's subscribers take number n.

Each member says how many takers it has for (pattern, group). The coordinator writes what changes
into the second log, as GROUPS notes with `after`: in force for the numbers above it. For number n
the taker is a hash of n and the group over the weights in force, the same on every member. As in
NATS, a message whose taker dies goes to no other taker.

    GROUPS  {"after":57,"groups":[["orders.*","workers",{"<member>":2,"<another>":1}]]}

All members must know a note before they show a number above its `after`. So no number above it is
committed before the note is (`limit`), and no member shows committed numbers before it has the
committed notes (`NoteState.advance_commit`).
"""

from collections import deque
from typing import Any, Final

from sequencer.replica.group_draw import draw, seed_of
from sequencer.replica.member_messages import Note

GroupKey = tuple[str, str]  # pattern, queue group
Weights = dict[str, int]  # by member
NEVER: Final = (1 << 64) - 1


class QueueWeights:
    """The weights as one member knows them. Its driver asks for numbers in their order."""

    def __init__(self) -> None:
        self.newest: dict[GroupKey, Weights] = {}  # with all notes, also with those to come
        self.in_force: dict[GroupKey, Weights] = {}
        self._drawn: dict[GroupKey, tuple[int, int, list[tuple[str, int]]]] = {}  # of `in_force`
        self.since = 0  # weights for numbers up to here are forgotten: no member takes them
        self._notes: deque[Note] = deque()  # not in force yet

    def add(self, note: Note) -> None:
        """Add a GROUPS note that is in the log."""
        self._notes.append(note)
        _apply(self.newest, note)

    def reset_to(self, note: Note) -> None:
        """Begin again with a SNAPSHOT in the log: it has all changes of the notes before it.

        Known changes are applied again, with the same result.
        """
        history = [[after, list(groups)] for after, groups in note.fields.get("groups", ())]
        if note.fields["at"] == 0:
            self._notes.clear()
            self.newest = {key: dict(weights) for key, weights in self.in_force.items()}
        if history and note.fields["at"] == 0:
            first = history[0][1]
            there = {(pattern, group) for pattern, group, _ in first}
            first += [[*key, {}] for key in sorted(self.newest) if key not in there]
        self.since = max(self.since, note.fields.get("since", 0))
        for after, groups in history:
            self.add(note._replace(fields={"after": after, "groups": groups}))

    def forget_above(self, number: int) -> None:
        """Forget the notes above this one: they are cut. What is in force was committed."""
        while self._notes and self._notes[-1].number > number:
            self._notes.pop()
        self.newest = {key: dict(weights) for key, weights in self.in_force.items()}
        for note in self._notes:
            _apply(self.newest, note)

    def limit(self, note_watermark: int) -> int | None:
        """Return the number above which nothing may be committed before a note; None: no limit."""
        for note in self._notes:
            if note.number > note_watermark:
                return int(note.fields["after"])
        return None

    def newest_before(self, number: int) -> int:
        """Return the newest note that is committed if `number` is; 0: none that is not in force."""
        return max((one.number for one in self._notes if one.fields["after"] < number), default=0)

    @property
    def next_after(self) -> int:
        """The last number for which the weights in force hold."""
        return int(self._notes[0].fields["after"]) if self._notes else NEVER

    def begin_next(self) -> Note:
        """Put the next note into force: it is committed, and its numbers come."""
        note = self._notes.popleft()
        _apply(self.in_force, note)
        self._drawn.clear()
        return note

    def next_is_committed(self, note_watermark: int) -> bool:
        return bool(self._notes) and self._notes[0].number <= note_watermark

    def taker(self, number: int, key: GroupKey) -> str:
        """Return the member whose subscribers take this number; "" if none does."""
        while self.next_after < number:
            self.begin_next()
        if number <= self.since:
            return ""
        found = self._drawn.get(key)
        if found is None:
            weights = self.in_force.get(key)
            if not weights:
                return ""
            total, seed = sum(weights.values()), seed_of(key[1].encode("latin-1"))
            found = self._drawn[key] = seed, total, sorted(weights.items())
        seed, total, members = found
        point = draw(number, seed) % total
        for member, weight in members:
            point -= weight
            if point < 0:
                return member
        raise AssertionError("the point is among the weights")


def changes(now: dict[GroupKey, Weights], wanted: dict[GroupKey, Weights]) -> list[Any]:
    """Return the changes that a note must contain to turn `now` into `wanted`."""
    keys = [key for key in sorted(now.keys() | wanted.keys()) if now.get(key) != wanted.get(key)]
    return [[*key, wanted.get(key, {})] for key in keys]


def _apply(table: dict[GroupKey, Weights], note: Note) -> None:
    for pattern, group, weights in note.fields["groups"]:
        if weights:
            table[pattern, group] = dict(weights)
        else:
            table.pop((pattern, group), None)
