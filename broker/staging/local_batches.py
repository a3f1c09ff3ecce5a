"""Batches of a broker that is alone: a cluster of one, with the rules of a cluster.

    StagingService -------> LocalBatches --> BatchCommits --> NoteState --> NoteFile
                   <-done--      |                '---------> StageFiles --> the plane
                                 '-- a turn: what is synced is committed; rows get numbers

BatchCommits (sequencer/replica/batches) judges, promises and finishes. Here is what drives it: a
turn after each event that it waits for. These are: a stage or a note is on the disk, a thread has
read rows, the journal is synced or has room again, slow subscribers have drained. One batch
publishes at a time, some milliseconds of it in one turn; then other clients are served.

    COMMIT --> PREPARE in the notes --synced--> rows get numbers, and are delivered at once
           --rows synced--> DONE in the notes --synced--> answered, stages deleted

Rule 1  Before the promise, a commit can be refused, and then nothing has happened. After it, the
        commit is carried out, by this broker or the next one: if the disk is full, it waits.
Rule 2  The promise is on the disk before the first row has a number; the rows before the DONE; and
        that before the stages are deleted. So after a crash at any point, the journal and the notes
        show what is missing.

After a start, the notes say which promises have no DONE, and the journal which of their rows are
there (`_find_rows`). It is read before anything is written to it. Requests in the meantime wait
until the stages are read, too. A power cut may lose the unsynced part of the journal, and that may
be more than the batch had published: then other messages get the numbers after the promised one
first. So the promise is written again, with the number that is the last one now.
"""

import asyncio
import logging
import os
import time
from collections.abc import Callable

from broker.core import Core
from broker.dataplane.staged_rows import Staged
from broker.runtime.clocks import steady_ns
from broker.settings.staging_settings import STAGING
from broker.staging.older_stores import take_older
from broker.staging.row_scan import rows_of
from broker.staging.stage_files import StageFiles
from broker.staging.staging_service import StagingService
from broker.storage.note_file import NoteFile, NoteWriter
from sequencer.journal.disk import remove, sync_folder
from sequencer.journal.store import Store
from sequencer.replica import member_messages as m
from sequencer.replica.batches.batch_commits import BatchCommits, RunningBatch
from sequencer.replica.coordinator_state import EpochState
from sequencer.replica.member_state import BrokerLogs
from sequencer.replica.notes.note_state import NoteState
from sequencer.replica.notes.queue_weights import QueueWeights

log = logging.getLogger("seriatim")


class NumberedLog:
    """The journal as batches see it: the numbers that were given, and how far they are synced."""

    def __init__(self, core: Core) -> None:
        self._core = core

    @property
    def first(self) -> int:
        return 1 if self._core.journal is None else self._core.journal.first

    @property
    def last(self) -> int:
        return self._core.plane.sequencer.number

    @property
    def synced(self) -> int:
        return self.last if self._core.keeper is None else self._core.keeper.synced


class LocalEpoch(EpochState):
    """The time since this broker has started; as a publisher, it can be held by subscribers."""

    def __init__(self, member: BrokerLogs, epoch: int, resume: Callable[[], None]) -> None:
        super().__init__(member, epoch)
        self.held_by = 0
        self._resume = resume

    @property
    def is_taking(self) -> bool:
        return super().is_taking and not self.held_by

    def resume(self) -> None:
        """Continue: no subscriber holds the rows any more."""
        self._resume()


