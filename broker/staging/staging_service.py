"""The staging service: takes clients' requests, and answers them.

    HPUB $SEQ.STAGE <reply>     a piece of a stage
    PUB $SEQ.COMMIT <reply>     publish stages as one batch
    PUB $SEQ.ABORT <reply>      drop stages
    PUB $SEQ.BATCH <reply>      the last batch of an application

    client --> StagingService.serve --> engine --> BatchCommits (here, or at the coordinator)
    client <-- StagingService.done <----------------'

The engine is a member of a cluster, or this broker alone (local_batches.py); the requests and the
answers are the same. All requests may be repeated. If the coordinator goes away, the answer is the
status 504. The answer to a commit waits until its last row is delivered here, too.

Waiting requests are bounded: a publisher with too many bytes under way is not read for a while.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from broker.dataplane.connection import Connection
from broker.dataplane.plane import Plane
from broker.dataplane.user import User
from broker.limits.quota import Quota
from broker.replay.requests import BadRequest
from broker.settings.staging_settings import StagingSettings
from broker.staging import operations_asked
from broker.staging.applications import (
    Applications,
    CommittedBatch,
    batch_answer,
    commit_answer,
)
from broker.staging.operations_asked import ANY, Asker, Refusal
from broker.staging.shares import Owner, Shares, owner_of
from broker.staging.stage_files import StageFiles
from broker.staging.stages import Stages
from parser.errors import AGAIN
from sequencer.message import Message
from sequencer.replica import member_messages as m

ASKED_MAX: Final = 4096  # requests under way
ASKED_OWN: Final = 1024  # of one user, or connection if there are no users: a quarter
ASKED_BYTES_MAX: Final = 16 << 20  # and their bytes; then publishers wait
OVERFULL: Final = 4  # times that: more is refused, as each client may send one before it waits
WAITERS_MAX: Final = 64  # requests that wait for one commit
PIECE_MAX: Final = 8 << 20  # bytes of a piece in a cluster: it is one message between members
PROMISE_MAX: Final = 1 << 20  # bytes of a commit, which becomes a note
WORK: Final = 4096  # cost of a request, in offers; 30 us: the time to pass it on, or to write
PIECE_SHIFT: Final = 2  # plus one for each 4 bytes of a piece
JSON_SHIFT: Final = 2  # plus 4 for each byte of JSON
LOOK_WORK: Final = 16  # plus this for each stage that is looked at
CHANGED: Final = "the cluster has another coordinator, or none; ask again"


class BatchEngine(Protocol):
    """The engine that carries out requests: a member of a cluster, or LocalBatches."""

    is_alone: bool  # requests go to no other broker

    @property
    def committing(self) -> int:
        """The count of batches that are being committed by this broker."""

    def carry_out(self, request: m.MemberRequest) -> None:
        """Carry out a request; `StagingService.done` gets the answer."""

    async def stop(self) -> None:
        """Stop: what is promised is carried out by another broker, or the next one."""


@dataclass(slots=True)
class WaitingClient:
    """A client that waits for the answer to a request."""

    asker: Asker
    owner: Owner
    payload: bytes | bytearray  # of the request, as the engine gets it


@dataclass(slots=True)
class PendingRequest:
    """A request under way. Later commits of the same batch wait for the answer to the first."""

    word: str
    size: int
    application: str
    batch: int
    charged: str | int  # the user, or the connection, whose requests are counted
    payload: bytes | bytearray
    waiters: list[WaitingClient]


@dataclass
class CommitCounts:
    """Commits that clients here were answered, for monitoring; `len()`: those under way."""

    engine: BatchEngine = field(repr=False)
    committed: int = 0
    repeated: int = 0

    def __len__(self) -> int:
        return self.engine.committing


@dataclass
class RowCounts:
    """Rows that this broker has published."""

    files: StageFiles = field(repr=False)

    @property
    def rows(self) -> int:
        return self.files.rows_published


class StagingService:
    """The staging requests of one broker's clients, for its one thread."""

    def __init__(
        self,
        engine: BatchEngine,
        plane: Plane,
        files: StageFiles,
        settings: StagingSettings,
        may_use: Callable[[User | None, str], bool],
    ) -> None:
        """`may_use` tells if an application is open to a user."""
        self.engine = engine
        self.files = files
        self.commits = CommitCounts(engine)
        self.publishing = RowCounts(files)
        self.pieces = 0
        self._may_use = may_use
        self._plane = plane
        self._settings = settings
        self._key = 0
        self._asked: dict[int, PendingRequest] = {}
        self._asked_by: Quota[str | int] = Quota()
        self._commits: dict[tuple[str, int], PendingRequest] = {}  # by application and batch
        self._bytes = 0
        self._held: list[Connection] = []  # publishers that wait
        self._late: list[tuple[int, Asker, dict[str, Any]]] = []  # await their last row
        self._stopping = False

    def limit_rows(self, max_control_line: int, max_payload: int) -> None:
        """Set the limits for rows of new stages."""
        self.stages.limits = (max_control_line, max_payload)

    # For monitoring

    @property
    def stages(self) -> Stages:
        return self.files.stages

    @property
    def applications(self) -> Applications:
        return self.files.applications

    # Requests

    def serve(self, word: str, asker: Asker, message: Message) -> None:
        """Carry out a request, with its headers and its payload, or answer why not."""
        self._plane.charge_work(self._cost(word, message.size))
        try:
            self._ask(word, asker, message)
        except BadRequest as problem:
            self._refuse(asker, Refusal(400, str(problem)))
        except Refusal as problem:
            self._refuse(asker, problem)

    def _cost(self, word: str, size: int) -> int:
        """Return the work of a request: many of them must not make one turn too long."""
        if word == "STAGE":
            looked_at = len(self.stages) if self.stages.is_crowded else 0
            return WORK + (size >> PIECE_SHIFT) + LOOK_WORK * looked_at
        looked_at = 0 if word == "BATCH" else len(self.stages)
        return WORK + (size << JSON_SHIFT) + LOOK_WORK * looked_at

    def _ask(self, word: str, asker: Asker, message: Message) -> None:
        buffer, stop = message.buffer, message.body + message.size
        assert isinstance(buffer, bytearray), "clients are read into one"
        connection, owner = asker[0], owner_of(asker[0])
        user = connection.session.user
        charged = connection.origin if user is None else user.name
        if self._stopping:
            raise Refusal(AGAIN, "the broker is stopping; ask again when it is back")
        size = stop - message.payload
        self._check_room(charged, size)
        headers = bytes(buffer[message.body : message.payload])
        about, payload = self._read(word, headers, buffer[message.payload : stop])
        application, batch = about["application"], int(about.get("batch", 0))
        if not self._may_use(user, application):
            raise Refusal(403, f"the application {application} belongs to another user")
        waiter = WaitingClient(asker, owner, payload)
        running = self._commits.get((application, batch)) if word == "COMMIT" else None
        if running is not None:
            self._join(running, waiter)
            return
        about |= {"address": owner.address, "connection": str(connection.origin)}
        if user is not None:  # the rows are judged by this user's rights
            about["user"] = user.name
        self._key += 1
        pending = PendingRequest(word, size, application, batch, charged, payload, [waiter])
        self._asked[self._key] = pending
        if word == "COMMIT":
            self._commits[application, batch] = pending
        self._asked_by.add(charged)
        self._hold(connection, size)
        self.engine.carry_out(m.MemberRequest(self._key, word, about, payload))

    def _check_room(self, charged: str | int, size: int) -> None:
        """Raise `Refusal` if too much is under way."""
        if len(self._asked) >= ASKED_MAX:
            raise Refusal(429, f"{ASKED_MAX} requests for staging are under way already")
        if self._asked_by.of(charged) >= ASKED_OWN:
            raise Refusal(429, f"{ASKED_OWN} of your requests for staging are under way")
        if self._bytes + size > OVERFULL * ASKED_BYTES_MAX:
            raise Refusal(429, "too many bytes for staging are under way already")

    def _read(
        self, word: str, headers: bytes, payload: bytearray
    ) -> tuple[dict[str, str], bytes | bytearray]:
        """Return headers and payload for the engine. Raises `BadRequest` and `Refusal`."""
        match word:
            case "STAGE":
                piece = operations_asked.read_piece(headers)
                if len(payload) > PIECE_MAX and not self.engine.is_alone:
                    raise Refusal(413, f"a piece has at most {PIECE_MAX} bytes in a cluster")
                application, batch, name = piece.key
                about = {"application": application, "batch": str(batch), "name": name}
                return about | {"offset": str(piece.offset)}, payload
            case "COMMIT":
                if len(payload) > PROMISE_MAX and not self.engine.is_alone:
                    raise Refusal(413, f"a commit has at most {PROMISE_MAX} bytes in a cluster")
                asked = operations_asked.read_commit(payload, self._settings.max_stages)
                facts: dict[str, Any] = {
                    "stages": [[one.name, one.bytes, one.crc] for one in asked.stages],
                    "remember": asked.remember,
                }
                if asked.after != ANY:
                    facts["after"] = asked.after
                about = {"application": asked.application, "batch": str(asked.batch)}
                return about, json.dumps(facts).encode()
            case "ABORT":
                drop = operations_asked.read_abort(payload)
                names = None if drop.stages is None else sorted(drop.stages)
                about = {"application": drop.application, "batch": str(drop.batch)}
                return about, json.dumps({"stages": names}).encode()
            case _:
                return {"application": operations_asked.read_application(payload)}, b""

    def _join(self, pending: PendingRequest, waiter: WaitingClient) -> None:
        """Let a commit wait for the answer to another one of this batch. Raises `Refusal`."""
        pending.waiters = [one for one in pending.waiters if not one.asker[0].closed]
        if len(pending.waiters) >= WAITERS_MAX:
            raise Refusal(429, f"{WAITERS_MAX} wait for this commit already")
        shares = Shares(WAITERS_MAX, self._settings)
        for one in pending.waiters:
            shares.add(one.owner, 1)
        if why := shares.over(waiter.owner, 1):
            raise Refusal(429, f"too many requests wait for this commit: {why}")
        pending.waiters.append(waiter)

    def _hold(self, connection: Connection, size: int) -> None:
        self._bytes += size
        if self._bytes > ASKED_BYTES_MAX:
            self._held.append(connection)
            connection.session.wait()

    def _release(self, size: int) -> None:
        self._bytes -= size
        if self._held and self._bytes <= ASKED_BYTES_MAX:
            held, self._held = self._held, []
            for connection in held:
                if not connection.closed:
                    connection.session.proceed()

    # Answers

    def done(self, action: m.Done) -> None:
        """Answer those that wait for a request: it is carried out, or its coordinator is gone.

        Call `Gate.release` afterwards.
        """
        pending = self._asked.pop(action.key, None)
        if pending is None:
            return
        self._asked_by.add(pending.charged, -1)
        self._release(pending.size)
        facts = json.loads(action.payload) if action.payload else {}
        if pending.word == "COMMIT":
            del self._commits[pending.application, pending.batch]
        if action.status == m.OK:
            self.pieces += pending.word == "STAGE"
            self.commits.committed += pending.word == "COMMIT" and not facts["repeated"]
            self.commits.repeated += pending.word == "COMMIT" and facts["repeated"]
        for waiter in pending.waiters:
            if not waiter.asker[0].closed:
                self._reply(pending, waiter, action.status, facts)

    def _reply(
        self, pending: PendingRequest, waiter: WaitingClient, status: int, facts: dict[str, Any]
    ) -> None:
        """Answer one client, whose request may be another one than was carried out."""
        asker = waiter.asker
        if status != m.OK and waiter.payload != pending.payload:
            again = Refusal(AGAIN, "a commit with other stages of this batch failed; try again")
            self._refuse(asker, again)
        elif status != m.OK:
            status = {m.BUSY: 409, m.RETRY: AGAIN}.get(status, status)
            why = facts.get("why", CHANGED)
            self._refuse(asker, Refusal(status, why, facts.get("expected")))
        elif pending.word == "COMMIT":
            is_same = _stages_of(waiter.payload) == _stages_of(pending.payload)
            self._committed(asker, pending.batch, facts, not is_same or facts["repeated"])
        elif pending.word == "BATCH":
            done = CommittedBatch.of(facts["last"]) if facts["last"] is not None else None
            self._answer(asker, batch_answer(pending.application, done, facts["committing"]))
        else:
            if pending.word == "STAGE":
                # Whole stages are counted: a piece gets its share of rows by size.
                rows = facts["rows"] * pending.size // max(facts["bytes"], 1)
                asker[0].session.staged(rows)
            self._answer(asker, facts)

    def _committed(self, asker: Asker, batch: int, facts: dict[str, Any], repeated: bool) -> None:
        """Answer a commit, after its rows are delivered."""
        done = CommittedBatch.of(facts)
        if done.batch != batch:  # an older batch, whose figures are forgotten
            done = CommittedBatch(done.application, batch, 0, 0, 0, 0, True)
        answer = commit_answer(done, repeated)
        if done.last > self._plane.sequencer.number:
            self._late.append((done.last, asker, answer))
        else:
            self._answer(asker, answer)

    def delivered(self) -> None:
        """Answer the commits whose last row has been delivered here."""
        if not self._late:
            return
        late, self._late = self._late, []
        for last, asker, answer in late:
            if last > self._plane.sequencer.number:
                self._late.append((last, asker, answer))
            elif not asker[0].closed:
                self._answer(asker, answer)
        self._plane.release(None)

    def _answer(self, asker: Asker, facts: dict[str, Any]) -> None:
        self._plane.answer(*asker, json.dumps(facts, separators=(",", ":")).encode(), b"")

    def _refuse(self, asker: Asker, problem: Refusal) -> None:
        self._plane.answer(*asker, b"", problem.header())

    # Shutdown

    async def stop(self) -> None:
        """Take no more requests. Promised batches are carried out all the same."""
        self._stopping = True
        await self.engine.stop()


def _stages_of(commit: bytes | bytearray) -> object:
    return json.loads(commit)["stages"]
