"""The stages of a broker on the disk: a `StageStore`.

    <store>/staging/<id>.stage      stages.py

A broker that is alone, or coordinates, judges each piece: its rows, its place, and its owner's
share of the room. The other members write the pieces that they are sent. Without room they drop the
stage that was idle for the longest time: if it is promised later, it is fetched again.

One thread syncs, reads and deletes files. A promised stage has been synced, and does not expire.
All others expire on each member separately.
"""

import asyncio
import errno
import logging
import os
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar

from broker.auth.application_claims import ApplicationClaims
from broker.dataplane.guard import Guard
from broker.dataplane.staged_rows import Staged
from broker.runtime.clocks import SteadyTime
from broker.settings.settings import Settings
from broker.staging.applications import Applications, CommittedBatch
from broker.staging.operations_asked import Named, Refusal, StagedPiece
from broker.staging.shares import NOBODY, Owner, Shares, owner_at
from broker.staging.stage_rows import StageRows
from broker.staging.stages import PROMISED, UNWANTED, WANTED, Stage, Stages, read_through
from sequencer.journal.disk import make_folder, remove, sync_file, sync_folder
from sequencer.message import Message
from sequencer.replica import member_messages as m
from sequencer.replica.batches.batch_commits import WAITING_MAX
from sequencer.replica.errors import StageRefused
from sequencer.replica.member_messages import Note
from sequencer.replica.notes.note_state import NoteState
from sequencer.replica.replicated_log import StageKey
from sequencer.replica.replicated_log import Stages as NamedStages

log = logging.getLogger("seriatim")

LOOKS: Final = 4  # checks within the time of an expiry
LOOK_MAX: Final = 60.0  # seconds between two checks
Result = TypeVar("Result")


