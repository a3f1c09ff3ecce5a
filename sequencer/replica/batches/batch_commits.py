"""Batches: each row is published once, whichever member dies. Their state is in the second log.

    STAGE    the coordinator writes a piece, and sends it to all others; they write it
    COMMIT   PREPARE into the second log: a member takes it when it has every stage, synced, and
             acknowledges it when it is synced, too
             -> committed: it is a promise. Only now rows get numbers, from (origin, row) on
             -> the last row committed: DONE into the second log
             -> committed: answered, and every member knows the application's last batch

A member that takes a PREPARE may be the next coordinator, and must keep the promise then. A new
coordinator finds in its own logs which promises have no DONE, and which of their rows are there.
All of both logs is kept, so nothing comes twice and nothing is missing.

A broker that is alone is a cluster of one: a note is committed when its disk has it, and what is
written has the number that it was given. A start takes the place of a new epoch. Two things can
happen only there. A power cut may take rows from between others, as a disk writes in any order:
exactly those are published again. And stages may be lost that were promised: then a VOID takes
the promise back if no row was published; otherwise its commits are refused
(`RunningBatch.problem`).

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
from bisect import bisect
from dataclasses import dataclass, field
from typing import Any, Final

from sequencer.journal.record import Walk
from sequencer.replica import member_messages as m
from sequencer.replica.batches.stage_pieces import StagePieces
from sequencer.replica.coordinator_state import EpochState, MemberLink
from sequencer.replica.errors import StageRefused
from sequencer.replica.in_sync import InSync
from sequencer.replica.notes.note_state import NoteState
from sequencer.replica.replicated_log import StageKey

ROWS_MAX: Final = 8000  # published in one turn, of all batches together
PUBLISHED_AT_A_TIME: Final = 8  # batches: each has a file open, and a megabyte in memory
WAITING_MAX: Final = 1024  # batches that are committed at a time; requests that wait for a sync
WAITERS_MAX: Final = 64  # requests that wait for one batch
BATCH_ORIGIN: Final = 1 << 63  # no client's origin has this bit
ABOUT: Final = ("application", "batch", "remember", "origin", "rows", "address", "instead")


@dataclass(eq=False)
class RunningBatch:
    """A PREPARE without a DONE that is committed. Rows count from 1, and get numbers in order."""

    note: m.Note
    # The rows that have numbers, in their order: the first row, its number, and how many.
    spans: list[tuple[int, int, int]] = field(default_factory=list)
    done: m.Note | None = None  # its DONE, which is in the log
    damage: str = ""  # why the rest of its rows cannot be published here
    problem: str = ""  # the same, if no other broker can publish them
    # Key, connection (0: here), and whether the request names the same stages.
    waiters: list[tuple[int, int, bool]] = field(default_factory=list)

    @property
    def is_done(self) -> bool:
        return self.done is not None

    @property
    def owner(self) -> str:
        """The address that the batch is charged to; "" if it is not known."""
        return str(self.note.fields.get("address", ""))

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
        return sum(count for _, _, count in self.spans)

    @property
    def first(self) -> int:
        return min((number for _, number, _ in self.spans), default=0)

    @property
    def last(self) -> int:
        return max((number + count - 1 for _, number, count in self.spans), default=0)

    @property
    def missing(self) -> tuple[int, int]:
        """The first row without a number, and how many follow it without one."""
        row = 1
        for first, _, count in self.spans:
            if row < first:
                return row, first - row
            row = first + count
        return row, self.rows + 1 - row

    def take_waiters(self) -> list[tuple[int, int, bool]]:
        """Return the requests that wait for it: they are answered now."""
        waiters, self.waiters = self.waiters, []
        return waiters

    def forget_link(self, connection: int) -> None:
        """Forget the requests of a connection that has ended."""
        self.waiters = [one for one in self.waiters if one[1] != connection]

    def add(self, row: int, number: int, count: int) -> None:
        """Note that rows from `row` on have numbers, from `number` on."""
        at = bisect(self.spans, (row, number, count))
        if at:
            first, from_number, before = self.spans[at - 1]
            if (first + before, from_number + before) == (row, number):
                self.spans[at - 1] = (first, from_number, before + count)
                return
        self.spans.insert(at, (row, number, count))

    def forget_above(self, number: int) -> None:
        """Take back the numbers above this one: those rows were not written."""
        kept = [(row, first, min(count, number + 1 - first)) for row, first, count in self.spans]
        self.spans = [span for span in kept if span[2] > 0]

    def done_fields(self, time: int) -> dict[str, Any]:
        """Return the fields of the batch's DONE; `time` is in milliseconds."""
        done = {key: self.note.fields[key] for key in ABOUT if key in self.note.fields}
        return done | {"first": self.first, "last": self.last, "time": time}


