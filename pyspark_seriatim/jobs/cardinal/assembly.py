"""Assembles Cardinal messages: each batch becomes one version of the tables.

    messages -> fold -> files of the tables -> snapshot -> commit of the version -> Spark's commit

Rule 1  Blocks, updates, reorgs, events and the name of the snapshot are in one version of one
        `FileLog`: they appear together, or not at all.
Rule 2  A new job continues after the last version, wherever the old one was stopped. Files of an
        uncommitted version are not in the log, and are deleted. A repeated batch is recognised by
        its id, and repeated messages of the fold by their numbers.
Rule 3  A contradiction between the checkpoint and the tables is an error, before anything is
        written.

Memory: that of the fold, and one batch of messages in Arrow.
"""

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from cardinal.follower import ChainFollower
from cardinal.schema import REORG_TOPIC, Tracking
from cardinal.transport.envelope import prefix_of
from pyspark_seriatim.jobs.cardinal import snapshot
from pyspark_seriatim.jobs.cardinal.cardinal_tables import LatestBlocks, Tables, Writer
from pyspark_seriatim.jobs.cardinal.fold import COLUMNS, EventRow, Fold, FoldOutcome
from pyspark_seriatim.jobs.errors import JobError
from pyspark_seriatim.jobs.filelog.filelog import Change, FileLog
from pyspark_seriatim.jobs.filelog.versions import FOLDER

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

STATES: Final = f"{FOLDER}/state"
KEEP_SECONDS: Final = 3600.0  # how long a reader of replaced files may take
VACUUM_EVERY: Final = 20  # versions
LINES_MAX: Final = 20  # how many events of a batch are printed; the table has all
SUBJECTS_MAX: Final = 64  # the broker's limit for one filter


class Engine(StrEnum):
    """The engine that assembles blocks from messages."""

    FOLD = "fold"
    STATE = "state"


@dataclass(frozen=True, slots=True)
class AssemblyOptions:
    """The options of an assembly: the application, the place, and how."""

    application: str
    root: str
    server: str
    tracking: Tracking | None
    engine: Engine
    threshold: int
    keep: float = KEEP_SECONDS
    access: Mapping[str, str] = field(default_factory=dict)  # options of the data source

    @property
    def prefix(self) -> str:
        """The prefix of the subjects."""
        return prefix_of(self.application)

    @property
    def subjects(self) -> str:
        """The subjects to read: the tracked topics, and the channels of reorgs."""
        if self.tracking is None:
            return f"{self.prefix}>"
        topics = (*self.tracking.topics, f"{REORG_TOPIC}.>")
        if len(topics) > SUBJECTS_MAX:
            return f"{self.prefix}>"
        return ",".join(f"{self.prefix}{topic}" for topic in topics)

    def settings(self) -> dict[str, Any]:
        """The settings that must not change while the tables grow."""
        tracking = self.tracking
        return {
            "application": self.application,
            "engine": self.engine.value,
            "topics": None if tracking is None else sorted(tracking.topics),
            "track": tracking and tracking.patterns and sorted(tracking.patterns),
        }


