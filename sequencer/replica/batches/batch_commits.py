"""Batches: each row is published once, whichever member dies. Their state is in the second log.

    STAGE    the coordinator writes a piece, and sends it to all others; they write it
    COMMIT   PREPARE into the second log: a member takes it when it has every stage, synced
             -> committed: it is a promise. Only now rows get numbers, from (origin, row) on
             -> the last row committed: DONE into the second log
             -> committed: answered, and every member knows the application's last batch

A member that takes a PREPARE may be the next coordinator, and must keep the promise then. A new
coordinator finds in its own logs which promises have no DONE, and which of their rows are there.
All of both logs is kept, so nothing comes twice and nothing is missing.

A running batch is found by its origin, never by the application's name alone: a DONE that is
committed late must not end the application's next batch.

Requests, with the headers application and batch (others wait for the coordinator; all may be
repeated):

    STAGE    name, offset; the payload is a piece         200, 409 with the expected offset
    COMMIT   {"stages":[[name,bytes,crc32]],              200 with the numbers; 404: stage again
              "remember":true,"after":7}
    ABORT    {"stages":[name]}, or all of the batch       200 with how many there were
    BATCH                                                 200 with the last batch

A refusal says why: {"why":"..."}.
"""

import json
from dataclasses import dataclass, field
from typing import Any, Final

from sequencer.journal.record import Walk
from sequencer.replica import member_messages as m
from sequencer.replica.batches.stage_pieces import StagePieces
from sequencer.replica.coordinator_state import CoordinatorState, MemberLink
from sequencer.replica.errors import StageRefused
from sequencer.replica.in_sync import InSync
from sequencer.replica.notes.note_state import NoteState
from sequencer.replica.replicated_log import StageKey

ROWS_MAX: Final = 1000  # published in one turn
WAITING_MAX: Final = 1024  # batches that are committed at a time; requests that wait for a sync
WAITERS_MAX: Final = 64  # requests that wait for one batch
BATCH_ORIGIN: Final = 1 << 63  # no client's origin has this bit
ABOUT: Final = ("application", "batch", "remember", "origin", "rows", "address", "instead")


@dataclass
class RunningBatch:
    """A PREPARE without a DONE that is committed. Rows count from 1, and get numbers in order."""

    note: m.Note
    spans: list[tuple[int, int]] = field(default_factory=list)  # first number, rows
    done: dict[str, Any] | None = None  # the fields of its DONE, which is in the log
    # Key, connection (0: here), and whether the request names the same stages.
    waiters: list[tuple[int, int, bool]] = field(default_factory=list)

    @property
    def is_done(self) -> bool:
        return self.done is not None

    @property
    def batch(self) -> int:
        return int(self.note.fields["batch"])

    @property
    def origin(self) -> int:
        return int(self.note.fields["origin"])

    @property
    def rows(self) -> int:
        return int(self.note.fields["rows"])

    @property
    def taken(self) -> int:
        """The count of rows that have numbers."""
        return sum(count for _, count in self.spans)

    @property
    def first(self) -> int:
        return self.spans[0][0] if self.spans else 0

    @property
    def last(self) -> int:
        return self.spans[-1][0] + self.spans[-1][1] - 1 if self.spans else 0

    def add(self, first: int, count: int) -> None:
        """Give the next rows numbers, from `first` on."""
        if self.spans and self.last + 1 == first:
            before, rows = self.spans.pop()
            first, count = before, rows + count
        self.spans.append((first, count))

    def forget_above(self, number: int) -> None:
        """Take back the numbers above this one: those rows were not written."""
        kept = [(first, min(count, number + 1 - first)) for first, count in self.spans]
        self.spans = [(first, count) for first, count in kept if count > 0]

    def done_fields(self, time: int) -> dict[str, Any]:
        """Return the fields of the batch's DONE; `time` is in milliseconds."""
        done = {key: self.note.fields[key] for key in ABOUT if key in self.note.fields}
        return done | {"first": self.first, "last": self.last, "time": time}


