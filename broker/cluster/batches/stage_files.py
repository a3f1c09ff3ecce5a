"""A member's stages: a `StageStore` on the disk, in the files of a single broker's.

    <store>/staging/<id>.stage      broker/staging/stages.py

The coordinator judges each piece as a single broker does: its rows, its place, and its owner's
share of the room. The other members write the pieces that they are sent. Without room they drop the
stage that was idle for the longest time: if it is promised later, it is fetched again.

One thread syncs, reads and deletes files. A promised stage has been synced, and does not expire.
All others expire on each member separately.
"""

import asyncio
import errno
import logging
import os
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar

from broker.cluster.batches.row_plane import RowPlane
from broker.cluster.batches.stage_rows import StageRows
from broker.dataplane.guard import Guard
from broker.dataplane.staged_rows import Staged
from broker.dataplane.user import User
from broker.runtime.clocks import SteadyTime
from broker.settings.settings import Settings
from broker.settings.staging_settings import STAGING
from broker.staging.applications import Applications, CommittedBatch
from broker.staging.commit_publishing import ANY_SIZE
from broker.staging.operations_asked import Named, Refusal, StagedPiece
from broker.staging.shares import NOBODY, Owner, owner_at
from broker.staging.stages import PROMISED, UNWANTED, WANTED, Stage, Stages, read_through
from parser.machine import Parser
from sequencer.journal.disk import make_folder, remove, sync_file, sync_folder
from sequencer.message import Message
from sequencer.replica.errors import StageRefused
from sequencer.replica.member_messages import Note
from sequencer.replica.numbering import Numbering
from sequencer.replica.replicated_log import StageKey
from sequencer.replica.replicated_log import Stages as NamedStages
from sublist.sublist import Sublist

log = logging.getLogger("seriatim")

READ_AT_A_TIME: Final = 8  # batches: each has a file open, and a megabyte in memory
LOOKS: Final = 4  # checks within the time of an expiry
LOOK_MAX: Final = 60.0  # seconds between two checks
Result = TypeVar("Result")


class JudgedStages(Stages):
    """Stages whose rows the coordinator judges; other members take what it has judged."""

    is_judging = False

    def _parser(self) -> Parser:
        return super()._parser() if self.is_judging else Parser(ANY_SIZE, ANY_SIZE)


