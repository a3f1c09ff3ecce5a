"""A limit on the memory of reads and surveys together; cursors wait for it.

    reads     a quarter: the chunks of `$SEQ.READ`, and answers that clients have not taken yet
    surveys   the rest: subjects found for `$SEQ.LAST`, and the messages to play for them

When half of the reads' part is in use, chunks are short, so that clients that take nothing leave
room for others. A survey without room takes it from those that can start again: first from those
that have finished but not played everything yet, then from surveys that began later. So the oldest
survey always continues; the others start again when there is room, in turn.
"""

from collections.abc import Callable, Iterable

from broker.dataplane.connection import Connection
from broker.replay.cursor import Cursor
from broker.replay.queues import CursorQueue
from sequencer.journal.columns import Collector

READS_PART = 4
SHORT = 1 << 18  # a chunk when memory is short: one buffer of records, so any usual message
GATHERED = 3  # memory per byte of a chunk: its columns, which double, and the filter's subjects
ANSWERED = 2  # memory per byte of an answer in an outbox, whose buffer doubles
BASE = 1 << 14  # memory of a reading cursor, besides its chunk
FREED = 1 << 13  # subjects freed in one turn, at least
MARGIN = 1 << 20  # memory that one step of a survey may need


class SurveyCursor(Cursor):
    """A cursor with a survey: it can release its results, and start again."""

    __slots__ = ("age", "surveying")

    def __init__(self, connection: Connection, age: int) -> None:
        super().__init__(connection, 0)
        self.age = age  # lower is older
        self.surveying = False

    def release_memory(self) -> None:
        """Release all memory; the next step starts again."""
        raise NotImplementedError


class MemoryPart:
    """One part of the memory: the cursors that use it, and those that wait for it."""

    def __init__(self, size: int, wake: Callable[[Cursor], None]) -> None:
        self.size = size
        self.used = 0
        self.waiting = CursorQueue()
        self._wake = wake
        self._held: dict[Cursor, int] = {}
        self._called: Cursor | None = None  # the cursor whose turn it is to try

    def held(self, cursor: Cursor) -> int:
        """Return how much one cursor holds."""
        return self._held.get(cursor, 0)

    def hold(self, cursor: Cursor, size: int) -> None:
        """Set how much the cursor holds; if that is less than before, a waiting one may try."""
        before = self._held.pop(cursor, 0)
        if size:
            self._held[cursor] = size
        self.used += size - before
        if size:
            self.pass_on(cursor)
        if size < before:
            self._call()

    def has_turn(self, cursor: Cursor) -> bool:
        """True if no other cursor has waited longer."""
        return cursor is self._called or not (self.waiting or self._called)

    def release(self, cursor: Cursor) -> None:
        """Release the memory of a cursor that has ended."""
        self.hold(cursor, 0)
        self.pass_on(cursor)

    def pass_on(self, cursor: Cursor) -> None:
        """Pass this cursor's turn to the next one, if it has the turn."""
        if cursor is self._called:
            self._called = None
            self._call()

    def _call(self) -> None:
        if self._called is None and self.waiting:
            self._called = self.waiting.pop()
            self._wake(self._called)

    def wait(self, cursor: Cursor) -> None:
        """Wait until memory is released."""
        if cursor is self._called:
            self._called = None
        self.waiting.put(cursor)


