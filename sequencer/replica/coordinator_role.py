"""The coordinator of one epoch: it numbers, replicates, commits, and decides who is in sync.

    begin   look through what the log has above the watermark; then give numbers after its end
    flush   write what was numbered, commit what all have, send each member what it lacks
    tick    pulses; silent members go, those that have caught up come (in_sync)

It keeps the newest connection of each member: a HELLO closes the older one, whose unread input is
discarded: the member sends it again (rule 14).
"""

from collections.abc import Callable
from typing import Final, assert_never

from sequencer.journal.layout import RECORD
from sequencer.journal.record import Walk
from sequencer.replica import member_messages as m
from sequencer.replica.batches.batch_commits import BatchCommits
from sequencer.replica.clock_difference import seconds_ahead
from sequencer.replica.coordinator_state import CoordinatorState, MemberLink
from sequencer.replica.errors import BadRecords
from sequencer.replica.group_counts import GroupCounts
from sequencer.replica.in_sync import InSync
from sequencer.replica.log_matching import epoch_table, last_common
from sequencer.replica.member_state import NS, MemberState
from sequencer.replica.notes.note_snapshots import first_to_send
from sequencer.replica.notes.note_state import NoteState
from sequencer.replica.replicated_log import NEW

NOTES_MAX: Final = 8  # in one message; a promise may have a megabyte of stages' names
PULSES_KEPT: Final = 64  # an echo of an older one says nothing
IDS_BACK_MAX: Final = (1 << 32) - 1  # the largest value that fits on the wire