class StageFiles:
    """The stages of one member on the disk, for its one thread."""

    def __init__(
        self,
        store_dir: str,
        settings: Settings,
        sublist: Sublist,
        numbering: Numbering,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        """Raises `OSError` if the folder cannot be made."""
        self.folder = os.path.join(store_dir, STAGING)
        make_folder(self.folder)
        self.synced: Callable[[], None] = lambda: None  # a stage is on the disk
        self.wake: Callable[[], None] = lambda: None  # rows can be published
        self.user_named: Callable[[str], User | None] = lambda name: None
        self.promised: Callable[[], dict[int, Note]] = dict  # PREPARE without DONE, by origin
        self.known: dict[str, Any] = {}  # the core's applications; expired ones are removed there
        self.rows_published = 0
        self._settings = settings.staging
        self._durable = settings.journal.sync != "never"
        self._numbering = numbering
        self._loop = loop
        self._steady = SteadyTime()
        self._staged = Staged(RowPlane(sublist, numbering))
        self._staged.trusts = True
        limits = (settings.limits.max_control_line, settings.limits.max_payload)
        self.stages = JudgedStages(self.folder, self._staged, limits, self._settings)
        file = os.path.join(self.folder, "applications")
        self.applications = Applications(file, False, self._settings)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="staging")
        self._on_disk: set[str] = set()  # files of stages that are synced
        self._syncing: set[str] = set()
        self._rows: dict[int, StageRows] = {}  # by origin
        self._timer: asyncio.TimerHandle | None = None
        self._unwritten: CommittedBatch | None = None  # the newest batch that the file lacks

    # The beginning and the end

    async def load(self) -> None:
        """Read the stages that an earlier process left, before this member takes part."""
        promised = {
            (note.fields["application"], note.fields["batch"], name)
            for note in self.promised().values()
            for name, _, _ in note.fields["stages"]
        }

        def kind(key: StageKey) -> int:
            done = self.applications.last(key[0])
            if key in promised:
                return PROMISED
            return UNWANTED if done is not None and key[1] <= done.batch else WANTED

        for file in list(self.stages.found()):
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
        self._write_applications()
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
        self, key: StageKey, offset: int, data: bytes | memoryview, headers: dict[str, str]
    ) -> None:
        """Judge a piece, and write it. Raises `StageRefused`."""
        self.stages.is_judging = True
        self._staged.trusts = False
        try:
            self._append(key, offset, data, _owner(headers), self._guard_of(headers))
        except Refusal as problem:
            raise StageRefused(problem.status, str(problem), problem.expected) from problem
        finally:
            self.stages.is_judging = False
            self._staged.trusts = True

    def _guard_of(self, headers: dict[str, str]) -> Guard | None:
        """Return the guard of the piece's user, logged in at any member; None without users."""
        name = headers.get("user")
        if name is None:
            return None
        user = self.user_named(name)
        if user is None:
            why = f"the coordinator has no user {name!a}: all members need the same users"
            raise Refusal(403, why)
        return user.guard

    def write(self, key: StageKey, offset: int, data: bytes | memoryview) -> int:
        """Write a piece that the coordinator sent; return the stage's size. Raises `OSError`."""
        while True:
            try:
                self._append(key, offset, data, NOBODY)
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
        data: bytes | memoryview,
        owner: Owner,
        guard: Guard | None = None,
    ) -> Stage:
        buffer, now = bytearray(data), self._loop.time()
        try:
            piece = StagedPiece(key, offset)
            return self.stages.append(piece, buffer, 0, len(buffer), now, owner, guard)
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
        try:
            named = (Named(*one) for one in stages)
            return sum(one.rows for one in self.stages.named(application, batch, named))
        except Refusal as problem:
            raise StageRefused(problem.status, str(problem)) from problem

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
        late = [one for one in found if one.file not in self._on_disk | self._syncing]
        if late:
            self._syncing |= {one.file for one in late}
            self._loop.create_task(self._sync(late))
        return is_whole and all(one.file in self._on_disk for one in found)

    async def _sync(self, stages: list[Stage]) -> None:
        files = [one.file for one in stages]

        def work() -> None:
            for file in files:
                sync_file(file)
            sync_folder(self.folder)

        try:
            await self._run(work)
        except OSError as error:
            # A failed sync may have lost data, so these stages must not be trusted.
            log.error("Staging: %s: %s", self.folder, error.strerror)
            self._forget(stages)
        else:
            here = {one.file for one in self.stages}
            self._on_disk |= here & set(files)
        self._syncing -= set(files)
        self.synced()

    def publish(self, note: Note, row: int, most: int, take: Callable[[Message], int]) -> int:
        """Number rows of a promise. `take` is the numbering's, which `RowPlane` calls."""
        rows = self._rows_of(note)
        if rows is None:
            return 0
        was_damaged = bool(rows.damage)
        count = rows.publish(row, most)
        self.rows_published += count
        if count:
            self.wake()  # they are written at the next flush
        if rows.damage and not was_damaged:
            log.critical(
                "Staging: batch %d of %s was committed, and its rows from %d on cannot be"
                " published here: %s; stop this member, and another one goes on",
                *(note.fields["batch"], note.fields["application"], row + count, rows.damage),
            )
        return count

    def _rows_of(self, note: Note) -> StageRows | None:
        """Return the rows of a promise; None while too many others are being published."""
        fields = note.fields
        found = self._rows.get(fields["origin"])
        if found is None and len(self._rows) < READ_AT_A_TIME:
            names = [(fields["application"], fields["batch"], one[0]) for one in fields["stages"]]
            stages = [one for name in names if (one := self.stages.find(name)) is not None]
            found = StageRows(fields["origin"], stages, self._staged, self._run, self.wake)
            if len(stages) < len(names):
                found.damage = "a stage of it is missing"
            self._rows[fields["origin"]] = found
        return found

    def _close_rows(self, origin: int) -> None:
        rows = self._rows.pop(origin, None)
        if rows is not None:
            rows.close()

    # Applications

    def claim(self, application: str, headers: dict[str, str]) -> dict[str, Any]:
        """Reserve a place for an application. Raises `StageRefused`."""
        known, owner = self.applications, _owner(headers)
        try:
            if known.last(application) is None:
                known.claim(application, owner)
        except Refusal as problem:
            raise StageRefused(problem.status, str(problem)) from problem
        owned = {"address": known.address_of(application, owner)}
        instead = known.displaced_by(application)
        return owned | {"instead": instead} if instead else owned

    def disown(self, application: str) -> None:
        self.applications.disown(application)

    def committed(self, fields: dict[str, Any]) -> None:
        """Record the last batch of an application, and drop what is no longer needed."""
        done = CommittedBatch.of(fields)
        self.applications.replace(fields.get("instead", ""))
        self.applications.address_of(done.application, owner_at(done.address, 0))
        self.applications.add_committed(done)
        self._unwritten = done
        self._forget(self.stages.up_to(done.application, done.batch))
        self._close_rows(fields.get("origin", 0))

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
        promised = self.promised()
        batches = {(one.fields["application"], one.fields["batch"]) for one in promised.values()}
        for stage in self.stages:
            stage.claimed = stage.key[:2] in batches or stage.file in self._syncing
        for origin in [one for one in self._rows if one not in promised]:
            self._close_rows(origin)
        self._delete(self.stages.expire(now - settings.expiry, now - settings.max_age))
        self._on_disk &= {one.file for one in self.stages}
        wall = self._steady.now() / 1e9  # not a clock that was set ahead
        before = (wall - settings.application_expiry, wall - settings.expiry)
        self.applications.drop_older(*(int(seconds * 1000) for seconds in before))
        for name in [one for one in self.known if self.applications.last(one) is None]:
            del self.known[name]
        self._write_applications()
        pause = min(min(settings.expiry, settings.max_age) / LOOKS, LOOK_MAX)
        self._timer = self._loop.call_later(pause, self._drop_expired)

    def _write_applications(self) -> None:
        """Write the file for a later single broker on this store, or on a backup of it."""
        if self._unwritten is not None:
            all_done = list(self.applications.done.values())
            self._thread.submit(self._write, self._unwritten, all_done)
            self._unwritten = None

    def _write(self, done: CommittedBatch, all_done: list[CommittedBatch]) -> None:
        try:
            self.applications.write(done, all_done)
        except OSError as error:
            log.error("Staging: %s: %s", self.applications.file, error.strerror)

    def _forget(self, stages: list[Stage]) -> None:
        files = self.stages.drop(stages)
        self._on_disk.difference_update(files)
        self._delete(files)

    def _delete(self, files: list[str]) -> None:
        if files:
            self._thread.submit(_remove_all, list(files))

    def _run(self, work: Callable[[], Result]) -> Awaitable[Result]:
        """Run `work` in the thread for files."""
        return self._loop.run_in_executor(self._thread, work)


def _owner(headers: dict[str, str]) -> Owner:
    """Return the owner that a request's headers name."""
    return Owner(headers.get("address", ""), int(headers.get("connection", 0)))


def _remove_all(files: list[str]) -> None:
    for file in files:
        remove(file)