class ReadMemory(MemoryPart):
    """The memory of reads, and the last read's collector, kept for the next chunk.

    Its arrays have grown, and its filter knows subjects: a new collector would be slower.
    """

    def __init__(self, size: int, wake: Callable[[Cursor], None]) -> None:
        super().__init__(size, wake)
        self._spare: tuple[int, Cursor | None, Collector] | None = None

    def keep(self, size: int, read: Cursor, collector: Collector) -> None:
        """Keep a collector for chunks of this size; only a short one, because it is not counted."""
        if size <= SHORT:
            self._spare = size, read, collector

    def reuse(self, size: int, read: Cursor) -> tuple[Collector | None, bool]:
        """Return a collector for chunks of this size, and True if this read used it last."""
        spare, self._spare = self._spare, None
        if spare is None or spare[0] != size:
            return None, False
        return spare[2], spare[1] is read

    def free_collector(self, read: Cursor) -> None:
        """Free the kept collector of a read that has ended, for the next read."""
        if self._spare is not None and self._spare[1] is read:
            size, _, collector = self._spare
            collector.start_range(1, 1, None)
            self._spare = size, None, collector

    def grant(self, read: Cursor, wanted: int, need: int) -> int:
        """Return how long a chunk the read may gather, at least `need`; 0: it must wait."""
        chunk = wanted if self.used <= self.size // 2 else min(wanted, SHORT)
        chunk = max(chunk, need)
        if self.has_turn(read):
            short = max(min(wanted, SHORT), need)
            for size in (chunk, short):
                cost = GATHERED * size + BASE
                alone = self.used == 0 and size == short  # a single read can always continue
                if self.used + cost <= self.size or alone:
                    self.hold(read, cost)
                    return size
        self.wait(read)
        return 0

    def slow(self, parked: Iterable[Cursor], before: float) -> set[Connection]:
        """Return the clients that have taken nothing since `before`, if others wait for memory."""
        if not self.waiting:
            return set()
        return {one.connection for one in parked if self.held(one) and one.parked_at < before}


class SurveyMemory(MemoryPart):
    """The memory of surveys."""

    def __init__(self, size: int, wake: Callable[[Cursor], None]) -> None:
        super().__init__(size, wake)
        self.thrown_away: list[dict[bytes, int]] = []

    def throw_away(self, found: list[dict[bytes, int]]) -> None:
        """Drop the results of a survey, to be freed by `tidy`: a million objects take time."""
        self.thrown_away += [part for part in found if part]

    def tidy(self) -> int:
        """Free some of the dropped results; return how many entries."""
        count = 0
        while self.thrown_away and count < FREED:
            count += len(self.thrown_away.pop())
        return count

    def extend(self, survey: SurveyCursor, size: int) -> bool:
        """Let a survey hold `size` in all; False: it now holds nothing, and waits or is refused."""
        before = self.held(survey)
        if before == 0 and not self.has_turn(survey):
            self.wait(survey)
            return False
        need = size - before - (self.size - self.used)
        if need > 0:
            others = [
                one for one in self._held if one is not survey and isinstance(one, SurveyCursor)
            ]
            need = self._reclaim(survey, others, need)
            if need > 0:
                survey.release_memory()
                if any(self.held(one) for one in others):
                    self.wait(survey)
                return False
        self.hold(survey, size)
        return True

    def _reclaim(self, survey: SurveyCursor, others: list[SurveyCursor], need: int) -> int:
        """Make other surveys release memory; return how much is still needed."""
        found = [one for one in others if not one.surveying]
        younger = [one for one in others if one.surveying and one.age > survey.age]
        younger.sort(key=lambda one: -one.age)
        for one in (*found, *younger):
            if need <= 0:
                break
            need -= self.held(one)
            one.release_memory()
        return need


class Memory:
    """The memory of reads and of surveys. One per broker."""

    def __init__(self, size: int, wake: Callable[[Cursor], None]) -> None:
        self.reads = ReadMemory(size // READS_PART, wake)
        self.surveys = SurveyMemory(size - size // READS_PART, wake)

    def limit(self, size: int) -> None:
        """Set how much there is; memory in use above that stays until it is released."""
        self.reads.size = size // READS_PART
        self.surveys.size = size - size // READS_PART

    def pass_on(self, cursor: Cursor) -> None:
        """Pass the turns of a cursor whose socket takes no more to the next ones."""
        self.reads.pass_on(cursor)
        self.surveys.pass_on(cursor)

    @property
    def used(self) -> int:
        """The bytes in use."""
        return self.reads.used + self.surveys.used