class CoordinatorRole(CoordinatorState):
    """The coordinator, from the engine's view that names this process until a higher epoch."""

    in_sync_kind = InSync
    batches_kind = BatchCommits

    def __init__(self, member: MemberState, note_state: NoteState) -> None:
        super().__init__(member)
        self.note_state = note_state
        self.in_sync = self.in_sync_kind(self)
        self.batches = self.batches_kind(self, note_state, self.in_sync)
        self.groups = GroupCounts(self, self.in_sync, note_state)
        self.clocks: dict[str, float] = {}  # seconds by which a member's clock is ahead of this one
        self.trouble: Callable[[OSError], None] = self._note_trouble
        self._recalled = 0
        self._early: list[tuple[int, m.Hello]] = []  # came before this epoch had begun
        self._pulses: dict[int, float] = {}
        self._beat = 0
        self._pulse_at = member.now
        self._hand_over_at = self._take_at = member.now
        self.handing_to = ""  # the member that takes over; "": none
        self._handing_until = 0.0
        self._handing_is_proposed = False

    # The beginning and the end

    def begin(self) -> None:
        """Find ids and promises in the log, all of which is kept (rule 8)."""
        member = self.member
        self.batches.take_over()
        self._recalled = min(member.remembered, self.batches.rows_after)
        self._recalled = max(self._recalled, member.log.first - 1)
        self._recall()

    def _recall(self) -> None:
        """Walk the log where ids are not remembered, or promises may have published; then begin."""
        member = self.member
        walk = Walk(member.log.salt, False)
        while self._recalled < member.log.last:
            records = member.log.read(self._recalled, member.settings.block_bytes)
            if records is None:
                return
            walk.attach(records.data, 0, len(records.data))
            while walk.next() == RECORD:
                member.numbering.committed(walk, member.steady)
                self.batches.found(walk)
            self._recalled = records.last
        if not member.notes.has_removed:  # as a follower: then `notes_synced` goes on (rule 10)
            self._begin()

    def _begin(self) -> None:
        member = self.member
        self.is_begun = True
        assert member.view is not None, "it says who coordinates"
        member.advance(member.view.first - 1)  # what one broker had shown before the cluster
        member.say(m.Begin(self.inherited[0]))
        # The answer to an id may have named a number that is not here.
        member.numbering.void_above(member.log.last, b"")
        member.drop_expired()
        self.take_again()
        early, self._early = self._early, []
        for connection, hello in early:
            self._hello(connection, hello)

    def end(self) -> None:
        """Stop: there is a higher epoch. Send its view to all connected members, and close."""
        member = self.member
        if member.numbering.is_coordinator:
            member.numbering.sequencer.release()
            member.numbering.stop()
        if self.is_begun:
            member.remembered = member.log.last
        view = member.view
        assert view is not None, "it says who coordinates now"
        for connection, link in self.links.items():
            if link.member == view.coordinator:
                member.send(connection, m.HandOver(member.revision, view))
            else:
                member.send(connection, m.NotCoordinator("", member.revision, view))
            member.say(m.Close(connection))
        self.links = {}
        self.batches.end()

    def view_changed(self) -> None:
        """Apply another view of this epoch from the engine."""
        self.in_sync.view_changed()
        self.commit_is_due = True

    def was_late(self, late: float) -> None:
        """Count this process's own silence, of `late` milliseconds, against no member."""
        now = self.member.now
        self._pulses = {beat: min(sent + late, now) for beat, sent in self._pulses.items()}
        self.in_sync.was_late(late)

    def readable(self) -> None:
        for link in self.links.values():
            link.is_read = False
        if not self.is_begun:
            self._recall()

    def notes_synced(self) -> None:
        """Begin, if that has waited for it; commit what this member has now on its disk."""
        self.commit_is_due = True
        if not self.is_begun:
            self._recall()

    # Taking messages

    def stop_taking(self) -> None:
        """Write what was numbered; from now on messages wait.

        Messages that the disk refused lose their numbers. The members that forwarded them must
        look, and send them again.
        """
        numbering = self.member.numbering
        numbering.sequencer.release()
        if numbering.sequencer.stuck:
            for connection in list(self.links):
                self._drop(connection, "what it has forwarded could not be written")
        numbering.stop()
        self.batches.forget_above(self.member.log.last)

    def take_again(self) -> None:
        """Give numbers again, to waiting messages first. If the disk fails, try again later."""
        member = self.member
        self._take_at = member.now + member.settings.disk
        try:
            member.numbering.start(self.journal, self.epoch, self.trouble)
        except OSError as error:
            self._note_trouble(error)
        else:
            member.numbering.reclaim(member.wall, member.steady)

    def _take_held(self, link: MemberLink) -> None:
        """Number what a member has forwarded, in its order, as far as there is room."""
        member = self.member
        while link.held and self.is_taking:
            data, since = link.held.popleft()
            if member.now - since > member.settings.id_window / 4:
                # The member looks which ids are too old by now, and forwards the rest again.
                self._drop(link.connection, "what it forwarded has waited for too long")
                return
            try:
                answers, taken = member.numbering.take_forwarded(
                    data, member.wall, link.run, member.steady
                )
            except BadRecords as error:
                self._drop(link.connection, str(error))
                return
            for answer in answers:
                member.send(link.connection, answer)
            if taken < len(data):
                link.held.appendleft((bytes(data[taken:]), since))
                return

    def _note_trouble(self, error: OSError) -> None:
        self.member.complaint = f"the journal cannot be written: {error}"

    # Messages from members

    def receive(self, connection: int, message: m.ToCoordinator) -> None:
        if isinstance(message, m.Hello):
            if self.is_begun:
                self._hello(connection, message)
            else:
                self._early.append((connection, message))
            return
        link = self.links.get(connection)
        if link is None:
            return
        if isinstance(message, m.MemberRequest):
            self.batches.serve(message, connection)
        elif message.epoch == self.epoch:
            self._take(link, message)

    def _take(self, link: MemberLink, message: m.InEpochToCoordinator) -> None:
        """Take what a member says in this epoch."""
        match message:
            case m.Ack():
                self._acknowledged(link, message)
            case m.Forward():
                is_first = not link.held
                # The bytes are the receive buffer's: what waits must be a copy.
                data = message.data if is_first and self.is_taking else bytes(message.data)
                link.held.append((data, self.member.now))
                if is_first:
                    self._take_held(link)
            case m.Takers():
                self.groups.hear(link.member, message)
            case m.StageFetch():
                self.batches.send_rest(link, message)
            case m.Leave():
                link.is_leaving = True
                self.in_sync.review()
            case _:
                assert_never(message)

    def _acknowledged(self, link: MemberLink, message: m.Ack) -> None:
        if message.number > link.sent or message.note > link.note_sent:
            self._drop(link.connection, "it has acknowledged what it was not sent")
            return
        if message.echo in self._pulses:
            self.in_sync.echoed(link.member, self._pulses[message.echo])
            if message.clock:
                self._compare_clocks(link.member, message.clock, self._pulses[message.echo])
        had = self.acked.get(link.member, (0, 0))
        have = max(had[0], message.number), max(had[1], message.note)
        self.acked[link.member] = have
        self.commit_is_due = self.commit_is_due or have != had
        link.acknowledge(message.number)
        self.in_sync.acknowledged(link.member, have != had, message.number < link.sent)
        self.batches.pieces_written(link, message.pieces)

    def _compare_clocks(self, name: str, clock: int, pulsed_at: float) -> None:
        """Note how far a member's clock is ahead, which it sent after a pulse at `pulsed_at`."""
        member = self.member
        since = member.wall - int((member.now - pulsed_at) * NS)
        self.clocks[name] = seconds_ahead(clock, since, member.wall)

    def disconnected(self, connection: int) -> None:
        self._early = [one for one in self._early if one[0] != connection]
        link = self.links.pop(connection, None)
        if link is not None:
            self.clocks.pop(link.member, None)
            self.batches.link_lost(connection)
            self.in_sync.hung_up(link.member)

    def _drop(self, connection: int, why: str) -> None:
        """Close a connection on which something is wrong; the member makes another one."""
        self.member.complaint = f"member {self.links[connection].member}: {why}"
        self.member.say(m.Close(connection))
        self.disconnected(connection)

    # HELLO

    def _hello(self, connection: int, message: m.Hello) -> None:
        member = self.member
        if message.epoch > self.epoch:  # this one was deposed, and did not know it
            member.say(m.ReadView())
            member.send(connection, m.NotCoordinator("", 0, None))
            return
        if why := self.refusal(message) or self.loss(message):
            refused = m.NotCoordinator(why, member.revision, member.view)
            member.send(connection, refused)
            return
        self.replace(message.member)
        welcome, note_common = self._match(message)
        sent = first_to_send(self.member.notes, note_common) - 1
        burst = member.settings.near_bytes
        link = MemberLink(connection, message, welcome.common, sent, burst)
        self.links[connection] = link
        self.in_sync.came(message.member)
        member.send(connection, welcome)

    def _match(self, message: m.Hello) -> tuple[m.Welcome, int]:
        """Find where the logs of a member and these diverge; return WELCOME and the common note."""
        member, log, notes = self.member, self.member.log, self.member.notes
        assert member.view is not None, "a coordinator has a view"
        common = last_common(epoch_table(log), log.last, message.epochs, message.last)
        # The next record was deleted here, or the store has no journal yet.
        anew = common < log.first - 1 or message.journal == NEW
        common = max(common, log.first - 1)
        note_common = last_common(
            notes.epochs(), notes.last, message.note_epochs, message.note_last
        )
        numbering = member.numbering
        base = numbering.sequencer.number if numbering.is_coordinator else log.last
        welcome = m.Welcome(
            epoch=self.epoch,
            revision=member.revision,
            view=member.view,
            common=common,
            base=base,
            base_epoch=log.epoch_of(common) if common else 0,
            anew=anew,
            salt=log.salt,
            note_common=note_common,
        )
        return welcome, note_common

    def refusal(self, hello: m.Hello) -> str:
        """Return why that member cannot be taken; "" if it can."""
        member, view = self.member, self.in_sync.view
        low, high = hello.protocols
        if hello.cluster != member.cluster:
            return f"this is cluster {member.cluster}, not {hello.cluster}"
        if not low <= view.protocol <= high:
            return f"the members speak protocol {view.protocol}; this one speaks {low} to {high}"
        if hello.journal not in (NEW, view.journal):
            return f"the cluster's journal is {view.journal}; this store is {hello.journal}"
        if hello.sync != member.settings.sync:
            return f"journal.sync is {member.settings.sync} in this cluster, not {hello.sync}"
        if hello.member == member.id:
            name = hello.member
            return f"member {name} is already the coordinator; this store is a copy of its store"
        link = self.link_of(hello.member)
        if link is not None and link.run > hello.run:
            return f"a later process of member {hello.member} is connected: {link.run}"
        return ""

    def loss(self, hello: m.Hello) -> str:
        """Return what a member has lost that it had acknowledged; "" if nothing.

        It acknowledged it in this epoch; or it is in the view, and so had all that is committed. A
        member that lacks some of that is another one (rule 12): an older state of its disk was
        restored. Taken as it is, it would count as one that may take over.
        """
        member, name = self.member, hello.member
        number, note = self.acked.get(name, (0, 0))
        if name in self.in_sync.view.members:
            number, note = max(number, member.watermark), max(note, member.note_watermark)
        log = member.log
        common = last_common(epoch_table(log), log.last, hello.epochs, hello.last)
        if common < number:
            return f"{m.LOST}: it had number {number}, and its journal goes up to {common}"
        if hello.note_last < note:
            return f"{m.LOST}: it had note {note}, and its notes go up to {hello.note_last}"
        return ""

    def replace(self, name: str) -> None:
        """Close this member's older connection: what it sent there, unread, is not taken."""
        link = self.link_of(name)
        if link is not None:
            self.member.say(m.Close(link.connection))
            self.disconnected(link.connection)

    # Flushing

    def flush(self) -> None:
        """Write, commit, and send: once for all that has happened."""
        if not self.is_begun:
            return
        member = self.member
        numbering = member.numbering
        if numbering.has_unnumbered and self.is_taking:
            numbering.reclaim(member.wall, member.steady)  # the disk was full, and has room again
        for link in list(self.links.values()):
            if link.held:
                self._take_held(link)
        self.release()
        if self.commit_is_due:
            self.commit()
        elif self.batches.running:
            self.batches.go_on()
        blocks: dict[int, m.Records | None] = {}
        ends = member.log.last, member.notes.last, member.watermark, member.note_watermark
        for link in list(self.links.values()):
            if not link.has(*ends):
                self._send(link, blocks)
        if self.handing_to:
            self._go_on_handing()

    def release(self) -> None:
        """Write what is numbered. If this member is the only one in sync, that commits it."""
        if self.member.numbering.is_coordinator:
            self.member.numbering.sequencer.release()
        if not self.links:
            self.commit_is_due = True

    def _send(self, link: MemberLink, blocks: dict[int, m.Records | None]) -> None:
        """Send a member what it lacks. `blocks`: what was read for others, by number."""
        member, log = self.member, self.member.log
        if link.sent < log.first - 1:
            # Retention has deleted what it needs next: it must reset its log.
            self._drop(link.connection, f"number {link.sent + 1} is deleted")
            return
        marks = member.watermark, member.note_watermark
        while link.sent < log.last and not link.is_read and self._may_send(link):
            if link.sent not in blocks:
                try:
                    blocks[link.sent] = log.read(link.sent, member.settings.block_bytes)
                except OSError as error:
                    self._drop(link.connection, f"number {link.sent + 1} cannot be read: {error}")
                    return
            records = blocks[link.sent]
            if records is None:
                link.is_read = True
                break
            link.add(records.last, len(records.data))
            link.marks = marks
            member.send(link.connection, m.Data(self.epoch, *marks, records))
        if link.sent == log.last:
            link.level_at = self.journal.written
        if link.note_sent < member.notes.last:
            self._send_notes(link)
        if marks != link.marks:
            link.marks = marks
            member.send(link.connection, m.Data(self.epoch, *marks, None))

    def _may_send(self, link: MemberLink) -> bool:
        """True if a member may be sent more: required members come before those that catch up."""
        member, settings = self.member, self.member.settings
        if link.bytes >= settings.window_bytes:
            return False
        pace = link.pace.allowed(member.now, self.journal.written, settings.copy_rate)
        return pace or link.member in self.in_sync.required()

    def _send_notes(self, link: MemberLink) -> None:
        member, notes = self.member, self.member.notes
        link.note_sent = first_to_send(notes, link.note_sent) - 1
        while link.note_sent < notes.last:
            end = min(link.note_sent + NOTES_MAX, notes.last)
            some = tuple(notes.at(one) for one in range(link.note_sent + 1, end + 1))
            link.note_sent = end
            said = m.Notes(self.epoch, member.note_watermark, some)
            member.send(link.connection, said)

    # Committing

    def commit(self) -> None:
        """Commit what all required members have, if there are enough of them."""
        member = self.member
        self.commit_is_due = False
        if not self.in_sync.is_enough():
            return
        numbers, notes = zip(*map(self.level, self.in_sync.required()), strict=True)
        self.note_state.advance_commit(min(numbers), min(notes))
        self.journal.committed(member.watermark)
        self.batches.go_on()

    @property
    def least_acknowledged(self) -> int:
        """The number up to which all members that count have the log."""
        return min(self.level(name)[0] for name in self.in_sync.required())

    # From time to time

    def tick(self) -> None:
        member = self.member
        if not self.is_begun:
            return
        self.commit_is_due = True  # a joiner may have been forgotten
        if member.now >= self._pulse_at:
            self._pulse()
            self.groups.hear(member.id, member.takers_message())
            self.groups.write()
        self.in_sync.review()
        self.in_sync.look_for_missing()
        self._drop_silent()
        numbering = member.numbering
        if not (numbering.is_coordinator or self.handing_to) and member.now >= self._take_at:
            self.take_again()
        is_full = not numbering.is_coordinator or numbering.sequencer.full
        if (
            is_full or member.note_trouble or member.is_leaving
        ) and member.now >= self._hand_over_at:
            self._hand_over_at = member.now + member.settings.disk
            self.hand_over_to_any()

    def _drop_silent(self) -> None:
        """Drop members after a long silence: what comes now was delayed, and must be looked up."""
        for connection, link in list(self.links.items()):
            if self.in_sync.silent_for(link.member) > self.member.settings.dead:
                self._drop(connection, "it was silent for too long")

    def _pulse(self) -> None:
        member = self.member
        self._pulse_at = member.now + member.settings.pulse
        self._beat += 1
        self._pulses[self._beat] = member.now
        self._pulses.pop(self._beat - PULSES_KEPT, None)
        marks = (member.watermark, member.note_watermark, member.revision, self.in_sync.view)
        ids = self._ids_counting()
        for connection, link in self.links.items():
            link.marks = marks[:2]
            pulse = m.Pulse(self.epoch, self._beat, *marks, ids)
            member.send(connection, pulse)

    def _ids_counting(self) -> int:
        """Return how far back ids count, for a pulse: members that catch up cannot know that."""
        member = self.member
        if member.numbering.window is None:
            return 0
        oldest = member.numbering.ids_counting(member.steady) or member.watermark + 1
        back = member.watermark + 2 - min(oldest, member.watermark + 1)
        return back if back <= IDS_BACK_MAX else 0

    # Handing over: another member becomes coordinator, and publishing pauses for some milliseconds.
    #
    #   stop taking --> wait until the chosen one has everything --> swap --> the engine has said so
    #        ^                          |                              |               |
    #        '--- not soon enough ------'---------- not answered ------'          HandOver to it
    #
    # While it lasts, messages wait: those of this member's clients in the forward table, those of
    # others in `MemberLink.held`. If no answer comes, this member takes them, and continues as
    # coordinator. That is safe: its commits need the chosen member, which has moved on if the swap
    # was done after all.

    def hand_over(self, to: str) -> str:
        """Stop taking messages; return "", or why this member cannot be chosen."""
        if self.handing_to:
            return f"this member hands over to {self.handing_to} already"
        if not self.is_begun:
            return "this member has only begun to coordinate"
        if to == self.member.id:
            return "this member is already the coordinator"
        if to not in self.in_sync.view.members:
            return f"{to} is not in sync"
        if self.link_of(to) is None:
            return f"{to} is not connected"
        if self.in_sync.proposals:
            return "the engine has not yet answered about a change of the view"
        self.handing_to = to
        self._handing_until = self.member.now + self.member.settings.hand_over
        self._handing_is_proposed = False
        self.stop_taking()
        return ""

    def hand_over_to_any(self) -> str:
        """Hand over to the member that has most; return "", or why that is not possible."""
        members = [
            (self.level(link.member), link.member)
            for link in self.links.values()
            if link.member in self.in_sync.view.members and not link.is_leaving
        ]
        return self.hand_over(max(members)[1]) if members else "no other member is in sync"

    def _go_on_handing(self) -> None:
        """Propose the chosen member as soon as it has everything; give up after some time."""
        link = self.link_of(self.handing_to)
        if self.member.now >= self._handing_until:
            self.handing_to = ""
            self.take_again()
        elif link is not None and not self._handing_is_proposed and self._chosen_has_everything():
            self._handing_is_proposed = True
            view, to = self.in_sync.view, self.handing_to
            self.in_sync.propose(view._replace(epoch=self.epoch + 1, coordinator=to, run=link.run))

    def _chosen_has_everything(self) -> bool:
        return self.level(self.handing_to) == (self.member.log.last, self.member.notes.last)
