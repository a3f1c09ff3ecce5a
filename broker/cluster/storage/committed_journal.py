"""The journal as a member's clients may see it: only committed messages that were delivered."""

from sequencer.journal.protocols import SegmentView
from sequencer.journal.segment import Segment
from sequencer.journal.store import Store
from sequencer.sequencer import Sequencer


class CommittedJournal:
    """A ReadableJournal on a member's Store. `sequencer` counts the delivered messages."""

    checked = True

    def __init__(self, store: Store, sequencer: Sequencer) -> None:
        self.store = store
        self.sequencer = sequencer

    @property
    def id(self) -> str:
        return self.store.id

    @property
    def epoch(self) -> int:
        return self.store.epoch

    @property
    def salt(self) -> int:
        return self.store.salt

    @property
    def first(self) -> int:
        return min(self.store.first, self.last + 1)

    @property
    def last(self) -> int:
        return self.sequencer.number

    @property
    def bytes(self) -> int:
        return self.store.bytes

    @property
    def oldest_time(self) -> int:
        return self.store.oldest_time

    @property
    def newest_time(self) -> int:
        return self.store.newest_time  # maybe an uncommitted one's; no committed one is later

    def segments(self) -> list[Segment]:
        """The segments, oldest first; the newest may go beyond `last`."""
        return self.store.segments()

    def locate(self, number: int) -> tuple[Segment, int]:
        return self.store.locate(number)

    def locate_time(self, time_ns: int) -> tuple[Segment, int]:
        return self.store.locate_time(time_ns)

    def next_good(
        self, segment: SegmentView, offset: int, number: int
    ) -> tuple[Segment, int, int] | None:
        good = self.store.next_good(segment, offset, number)
        return good if good is not None and good[2] <= self.last else None