class StageFiles:
    """The stages of one broker on the disk, for its one thread."""

    def __init__(
        self,
        folder: str,
        durable: bool,
        settings: Settings,
        staged: Staged,
        claims: ApplicationClaims,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        """Raises `OSError` if the folder cannot be made.

        `durable`: promised stages are synced. `staged` checks rows, and publishes them to its
        plane. `claims` knows the users' rights.
        """
        make_folder(folder)
        self.folder = folder
        self.rows_published = 0
        self._settings = settings.staging
        self._durable = durable
        self._claims = claims
        self._notes: NoteState | None = None
        self._synced: Callable[[], None]
        self._wake: Callable[[], None]
        self._loop = loop
        self._steady = SteadyTime()
        self._staged = staged
        limits = (settings.limits.max_control_line, settings.limits.max_payload)
        self.stages = Stages(folder, staged, limits, self._settings)
        self.applications = Applications(self._settings)
        self._commit_shares = Shares(WAITING_MAX, self._settings)
        self._committing: dict[str, Owner] = {}  # by application: whose commits count for a share
        self._lost: dict[StageKey, str] = {}  # stages that could not be synced, and why
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="staging")
        self._rows: dict[int, StageRows] = {}  # by origin
        self._timer: asyncio.TimerHandle | None = None
        self._displaced = (0, 0)  # stages and applications, as logged

    def join(self, notes: NoteState, synced: Callable[[], None], wake: Callable[[], None]) -> None:
        """Learn from `notes` what is promised; called once, before the first request.

        Call `synced` when stages are on the disk, or are lost; `wake` when rows can be published.
        """
        self._notes = notes
        self._synced, self._wake = synced, wake

    @property
    def _open(self) -> dict[int, Note]:
        """PREPAREs without a DONE, by origin."""
        return self._notes.open if self._notes is not None else {}

    def _promised(self) -> set[tuple[str, int]]:
        """Return the application and batch of each promise."""
        return {(one.fields["application"], one.fields["batch"]) for one in self._open.values()}

    # The beginning and the end

    async def load(self) -> None:
        """Read the stages that an earlier process left, before any request is served."""
        promised = {
            (note.fields["application"], note.fields["batch"], name)
            for note in self._open.values()
            for name, _, _ in note.fields["stages"]
        }

        def kind(key: StageKey) -> int:
            done = self.applications.last(key[0])
            if key in promised:
                return PROMISED
            return UNWANTED if done is not None and key[1] <= done.batch else WANTED

        try:
            files = list(self.stages.found())
        except OSError as error:
            log.error("Staging: %s: %s", self.folder, error.strerror)
            files = []
        for file in files:
            try:
                now = self._loop.time()
                self._delete(await read_through(self.stages, file, now, kind, self._run))
            except OSError as error:
                log.error("Staging: %s: %s", file, error.strerror)
        self._drop_expired()

    async def stop(self) -> None:
        """Close; nothing is called after this."""
        if self._timer is not None:
            self._timer.cancel()
        for rows in self._rows.values():
            rows.close()
        await self._loop.run_in_executor(None, self._thread.shutdown)

    # Pieces

    def size(self, key: StageKey) -> int:
        stage = self.stages.find(key)
        return stage.bytes if stage is not None else 0

    def facts(self, key: StageKey) -> dict[str, int]:
        """Return the answer to `$SEQ.STAGE`."""
        stage = self.stages.find(key)
        if stage is None:
            return {"bytes": 0, "rows": 0}
        return {"bytes": stage.bytes, "rows": stage.rows}

    def names(self, application: str, batch: int) -> list[str]:
        return [stage.key[2] for stage in self.stages.of(application, batch)]

    def stage(
        self,
        key: StageKey,
        offset: int,
        data: bytes | bytearray | memoryview,
        headers: dict[str, str],
    ) -> None:
        """Judge a piece, and write it. Raises `StageRefused`."""
        try:
            guard = self._guard_of(headers)
            if (known := self.stages.find(key)) is not None:
                self._check_rights([known])
            stage = self._append(key, offset, data, _owner(headers), guard)
        except Refusal as problem:
            raise StageRefused(problem.status, str(problem), problem.expected) from problem
        self._lost.pop(key, None)
        stage.judged[headers.get("user")] = guard

    def _guard_of(self, headers: dict[str, str]) -> Guard | None:
        """Return the guard of the piece's user, logged in at any member; None without users."""
        name = headers.get("user")
        if name is None:
            return None
        user = self._claims.user_named(name)
        if user is None:
            why = f"the coordinator has no user {name!a}: all members need the same users"
            raise Refusal(403, why)
        return user.guard

    def _check_rights(self, stages: Iterable[Stage]) -> None:
        """Drop stages whose user's rights have changed since. Raises `Refusal` if there are any."""
        has_still = self._claims.has_still
        late = [
            one
            for one in stages
            if not one.claimed and not all(has_still(*by) for by in one.judged.items())
        ]
        if late:
            self._forget(late)
            names = ", ".join(one.key[2] for one in late)
            raise Refusal(403, f"dropped stage {names}: its user has other rights now")

    def write(self, key: StageKey, offset: int, data: bytes | bytearray | memoryview) -> int:
        """Write a piece that the coordinator sent; return the stage's size. Raises `OSError`."""
        while True:
            try:
                self._append(key, offset, data, NOBODY, trusts=True)
            except Refusal as problem:
                if isinstance(problem.__cause__, OSError):
                    raise problem.__cause__ from None
                if problem.status in (413, 429):
                    self._make_room(key)
                    continue
                # There is a gap, or other bytes are here: a PREPARE will fetch the stage.
            return self.size(key)

    def _append(
        self,
        key: StageKey,
        offset: int,
        data: bytes | bytearray | memoryview,
        owner: Owner,
        guard: Guard | None = None,
        trusts: bool = False,
    ) -> Stage:
        buffer, now = data if isinstance(data, bytearray) else bytearray(data), self._loop.time()
        try:
            piece = StagedPiece(key, offset)
            return self.stages.append(piece, buffer, 0, len(buffer), now, owner, guard, trusts)
        finally:
            self._delete(self.stages.litter)
            self.stages.litter.clear()

    def _make_room(self, key: StageKey) -> None:
        """Drop the stage that was idle for the longest time. Raises `OSError`."""
        others = [one for one in self.stages if not one.claimed and one.key != key]
        if not others:
            raise OSError(errno.ENOSPC, "staging.max_bytes and max_stages leave no room")
        self._forget([min(others, key=lambda one: one.touched)])

    def read(self, key: StageKey, offset: int, most: int) -> bytes:
        """Read a part of a stage, for a member that lacks it; empty at its end."""
        stage = self.stages.find(key)
        if stage is None:
            return b""
        try:
            fd = os.open(stage.file, os.O_RDONLY | os.O_CLOEXEC)
            try:
                most = min(most, max(stage.bytes - offset, 0))
                return os.pread(fd, most, stage.head + offset)
            finally:
                os.close(fd)
        except OSError as error:
            log.error("Staging: %s: %s", stage.file, error.strerror)
            return b""

    # Promises

    def rows(self, application: str, batch: int, stages: NamedStages) -> int:
        """Count the rows of a commit. Raises `StageRefused`."""
        for name, *_ in stages:
            if (why := self._lost.get((application, batch, name), "")) and not self.size(
                (application, batch, name)
            ):
                raise StageRefused(m.FULL, f"the commit cannot be written to the disk: {why}")
        try:
            named = (self.stages.find((application, batch, name)) for name, *_ in stages)
            self._check_rights(one for one in named if one is not None)
            found = self.stages.named(application, batch, (Named(*one) for one in stages))
        except Refusal as problem:
            raise StageRefused(problem.status, str(problem)) from problem
        return sum(one.rows for one in found)

    def keep(self, application: str, batch: int, stages: NamedStages) -> bool:
        """Sync promised stages. False: some are missing, or not on the disk yet."""
        found, is_whole = [], True
        for name, size, crc in stages:
            stage = self.stages.find((application, batch, name))
            if stage is not None and (stage.bytes, stage.crc) == (size, crc):
                found.append(stage)
                continue
            is_whole = False
            if stage is not None and stage.bytes >= size:
                self._forget([stage])  # other bytes: it is fetched from its beginning
        for stage in found:
            stage.claimed = True
        if not self._durable:
            return is_whole
        late = [one for one in found if not (one.is_synced or one.is_syncing)]
        if late:
            for stage in late:
                stage.is_syncing = True
            self._loop.create_task(self._sync(late))
        return is_whole and all(one.is_synced for one in found)

    async def _sync(self, stages: list[Stage]) -> None:
        def work() -> None:
            for stage in stages:
                sync_file(stage.file)
            sync_folder(self.folder)

        try:
            await self._run(work)
        except OSError as error:
            # A failed sync may have lost data, so these stages must not be trusted.
            log.error("Staging: %s: %s", self.folder, error.strerror)
            self._lost |= {one.key: str(error.strerror) for one in stages}
            self._forget(stages)
        for stage in stages:
            stage.is_syncing = False
            stage.is_synced = stage.key not in self._lost
        self._synced()

    def publish(self, note: Note, row: int, most: int, take: Callable[[Message], int]) -> int:
        """Number rows of a promise. `take` is the sequencer's, which the plane calls."""
        rows = self._rows_of(note)
        count = rows.publish(row, most)
        self.rows_published += count
        if count:
            self._wake()  # they are written at the next flush
        return count

    def damage(self, note: Note) -> str:
        """Return why the rest of a promise's rows cannot be read; "" if it can."""
        return self._rows_of(note).damage

    def _rows_of(self, note: Note) -> StageRows:
        """Return the rows of a promise, which are read from now on."""
        fields = note.fields
        found = self._rows.get(fields["origin"])
        if found is None:
            names = [(fields["application"], fields["batch"], one[0]) for one in fields["stages"]]
            stages = [one for name in names if (one := self.stages.find(name)) is not None]
            found = StageRows(fields["origin"], stages, self._staged, self._run, self._wake)
            if len(stages) < len(names):
                found.damage = "a stage of it is damaged or missing"
            self._rows[fields["origin"]] = found
        return found

    def _close_rows(self, origin: int) -> None:
        rows = self._rows.pop(origin, None)
        if rows is not None:
            rows.close()

    # Applications

    def claim(self, application: str, headers: dict[str, str]) -> dict[str, Any]:
        """Reserve a place for an application, and for its commit. Raises `StageRefused`."""
        known, owner = self.applications, _owner(headers)
        self._end_share(application)
        try:
            if why := self._commit_shares.over(owner, 1):
                raise Refusal(429, f"too many commits wait: {why}")
            if known.last(application) is None:
                known.claim(application, owner)
        except Refusal as problem:
            self._unclaim(application)
            raise StageRefused(problem.status, str(problem)) from problem
        self._committing[application] = owner
        self._commit_shares.add(owner, 1)
        owned = {"address": known.address_of(application, owner)}
        instead = known.displaced_by(application)
        return owned | {"instead": instead} if instead else owned

    def disown(self, application: str) -> None:
        """Release the places: nothing was promised to the application."""
        self._end_share(application)
        self._unclaim(application)
        self.applications.disown(application)

    def committed(self, fields: dict[str, Any]) -> None:
        """Record the last batch of an application, and drop what is no longer needed."""
        done = CommittedBatch.of(fields)
        self._end_share(done.application)
        self.applications.replace(fields.get("instead", ""))
        self.applications.address_of(done.application, owner_at(done.address, 0))
        self.applications.add_committed(done)
        self._forget(self.stages.up_to(done.application, done.batch))
        self._close_rows(fields.get("origin", 0))

    def _unclaim(self, application: str) -> None:
        """Let the stages of an application be changed again: their commit is refused."""
        promised = self._promised()
        for stage in self.stages:
            if stage.key[0] == application and stage.key[:2] not in promised:
                stage.claimed = stage.is_syncing

    def _end_share(self, application: str) -> None:
        if (owner := self._committing.pop(application, None)) is not None:
            self._commit_shares.add(owner, -1)

    # Removal

    def drop(self, application: str, batch: int, name: str = "") -> None:
        """Remove one stage, or all stages of this batch and of earlier ones."""
        if not name:
            self._forget(self.stages.up_to(application, batch))
        elif (stage := self.stages.find((application, batch, name))) is not None:
            self._forget([stage])

    def _drop_expired(self) -> None:
        """Drop expired stages and applications; called regularly."""
        settings, now = self._settings, self._loop.time()
        promised = self._promised()
        for stage in self.stages:
            stage.claimed = stage.key[:2] in promised or stage.is_syncing
        for origin in [one for one in self._rows if one not in self._open]:
            self._close_rows(origin)
        for name in self._committing.keys() - {application for application, _ in promised}:
            self._end_share(name)
        self._delete(self.stages.expire(now - settings.expiry, now - settings.max_age))
        self._lost.clear()
        wall = self._steady.now() / 1e9  # not a clock that was set ahead
        before = (wall - settings.application_expiry, wall - settings.expiry)
        self.applications.drop_older(*(int(seconds * 1000) for seconds in before))
        if self._notes is not None:
            self._notes.forget_applications(self.applications.done)
        self._tell_displaced()
        pause = min(min(settings.expiry, settings.max_age) / LOOKS, LOOK_MAX)
        self._timer = self._loop.call_later(pause, self._drop_expired)

    def _tell_displaced(self) -> None:
        """Log that something was dropped for lack of room: one line since the last check."""
        before, dropped = self._displaced, (self.stages.displaced, self.applications.displaced)
        if dropped != before:
            self._displaced = dropped
            log.warning(
                "Staging: %d stages and %d publishers were dropped to make room for other"
                " addresses (staging.max_bytes, staging.max_stages, staging.max_applications)",
                *(dropped[0] - before[0], dropped[1] - before[1]),
            )

    def _forget(self, stages: list[Stage]) -> None:
        self._delete(self.stages.drop(stages))

    def _delete(self, files: list[str]) -> None:
        if files:
            self._thread.submit(_remove_all, list(files))

    async def settle(self) -> None:
        """Wait until the thread has done all that it was given, deletions too."""
        await self._run(lambda: None)

    def _run(self, work: Callable[[], Result]) -> Awaitable[Result]:
        """Run `work` in the thread for files."""
        return self._loop.run_in_executor(self._thread, work)


def _owner(headers: dict[str, str]) -> Owner:
    """Return the owner that a request's headers name."""
    return Owner(headers.get("address", ""), int(headers.get("connection", 0)))


def _remove_all(files: list[str]) -> None:
    for file in files:
        remove(file)