class Assembly:
    """The handler of batch after batch, for `foreachBatch`. One writer of one root."""

    def __init__(self, wanted: AssemblyOptions, journal: str) -> None:
        """`journal` is the id of the broker's journal. Raises `JobError`, `FileLogError`."""
        self.wanted = wanted
        self.log = FileLog.open(wanted.root)
        self.error: Exception | None = None  # of the last batch
        self.fold = Fold(ChainFollower(), journal, wanted.prefix)
        self._writer = Writer(self.log)
        self._settings = wanted.settings() | {"journal": journal}
        self._resumed = ""  # the snapshot from which the fold has resumed
        self._resume()

    @property
    def first_offset(self) -> str:
        """The offset where a new checkpoint must begin, in the form the source takes."""
        if not self.fold.next:
            return "earliest"
        return json.dumps({"journal": self._settings["journal"], "sequence": self.fold.next})

    def source(self, messages: "DataFrame") -> "DataFrame":
        """The input of `foreachBatch`, made from the messages."""
        if self.wanted.engine is Engine.FOLD:
            return messages.select(*COLUMNS)
        from pyspark_seriatim.jobs.cardinal import state

        wanted = self.wanted
        return state.assembled(messages, wanted.prefix, wanted.tracking, self._settings["journal"])

    def __call__(self, rows: "DataFrame", batch: int) -> None:
        """Handle a batch from `foreachBatch`."""
        try:
            query = rows.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
            self.batch(rows.toArrow, query or "", batch)
        except Exception as error:
            self.error = error
            raise

    def batch(self, rows: Callable[[], pa.Table], query: str, batch: int) -> None:
        """Make a version of a query's batch, unless there is one already."""
        change = self.log.begin_change(query, batch)
        if change is None:
            if self.wanted.engine is Engine.STATE:
                rows()  # known to the tables, but only computed rows update Spark's state
            return
        try:
            self._expect(query, batch)
            self._resume()
            outcome = self._taken(rows())
            self._write(change, outcome)
        except BaseException:
            change.abandon()
            self._resumed = ""  # the fold is ahead of the tables
            raise
        _print(outcome.events)

    def _taken(self, rows: pa.Table) -> FoldOutcome:
        stored = LatestBlocks(self.log)
        if self.wanted.engine is Engine.FOLD:
            return self.fold.fold_batch(rows, stored)
        from pyspark_seriatim.jobs.cardinal import state

        return self.fold.take_whole(state.whole_of(rows, self.fold.source), stored)

    def _write(self, change: Change, outcome: FoldOutcome) -> None:
        head = self.fold.follower.chain.number
        stable = (head or 0) - self.wanted.threshold
        self._writer.write(change, outcome, stable)
        place, before = self.log.place, self._resumed
        path = f"{STATES}/{self.fold.next:020}-{change.id}"
        place.make(STATES)
        data = snapshot.dump(self._settings, self.fold.parts())
        place.create(path, data, place.relative(change.directory))
        about = self._settings | {"state": path, "next": self.fold.next, "head": head}
        change.fact("cardinal", about)
        version = change.commit()
        self._resumed = path
        self._sweep(path, before)  # a job that starts meanwhile may still read the previous one
        if version % VACUUM_EVERY == 0:
            self.log.vacuum(self.wanted.keep)

    def _sweep(self, *kept: str) -> None:
        """Delete the snapshots of no version, or of one that is no longer needed."""
        ours = f"{self.fold.next:020}"
        for name in self.log.place.names(STATES):
            if name[: len(ours)] <= ours and f"{STATES}/{name}" not in kept:
                self.log.place.delete(f"{STATES}/{name}")

    def _expect(self, query: str, batch: int) -> None:
        """Raise `JobError` if Spark is ahead of the tables."""
        last = self.log.batch(query)
        known = Tables(self.log).about
        if batch > (-1 if last is None else last) + 1:
            raise JobError(
                f"Spark's checkpoint is at batch {batch}, but the tables in {self.wanted.root} are "
                f"not: they were rolled back, or belong to another checkpoint. {self._anew()}"
            )
        if last is None and known and self.wanted.engine is Engine.STATE:
            raise JobError(
                f"the tables in {self.wanted.root} belong to another checkpoint, which has the "
                "incomplete blocks: give that one, or assemble again into another directory"
            )

    def _anew(self) -> str:
        if self.wanted.engine is Engine.STATE:
            return "Assemble again, into another directory"
        return "Delete the checkpoint: the tables record where to continue"

    def _resume(self) -> None:
        """Resume after the last version, unless the fold is there already."""
        about = Tables(self.log).about
        path = about.get("state", "-")
        if path == self._resumed:
            return
        if not about and self.log.facts:
            raise JobError(
                f"{self.wanted.root} belongs to something else, such as an archive; give"
                " another one for the tables"
            )
        # Nothing is held back, because that would depend on where a batch ends.
        wanted = self.wanted
        follower = ChainFollower(wanted.tracking, threshold=wanted.threshold, hold=False)
        self.fold = Fold(follower, self._settings["journal"], self.wanted.prefix)
        if about:
            self._compare(about)
            data = self.log.place.read(path)
            where = self.log.place.uri(path)
            if data is None:
                raise JobError(f"{where} is missing, so the job cannot continue")
            try:
                _, parts = snapshot.load(data)
            except snapshot.UnreadableSnapshot as error:
                raise JobError(f"{where}: {error}") from error
            self.fold.resume(parts)
            self.fold.follower.chain.threshold = self.wanted.threshold
            self._sweep(path)
        self._resumed = path

    def _compare(self, about: dict[str, Any]) -> None:
        """Raise `JobError` if the tables were made with other settings."""
        for name, option in (
            ("application", "APPLICATION"),
            ("engine", "--engine"),
            ("topics", "--schema, --track"),
            ("track", "--track"),
            ("journal", "--server: the broker's journal"),
        ):
            if about[name] != self._settings[name]:
                raise JobError(
                    f"{option}: the tables in {self.wanted.root} were made of "
                    f"{_words(about[name])}, not of {_words(self._settings[name])}; give "
                    "another directory"
                )


def _words(setting: Any) -> str:
    return "everything" if setting is None else str(setting)


def _print(events: Sequence[EventRow]) -> None:
    for one in events[:LINES_MAX]:
        print(f"seriatim: {one.kind}: {one.text}", file=sys.stderr)
    if len(events) > LINES_MAX:
        more = len(events) - LINES_MAX
        print(f"seriatim: and {more} more; the table events has them all", file=sys.stderr)
