"""Requests for staging at a member: passed to the coordinator, answered as by a single broker.

    $SEQ.STAGE, COMMIT, ABORT, BATCH --> Member.ask --(this or another member)--> Done --> an answer

All of them may be repeated. If the coordinator goes away, the answer is the status 504. The answer
to a commit waits until its last row is delivered here, too.

Waiting requests are bounded: a publisher with too many bytes under way is not read for a while.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from broker.cluster.batches.stage_files import StageFiles
from broker.cluster.cluster_plane import ClusterPlane
from broker.dataplane.connection import Connection
from broker.dataplane.user import User
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
from broker.staging.shares import owner_of
from broker.staging.stages import Stages
from parser.errors import AGAIN
from sequencer.message import Message
from sequencer.replica import member_messages as m
from sequencer.replica.member import Member

ASKED_MAX: Final = 4096  # requests under way
ASKED_OWN: Final = 1024  # of one user, or connection if there are no users: a quarter
ASKED_BYTES_MAX: Final = 16 << 20  # and their bytes; then publishers wait
OVERFULL: Final = 4  # times that: more is refused, as each client may send one before it waits
PIECE_MAX: Final = 8 << 20  # bytes of a piece: it is one message between members
PROMISE_MAX: Final = 1 << 20  # bytes of a commit, which becomes a note
WORK: Final = 4096  # cost of a request, in offers: the time to pass it on
PIECE_SHIFT: Final = 2  # plus one for each 4 bytes
CHANGED: Final = "the cluster has another coordinator, or none; ask again"


@dataclass(slots=True)
class Asked:
    """A request under way."""

    word: str
    asker: Asker
    size: int
    application: str
    batch: int
    owner: str | int


@dataclass
class CommitCounts:
    """Commits that clients here were answered, for monitoring; `len()`: those under way."""

    member: Member = field(repr=False)
    committed: int = 0
    repeated: int = 0

    def __len__(self) -> int:
        role = self.member.coordinator
        return len(role.batches.running) if role is not None else 0


@dataclass
class RowCounts:
    """Rows that this member has published as the coordinator."""

    files: StageFiles = field(repr=False)

    @property
    def rows(self) -> int:
        return self.files.rows_published


class MemberStaging:
    """The staging requests of one member's clients, for its one thread."""

    def __init__(
        self, member: Member, plane: ClusterPlane, files: StageFiles, settings: StagingSettings
    ) -> None:
        self.files = files
        self.commits = CommitCounts(member)
        self.publishing = RowCounts(files)
        self.pieces = 0
        self.ask_core: Any = member.ask  # the driver's: it flushes afterwards
        self.may_use: Callable[[User | None, str], bool]  # an application; set before the start
        self._member = member
        self._plane = plane
        self._settings = settings
        self._key = 0
        self._asked: dict[int, Asked] = {}
        self._asked_by: dict[str | int, int] = {}
        self._bytes = 0
        self._held: list[Connection] = []  # publishers that wait
        self._late: list[tuple[int, Asker, dict[str, Any]]] = []  # await their last row
        self._stopping = False
        files.known = member.note_state.applications
        files.promised = lambda: member.note_state.open

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
        """Pass a request on, with its headers and its payload."""
        self._plane.charge_work(WORK + (message.size >> PIECE_SHIFT))
        stop = message.body + message.size
        headers = bytes(message.buffer[message.body : message.payload])
        payload = bytes(message.buffer[message.payload : stop])
        user = asker[0].session.user
        whose = asker[0].origin if user is None else user.name
        try:
            if self._stopping:
                raise Refusal(AGAIN, "the broker is stopping; ask again when it is back")
            if len(self._asked) >= ASKED_MAX:
                raise Refusal(429, f"{ASKED_MAX} requests for staging are under way already")
            if self._asked_by.get(whose, 0) >= ASKED_OWN:
                raise Refusal(429, f"{ASKED_OWN} of your requests for staging are under way")
            if self._bytes + len(payload) > OVERFULL * ASKED_BYTES_MAX:
                raise Refusal(429, "too many bytes for staging are under way already")
            about, payload = self._read(word, headers, payload)
            application = about["application"]
            if not self.may_use(user, application):
                raise Refusal(403, f"the application {application} belongs to another user")
        except BadRequest as problem:
            self._refuse(asker, Refusal(400, str(problem)))
            return
        except Refusal as problem:
            self._refuse(asker, problem)
            return
        owner = owner_of(asker[0])
        about |= {"address": owner.address, "connection": str(asker[0].origin)}
        if user is not None:  # the coordinator judges the rows by this user's rights
            about["user"] = user.name
        self._key += 1
        batch = int(about.get("batch", 0))
        self._asked[self._key] = Asked(word, asker, len(payload), application, batch, whose)
        self._asked_by[whose] = self._asked_by.get(whose, 0) + 1
        self._hold(asker[0], len(payload))
        self.ask_core(m.MemberRequest(self._key, word, about, payload))

    def _read(self, word: str, headers: bytes, payload: bytes) -> tuple[dict[str, str], bytes]:
        """Return headers and payload for the core. Raises `BadRequest` and `Refusal`."""
        match word:
            case "STAGE":
                piece = operations_asked.read_piece(headers)
                if len(payload) > PIECE_MAX:
                    raise Refusal(413, f"a piece has at most {PIECE_MAX} bytes in a cluster")
                application, batch, name = piece.key
                about = {"application": application, "batch": str(batch), "name": name}
                return about | {"offset": str(piece.offset)}, payload
            case "COMMIT":
                if len(payload) > PROMISE_MAX:
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
        """Answer the client: the coordinator has answered, or is gone."""
        asked = self._asked.pop(action.key, None)
        if asked is None:
            return
        self._asked_by[asked.owner] -= 1
        if not self._asked_by[asked.owner]:
            del self._asked_by[asked.owner]
        self._release(asked.size)
        if asked.asker[0].closed:
            return
        facts = json.loads(action.payload) if action.payload else {}
        if action.status != m.OK:
            status = {m.BUSY: 409, m.RETRY: AGAIN}.get(action.status, action.status)
            self._refuse(
                asked.asker, Refusal(status, facts.get("why", CHANGED), facts.get("expected"))
            )
        elif asked.word == "COMMIT":
            self._committed(asked, facts)
        elif asked.word == "BATCH":
            done = CommittedBatch.of(facts["last"]) if facts["last"] is not None else None
            answer = batch_answer(asked.application, done, facts["committing"])
            self._answer(asked.asker, answer)
        else:
            if asked.word == "STAGE":
                self.pieces += 1
                # The coordinator counts whole stages: a piece gets its share of rows by size.
                rows = facts["rows"] * asked.size // max(facts["bytes"], 1)
                asked.asker[0].session.staged(rows)
            self._answer(asked.asker, facts)
        self._plane.release(None)

    def _committed(self, asked: Asked, facts: dict[str, Any]) -> None:
        """Answer a commit, after its rows are delivered."""
        done, repeated = CommittedBatch.of(facts), facts["repeated"]
        self.commits.committed += not repeated
        self.commits.repeated += repeated
        if done.batch != asked.batch:  # an older batch, whose figures are forgotten
            done = CommittedBatch(done.application, asked.batch, 0, 0, 0, 0, True)
        answer = commit_answer(done, repeated)
        if done.last > self._plane.sequencer.number:
            self._late.append((done.last, asked.asker, answer))
        else:
            self._answer(asked.asker, answer)

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
        """Take no more requests; another member carries out the promised commits."""
        self._stopping = True
