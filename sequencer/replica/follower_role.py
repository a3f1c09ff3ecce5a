"""A member that does not coordinate: one connection to the coordinator, and its log as its own.

    dialled --HELLO--> greeted --WELCOME: cut to what is common--> welcomed
            --DATA up to `base`--> ready: what is not in the log is forwarded, in order

It keeps rules 7, 10, 11 and 14 (sequencer/replica/__init__.py).
A gap, damage or a full disk closes the connection, and never ends the process.
"""

from collections.abc import Callable
from typing import assert_never

from sequencer.replica import member_messages as m
from sequencer.replica.clock_difference import clock_of
from sequencer.replica.errors import BadRecords
from sequencer.replica.log_matching import epoch_table
from sequencer.replica.member_state import MemberState
from sequencer.replica.notes.held_notes import HeldNotes
from sequencer.replica.notes.note_state import NoteState
from sequencer.replica.replicated_log import StageKey
from sequencer.replica.view import View


class FollowerRole:
    """A member's connection to its coordinator. A member that coordinates has an idle one."""

    held_kind = HeldNotes

    def __init__(
        self, member: MemberState, note_state: NoteState, on_view: Callable[[int, View], None]
    ) -> None:
        """Call `on_view` with each view that the coordinator sends, and its revision."""
        self.member = member
        self.note_state = note_state
        self.held = self.held_kind(member, note_state, self._fetch_stage, self.give_up)
        self._on_view = on_view
        self.heard = member.now  # when the coordinator was heard last
        self.connection = 0
        self.to = ""  # the member that the connection leads to, or the last attempt
        self.epoch = 0  # in which this connection was welcomed
        self.base = 0
        self.is_ready = False
        self.refused_at = 0.0  # when the coordinator's machine refused a connection
        self.why = ""  # the coordinator's reason not to take this member
        self._was_welcomed = False  # in the view's epoch
        self._echo = 0
        self._ack_due = False
        self._watermark = self._note_watermark = 0  # the last ones that the coordinator sent
        self._takers: m.Takers | None = None  # the last ones sent to it
        self._dial_at = member.now
        self._welcome: m.Welcome | None = None  # waits until the records that are cut can be read
        self._later: list[m.ToMember] = []  # waits, too
        self._written = 0  # pieces of stages, on this connection
        self._asked: set[int] = set()  # keys of clients' requests that the coordinator has

    @property
    def target(self) -> int:
        """The highest number that the coordinator is known to have."""
        return max(self.base, self._watermark)

    @property
    def published(self) -> int:
        """The newest number that is known to be published; see rule 15."""
        return max(self.member.log.last, self._watermark) if self.is_ready else m.UNKNOWN

    # The connection

    def tick(self) -> None:
        member, view = self.member, self.member.view
        assert view is not None, "asked only with a view"
        if self.to != view.coordinator:
            self.leave()
        is_other = view.coordinator != member.id
        if not self.connection and is_other and member.now >= self._dial_at:
            self._dial_at = member.now + member.settings.dial
            self.to = view.coordinator
            member.say(m.Dial(view.coordinator))

    def view_is_new(self, view: View) -> None:
        """Take a new view: the coordinator of an older epoch is no longer heard (rule 7)."""
        self.heard = self.member.now
        self.refused_at = 0.0
        self._was_welcomed = False
        if self.epoch != view.epoch:
            self.leave()
            self._dial_at = self.member.now

    def leave(self) -> None:
        if self.connection:
            self.member.say(m.Close(self.connection))
            self.disconnected(self.connection)

    def dialled(self, connection: int, to: str) -> None:
        """Send HELLO on the new connection to that member: what the logs have."""
        member = self.member
        if to != self.to or self.connection:
            member.say(m.Close(connection))
            return
        self.connection = connection
        self.refused_at = 0.0
        hello = m.Hello(
            protocols=member.settings.protocols,
            cluster=member.cluster,
            journal=member.log.journal,
            member=member.id,
            run=member.run,
            sync=member.settings.sync,
            epoch=member.memory.epoch,
            epochs=epoch_table(member.log),
            last=member.log.last,
            note_epochs=member.notes.epochs(),
            note_last=member.notes.last,
        )
        member.send(connection, hello)

    def dial_failed(self, to: str, refused: bool) -> None:
        """Dial again soon. A machine that refuses, and had answered, has lost that process."""
        if to == self.to and not self.connection:
            self._dial_at = min(self._dial_at, self.member.now + self.member.settings.dial / 2)
            if refused and self._was_welcomed:
                self.refused_at = self.refused_at or self.member.now

    def disconnected(self, connection: int) -> None:
        if connection != self.connection:
            return
        self.connection = self.epoch = 0
        self.is_ready = self._ack_due = False
        self._watermark = self._note_watermark = 0
        self._takers = None
        self._welcome, self._later = None, []
        self._dial_at = self.member.now + (self.member.settings.refused if self.why else 0.0)
        self._written = 0
        self.held.clear()
        for key in sorted(self._asked):  # all requests may be repeated
            self.member.say(m.Done(key, m.RETRY, {}, b""))
        self._asked.clear()

    def is_of_epoch(self, connection: int, epoch: int) -> bool:
        """True if this comes from the coordinator of the newest epoch known here (rule 7)."""
        return connection == self.connection and epoch == self.epoch == self.member.memory.epoch

    # Messages from the coordinator

    @property
    def must_wait(self) -> bool:
        """True while the logs are being cut: what comes after WELCOME waits for that (rule 10)."""
        return self._welcome is not None or self.member.notes.has_removed

    def receive(self, connection: int, message: m.ToMember) -> None:
        if isinstance(message, m.NotCoordinator):
            self._refused(connection, message)
        elif isinstance(message, m.HandOver):
            self._on_view(message.revision, message.view)
        elif connection != self.connection:
            return
        elif isinstance(message, m.Welcome):
            self._welcomed(connection, message)
        elif self.must_wait:
            self._later.append(_own(message))
        elif isinstance(message, m.MemberReply):
            self._replied(message)
        elif isinstance(message, m.AlreadyNumbered):
            self._answered(message)
        elif self.is_of_epoch(connection, message.epoch):
            self.heard = self.member.now
            self._take(message)

    def _take(self, message: m.InEpochToMember) -> None:
        """Take what the coordinator of this epoch has sent."""
        match message:
            case m.Data():
                if message.records is None or self._append(message.records):
                    self._committed(message.watermark, message.note_watermark)
                    self._look_whether_ready()
            case m.Notes():
                self.held.add(message.notes, message.note_watermark)
                self._committed(self._watermark, message.note_watermark)
                self._ack_due = True
            case m.StagePiece():
                self._write_piece(message)
                self._ack_due = True
            case m.StageDrop():
                if (stages := self.note_state.stages) is not None:
                    stages.drop(message.application, message.batch, message.name)
            case m.Pulse():
                self._echo = message.beat
                self._ack_due = True
                self.held.look_again(message.note_watermark)
                self._on_view(message.revision, message.view)
                self._say_takers()
                self._committed(message.watermark, message.note_watermark)
                if message.ids:
                    oldest = max(message.watermark + 2 - message.ids, 0)
                    self.member.numbering.forget_ids(oldest)
            case _:
                assert_never(message)

    def _committed(self, watermark: int, note_watermark: int) -> None:
        """Take the coordinator's watermarks, as far as this member has what they cover."""
        self._watermark, self._note_watermark = watermark, note_watermark
        self.note_state.advance_commit(watermark, note_watermark)

    def _refused(self, connection: int, message: m.NotCoordinator) -> None:
        if connection == self.connection:
            if message.why and message.why != self.why:
                self.member.complaint = f"the coordinator refuses this member: {message.why}"
            self.why = message.why
            if message.why.startswith(m.LOST):
                self.member.say(m.LostAcknowledged(f"the coordinator says: {message.why}"))
        if message.view is not None:
            self._on_view(message.revision, message.view)
        if connection == self.connection:
            self.leave()

    def _answered(self, message: m.AlreadyNumbered) -> None:
        """Answer a duplicate once its number is committed here: an old number may not be yet."""
        if self.epoch:
            try:
                if self.member.table.answered(message.origin, message.sequence, message.number):
                    self.member.counters.ids_answered += 1
            except BadRecords as error:
                self.give_up(str(error))
            else:
                self.member.settle_due = True

    def _write_piece(self, piece: m.StagePiece) -> None:
        stages = self.note_state.stages
        if stages is None:
            return
        try:
            key = piece.application, piece.batch, piece.name
            stages.write(key, piece.offset, piece.data)
        except OSError as error:
            self.give_up(f"a stage cannot be written: {error}")
            return
        self._written += 1
        self.held.came(len(piece.data))

    def _fetch_stage(self, key: StageKey, offset: int) -> None:
        self.member.send(self.connection, m.StageFetch(self.epoch, *key, offset))

    def _append(self, records: m.Records) -> bool:
        """Check records, and append them as they are."""
        member, log = self.member, self.member.log
        if records.first != log.last + 1:
            # A connection keeps the order, so something is broken.
            self.give_up(f"number {records.first} comes where {log.last + 1} was to come")
            return False
        try:
            marked = member.table.marked
            found = member.table.inspect(records.data, records.first, records.epoch)
            if found.last != records.last:
                raise BadRecords(f"they end at {found.last} and not at {records.last}")
            log.append(records, found.time, found.last_time, found.ids)
            if not self.is_ready:
                member.counters.found_in_log += member.table.marked - marked
        except BadRecords as error:
            self.give_up(str(error))
            return False
        except OSError as error:
            # The coordinator hears nothing from this member until it has room; it goes on without.
            self.give_up(f"the journal cannot be written: {error}")
            self._dial_at = member.now + member.settings.disk
            return False
        self._ack_due = True
        return True

    def give_up(self, why: str) -> None:
        """Close the connection, and begin again with another one."""
        self.member.complaint = why
        self.leave()

    # The beginning: cut, copy, look

    def _welcomed(self, connection: int, message: m.Welcome) -> None:
        member = self.member
        if message.epoch < member.memory.epoch:
            self.leave()
            return
        self.why = ""
        self.epoch = message.epoch
        self._on_view(message.revision, message.view)
        if self.connection != connection or member.memory.epoch != message.epoch:
            self.leave()
            return
        self.heard = member.now
        self._was_welcomed = True
        self._cut(message)

    def readable(self) -> None:
        """Continue a cut: records that were being read from the disk are in memory."""
        if self._welcome is not None and self.epoch:
            connection, welcome, later = self.connection, self._welcome, self._later
            self._welcome, self._later = None, []
            self._cut(welcome)
            for message in later:
                self.receive(connection, message)

    def _cut(self, message: m.Welcome) -> None:
        """Cut the log where it stops being the coordinator's, and continue from there."""
        member = self.member
        try:
            if message.anew:
                is_done = self.reset_to(message.common, message.base_epoch, message.salt)
            else:
                is_done = self.cut(message.common)
            if is_done:
                self._written = 0
                self.held.clear()
                self.note_state.cut(message.note_common)
                member.memory.follow(message.view.stream)
        except OSError as error:
            self.give_up(f"the journal cannot be cut: {error}")
            self._dial_at = member.now + member.settings.disk
            return
        if not is_done:
            self._welcome = message
            return
        self.base = message.base
        self.is_ready = False
        self._ack_due = True
        self._look_whether_ready()

    def cut(self, number: int) -> bool:
        """Remove the uncommitted records above `number`. False: call again when they are readable.

        Messages that clients here wait for are sent again; if this member had numbered them, the
        cut records are their only copy.
        """
        member = self.member
        if number < member.watermark:
            # A defect, or another engine than before: touch nothing.
            member.stop(
                f"the coordinator would cut number {number}, and {member.watermark} is committed"
            )
            self.leave()
            return False
        if self._would_lose(number):
            return False
        parts, after = [], number
        while after < member.log.last:
            records = member.log.read(after, member.settings.block_bytes)
            if records is None:
                return False
            parts.append(bytes(records.data))
            after = records.last
        if parts:
            member.counters.cut_records += member.log.last - number
            member.log.truncate(number)
            member.say(m.LogCut(number))
            member.remembered = min(member.remembered, number)
        member.numbering.void_above(number, b"".join(parts))
        return True

    def reset_to(self, number: int, epoch: int, salt: int) -> bool:
        """Forget the log, and continue after `number`: what is before was deleted everywhere.

        The outcome of forwarded messages cannot be looked up then. Their connections are closed,
        and what they sent later is dropped: without the forwarded messages, it would leave a gap.
        """
        member = self.member
        if number < member.watermark:
            member.stop(
                f"the coordinator's log ends at {number}, and {member.watermark} is committed"
            )
            self.leave()
            return False
        if self._would_lose(number):
            return False
        if member.log.last > number:
            member.say(m.LogCut(number))
        member.log.reset_to(number, epoch, salt)
        member.table.know_salt(salt)
        if number > member.delivered:
            member.say(m.Missed(member.delivered + 1, number))
            member.watermark = member.delivered = member.announced = number
        member.remembered = number
        member.abandon(member.table.sent_origins())
        return True

    def _would_lose(self, number: int) -> bool:
        """Return whether this log has more than the cluster, which was recovered without it.

        Clients may have been shown that. So it is kept, until an operator has looked at it.
        """
        member, last = self.member, self.member.log.last
        view, known = member.view, member.memory.stream
        assert view is not None, "a coordinator has said so"
        if number >= last or not known or view.stream <= known or member.is_counted:
            return False
        member.stop(
            f"this journal goes up to number {last}, and the cluster was recovered without it: of"
            f" these, it has those up to {number}. Save this store, then start the member with an"
            " empty directory"
        )
        self.leave()
        return True

    def _look_whether_ready(self) -> None:
        """Forward again (rule 14) once the log has all that was taken before."""
        member = self.member
        if not self.is_ready and self.connection and member.log.last >= self.base:
            self.is_ready = True
            member.say(m.Begin(self.base))
            member.drop_expired()
            member.table.rewind()

    # Messages to the coordinator

    def flush(self) -> None:
        """Send what is due: once for all that has happened."""
        if self.is_ready:
            self._forward()
        if self._ack_due:
            self._ack_due = False
            self.acknowledge()

    def _say_takers(self) -> None:
        """Send the counts of takers: at most once for each pulse, and only what is new."""
        takers = self.member.takers_message(self.epoch)
        if takers != self._takers:
            self._takers = takers
            self.member.send(self.connection, takers)

    def synced(self) -> None:
        self._ack_due = self._ack_due or (self.epoch != 0 and self._welcome is None)

    def notes_synced(self) -> None:
        """Acknowledge notes, and let those that are committed take effect."""
        if self.epoch and self._welcome is None:
            connection, later, self._later = self.connection, self._later, []
            for message in later:
                self.receive(connection, message)
        if self.epoch and self._welcome is None:
            self._ack_due = True
            self._committed(self._watermark, self._note_watermark)

    def notes_failed(self) -> None:
        """Leave: what is not acknowledged would keep the others waiting. They go on without."""
        if self.connection:
            self.give_up(f"the notes cannot be written: {self.member.note_trouble}")
        self._dial_at = self.member.now + self.member.settings.disk

    def _forward(self) -> None:
        """Send what has no number yet. More than a window would keep ACKs from the coordinator."""
        member, settings = self.member, self.member.settings
        while member.table.in_flight < settings.forward_window:
            block = member.table.unsent(settings.block_bytes)
            if not block:
                break
            member.send(self.connection, m.Forward(self.epoch, block))

    def acknowledge(self) -> None:
        """Acknowledge what is here, and as safe as it must be (rule 11).

        Nothing, while a crash could bring back notes that are not the coordinator's.
        """
        member, log = self.member, self.member.log
        if not self.epoch or self.epoch != member.memory.epoch or self._welcome is not None:
            return
        number = log.synced if member.settings.is_always else log.last
        notes, clock = self.note_state.synced, clock_of(member.wall)
        if not self.note_state.is_cut:
            number = notes = 0
        ack = m.Ack(self.epoch, number, notes, self._written, self._echo, clock)
        member.send(self.connection, ack)

    def stages_synced(self) -> None:
        """Take the notes that waited until stages were on the disk."""
        self.held.look_again()

    # Requests of clients here, which only the coordinator answers

    def ask(self, request: m.MemberRequest) -> None:
        """Pass a client's request on; without a coordinator, answer that it must be repeated."""
        if self.epoch and self._welcome is None:
            self.member.send(self.connection, request)
            self._asked.add(request.key)
        else:
            self.member.say(m.Done(request.key, m.RETRY, {}, b""))

    def _replied(self, reply: m.MemberReply) -> None:
        if reply.key in self._asked:
            self._asked.remove(reply.key)
            self.member.say(m.Done(*reply))

    def say_leave(self) -> None:
        """Ask to be removed from the view."""
        if self.epoch:
            self.member.send(self.connection, m.Leave(self.epoch))


def _own(message: m.ToMember) -> m.ToMember:
    """Return a message that can wait: its bytes are the receive buffer's, so it gets a copy."""
    if isinstance(message, m.Data) and message.records is not None:
        records = message.records
        return message._replace(records=records._replace(data=bytes(records.data)))
    if isinstance(message, m.StagePiece):
        return message._replace(data=bytes(message.data))
    return message
