"""One member of a cluster: its state, what its clients wait for, and which role it has.

    driver sets the time, then calls              tick, receive, dialled, disconnected, on_view ...
    after one or several of them                  flush
    then it carries out, in order                 actions

Nothing here waits, reads a clock, or opens anything. State that outlives the process is in
`memory`, `log` and `notes`. Messages of this member's clients wait in the forward table.

The rules that its parts keep, each with the reason, are on one page: sequencer/replica/__init__.py.
"""

from typing import Final

from sequencer.replica import member_messages as m
from sequencer.replica.coordinator_role import CoordinatorRole
from sequencer.replica.follower_role import FollowerRole
from sequencer.replica.member_state import MemberState
from sequencer.replica.notes.note_state import NoteState
from sequencer.replica.notes.queue_weights import QueueWeights
from sequencer.replica.numbering import Numbering
from sequencer.replica.replica_settings import ReplicaSettings
from sequencer.replica.replicated_log import NEW, MemberMemory, NoteLog, ReplicatedLog, StageStore
from sequencer.replica.view import View

TICKS_IN_SLOW: Final = 8  # at least: a later one says something about this process
TICK_MAX: Final = 50.0  # two ticks of the driver: one that is not later than this is not late


class Member(MemberState):
    """One member: its state, and the two roles that act on it."""

    # The simulation plants defects here.
    coordinator_kind = CoordinatorRole
    follower_kind = FollowerRole
    notes_kind = NoteState
    weights_kind = QueueWeights

    def __init__(
        self,
        memory: MemberMemory,
        log: ReplicatedLog,
        notes: NoteLog,
        numbering: Numbering,
        run: int,
        cluster: str,
        settings: ReplicaSettings,
        now: float,
        stages: StageStore | None = None,
    ) -> None:
        super().__init__(memory, log, notes, numbering, run, cluster, settings, now)
        self.note_state = self.notes_kind(self, stages, self.weights_kind())
        self.follower = self.follower_kind(self, self.note_state, self.on_view)
        self.coordinator: CoordinatorRole | None = None
        self.engine_has_answered = False  # this process
        self.engine_is_older = False  # it was put back to a state before this member's epoch
        self._ticked = now
        self._ask_at = now
        self._asked_with = self._asked_before = (0, 0)  # what was known at the last two reads
        self._swap_at = now
        self._progress_at = now  # when a message of a client here was settled, or none waited
        self._settled = 0
        self._enough_at = now  # when as many members as must were last heard

    # Events from the driver

    def tick(self) -> None:
        """Do what is due now that some time has passed."""
        late = self.now - self._ticked - max(self.settings.slow / TICKS_IN_SLOW, TICK_MAX)
        if late > 0:
            self._was_late(late)
        self._ticked = self.now
        if self.view is None or self.now >= self._ask_at:
            is_known = self.engine_has_answered and not self.engine_is_older
            self._ask_at = self.now + (
                self.settings.reread if self.view and is_known else self.settings.engine
            )
            self._asked_before = self._asked_with
            self._asked_with = self.memory.epoch, self.revision
            self.say(m.ReadView())
        if self.coordinator is not None:
            self.coordinator.tick()
        elif self.view is not None:
            self.follower.tick()
            self._watch(self.view)
        if self.table.settled != self._settled or self.table.settled == self.table.placed:
            self._settled = self.table.settled
            self._progress_at = self.now
        if self._is_enough():
            self._enough_at = self.now

    def receive(self, connection: int, message: m.Message) -> None:
        """Take a message from a connection, in the order in which they were sent."""
        if isinstance(message, m.ToMember):
            self.follower.receive(connection, message)
        elif isinstance(message, m.Direct):
            raise AssertionError("the links keep messages without a number from the core")
        elif self.coordinator is not None:
            self.coordinator.receive(connection, message)
        elif isinstance(message, m.Hello):
            self.send(connection, m.NotCoordinator("", self.revision, self.view))

    def dialled(self, connection: int, member_id: str) -> None:
        """Take the connection that `Dial` asked for."""
        if self.coordinator is None:
            self.follower.dialled(connection, member_id)
        else:
            self.say(m.Close(connection))

    def dial_failed(self, member_id: str, refused: bool) -> None:
        """Note that `Dial` failed; `refused`: that machine is up, and no process listens there."""
        if self.coordinator is None:
            self.follower.dial_failed(member_id, refused)
        elif refused:
            self.coordinator.in_sync.refused(member_id)

    def disconnected(self, connection: int) -> None:
        """The connection was closed, by either side; no more messages arrive on it."""
        self.follower.disconnected(connection)
        if self.coordinator is not None:
            self.coordinator.disconnected(connection)
            self.coordinator.in_sync.look_for_missing()

    def synced(self, number: int) -> None:
        """Note that the disk has everything up to that number: `log.synced` says so already."""
        if self.coordinator is None:
            self.follower.synced()
        else:
            self.coordinator.commit_is_due = True

    def notes_synced(self) -> None:
        """Note that the disk has more of the notes: `notes.synced` says so already."""
        self.note_trouble = ""
        if self.coordinator is None:
            self.follower.notes_synced()
        else:
            self.coordinator.notes_synced()

    def notes_failed(self, why: str) -> None:
        """Note that the disk has refused notes. The driver tries again, and says if it fails again.

        Others go on: a coordinator hands over, and a follower leaves until they can be written.
        """
        self.note_trouble = why
        if self.coordinator is None:
            self.follower.notes_failed()

    def readable(self) -> None:
        """Continue: records that `log.read` did not have in memory are there."""
        self.follower.readable()
        if self.coordinator is not None:
            self.coordinator.readable()

    def engine_has(self, revision: int, view: View) -> None:
        """Take the engine's answer to a `ReadView`. It may be older than what is known by now."""
        if (view.epoch, revision) < self._asked_before:
            # It has less than before it was asked. Epochs would be used twice: only an operator can
            # mend that (`cluster recover`).
            if not self.engine_is_older:
                self.complaint = (
                    f"etcd has a view of epoch {view.epoch}, and this member knows one of epoch"
                    f" {self.memory.epoch}: etcd was put back to an older state"
                )
            self.engine_is_older = True
            return
        self.engine_has_answered, self.engine_is_older = True, False
        self.on_view(revision, view)

    def on_view(self, revision: int, view: View) -> None:
        """Take a view that the engine has, or had; one older than the known view is ignored."""
        if (view.epoch, revision) <= (self.memory.epoch, self.revision):
            return
        if self.log.journal not in (NEW, view.journal):
            self.stop(f"this store is journal {self.log.journal}, the cluster's is {view.journal}")
            return
        self.counters.views += 1
        is_new = view.epoch > self.memory.epoch
        if (view.coordinator, view.run) == (self.id, self.run):
            self.memory.follow(view.stream)
        self.memory.learn(view.epoch, revision, view)
        self.revision, self.view = revision, view
        if is_new:
            self._step_down()
            self.follower.view_is_new(view)
            if (view.coordinator, view.run) == (self.id, self.run):
                self._begin_epoch()
        elif self.coordinator is not None:
            self.coordinator.view_changed()

    def on_registered_run(self, run: int) -> None:
        """Compare this process with the one that the engine's list of members has for this member.

        Runs only rise. So a higher one is a later process, on a copy of this store.
        """
        if run > self.run:
            why = f"process {run} serves as member {self.id} by now, and this one is {self.run}"
            self.stop(f"{why}: one of the stores is a copy of the other")

    def ask(self, request: m.MemberRequest) -> None:
        """Stage or commit for a client here; `Done` is the answer."""
        if self.coordinator is not None:
            self.coordinator.batches.serve(request, 0)
        else:
            self.follower.ask(request)

    def stages_synced(self) -> None:
        """Note that what `stages.keep` was asked to sync is on the disk."""
        if self.coordinator is not None:
            self.coordinator.batches.stages_synced()
            self.coordinator.commit_is_due = True
        else:
            self.follower.stages_synced()

    def flush(self) -> None:
        """Send what is due, and commit. Called once after one or several events."""
        if self.coordinator is not None:
            self.coordinator.flush()
        else:
            self.follower.flush()
        numbering = self.numbering
        if self.watermark > self.announced or self.settle_due or numbering.has_known_ids:
            self.announced = self.watermark
            self.settle_due = numbering.has_known_ids = False
            self.say(m.Deliver(self.watermark))

    def hand_over(self, to: str) -> str:
        """Make another member coordinator; return "", or why that is not possible."""
        if self.coordinator is None:
            return "this member does not coordinate"
        return self.coordinator.hand_over(to)

    def leave(self) -> None:
        """Prepare to stop this process: hand over, or ask to be removed from the view."""
        self.is_leaving = True
        if self.coordinator is not None:
            self.coordinator.hand_over_to_any()
        else:
            self.follower.say_leave()

    # Questions from the driver

    @property
    def role(self) -> str:
        """The role of this member: coordinator, follower or learner."""
        if self.coordinator is not None:
            return "coordinator"
        return "follower" if self.view is not None and self.id in self.view.members else "learner"

    @property
    def published(self) -> int:
        """The newest number that is known to be published: a subscription begins after it.

        UNKNOWN: `Begin` will say it. If some of it is cut, so is that subscription's beginning.
        """
        if self.coordinator is not None:
            return self.log.last if self.coordinator.is_begun else m.UNKNOWN
        return self.follower.published

    @property
    def coordinator_silent_for(self) -> float:
        """The ms since the coordinator was heard; 0 if this member coordinates."""
        return 0.0 if self.coordinator is not None else self.now - self.follower.heard

    @property
    def answering(self) -> int:
        """The count of members in sync that this one hears, itself included."""
        view = self.view
        if view is None:
            return 0
        if self.coordinator is not None:
            in_sync = self.coordinator.in_sync
            return sum(one == self.id or not in_sync.is_silent(one) for one in view.members)
        heard = self.coordinator_silent_for <= self.settings.dead
        return (self.id in view.members) + heard

    @property
    def stalled_for(self) -> float:
        """The ms since a message of a client here was settled, while some wait for it."""
        return self.now - self._progress_at

    @property
    def is_full(self) -> bool:
        """True if publishers must not be read now: what waits takes as much room as it may."""
        if self.coordinator is not None and self.coordinator.is_behind:
            return True
        return self.table.held_bytes > self.settings.forward_bytes

    @property
    def refusing(self) -> str:
        """The reason why a new message is refused now; "": it is taken. Waiting ones still wait."""
        patience, silent_for = self.settings.patience, self.coordinator_silent_for
        is_short = not self._is_enough() and self.now - self._enough_at > patience
        is_stalled = self.now - self._progress_at > patience
        if not (is_short or is_stalled or silent_for > patience):
            return ""
        view = self.view
        if view is None:
            return "the cluster has no view"
        if self.coordinator is None and silent_for > patience:
            return f"no coordinator for {silent_for / 1000:.0f} s"
        there = (
            self.coordinator.in_sync.speaking()
            if self.coordinator is not None
            else len(view.members)
        )
        if there < view.min_in_sync:
            return f"the cluster has {there} of {view.min_in_sync} members in sync"
        if self.coordinator is not None and self.numbering.sequencer.full:
            return "the coordinator's journal has no room, and no other member takes over"
        waits = (self.now - self._progress_at) / 1000
        return f"nothing was committed for {waits:.0f} s"

    def _is_enough(self) -> bool:
        """True if this one, if it coordinates, hears as many members as must have a message."""
        in_sync = self.coordinator.in_sync if self.coordinator is not None else None
        return in_sync is None or in_sync.speaking() >= in_sync.view.min_in_sync

    @property
    def keep_after(self) -> int:
        """The number above which retention deletes nothing: others, or a batch, need it."""
        others = self.watermark if self.coordinator is None else self.coordinator.least_acknowledged
        return min(self.watermark, others, self.note_state.keep_after)

    def know_committed(self, watermark: int) -> None:
        """Take over what an earlier process knew to be committed. Called before the first event."""
        self.note_state.know_committed(watermark)

    # Taking over

    def _watch(self, view: View) -> None:
        """Propose this member if the coordinator is silent: it has all that was committed."""
        if self.id not in view.members or self.now < self._swap_at or self.is_leaving:
            return
        if not self.engine_has_answered or self.engine_is_older:
            return
        others = [one for one in view.members if one != view.coordinator]
        # A process finds its own id under another run: it was restarted, and coordinates no more.
        if view.coordinator != self.id and not self._is_due(others.index(self.id)):
            return
        self._swap_at = self.now + self.settings.engine
        keep = len(others) < view.min_in_sync or view.coordinator == self.id  # rule 5
        self.propose(
            view._replace(
                epoch=max(view.epoch, self.memory.epoch) + 1,
                coordinator=self.id,
                run=self.run,
                members=view.members if keep else tuple(others),
            )
        )

    def _is_due(self, rank: int) -> bool:
        """True if it is this member's turn to replace the coordinator."""
        settings = self.settings
        if self.follower.refused_at:
            return self.now - self.follower.refused_at >= settings.refused_rank * rank
        return self.now - self.follower.heard >= settings.dead + settings.rank * rank

    def _begin_epoch(self) -> None:
        try:
            self.log.begin_epoch(self.memory.epoch)
        except OSError as error:
            # It cannot write: others take over from its silence, or it tries again later.
            self.complaint = f"the journal cannot be written: {error}"
            self._swap_at = self.now + self.settings.disk
            return
        self.counters.takeovers += 1
        self.coordinator = self.coordinator_kind(self, self.note_state)
        self.coordinator.begin()

    def _step_down(self) -> None:
        if self.coordinator is not None:
            role, self.coordinator = self.coordinator, None
            role.end()

    def _was_late(self, late: float) -> None:
        """Discount others' silence by the time in which this process was stopped, or had no CPU.

        On a starved machine each turn is late. Silence is then counted in the time that this
        process had: it takes longer, but a dead member is found.
        """
        self.follower.heard = min(self.follower.heard + late, self.now)
        if self.coordinator is not None:
            self.coordinator.was_late(late)
