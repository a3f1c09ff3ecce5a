"""One stream: what it is, since when, and what was taken out of it."""

import asyncio
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from broker.dataplane.ledger import Ledger, SubjectTotal
from broker.streams.api_json import encode
from broker.streams.id_scopes import scope_of
from broker.streams.stream_config import StreamConfig
from sublist.subject import covers

if TYPE_CHECKING:
    from broker.streams.consumers import RunningConsumer

DELETED_MAX: Final = 100_000  # messages of one stream that were deleted one by one
EVERY: Final = ">"


class Stream:
    """A stream, and its ledger. `eras`: the subjects, and after which number they hold.

    `purged` are the rules that a start applies when it reads the journal again: what the filter
    matches is not visible below the number.
    """

    is_whole = False  # it is the stream of everything

    def __init__(self, config: StreamConfig, created: int, since: int, total: SubjectTotal) -> None:
        self.config = config
        self.created = created  # ns since 1970
        self.since = since
        self.eras: list[tuple[int, tuple[str, ...]]] = []
        self.purged: dict[str, int] = {}
        self.consumers: dict[str, RunningConsumer] = {}
        # Held while a consumer is made, changed, paused or deleted. It is taken before `lock`.
        self.changing = asyncio.Lock()
        self.is_settled = True  # all that the notes hide has been taken out
        self.lock = asyncio.Lock()  # held while something is taken out
        head = encode({"stream": config.name, "seq": 0})[:-2]
        self.ledger = Ledger(self, since, head, scope_of(config.name), total)
        self.set_eras([(since - 1, config.subjects)])
        self._tell_ledger()

    @property
    def name(self) -> str:
        """The stream's name."""
        return self.config.name

    def change(self, config: StreamConfig, after: int) -> None:
        """Take another configuration; its subjects hold for the numbers after this one."""
        if config.subjects != self.config.subjects:
            self.set_eras([*self.eras, (after, config.subjects)])
        self.config = config
        self._tell_ledger()

    def set_eras(self, eras: list[tuple[int, tuple[str, ...]]]) -> None:
        """Take which subjects hold after which number."""
        self.eras = eras
        self.ledger.belongs = self._had if len(eras) > 1 else None

    def _had(self, subject: bytes, number: int) -> bool:
        """True if a subject was the stream's when this number was given."""
        at = bisect_left(self.eras, number, key=lambda era: era[0]) - 1
        return any(covers(pattern.encode(), subject) for pattern in self.eras[max(at, 0)][1])

    def _tell_ledger(self) -> None:
        self.ledger.acknowledges = not self.config.no_ack
        self.ledger.window = self.config.duplicate_window

    def note_purge(self, filter: str, below: int) -> None:
        """Remember for a start what was purged; a wider filter includes narrower ones."""
        covered = [one for one, to in self.purged.items() if to <= below and is_within(one, filter)]
        for one in covered:
            del self.purged[one]
        self.purged[filter] = max(below, self.purged.get(filter, 0))

    def purge(self, filter: str) -> int:
        """Take all messages that a filter matches out of the ledger; return how many there were."""
        ledger = self.ledger
        if filter == EVERY:
            return ledger.clear()
        pattern = filter.encode()
        return sum(ledger.forget_subject(one) for one in self.subjects_of(pattern))

    def forget_below(self, number: int) -> None:
        """Forget the subjects whose messages are all below a number: the last were damaged."""
        ledger = self.ledger
        for subject in [one for one in ledger.entries if ledger.last_of(one) < number]:
            ledger.forget_subject(subject)

    def subjects_of(self, pattern: bytes) -> list[bytes]:
        """Return the subjects with visible messages that a pattern matches."""
        entries = self.ledger.entries
        if pattern == b">":
            return list(entries)
        if pattern in entries:
            return [pattern]
        return [one for one in entries if covers(pattern, one)]

    @contextmanager
    def taking_out(self) -> Iterator[None]:
        """Take something out: what is visible is unsettled until that is done."""
        was_settled, self.is_settled = self.is_settled, False
        yield
        self.is_settled = was_settled

    # What is on the disk

    def fields(self) -> dict[str, Any]:
        """Return the fields of its note."""
        return {
            "config": self.config.fields(),
            "created": self.created,
            "since": self.since,
            "eras": [[after, list(subjects)] for after, subjects in self.eras],
        }


def is_within(narrow: str, wide: str) -> bool:
    """True if a pattern matches all that another one does."""
    return wide in (EVERY, narrow) or covers(wide.encode(), narrow.encode())
