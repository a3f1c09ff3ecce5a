"""Batches: each of their rows once, whichever member dies. What they need is in the second log.

    STAGE    the coordinator writes a piece, and sends it to all others; they write it
    COMMIT   PREPARE into the second log: a member takes it when it has every stage, synced
             -> committed: it is a promise. Only now rows get numbers, from (origin, row) on
             -> the last row committed: DONE into the second log
             -> committed: answered, and every member knows the application's last batch

A member that takes a PREPARE may be the next coordinator, and must keep the promise then. A new
coordinator finds in its own logs which promises have no DONE, and which of their rows are there.
All of both logs is kept, so nothing comes twice and nothing is missing.

What runs is found by its origin, never by the application's name alone: a DONE that comes late
must not end the application's next batch.

Requests, with the headers application and batch (others wait for the coordinator; all may be
repeated):

    STAGE    name, offset; the payload is a piece         200, 409 with the expected offset
    COMMIT   {"stages":[[name,bytes,crc32]],"remember":}  200 with the numbers; 404: stage again
    ABORT    name                                         200
    BATCH                                                 200 with the last batch
"""

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from sequencer.journal.record import Walk
from sequencer.replica import member_messages as m
from sequencer.replica.replicated_log import StageKey, StageStore
from sequencer.replica.stage_pieces import StagePieces

if TYPE_CHECKING:
    from sequencer.replica.member import Member

ROWS_MAX: Final = 1000  # published in one turn
BATCH_ORIGIN: Final = 1 << 63  # no client's origin has this bit


@dataclass
class RunningBatch:
    """A PREPARE without a DONE that is committed. Rows count from 1."""

    note: m.Note
    taken: int = 0
    first: int = 0
    last: int = 0
    is_done: bool = False  # DONE is in the log
    waiters: list[tuple[int, int]] = field(default_factory=list)  # key, connection; 0: here


