"""The staging service: takes requests, and continues what an earlier broker left.

    HPUB $SEQ.STAGE <reply>     a piece of a stage                     stages.py
    PUB $SEQ.COMMIT <reply>     publish stages as one batch            commits.py
    PUB $SEQ.ABORT <reply>      drop stages
    PUB $SEQ.BATCH <reply>      the last batch of an application       applications.py

The folder, and the thread that writes the files, are in workspace.py.

After a start the stages are read. Requests in the meantime are answered when that is done and the
promised commits are under way.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable

from broker.core import Core
from broker.replay.requests import BadRequest
from broker.runtime.clocks import SteadyTime
from broker.staging import operations_asked
from broker.staging.applications import batch_answer
from broker.staging.commit_publishing import Commit, Publishing
from broker.staging.commits import Commits
from broker.staging.operations_asked import Asker, CommitRequest, Named, Refusal
from broker.staging.recovered import Left, left_behind
from broker.staging.shares import Shares, owner_at, owner_of
from broker.staging.stages import PROMISED, UNWANTED, WANTED, Stage, read_through
from broker.staging.workspace import Workspace
from parser.errors import AGAIN
from sequencer.journal.store import Store
from sequencer.message import Message

log = logging.getLogger("seriatim")

REQUESTS_MAX = 256  # that wait while the stages are read after a start
REQUESTS_BYTES_MAX = 16 << 20  # and their bytes
WORK = 4096  # cost of a request, in offers; 30 us: the time to write to a file
PIECE_SHIFT = 2  # plus one for each 4 bytes of a piece
JSON_SHIFT = 2  # plus 4 for each byte of JSON
LOOK_WORK = 16  # plus this for each stage that is looked at
LOOKS = 4  # checks within the time of an expiry
LOOK_MAX = 60.0  # seconds between two checks


class StagingService:
    """The staging service of a broker, made when staging is first used; for its one thread."""

    def __init__(self, core: Core) -> None:
        self.space = space = Workspace(core)
        self.loop = core.loop
        self.plane = core.plane
        self.claims = core.claims
        self.settings = space.settings
        self._steady = SteadyTime()
        self.stages = space.stages
        self.applications = space.applications
        self.publishing = Publishing(core, space.staged, space.run)
        self.commits = Commits(space, self.publishing)
        self.pieces = 0
        self._reported = (0, 0)  # counts of dropped stages and publishers
        self._waiting: list[Callable[[], None]] | None = []  # requests; None once all is read
        self._waiting_bytes = 0
        self._waiting_shares = Shares(REQUESTS_MAX, self.settings)
        self._left: list[Left] = []
        if isinstance(core.journal, Store):
            self._load(core.journal)
        self._reading = self.loop.create_task(self._begin())
        self._stopping = False
        self._timer = self.loop.call_later(0, self._drop_expired)

    # Requests

    def serve(self, word: str, asker: Asker, message: Message) -> None:
        """Serve a request, with its headers and its payload."""
        size, buffer = message.size, message.buffer
        assert isinstance(buffer, bytearray), "clients are read into one"
        at, stop = message.payload, message.body + size
        self.plane.charge_work(self._cost(word, size))
        if self._stopping:
            self.space.refuse(
                asker, Refusal(AGAIN, "the broker is stopping; ask again when it is back")
            )
            return
        headers = bytes(buffer[message.body : at])
        if self._waiting is None:
            self._do(word, asker, headers, buffer, at, stop)
            return
        owner = owner_of(asker[0])
        full = len(self._waiting) >= REQUESTS_MAX or self._waiting_shares.over(owner, 1)
        if full or self._waiting_bytes + size > REQUESTS_BYTES_MAX:
            self.space.refuse(
                asker,
                Refusal(AGAIN, "stages from before the start are still being read; ask again"),
            )
            return
        self._waiting_bytes += size
        self._waiting_shares.add(owner, 1)
        payload = buffer[at:stop]
        self._waiting.append(lambda: self._do(word, asker, headers, payload, 0, len(payload)))

    def limit_rows(self, max_control_line: int, max_payload: int) -> None:
        """Set the limits for rows of new stages."""
        self.stages.limits = (max_control_line, max_payload)

    def _cost(self, word: str, size: int) -> int:
        """Return the work of a request: many of them must not make one turn too long."""
        if word == "STAGE":
            looked_at = len(self.stages) if self.stages.is_crowded else 0
            return WORK + (size >> PIECE_SHIFT) + LOOK_WORK * looked_at
        looked_at = 0 if word == "BATCH" else len(self.stages)
        return WORK + (size << JSON_SHIFT) + LOOK_WORK * looked_at

    def _do(
        self, word: str, asker: Asker, headers: bytes, buffer: bytearray, at: int, stop: int
    ) -> None:
        """Do one request, whose payload is `buffer[at:stop]`."""
        match word:
            case "STAGE":
                self.attempt(asker, lambda: self._stage(asker, headers, buffer, at, stop))
            case "COMMIT":
                self.attempt(asker, lambda: self._commit(asker, bytes(buffer[at:stop])))
            case "ABORT":
                self.attempt(asker, lambda: self._abort(asker, bytes(buffer[at:stop])))
            case "BATCH":
                self.attempt(asker, lambda: self._batch(asker, bytes(buffer[at:stop])))

    def attempt(self, asker: Asker, work: Callable[[], None]) -> None:
        """Do `work`, or answer why it cannot be done."""
        try:
            work()
        except BadRequest as problem:
            self.space.refuse(asker, Refusal(400, str(problem)))
        except Refusal as problem:
            self.space.refuse(asker, problem)

    def _stage(self, asker: Asker, headers: bytes, buffer: bytearray, at: int, stop: int) -> None:
        piece = operations_asked.read_piece(headers)
        self._check_claim(asker, piece.key[0])
        now = self.loop.time()
        try:
            owner, guard = owner_of(asker[0]), asker[0].guard
            known = self.stages.find(piece.key)
            rows = 0 if known is None else known.rows
            if known is not None:
                self._check_rights([known])
            stage = self.stages.append(piece, buffer, at, stop, now, owner, guard)
            user = asker[0].session.user
            stage.judged[None if user is None else user.name] = guard
            if not asker[0].closed:
                asker[0].session.staged(stage.rows - rows)
        finally:
            self.space.delete(self.stages.litter)
            self.stages.litter.clear()
        self.pieces += 1
        self.space.answer(asker, {"bytes": stage.bytes, "rows": stage.rows})

    def _commit(self, asker: Asker, payload: bytes) -> None:
        request = operations_asked.read_commit(payload, self.stages.most)
        name, batch = request.application, request.batch
        self._check_claim(asker, name)
        found = (self.stages.find((name, batch, one.name)) for one in request.stages)
        self._check_rights(stage for stage in found if stage is not None)
        self.commits.commit(request, asker)

    def _abort(self, asker: Asker, payload: bytes) -> None:
        request = operations_asked.read_abort(payload)
        self._check_claim(asker, request.application)
        if self.commits.batch_of(request.application) == request.batch:
            raise Refusal(409, f"batch {request.batch} of it is being committed")
        gone = [
            stage
            for stage in self.stages.of(request.application, request.batch)
            if not stage.claimed and (request.stages is None or stage.key[2] in request.stages)
        ]
        self.space.delete(self.stages.drop(gone))
        self.space.answer(asker, {"dropped": len(gone)})

    def _batch(self, asker: Asker, payload: bytes) -> None:
        name = operations_asked.read_application(payload)
        self._check_claim(asker, name)
        done = self.applications.last(name)
        self.space.answer(asker, batch_answer(name, done, self.commits.batch_of(name)))

    def _check_claim(self, asker: Asker, application: str) -> None:
        """Raise `Refusal` if the application belongs to other users."""
        if not self.claims.may_use(asker[0].session.user, application):
            raise Refusal(403, f"the application {application} belongs to another user")

    def _check_rights(self, stages: Iterable[Stage]) -> None:
        """Drop stages whose user's rights have changed since. Raises `Refusal` if there are any."""
        has_still = self.claims.has_still
        late = [
            one
            for one in stages
            if not one.claimed and not all(has_still(*by) for by in one.judged.items())
        ]
        if late:
            self.space.delete(self.stages.drop(late))
            names = ", ".join(one.key[2] for one in late)
            raise Refusal(403, f"dropped stage {names}: its user has other rights now")

    # Expiry

    def _drop_expired(self) -> None:
        """Drop expired stages and applications; called regularly."""
        expiry, now = self.settings.expiry, self.loop.time()
        if self._waiting is None:
            self.space.delete(self.stages.expire(now - expiry, now - self.settings.max_age))
            self._forget()
            self._tell_displaced()
        pause = min(min(expiry, self.settings.max_age) / LOOKS, LOOK_MAX)
        self._timer = self.loop.call_later(pause, self._drop_expired)

    def _forget(self) -> None:
        """Forget applications without a recent commit; sooner if their `remember` is false."""
        now, settings = self._steady.now() / 1e9, self.settings  # not a clock that was set ahead
        before = (now - settings.application_expiry, now - settings.expiry)
        self.applications.drop_older(*(int(seconds * 1000) for seconds in before))

    def _tell_displaced(self) -> None:
        """Log that something was dropped for lack of room: one line since the last check."""
        stages, names = self.stages.displaced, self.applications.displaced
        if (stages, names) == self._reported:
            return
        log.warning(
            "Staging: %d stages and %d publishers were dropped to make room for other addresses"
            " (staging.max_bytes, staging.max_stages, staging.max_applications)",
            *(stages - self._reported[0], names - self._reported[1]),
        )
        self._reported = (stages, names)

    # Left by an earlier broker

    def _load(self, journal: Store) -> None:
        """Read the known commits and promises, before anything changes the journal.

        Raises `OSError`.
        """
        self.applications.load()
        if self.applications.damaged:
            log.error(
                "Staging: %s: %d lines are damaged",
                self.applications.file,
                self.applications.damaged,
            )
        self._forget()
        self._left = left_behind(journal, self.space.folder, self.applications)

    async def _begin(self) -> None:
        """Read the stages, continue the promised commits, then serve waiting requests."""
        promised = {
            (one.intent.application, one.intent.batch, name)
            for one in self._left
            for name, _, _ in one.intent.stages
        }
        try:
            files = list(self.stages.found())
        except OSError as error:
            log.error("Staging: %s: %s", self.space.folder, error.strerror)
            files = []
        for file in files:
            await self._survey(file, promised)
        for left in self._left:
            await self._carry_on(left)
        self._left.clear()
        waiting, self._waiting = self._waiting or [], None
        for request in waiting:
            request()
        if waiting:
            self.plane.release(None)

    async def _survey(self, file: str, promised: set[operations_asked.Key]) -> None:
        """Read one file, and take it over if it is good and its batch is not committed."""

        def kind(key: operations_asked.Key) -> int:
            done = self.applications.last(key[0])
            if done is not None and key[1] <= done.batch:
                return UNWANTED
            return PROMISED if key in promised else WANTED

        now = self.loop.time()
        try:
            gone = await read_through(self.stages, file, now, kind, self.space.run)
        except OSError as error:
            log.error("Staging: %s: %s", file, error.strerror)
            return
        self.space.delete(gone)

    async def _carry_on(self, left: Left) -> None:
        """Continue a promised commit; if one of its stages is missing, it was not promised."""
        intent = left.intent
        name, batch = intent.application, intent.batch
        stages, missing = [], ""
        for word, size, crc in intent.stages:
            stage = self.stages.find((name, batch, word))
            if stage is None or (stage.bytes, stage.crc) != (size, crc):
                missing = f"stage {word} of it is damaged or missing"
            else:
                stages.append(stage)
        if missing and not left.there.rows:
            log.warning("Staging: batch %d of %s was not promised: %s", batch, name, missing)
            taken = (self.stages.find((name, batch, word)) for word, _, _ in intent.stages)
            # They were not checked, so nothing may be added to them.
            unseen = self.stages.drop(stage for stage in taken if stage is not None)
            self.space.delete([left.file, *unseen])
            return
        named = tuple(Named(*one) for one in intent.stages)
        owner = owner_at(intent.address, 0)
        commit = Commit(CommitRequest(name, batch, named, intent.remember), stages, owner)
        commit.origin, commit.number, commit.rows = intent.origin, left.number, intent.rows
        commit.first, commit.last = left.there.first, left.there.last
        commit.missing = left.there.missing(commit.rows)
        commit.promised = True
        if missing and commit.missing:
            self.commits.give_up(commit, missing)
            return
        try:
            await self.space.run(lambda: left.secure(self.space.folder, self.space.durable))
        except OSError as error:
            self.commits.give_up(commit, str(error.strerror))
            return
        log.info("Staging: going on with batch %d of %s", batch, name)
        self.commits.enqueue(commit)

    # Shutdown

    async def stop(self) -> None:
        """Stop between two turns. The next broker carries out the promised commits."""
        self._stopping = True
        self._timer.cancel()
        self._reading.cancel()
        await asyncio.wait({self._reading})
        await self.commits.stop()
        await self.space.close()
