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
    COMMIT   {"stages":[[name,bytes,crc32]],              200 with the numbers; 404: stage again
              "remember":true,"after":7}
    ABORT    {"stages":[name]}, or all of the batch       200 with how many there were
    BATCH                                                 200 with the last batch

What is refused says why: {"why":"..."}.
"""

import json
from typing import TYPE_CHECKING, Any, Final

from sequencer.journal.record import Walk
from sequencer.replica import member_messages as m
from sequencer.replica.errors import StageRefused
from sequencer.replica.held_notes import HeldNotes
from sequencer.replica.note_snapshots import KEPT, SPARE, shorten, size_of
from sequencer.replica.replicated_log import StageKey, StageStore
from sequencer.replica.running_batch import RunningBatch, check_order
from sequencer.replica.stage_pieces import StagePieces

if TYPE_CHECKING:
    from sequencer.replica.member import Member

ROWS_MAX: Final = 1000  # published in one turn
WAITING_MAX: Final = 1024  # batches that are committed at a time; requests that wait for a sync
WAITERS_MAX: Final = 64  # requests that wait for one batch
BATCH_ORIGIN: Final = 1 << 63  # no client's origin has this bit


class Promises:
    """Of one member, in whichever role."""

    pieces_kind = StagePieces
    spare = SPARE
    kept = KEPT

    def __init__(self, member: "Member", stages: StageStore | None) -> None:
        self.member = member
        self.stages = stages
        self.applications: dict[str, dict[str, Any]] = {}  # the DONE of their last batch
        self.running: dict[str, RunningBatch] = {}  # the coordinator's
        self.open: dict[int, m.Note] = {}  # by origin: promises without a committed DONE
        self.asked: set[int] = set()  # keys of requests that the coordinator has
        self.group_bytes = 0  # of GROUPS notes since the log was shortened
        self.written = 0  # pieces of stages, on this connection
        self.pieces = self.pieces_kind(self)
        self.held = HeldNotes(self)
        # Requests that cannot be judged yet: of other members, and of clients here (connection 0).
        self._waiting: list[tuple[m.MemberRequest, int]] = []
        for number in range(member.notes.first, member.notes.last + 1):
            self.count(member.notes.at(number))

    @property
    def keep_after(self) -> int:
        """Retention keeps the numbers above this one: rows are looked for there."""
        after = (note.fields["after"] for note in self.open.values())
        return min(after, default=self.member.log.last)

    @property
    def newest_kept(self) -> int:
        """The newest DONE that is known to be committed when a process starts; 0: none.

        Stages are dropped when their DONE is committed, and not before.
        """
        notes, stages = self.member.notes, self.stages
        newest, prepared = 0, {}
        for number in range(notes.first, notes.last + 1):
            note = notes.at(number)
            fields = note.fields
            if note.kind == "PREPARE":
                prepared[fields["origin"]] = fields["stages"]
            elif note.kind == "DONE" and stages is not None:
                batch = fields["application"], fields["batch"]
                known = prepared.get(fields["origin"], ())
                if any(size and not stages.size((*batch, name)) for name, size, _ in known):
                    newest = number
        return newest

    # Every member

    def append(self, note: m.Note) -> None:
        """Write a note. Raises `OSError`."""
        self.member.notes.append(note)
        self.count(note)

    def count(self, note: m.Note) -> None:
        """It is in the log: committed, or not yet."""
        if note.kind == "PREPARE":
            self.open[note.fields["origin"]] = note
        elif note.kind == "GROUPS":
            self.group_bytes += size_of(note.fields["groups"])
            self.member.weights.add(note)
        elif note.kind == "SNAPSHOT":  # what was committed before it was written
            until = note.fields["until"]
            self.open = {key: one for key, one in self.open.items() if one.number > until}
            for done in note.fields["applications"]:
                self._know(done)
            self.member.weights.begin_anew(note)

    def apply(self, note: m.Note) -> None:
        """It is committed."""
        if note.kind == "DONE":
            self.open.pop(note.fields["origin"], None)
            self._know(note.fields)
            self._answer(note)
        if note.kind in ("DONE", "GROUPS"):
            try:
                shorten(self.member, self.spare, self.kept)
            except OSError as error:
                self.member.complaint = f"the notes cannot be shortened: {error}"

    def _know(self, done: dict[str, Any]) -> None:
        """This is the last batch of its application."""
        self.applications.pop(done.get("instead", ""), None)
        self.applications[done["application"]] = done
        if self.stages is not None:
            self.stages.committed(done)

    def is_here(self, note: m.Note) -> bool:
        """Whether a note can be taken: a PREPARE needs its stages, synced.

        Not if it is kept already: nobody has the stages any more when its DONE is committed.
        """
        fields = note.fields
        if note.kind != "PREPARE" or self.held.is_kept(fields["origin"]):
            return True
        if self.stages is None:
            return False
        return self.stages.keep(fields["application"], fields["batch"], fields["stages"])

    # A follower

    def take_piece(self, piece: m.StagePiece) -> None:
        if self.stages is None:
            return
        try:
            self.stages.write(
                (piece.application, piece.batch, piece.name), piece.offset, piece.data
            )
        except OSError as error:
            self.held.give_up(f"a stage cannot be written: {error}")
            return
        self.written += 1
        self.held.came(len(piece.data))

    def drop_stage(self, message: m.StageDrop) -> None:
        if self.stages is not None:
            self.stages.drop(message.application, message.batch, message.name)

    def cut_notes(self, number: int) -> None:
        """Notes above this one are not the coordinator's. Raises `OSError`."""
        notes = self.member.notes
        self.written = 0
        self.held.forget()
        if number < notes.first - 1:
            self.held.in_common = number  # a SNAPSHOT comes, which replaces them all
            return
        for one in range(number + 1, notes.last + 1):
            note = notes.at(one)
            if note.kind == "PREPARE":
                self.open.pop(note.fields["origin"], None)
        if number < notes.last:
            notes.truncate(number)
            self.member.weights.forget_above(number)

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
        self.held.forget()
        self.written = 0
        for key in sorted(self.asked):
            self.reply(key, 0, m.RETRY)
        self.asked.clear()

    # The coordinator: requests

    def serve(self, request: m.MemberRequest, connection: int) -> None:
        """Answer a request: of a client here (connection 0), or of another member's."""
        if self.stages is None or not self.reign.is_begun:
            self.reply(request.key, connection, m.RETRY)
            return
        if request.word in ("COMMIT", "BATCH") and not self._knows_all():
            self._wait(request, connection)
            return
        try:
            self._judge(request, connection)
        except StageRefused as refused:
            self.reply(request.key, connection, refused.status, refused.facts)
        except (KeyError, TypeError, ValueError) as error:
            if connection == 0:
                raise  # what clients here send was checked
            why = f"a member has sent a request that is not one: {error!r}"
            self.reply(request.key, connection, m.BAD, StageRefused(m.BAD, why).facts)

    def _knows_all(self) -> bool:
        """Whether every batch that an earlier coordinator has answered is known here."""
        inherited: int = min(self.reign.inherited[1], self.member.notes.last)
        return self.member.note_watermark >= inherited

    def _wait(self, request: m.MemberRequest, connection: int) -> None:
        """Judge a request later: `go_on` looks again."""
        if len(self._waiting) < WAITING_MAX:
            self._waiting.append((request, connection))
        else:
            self.reply(request.key, connection, m.RETRY)

    def _judge(self, request: m.MemberRequest, connection: int) -> None:
        headers = request.headers
        application, batch = headers["application"], int(headers.get("batch", 0))
        match request.word:
            case "STAGE":
                self._stage(request, connection, (application, batch, headers["name"]))
            case "COMMIT":
                self._commit(request, connection, application, batch)
            case "ABORT":
                self._abort(request, connection, application, batch)
            case _:
                running = self.running.get(application)
                committing = running.note.fields["batch"] if running is not None else None
                facts = {"last": self.applications.get(application), "committing": committing}
                self.reply(request.key, connection, m.OK, facts)

    def _stage(self, request: m.MemberRequest, connection: int, key: StageKey) -> None:
        stages, running = self.stages, self.running.get(key[0])
        assert stages is not None, "it was asked before"
        if running is not None and running.note.fields["batch"] == key[1]:
            self.reply(request.key, connection, m.OK, stages.facts(key))
            return
        offset = int(request.headers["offset"])
        try:
            stages.stage(key, offset, request.payload, request.headers)
        except OSError as error:
            why = f"the stage cannot be written to the disk: {error.strerror}"
            raise StageRefused(m.FULL, why) from error
        piece = m.StagePiece(self.reign.epoch, *key, offset, request.payload)
        self.pieces.send_to_all(piece, request.key, connection, stages.facts(key))

    def link_lost(self, connection: int) -> None:
        """A member's connection is gone: it waits for nothing, and nobody waits for it."""
        for commit in self.running.values():
            commit.waiters = [one for one in commit.waiters if one[1] != connection]
        self._waiting = [one for one in self._waiting if one[1] != connection]
        self.pieces.link_lost(connection)

    def _abort(
        self, request: m.MemberRequest, connection: int, application: str, batch: int
    ) -> None:
        running = self.running.get(application)
        if running is not None and running.note.fields["batch"] == batch:
            raise StageRefused(m.BUSY, f"batch {batch} of it is being committed")
        assert self.stages is not None, "it was asked before"
        asked = json.loads(request.payload or b"{}").get("stages")
        gone = self.stages.names(application, batch)
        if asked is not None:
            gone = [name for name in gone if name in asked]
        for name in gone:
            self._drop(application, batch, name)
        self.reply(request.key, connection, m.OK, {"dropped": len(gone)})

    def _drop(self, application: str, batch: int, name: str = "") -> None:
        """Drop a stage on all members; without a name, all of this batch and of earlier ones."""
        assert self.stages is not None, "it was asked before"
        self.stages.drop(application, batch, name)
        for other in self.reign.links:
            drop = m.StageDrop(self.reign.epoch, application, batch, name)
            self.member.actions.append(m.Send(other, drop))

    def _commit(
        self, request: m.MemberRequest, connection: int, application: str, batch: int
    ) -> None:
        done, running = self.applications.get(application), self.running.get(application)
        asked = json.loads(request.payload)
        if done is not None and batch <= done["batch"]:
            self._drop(application, done["batch"])
            self.reply(request.key, connection, m.OK, done | {"repeated": True})
        elif running is not None and running.note.fields["batch"] == batch:
            if len(running.waiters) >= WAITERS_MAX:
                raise StageRefused(m.CROWDED, f"{WAITERS_MAX} wait for this commit already")
            is_same = running.note.fields["stages"] == asked["stages"]
            running.waiters.append((request.key, connection, is_same))
        elif running is not None:
            why = f"batch {running.note.fields['batch']} of it is being committed"
            raise StageRefused(m.BUSY, why)
        elif len(self.running) >= WAITING_MAX:
            raise StageRefused(m.CROWDED, f"{WAITING_MAX} commits wait for their turn already")
        else:
            check_order(asked, None if done is None else done["batch"])
            self._prepare(request, connection, asked)

    def _prepare(self, request: m.MemberRequest, connection: int, asked: dict[str, Any]) -> None:
        """Write the promise, if all that it promises is here."""
        member = self.member
        application, batch = request.headers["application"], int(request.headers["batch"])
        assert self.stages is not None, "it was asked before"
        rows = self.stages.rows(application, batch, asked["stages"])
        if not self.stages.keep(application, batch, asked["stages"]):
            self._wait(request, connection)  # until they are synced
            return
        owned = self.stages.claim(application, request.headers)
        number = member.notes.last + 1
        fields = {
            "application": application,
            "batch": batch,
            "remember": asked.get("remember", True),
            "origin": BATCH_ORIGIN | self.reign.epoch << 32 | number & 0xFFFFFFFF,
            "rows": rows,
            "after": member.numbering.sequencer.number,
            "stages": asked["stages"],
            **owned,
        }
        note = m.Note(number, self.reign.epoch, "PREPARE", fields)
        try:
            self.append(note)
        except OSError as error:
            self.stages.disown(application)
            why = f"the commit cannot be written to the disk: {error.strerror}"
            raise StageRefused(m.FULL, why) from error
        waiters = [(request.key, connection, True)]
        self.running[application] = RunningBatch(note, waiters=waiters)

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
                if application in self.running:  # its PREPARE may be replaced by a SNAPSHOT
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
        commit.add(number, 1)

    def forget_above(self, number: int) -> None:
        """Rows with a higher number could not be written: they have none again."""
        for commit in self.running.values():
            commit.forget_above(number)

    def go_on(self) -> None:
        """Publish some rows of what is promised; end what has all of them committed."""
        waiting, self._waiting = self._waiting, []
        for request, connection in waiting:
            self.serve(request, connection)
        for commit in self.running.values():
            if not commit.is_done and self.is_promised(commit):
                self._publish(commit)
                if commit.taken == commit.rows and self.is_safe(commit):
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
        rows, numbering = commit.rows, self.member.numbering
        if commit.taken == rows or not self.reign.is_taking or self.stages is None:
            return
        numbering.sequencer.tick(self.member.wall, self.member.steady)
        count = self.stages.publish(
            commit.note, commit.taken + 1, min(rows - commit.taken, ROWS_MAX), numbering.take_row
        )
        if count:
            commit.add(numbering.sequencer.number - count + 1, count)

    @property
    def has_more(self) -> bool:
        """Whether rows wait for their turn: then the driver calls `flush` again soon."""
        return any(one.taken < one.rows and self.is_promised(one) for one in self.running.values())

    def _end(self, commit: RunningBatch) -> None:
        member = self.member
        done = commit.done_fields(member.wall // 1_000_000)
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
            waiting += [(key, connection) for key, connection, _ in commit.waiters]
        waiting += [(request.key, connection) for request, connection in self._waiting]
        self._waiting = []
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
            for key, connection, is_same in commit.waiters:
                self.reply(key, connection, m.OK, note.fields | {"repeated": not is_same})

    def reply(
        self, key: int, connection: int, status: int, fields: dict[str, Any] | None = None
    ) -> None:
        payload = json.dumps(fields, separators=(",", ":")).encode() if fields else b""
        if connection:
            reply = m.MemberReply(key, status, {}, payload)
            self.member.actions.append(m.Send(connection, reply))
        else:
            self.member.actions.append(m.Done(key, status, {}, payload))
