"""`SEQ`, the stream of everything: every number that a broker has given, and its message.

It is always there, and nobody makes, changes or deletes it. Its messages are the journal's: those
that retention has left. So it needs no reading at a start, and no entry for a subject; its ledger
follows the journal while it has consumers, and is set when somebody asks otherwise. What a list of
subjects is needed for, it does not have: `last_per_subject`, and counts of subjects.
"""

import time

from broker.dataplane.ledger import SubjectTotal
from broker.streams.stream_config import EVERYTHING, StreamConfig
from broker.streams.stream_view import Stream
from sequencer.journal.store import Store

ABOUT = "every numbered message, in the one order of all streams"


class WholeOrder(Stream):
    """The stream of everything of one journal."""

    is_whole = True

    def __init__(self, journal: Store, version: str) -> None:
        config = StreamConfig(
            name=EVERYTHING,
            subjects=(">",),
            description=ABOUT,
            no_ack=True,
            duplicate_window=0,
            allow_direct=True,
            deny_delete=True,
            deny_purge=True,
        )
        created = journal.oldest_time or time.time_ns()
        super().__init__(config.with_versions(version), created, 1, SubjectTotal(0))
        self.ledger.is_whole = True
        self.followers = 0  # consumers for which its ledger follows the journal
        self._journal = journal

    def look(self) -> None:
        """Set the ledger to what the journal has now. What was numbered must be released."""
        journal = self._journal
        if journal.first > journal.last:
            self.ledger.set_whole(0, 0, journal.last, journal.newest_time, 0)
        else:
            self.ledger.set_whole(
                *(journal.first, journal.oldest_time),
                *(journal.last, journal.newest_time, journal.bytes),
            )

    def subjects_of(self, pattern: bytes) -> list[bytes]:
        """Return none: its subjects are not listed."""
        return []