class LocalBatches:
    """The batches of a broker that is alone, for its one thread. Made when one is first staged."""

    is_alone = True

    def __init__(self, core: Core) -> None:
        """Read what an earlier broker has promised. Raises `OSError` and `StoreError`."""
        journal, settings = core.journal, core.settings
        self._core = core
        self._loop = core.loop
        self._temporary = "" if isinstance(journal, Store) else _temporary_folder()
        folder = os.path.join(journal.path, STAGING) if isinstance(journal, Store) else ""
        self._folder = folder or self._temporary
        durable = isinstance(journal, Store) and settings.journal.sync != "never"
        staged = Staged(core.plane)
        self.files = StageFiles(self._folder, durable, settings, staged, core.claims, core.loop)
        self.notes = NoteFile(self._folder, durable)
        if self.notes.damage:
            log.error("Staging: %s: what it said of batches is lost", self.notes.damage)
        epoch = journal.epoch if isinstance(journal, Store) else 1
        self._older: list[str] = []  # files that the notes replace, once they are synced
        if isinstance(journal, Store):
            self._older = take_older(journal, self._folder, self.notes, epoch)
        self.state = BrokerLogs(NumberedLog(core), self.notes, core.plane.sequencer, durable)
        self.note_state = NoteState(self.state, self.files, QueueWeights())
        self.epoch = LocalEpoch(self.state, epoch, self.turn_soon)
        self.batches = BatchCommits(self.epoch, self.note_state, None, at_a_time=1)
        self.files.join(self.note_state, synced=self._stages_synced, wake=self.turn_soon)
        self.service = StagingService(
            self, core.plane, self.files, settings.staging, core.claims.may_use
        )
        self._waiting: list[m.MemberRequest] = []  # while stages are read
        self._writer = NoteWriter(self.notes, core.loop, self.turn_soon, self._not_written)
        self._awaited = 0  # the journal was asked to sync up to here
        self._awaits_room = False
        self._is_due = False
        self._stop: asyncio.Future[None] = core.loop.create_future()
        self.note_state.advance_commit(self.state.log.last, self.notes.synced)
        self.batches.take_over()
        if isinstance(journal, Store):
            self._find_rows(journal)
        self._beginning = core.loop.create_task(self._begin())

    # The beginning

    def _find_rows(self, journal: Store) -> None:
        """Find the rows of promises before anything changes the journal. Raises `OSError`."""
        running = {one.origin: one for one in self.batches.running.values()}
        after = min(self.batches.rows_after, journal.last)
        for origin, row, number in rows_of(journal, running.keys(), after):
            commit = running[origin]
            if not commit.spans and journal.first > after + 1:
                # Retention has deleted the rows before.
                commit.add(1, max(number + 1 - row, 1), row)
            else:
                commit.add(row, number, 1)

    async def _begin(self) -> None:
        """Read the stages, see what can be kept of the promises, and serve what has waited."""
        await self.files.load()
        for commit in list(self.batches.running.values()):
            self._take_on(commit)
        await self._writer.written()
        for file in self._older:
            remove(file)
        if self._older:
            sync_folder(self._folder)
        self.epoch.is_begun = True
        waiting, self._waiting = self._waiting, []
        for request in waiting:
            self.carry_out(request)
        self._turn()

    def _take_on(self, commit: RunningBatch) -> None:
        """Go on with a promise; without all of its stages, it was none, or cannot be kept."""
        fields = commit.note.fields
        name, batch = fields["application"], commit.batch
        missing = ""
        for word, size, crc in fields["stages"]:
            stage = self.files.stages.find((name, batch, word))
            if stage is None or (stage.bytes, stage.crc) != (size, crc):
                missing = f"stage {word} of it is damaged or missing"
        if missing and not commit.spans:
            log.warning("Staging: batch %d of %s was not promised: %s", batch, name, missing)
            for word, *_ in fields["stages"]:  # they were not checked: nothing may be added
                self.files.drop(name, batch, word)
            self.batches.void(commit)
        elif missing and commit.taken < commit.rows:
            self.batches.give_up(commit, missing)
            self._report()
        else:
            log.info("Staging: going on with batch %d of %s", batch, name)
            if fields["after"] > self.state.log.last:
                self.batches.promise_again(commit)

    # Requests and turns

    @property
    def committing(self) -> int:
        """The count of batches that are being committed."""
        return sum(not commit.problem for commit in self.batches.running.values())

    def carry_out(self, request: m.MemberRequest) -> None:
        """Carry out a request; it waits while the stages of an earlier broker are read."""
        if not self.epoch.is_begun:
            self._waiting.append(request)
            return
        self._set_time()
        self.batches.serve(request, 0)
        self._answer()
        self._await_events()

    def turn_soon(self) -> None:
        """Go on with the batches, after the other events of this turn of the loop."""
        if not self._is_due and not self._stop.done():
            self._is_due = True
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        self._is_due = False
        if self._stop.done() or not self.epoch.is_begun:
            return
        core, plane = self._core, self._core.plane
        self._set_time()
        self.note_state.advance_commit(plane.sequencer.written, self.notes.synced)
        self.batches.go_on()
        self._answer()
        plane.release(None)  # which writes the rows: only then their sync can be asked for
        self._await_events()
        core.advance()
        if plane.gate.crowded:
            core.hold(self.epoch)

    def _set_time(self) -> None:
        self.state.wall, self.state.steady = time.time_ns(), steady_ns()

    def _answer(self) -> None:
        """Answer what is done. Call `Gate.release` afterwards."""
        for action in self.state.take_actions():
            assert isinstance(action, m.Done), "there is no other member"
            self.service.done(action)
        self._report()

    def _await_events(self) -> None:
        """Ask for the events that the batches wait for."""
        keeper, awaited = self._core.keeper, self.batches.awaited
        if keeper is not None and awaited > self._awaited:
            self._awaited = awaited
            keeper.when_synced(awaited, self.turn_soon)
        is_full = self._core.plane.sequencer.full and bool(self.batches.running)
        if keeper is not None and is_full and not self._awaits_room:
            self._awaits_room = True
            keeper.when_roomy(self._has_room)
        self._writer.write_soon()

    def _stages_synced(self) -> None:
        self.batches.stages_synced()
        self.turn_soon()

    def _has_room(self) -> None:
        self._awaits_room = False
        self.turn_soon()

    def _report(self) -> None:
        if complaint := self.state.take_complaint():
            log.error("Staging: %s", complaint)

    def _not_written(self, why: str) -> None:
        """Refuse what was to be promised; what is done is written again."""
        if self.epoch.is_begun:
            self.batches.take_back(self.notes.synced, why)
            self._answer()
            self._core.plane.release(None)
            self.turn_soon()

    # Shutdown

    async def stop(self) -> None:
        """Stop between two turns. The next broker carries out the promised commits."""
        if self._stop.done():
            return
        self._stop.set_result(None)
        self._beginning.cancel()
        await asyncio.wait({self._beginning})
        await self.files.stop()
        await self._writer.stop()
        if self._temporary:
            import shutil

            shutil.rmtree(self._temporary, ignore_errors=True)


def _temporary_folder() -> str:
    import tempfile

    return tempfile.mkdtemp(prefix="seriatim-staging-")