class BatchCommits:
    """The batches of one epoch, at its coordinator."""

    pieces_kind = StagePieces

    def __init__(
        self, coordinator: CoordinatorState, in_sync: InSync, note_state: NoteState
    ) -> None:
        self.coordinator = coordinator
        self.member = coordinator.member
        self.note_state = note_state
        self.stages = note_state.stages
        self.running: dict[str, RunningBatch] = {}  # by application
        self.pieces = self.pieces_kind(coordinator, in_sync, self.reply)
        # Requests that cannot be judged yet: of other members, and of clients here (connection 0).
        self._waiting: list[tuple[m.MemberRequest, int]] = []

    # Requests

    def serve(self, request: m.MemberRequest, connection: int) -> None:
        """Answer a request: of a client here (connection 0), or of another member's."""
        if self.stages is None or not self.coordinator.is_begun:
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
        """Return whether every batch that an earlier coordinator has answered is known here."""
        inherited = min(self.coordinator.inherited[1], self.member.notes.last)
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
                done, running = self._known(application)
                committing = running.batch if running is not None else None
                self.reply(request.key, connection, m.OK, {"last": done, "committing": committing})

    def _known(self, application: str) -> tuple[dict[str, Any] | None, RunningBatch | None]:
        """Return the DONE of an application's last batch, and the batch that is being committed."""
        return self.note_state.applications.get(application), self.running.get(application)

    def _stage(self, request: m.MemberRequest, connection: int, key: StageKey) -> None:
        stages, running = self.stages, self.running.get(key[0])
        assert stages is not None, "it was asked before"
        if running is not None and running.batch == key[1]:
            self.reply(request.key, connection, m.OK, stages.facts(key))
            return
        offset = int(request.headers["offset"])
        try:
            stages.stage(key, offset, request.payload, request.headers)
        except OSError as error:
            why = f"the stage cannot be written to the disk: {error.strerror}"
            raise StageRefused(m.FULL, why) from error
        piece = m.StagePiece(self.coordinator.epoch, *key, offset, request.payload)
        self.pieces.send_to_all(piece, request.key, connection, stages.facts(key))

    def send_rest(self, link: MemberLink, fetch: m.StageFetch) -> None:
        """Send a member what it lacks of a stage."""
        if self.stages is not None:
            self.pieces.send_rest(link, fetch, self.stages)

    def link_lost(self, connection: int) -> None:
        """Forget a member's connection: no request of it is answered any more."""
        for commit in self.running.values():
            commit.waiters = [one for one in commit.waiters if one[1] != connection]
        self._waiting = [one for one in self._waiting if one[1] != connection]
        self.pieces.link_lost(connection)

    def _abort(
        self, request: m.MemberRequest, connection: int, application: str, batch: int
    ) -> None:
        running = self.running.get(application)
        if running is not None and running.batch == batch:
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
        for other in self.coordinator.links:
            drop = m.StageDrop(self.coordinator.epoch, application, batch, name)
            self.member.send(other, drop)

    def _commit(
        self, request: m.MemberRequest, connection: int, application: str, batch: int
    ) -> None:
        done, running = self._known(application)
        asked = json.loads(request.payload)
        if done is not None and batch <= done["batch"]:
            self._drop(application, done["batch"])
            self.reply(request.key, connection, m.OK, done | {"repeated": True})
        elif running is not None and running.batch == batch:
            if len(running.waiters) >= WAITERS_MAX:
                raise StageRefused(m.CROWDED, f"{WAITERS_MAX} wait for this commit already")
            is_same = running.note.fields["stages"] == asked["stages"]
            running.waiters.append((request.key, connection, is_same))
        elif running is not None:
            why = f"batch {running.batch} of it is being committed"
            raise StageRefused(m.BUSY, why)
        elif len(self.running) >= WAITING_MAX:
            raise StageRefused(m.CROWDED, f"{WAITING_MAX} commits wait for their turn already")
        else:
            check_order(asked, None if done is None else done["batch"])
            self._prepare(request, connection, asked)

    def _prepare(self, request: m.MemberRequest, connection: int, asked: dict[str, Any]) -> None:
        """Write the promise, if everything that it promises is here."""
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
            "origin": BATCH_ORIGIN | self.coordinator.epoch << 32 | number & 0xFFFFFFFF,
            "rows": rows,
            "after": member.numbering.sequencer.number,
            "stages": asked["stages"],
            **owned,
        }
        note = m.Note(number, self.coordinator.epoch, "PREPARE", fields)
        try:
            self.note_state.append(note)
        except OSError as error:
            self.stages.disown(application)
            why = f"the commit cannot be written to the disk: {error.strerror}"
            raise StageRefused(m.FULL, why) from error
        waiters = [(request.key, connection, True)]
        self.running[application] = RunningBatch(note, waiters=waiters)

    # Promises

    def take_over(self) -> None:
        """Find the promises without DONE. `found` then counts their rows."""
        notes = self.member.notes
        for number in range(notes.first, notes.last + 1):
            note = notes.at(number)
            application = note.fields.get("application", "")
            if note.kind == "PREPARE":
                self.running[application] = RunningBatch(note)
            elif note.kind == "DONE" and number > self.member.note_watermark:
                if application in self.running:  # its PREPARE may be replaced by a SNAPSHOT
                    self.running[application].done = note.fields
            elif note.kind == "DONE":
                self.running.pop(application, None)

    @property
    def rows_after(self) -> int:
        """The number of the log below all rows of promises without DONE."""
        running = self.running.values()
        return min(
            (one.note.fields["after"] for one in running if not one.is_done),
            default=self.member.log.last,
        )

    def found(self, walk: Walk) -> None:
        """Look at a record of this member's log: it may be a row of a promise."""
        if walk.origin & BATCH_ORIGIN:
            for commit in self.running.values():
                if commit.origin == walk.origin and not commit.is_done:
                    self.count_row(commit, walk.number)

    def count_row(self, commit: RunningBatch, number: int) -> None:
        commit.add(number, 1)

    def forget_above(self, number: int) -> None:
        """Take back the numbers of rows that could not be written."""
        for commit in self.running.values():
            commit.forget_above(number)

    def go_on(self) -> None:
        """Publish some rows of the promised batches; end those whose rows are all committed."""
        self._answer_done()
        waiting, self._waiting = self._waiting, []
        for request, connection in waiting:
            self.serve(request, connection)
        for commit in self.running.values():
            if not commit.is_done and self.is_promised(commit):
                self._publish(commit)
                if commit.taken == commit.rows and self.is_safe(commit):
                    self._end(commit)

    def is_promised(self, commit: RunningBatch) -> bool:
        """True if the batch's PREPARE is committed."""
        return commit.note.number <= self.member.note_watermark

    def is_safe(self, commit: RunningBatch) -> bool:
        """True if the batch's last row is committed, and on this disk."""
        member = self.member
        is_synced = member.settings.sync == "never" or commit.last <= member.log.synced
        return commit.last <= member.watermark and is_synced

    def _publish(self, commit: RunningBatch) -> None:
        rows, numbering = commit.rows, self.member.numbering
        if commit.taken == rows or not self.coordinator.is_taking or self.stages is None:
            return
        numbering.sequencer.tick(self.member.wall, self.member.steady)
        count = self.stages.publish(
            commit.note, commit.taken + 1, min(rows - commit.taken, ROWS_MAX), numbering.take_row
        )
        if count:
            commit.add(numbering.sequencer.number - count + 1, count)

    def _end(self, commit: RunningBatch) -> None:
        member = self.member
        done = commit.done_fields(member.wall // 1_000_000)
        try:
            self.note_state.append(
                m.Note(member.notes.last + 1, self.coordinator.epoch, "DONE", done)
            )
        except OSError as error:
            member.complaint = f"the notes cannot be written: {error}"
        else:
            commit.done = done

    def end(self) -> None:
        """Make clients here ask again; other members notice that their connection is gone."""
        waiting = self.pieces.waiting()
        for commit in self.running.values():
            waiting += [(key, connection) for key, connection, _ in commit.waiters]
        waiting += [(request.key, connection) for request, connection in self._waiting]
        for key, connection in waiting:
            if not connection:
                self.reply(key, 0, m.RETRY)

    # Answers

    def _answer_done(self) -> None:
        """Answer the commits whose DONE is committed: their promise is no longer open."""
        for application, commit in list(self.running.items()):
            if commit.done is not None and commit.origin not in self.note_state.open:
                del self.running[application]
                for key, connection, is_same in commit.waiters:
                    self.reply(key, connection, m.OK, commit.done | {"repeated": not is_same})

    def reply(
        self, key: int, connection: int, status: int, fields: dict[str, Any] | None = None
    ) -> None:
        payload = json.dumps(fields, separators=(",", ":")).encode() if fields else b""
        if connection:
            self.member.send(connection, m.MemberReply(key, status, {}, payload))
        else:
            self.member.say(m.Done(key, status, {}, payload))


def check_order(asked: dict[str, Any], last: int | None) -> None:
    """Raise `StageRefused` unless the batch comes after the one that the request names."""
    if "after" in asked and asked["after"] != last:
        known = "no batch of it was committed" if last is None else f"its last batch is {last}"
        why = f"{known}, but this one must come after {asked['after']}"
        raise StageRefused(m.CONFLICT, why)