class Promises:
    """Of one member, in whichever role."""

    pieces_kind = StagePieces

    def __init__(self, member: "Member", stages: StageStore | None) -> None:
        self.member = member
        self.stages = stages
        self.applications: dict[str, m.Note] = {}  # the DONE of their last batch
        self.running: dict[str, RunningBatch] = {}  # the coordinator's
        self.open: dict[int, int] = {}  # origin -> `after`, of promises without a committed DONE
        self.asked: set[int] = set()  # keys of requests that the coordinator has
        self.written = 0  # pieces of stages, on this connection
        self.pieces = self.pieces_kind(self)
        self._held: list[m.Note] = []  # a PREPARE whose stages are not here, and what follows it
        self._told = 0  # the coordinator's watermark of notes
        self._fetch_at = 0.0
        for number in range(member.notes.first, member.notes.last + 1):
            self._count(member.notes.at(number))

    @property
    def keep_after(self) -> int:
        """Retention keeps the numbers above this one: rows are looked for there."""
        return min(self.open.values(), default=self.member.log.last)

    # Every member

    def append(self, note: m.Note) -> None:
        """Write a note. Raises `OSError`."""
        self.member.notes.append(note)
        self._count(note)

    def _count(self, note: m.Note) -> None:
        if note.kind == "PREPARE":
            self.open[note.fields["origin"]] = note.fields["after"]

    def apply(self, note: m.Note) -> None:
        """It is committed."""
        if note.kind == "DONE":
            fields = note.fields
            self.open.pop(fields["origin"], None)
            self.applications[fields["application"]] = note
            if self.stages is not None:
                self.stages.drop(fields["application"], fields["batch"])
            self._answer(note)

    def is_here(self, note: m.Note) -> bool:
        """Whether a note can be taken: a PREPARE needs its stages, synced.

        Not if it is kept already: nobody has the stages any more when its DONE is committed.
        """
        fields = note.fields
        if note.kind != "PREPARE" or self._is_kept(fields["origin"]):
            return True
        if self.stages is None:
            return False
        return self.stages.keep(fields["application"], fields["batch"], fields["stages"])

    def _is_kept(self, origin: int) -> bool:
        return any(
            note.kind == "DONE" and note.fields["origin"] == origin and note.number <= self._told
            for note in self._held
        )

    # A follower

    def take_notes(self, notes: tuple[m.Note, ...], watermark: int) -> None:
        self._held += notes
        self._told = watermark
        self._take_held()

    def take_piece(self, piece: m.StagePiece) -> None:
        if self.stages is None:
            return
        try:
            self.stages.write(
                (piece.application, piece.batch, piece.name), piece.offset, piece.data
            )
        except OSError as error:
            self._give_up(f"a stage cannot be written: {error}")
            return
        self.written += 1
        self._take_held()

    def drop_stage(self, message: m.StageDrop) -> None:
        if self.stages is not None:
            self.stages.drop(message.application, message.batch, message.name)

    def fetch_again(self, watermark: int) -> None:
        """Pieces that do not come are asked for again."""
        self._told = watermark
        if self._held:
            self._take_held()

    def _take_held(self) -> None:
        """Write notes in order, as far as what they promise is here."""
        notes = self.member.notes
        while self._held:
            note = self._held[0]
            if note.number != notes.last + 1:
                self._give_up(f"note {note.number} comes where {notes.last + 1} was to come")
                return
            if not self.is_here(note):
                self._fetch(note)
                return
            try:
                self.append(note)
            except OSError as error:
                self._give_up(f"the notes cannot be written: {error}")
                return
            self._held.pop(0)

    def _fetch(self, note: m.Note) -> None:
        member, fields = self.member, note.fields
        if self.stages is None or member.now < self._fetch_at:
            return
        self._fetch_at = member.now + member.settings.fetch
        follower = member.follower
        for name, size, _ in fields["stages"]:
            have = self.stages.size((fields["application"], fields["batch"], name))
            if have < size:
                fetch = m.StageFetch(
                    follower.epoch, fields["application"], fields["batch"], name, have
                )
                member.actions.append(m.Send(follower.connection, fetch))

    def _give_up(self, why: str) -> None:
        self.member.complaint = why
        self.member.follower.leave()

    def cut_notes(self, number: int) -> None:
        """Notes above this one are not the coordinator's. Raises `OSError`."""
        notes = self.member.notes
        for one in range(number + 1, notes.last + 1):
            note = notes.at(one)
            if note.kind == "PREPARE":
                self.open.pop(note.fields["origin"], None)
        if number < notes.last:
            notes.truncate(number)
        self.written = 0
        self._fetch_at = 0.0

    # Requests of clients here, while another member coordinates

    def pass_on(self, request: m.MemberRequest) -> None:
        if self.member.follower.ask(request):
            self.asked.add(request.key)
        else:
            self.reply(request.key, 0, m.RETRY)

    def replied(self, reply: m.MemberReply) -> None:
        if reply.key in self.asked:
            self.asked.remove(reply.key)
            self.member.actions.append(m.Done(*reply))

    def connection_lost(self) -> None:
        """All requests may be repeated."""
        self._held = []
        self._told = self.written = 0
        for key in sorted(self.asked):
            self.reply(key, 0, m.RETRY)
        self.asked.clear()

    # The coordinator: requests

    def serve(self, request: m.MemberRequest, connection: int) -> None:
        """Answer a request: of a client here (connection 0), or of another member's."""
        if self.stages is None or not self.reign.is_begun:
            self.reply(request.key, connection, m.RETRY)
            return
        headers = request.headers
        application, batch = headers["application"], int(headers.get("batch", 0))
        match request.word:
            case "STAGE":
                self._stage(request, connection, (application, batch, headers["name"]))
            case "COMMIT":
                self._commit(request, connection, application, batch)
            case "ABORT":
                self._abort(request, connection, (application, batch, headers["name"]))
            case _:
                done = self.applications.get(application)
                status = m.OK if done is not None else m.MISSING
                self.reply(request.key, connection, status, done.fields if done else None)

    def _stage(self, request: m.MemberRequest, connection: int, key: StageKey) -> None:
        stages, running = self.stages, self.running.get(key[0])
        assert stages is not None, "it was asked before"
        if running is not None and running.note.fields["batch"] == key[1]:
            self.reply(request.key, connection, m.OK, {"size": stages.size(key)})
            return
        offset = int(request.headers["offset"])
        try:
            size = stages.write(key, offset, request.payload)
        except OSError as error:
            self.reply(request.key, connection, m.FULL, {"why": str(error)})
            return
        if size < offset:
            self.reply(request.key, connection, m.CONFLICT, {"expected": size})
            return
        piece = m.StagePiece(self.reign.epoch, *key, offset, request.payload)
        self.pieces.send_to_all(piece, request.key, connection, size)

    def link_lost(self, connection: int) -> None:
        """A member's connection is gone: it waits for nothing, and nobody waits for it."""
        for commit in self.running.values():
            commit.waiters = [one for one in commit.waiters if one[1] != connection]
        self.pieces.link_lost(connection)

    def _abort(self, request: m.MemberRequest, connection: int, key: StageKey) -> None:
        running = self.running.get(key[0])
        if running is not None and running.note.fields["batch"] == key[1]:
            self.reply(request.key, connection, m.BUSY)
            return
        assert self.stages is not None, "it was asked before"
        self.stages.drop(*key)
        for other in self.reign.links:
            drop = m.StageDrop(self.reign.epoch, *key)
            self.member.actions.append(m.Send(other, drop))
        self.reply(request.key, connection, m.OK)

    def _commit(
        self, request: m.MemberRequest, connection: int, application: str, batch: int
    ) -> None:
        done, running = self.applications.get(application), self.running.get(application)
        if done is not None and batch <= done.fields["batch"]:
            self.reply(request.key, connection, m.OK, done.fields)
        elif running is not None and running.note.fields["batch"] == batch:
            running.waiters.append((request.key, connection))
        elif running is not None:
            self.reply(request.key, connection, m.BUSY)
        else:
            self._prepare(request, connection, application, batch)

    def _prepare(
        self, request: m.MemberRequest, connection: int, application: str, batch: int
    ) -> None:
        """Write the promise, if all that it promises is here."""
        member, asked = self.member, json.loads(request.payload)
        assert self.stages is not None, "it was asked before"
        rows = self.stages.rows(application, batch, asked["stages"])
        if rows < 0 or not self.stages.keep(application, batch, asked["stages"]):
            self.reply(request.key, connection, m.MISSING)
            return
        number = member.notes.last + 1
        fields = {
            "application": application,
            "batch": batch,
            "remember": asked.get("remember", True),
            "origin": BATCH_ORIGIN | self.reign.epoch << 32 | number & 0xFFFFFFFF,
            "rows": rows,
            "after": member.numbering.sequencer.number,
            "stages": asked["stages"],
        }
        note = m.Note(number, self.reign.epoch, "PREPARE", fields)
        try:
            self.append(note)
        except OSError as error:
            self.reply(request.key, connection, m.FULL, {"why": str(error)})
            return
        self.running[application] = RunningBatch(note, waiters=[(request.key, connection)])

    # The coordinator: what it has promised

    def take_over(self) -> None:
        """Find which promises have no DONE. `found` then tells how far they are."""
        notes = self.member.notes
        self.running = {}
        self.pieces = self.pieces_kind(self)
        for number in range(notes.first, notes.last + 1):
            note = notes.at(number)
            application = note.fields.get("application", "")
            if note.kind == "PREPARE":
                self.running[application] = RunningBatch(note)
            elif note.kind == "DONE" and number > self.member.note_watermark:
                self.running[application].is_done = True
            elif note.kind == "DONE":
                self.running.pop(application, None)

    @property
    def rows_after(self) -> int:
        """Rows of promises without DONE are above this number of the log."""
        running = self.running.values()
        return min(
            (one.note.fields["after"] for one in running if not one.is_done),
            default=self.member.log.last,
        )

    def found(self, walk: Walk) -> None:
        """A record of this member's log: it may be a row of a promise."""
        if walk.origin & BATCH_ORIGIN:
            for commit in self.running.values():
                if commit.note.fields["origin"] == walk.origin and not commit.is_done:
                    self.count_row(commit, walk.number)

    def count_row(self, commit: RunningBatch, number: int) -> None:
        commit.taken += 1
        commit.first = commit.first or number
        commit.last = number

    def go_on(self) -> None:
        """Publish some rows of what is promised; end what has all of them committed."""
        for commit in self.running.values():
            if not commit.is_done and self.is_promised(commit):
                self._publish(commit)
                if commit.taken == commit.note.fields["rows"] and self.is_safe(commit):
                    self._end(commit)

    def is_promised(self, commit: RunningBatch) -> bool:
        """Whether its PREPARE is committed."""
        return commit.note.number <= self.member.note_watermark

    def is_safe(self, commit: RunningBatch) -> bool:
        """Whether its last row is committed, and on this disk."""
        member = self.member
        is_synced = member.settings.sync == "never" or commit.last <= member.log.synced
        return commit.last <= member.watermark and is_synced

    def _publish(self, commit: RunningBatch) -> None:
        rows, numbering = commit.note.fields["rows"], self.member.numbering
        if commit.taken == rows or not self.reign.is_taking or self.stages is None:
            return
        count = self.stages.publish(
            commit.note, commit.taken + 1, min(rows - commit.taken, ROWS_MAX), numbering.take_row
        )
        if count:
            commit.taken += count
            commit.last = numbering.sequencer.number
            commit.first = commit.first or commit.last - count + 1

    @property
    def has_more(self) -> bool:
        """Whether rows wait for their turn: then the driver calls `flush` again soon."""
        return any(
            one.taken < one.note.fields["rows"] and self.is_promised(one)
            for one in self.running.values()
        )

    def _end(self, commit: RunningBatch) -> None:
        member, fields = self.member, commit.note.fields
        done = {
            **{key: fields[key] for key in ("application", "batch", "remember", "origin", "rows")},
            **{"first": commit.first, "last": commit.last, "time": member.wall // 1_000_000},
        }
        try:
            self.append(m.Note(member.notes.last + 1, self.reign.epoch, "DONE", done))
        except OSError as error:
            member.complaint = f"the notes cannot be written: {error}"
        else:
            commit.is_done = True

    def step_down(self) -> None:
        """Clients here ask again; other members notice that their connection is gone."""
        waiting = self.pieces.waiting()
        for commit in self.running.values():
            waiting += commit.waiters
        self.running = {}
        self.pieces = self.pieces_kind(self)
        for key, connection in waiting:
            if not connection:
                self.reply(key, 0, m.RETRY)

    # Answers

    @property
    def reign(self) -> Any:
        assert self.member.reign is not None, "the coordinator's"
        return self.member.reign

    def _answer(self, note: m.Note) -> None:
        """A batch is done: by its origin, for the application may run its next one."""
        commit = self.running.get(note.fields["application"])
        if commit is not None and commit.note.fields["origin"] == note.fields["origin"]:
            del self.running[note.fields["application"]]
            for key, connection in commit.waiters:
                self.reply(key, connection, m.OK, note.fields)

    def reply(
        self, key: int, connection: int, status: int, fields: dict[str, Any] | None = None
    ) -> None:
        payload = json.dumps(fields, separators=(",", ":")).encode() if fields else b""
        if connection:
            reply = m.MemberReply(key, status, {}, payload)
            self.member.actions.append(m.Send(connection, reply))
        else:
            self.member.actions.append(m.Done(key, status, {}, payload))