class BatchCommits:
    """The batches of one epoch, at its coordinator."""

    pieces_kind = StagePieces

    def __init__(
        self,
        epoch: EpochState,
        note_state: NoteState,
        in_sync: InSync | None,
        at_a_time: int = PUBLISHED_AT_A_TIME,
    ) -> None:
        """Begin without batches. `in_sync` None: this broker is alone."""
        self.epoch = epoch
        self.member = epoch.member
        self.note_state = note_state
        self.stages = note_state.stages
        self.running: dict[str, RunningBatch] = {}  # by application
        self.pieces = self.pieces_kind(in_sync, self.reply) if in_sync is not None else None
        self._at_a_time = at_a_time
        self._rows_max = ROWS_MAX // at_a_time
        self._publishing: list[RunningBatch] = []
        self._turn = 0
        self._turns: dict[str, int] = {}  # by owner: when a batch of it was last begun
        # Requests that cannot be judged yet: of other members, and of clients here (connection 0).
        self._waiting: list[tuple[m.MemberRequest, int]] = []
        self._judged_at = -1  # how far notes were committed when those were judged last

    # Requests

    def serve(self, request: m.MemberRequest, connection: int) -> None:
        """Answer a request: of a client here (connection 0), or of another member's."""
        if self.stages is None or not self.epoch.is_begun:
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
        inherited = min(self.epoch.inherited[1], self.member.notes.last)
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
                done = self.note_state.applications.get(application)
                committing = self._committing(application)
                self.reply(request.key, connection, m.OK, {"last": done, "committing": committing})

    def _committing(self, application: str) -> int | None:
        """Return the batch that is being committed; its stages may yet have to be synced."""
        running = self.running.get(application)
        if running is not None:
            return None if running.problem else running.batch
        for request, _ in self._waiting:
            if request.word == "COMMIT" and request.headers["application"] == application:
                return int(request.headers["batch"])
        return None

    def _stage(self, request: m.MemberRequest, connection: int, key: StageKey) -> None:
        stages, running = self.stages, self.running.get(key[0])
        assert stages is not None, "it was asked before"
        offset = int(request.headers["offset"])
        if running is not None and running.batch == key[1]:
            if offset + len(request.payload) > stages.size(key):
                what, size = "stage" if stages.size(key) else "batch", stages.size(key)
                raise StageRefused(m.CONFLICT, f"this {what} is being committed", size)
            self.reply(request.key, connection, m.OK, stages.facts(key))
            return
        try:
            stages.stage(key, offset, request.payload, request.headers)
        except OSError as error:
            why = f"the stage cannot be written to the disk: {error.strerror}"
            raise StageRefused(m.FULL, why) from error
        if self.pieces is None:
            self.reply(request.key, connection, m.OK, stages.facts(key))
            return
        piece = m.StagePiece(self.epoch.epoch, *key, offset, request.payload)
        self.pieces.send_to_all(piece, request.key, connection, stages.facts(key))

    def send_rest(self, link: MemberLink, fetch: m.StageFetch) -> None:
        """Send a member what it lacks of a stage."""
        if self.stages is not None and self.pieces is not None:
            self.pieces.send_rest(link, fetch, self.stages)

    def pieces_written(self, link: MemberLink, count: int) -> None:
        """Count the pieces that a member has written."""
        if self.pieces is not None:
            self.pieces.written(link, count)

    def link_lost(self, connection: int) -> None:
        """Forget a member's connection: no request of it is answered any more."""
        for commit in self.running.values():
            commit.forget_link(connection)
        self._waiting = [one for one in self._waiting if one[1] != connection]
        if self.pieces is not None:
            self.pieces.link_lost(connection)

    def _abort(
        self, request: m.MemberRequest, connection: int, application: str, batch: int
    ) -> None:
        running = self.running.get(application)
        is_promised = running is not None and running.batch == batch
        if self._committing(application) == batch:
            raise StageRefused(m.BUSY, f"batch {batch} of it is being committed")
        assert self.stages is not None, "it was asked before"
        asked = json.loads(request.payload or b"{}").get("stages")
        gone = [] if is_promised else self.stages.names(application, batch)
        if asked is not None:
            gone = [name for name in gone if name in asked]
        for name in gone:
            self._drop(application, batch, name)
        self.reply(request.key, connection, m.OK, {"dropped": len(gone)})

    def _drop(self, application: str, batch: int, name: str = "") -> None:
        """Drop a stage on all members; without a name, all of this batch and of earlier ones."""
        assert self.stages is not None, "it was asked before"
        self.stages.drop(application, batch, name)
        for other in self.epoch.links:
            drop = m.StageDrop(self.epoch.epoch, application, batch, name)
            self.member.send(other, drop)

    def _commit(
        self, request: m.MemberRequest, connection: int, application: str, batch: int
    ) -> None:
        done = self.note_state.applications.get(application)
        running = self.running.get(application)
        asked = json.loads(request.payload)
        if done is not None and batch <= done["batch"]:
            self._drop(application, done["batch"])
            self.reply(request.key, connection, m.OK, done | {"repeated": True})
        elif running is not None and running.problem:
            raise StageRefused(m.BROKEN, running.problem)
        elif running is not None and running.batch == batch:
            if len(running.waiters) >= WAITERS_MAX:
                raise StageRefused(m.CROWDED, f"{WAITERS_MAX} wait for this commit already")
            is_same = running.note.fields["stages"] == asked["stages"]
            running.waiters.append((request.key, connection, is_same))
        elif (other := self._committing(application)) not in (None, batch):
            raise StageRefused(m.BUSY, f"batch {other} of it is being committed")
        elif len(self.running) >= WAITING_MAX and self._has_running(request):
            raise StageRefused(m.CROWDED, f"{WAITING_MAX} commits wait for their turn already")
        else:
            check_order(asked, None if done is None else done["batch"])
            self._prepare(request, connection, asked)

    def _has_running(self, request: m.MemberRequest) -> bool:
        """Return whether a batch of this request's owner runs: one of each may, however many do."""
        owner = request.headers.get("address", "")
        return not owner or any(commit.owner == owner for commit in self.running.values())

    def _prepare(self, request: m.MemberRequest, connection: int, asked: dict[str, Any]) -> None:
        """Write the promise, if everything that it promises is here."""
        member = self.member
        application, batch = request.headers["application"], int(request.headers["batch"])
        assert self.stages is not None, "it was asked before"
        rows = self.stages.rows(application, batch, asked["stages"])
        if not self.stages.keep(application, batch, asked["stages"]):
            self._wait(request, connection)  # until they are synced
            return
        if member.note_trouble:
            why = f"the commit cannot be written to the disk: {member.note_trouble}"
            raise StageRefused(m.FULL, why)
        owned = self.stages.claim(application, request.headers)
        number = member.notes.last + 1
        fields = {
            "application": application,
            "batch": batch,
            "remember": asked.get("remember", True),
            "origin": BATCH_ORIGIN | self.epoch.epoch << 32 | number & 0xFFFFFFFF,
            "rows": rows,
            "after": member.sequencer.number,
            "stages": asked["stages"],
            **owned,
        }
        note = m.Note(number, self.epoch.epoch, "PREPARE", fields)
        self.note_state.append(note)
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
                    self.running[application].done = note
            elif note.kind in ("DONE", "VOID"):
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
                    self.count_row(commit, walk.origin_sequence, walk.number)

    def count_row(self, commit: RunningBatch, row: int, number: int) -> None:
        commit.add(row, number, 1)

    def forget_above(self, number: int) -> None:
        """Take back the numbers of rows that could not be written."""
        for commit in self.running.values():
            commit.forget_above(number)

    def go_on(self) -> None:
        """Publish some rows of the promised batches; end those whose rows are all committed."""
        self._answer_done()
        if self._judged_at != self.member.note_watermark:
            self._judged_at = self.member.note_watermark
            waiting, self._waiting = self._waiting, []
            for request, connection in waiting:
                self.serve(request, connection)
        self._publish_some()
        for commit in self.running.values():
            later = self.member.notes.last - commit.note.number
            if commit.problem and later > self.note_state.spare:
                self.promise_again(commit)  # so that the notes before it can be replaced
        for commit in self.running.values():
            is_due = not commit.is_done and self.is_promised(commit)
            if is_due and commit.taken == commit.rows and self.is_safe(commit):
                self._end(commit)

    def stages_synced(self) -> None:
        """Judge the requests that wait, at the next turn: stages are on the disk, or are lost."""
        self._judged_at = -1

    def is_promised(self, commit: RunningBatch) -> bool:
        """True if the batch's PREPARE is committed."""
        return commit.note.number <= self.member.note_watermark

    def is_safe(self, commit: RunningBatch) -> bool:
        """True if the batch's last row is committed, and on this disk."""
        member = self.member
        is_synced = not member.is_durable or commit.last <= member.log.synced
        return commit.last <= member.watermark and is_synced

    @property
    def awaited(self) -> int:
        """The number up to which batches whose rows are all there need the journal synced."""
        if not self.member.is_durable:
            return 0
        unsafe = (
            commit.last
            for commit in self.running.values()
            if not commit.is_done and commit.taken == commit.rows and not self.is_safe(commit)
        )
        return max(unsafe, default=0)

    def _publish_some(self) -> None:
        """Give numbers to rows of some batches; of others, where one turns out to be damaged."""
        while True:
            chosen = self._next_to_publish()
            for commit in chosen:
                self._publish(commit)
            if not any(commit.damage for commit in chosen):
                return

    def _next_to_publish(self) -> list[RunningBatch]:
        """Return the batches whose rows get numbers now: a few, and each owner in its turn.

        So no owner waits for all batches of another one.
        """
        waiting = [
            commit
            for commit in self.running.values()
            if not (commit.is_done or commit.damage or commit.taken == commit.rows)
            and self.is_promised(commit)
        ]
        self._publishing = [commit for commit in self._publishing if commit in waiting]
        if len(self._turns) > WAITING_MAX or not waiting:
            self._turns = {commit.owner: self._turns.get(commit.owner, 0) for commit in waiting}
        while len(self._publishing) < min(self._at_a_time, len(waiting)):
            rest = (commit for commit in waiting if commit not in self._publishing)
            chosen = min(rest, key=lambda commit: self._turns.get(commit.owner, 0))
            self._turn += 1
            self._turns[chosen.owner] = self._turn
            self._publishing.append(chosen)
        return self._publishing

    def _publish(self, commit: RunningBatch) -> None:
        sequencer = self.member.sequencer
        if not self.epoch.is_taking or self.stages is None:
            return
        sequencer.tick(self.member.wall, self.member.steady)
        row, most = commit.missing
        count = self.stages.publish(
            commit.note, row, min(most, self._rows_max), sequencer.assign_number
        )
        if count:
            commit.add(row, sequencer.number - count + 1, count)
        elif (why := self.stages.damage(commit.note)) and not commit.damage:
            self.give_up(commit, why)

    def give_up(self, commit: RunningBatch, why: str) -> None:
        """Complain of a batch that cannot be published here.

        A broker that is alone refuses its commits, and keeps what is left for the next start.
        """
        commit.damage = why
        name, missing = commit.note.fields["application"], commit.rows - commit.taken
        if self.pieces is not None:
            self.member.complaint = (
                f"batch {commit.batch} of {name} was committed, and {missing} of its {commit.rows}"
                f" rows cannot be published here: {why}; stop this member, and another one goes on"
            )
            return
        commit.problem = (
            f"batch {commit.batch} of {name} was committed, and {missing} of its {commit.rows}"
            f" rows cannot be published: {why}"
        )
        self.member.complaint = commit.problem
        for key, connection, _ in commit.take_waiters():
            self.reply(key, connection, m.BROKEN, StageRefused(m.BROKEN, commit.problem).facts)

    def _end(self, commit: RunningBatch) -> None:
        member = self.member
        fields = commit.done_fields(member.wall // 1_000_000)
        commit.done = m.Note(member.notes.last + 1, self.epoch.epoch, "DONE", fields)
        self.note_state.append(commit.done)

    def void(self, commit: RunningBatch) -> None:
        """Take back a promise that a power cut has left without its stages, and without rows."""
        fields = {key: commit.note.fields[key] for key in ("application", "origin")}
        number = self.member.notes.last + 1
        self.note_state.append(m.Note(number, self.epoch.epoch, "VOID", fields))
        del self.running[fields["application"]]

    def promise_again(self, commit: RunningBatch) -> None:
        """Write a promise again, at the end of the notes; its rows come after the log's end."""
        fields = commit.note.fields
        fields = fields | {"after": min(fields["after"], self.member.log.last)}
        number = self.member.notes.last + 1
        commit.note = m.Note(number, self.epoch.epoch, "PREPARE", fields)
        self.note_state.append(commit.note)

    def take_back(self, number: int, why: str) -> None:
        """Take back the notes above this one: the disk of a broker that is alone refused them.

        Nothing was promised by these PREPAREs; a DONE is written again at the next turn.
        """
        self.note_state.cut(number)
        for application, commit in list(self.running.items()):
            if commit.note.number > number and commit.origin in self.note_state.open:
                commit.note = self.note_state.open[commit.origin]  # it was promised before, too
            elif commit.note.number > number:
                del self.running[application]
                if self.stages is not None:
                    self.stages.disown(application)
                refused = StageRefused(m.FULL, f"the commit cannot be written to the disk: {why}")
                for key, connection, _ in commit.waiters:
                    self.reply(key, connection, m.FULL, refused.facts)
            elif commit.done is not None and commit.done.number > number:
                commit.done = None

    def end(self) -> None:
        """Make clients here ask again; other members notice that their connection is gone."""
        waiting = self.pieces.waiting() if self.pieces is not None else []
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
                    fields = commit.done.fields | {"repeated": not is_same}
                    self.reply(key, connection, m.OK, fields)

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
