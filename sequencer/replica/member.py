"""One member of a cluster: what it knows, what its clients wait for, and which role it has.

    driver sets the time, then calls              tick, receive, dialled, disconnected, learned ...
    after one or several of them                  flush
    then it carries out, in order                 actions

Nothing here waits, reads a clock, or opens anything. What outlives the process is in `memory`,
`log` and `notes`. What this member's clients published waits in the forward table.

Rule 1  The view changes by compare-and-swap of its revision alone, and only a member of it does so.
Rule 2  Leases and clocks decide nothing. Members watch each other by pulses on connections.
Rule 3  The fate of a swap may be unknown. So nothing is concluded from silence: whoever proposed
        asks again until the revision has moved.
        An engine that was put back counts its revisions again, so a remembered one says nothing:
        nobody proposes to take over before the engine has answered this process.
Rule 6  Views spread by any way. The highest epoch counts, and of that the highest revision: an
        engine that was put back to an older state counts its revisions again.
Rule 7  An epoch is written down before anything is said in it (`learned`).

Uniform delivery: what is above the watermark is shown to nobody, neither subscriber nor publisher.

Rule 15 What was published before a subscription is not new to it. A member knows late what is
        committed, so a subscription begins after all that is known here to be published
        (`published`). A member that is connected to no coordinator does not know that: there it
        begins when the member has all that the coordinator had (`Begin`). Otherwise a client that
        moves here would get again what another member, or an earlier process, has shown it.
"""

from typing import Any

from sequencer.replica import member_messages as m
from sequencer.replica.follower_role import FollowerRole
from sequencer.replica.numbering import Numbering
from sequencer.replica.promises import Promises
from sequencer.replica.queue_weights import QueueWeights
from sequencer.replica.reign import Reign
from sequencer.replica.replica_counters import ReplicaCounters
from sequencer.replica.replica_settings import ReplicaSettings
from sequencer.replica.replicated_log import NEW, MemberMemory, NoteLog, ReplicatedLog, StageStore
from sequencer.replica.view import View

NS = 1_000_000  # in a millisecond
TICKS_IN_SLOW = 8  # at least: a later one says something about this process
TICK_MAX = 50.0  # two ticks of the driver: one that is not later than this is not late


class Member:
    """One per process. Only the driver's thread calls it."""

    # The simulation plants defects here.
    reign_kind = Reign
    follower_kind = FollowerRole
    promises_kind = Promises
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
        self.memory = memory
        self.id = memory.member
        self.log = log
        self.notes = notes
        self.numbering = numbering
        self.table = numbering.table
        self.run = run
        self.cluster = cluster
        self.settings = settings
        self.now = now
        self.wall = 0  # ns since 1970, for records
        self.steady = 0  # ns of a clock that does not jump, for ages
        self.actions: list[Any] = []
        self.counters = ReplicaCounters()
        self.view = memory.view
        self.revision = memory.revision
        self.watermark = log.first - 1  # what retention has deleted was committed
        # Set by the driver: up to where it has shown records; and the id window has their ids.
        self.delivered = self.remembered = self.watermark
        self.note_watermark = notes.first - 1
        self.complaint = ""  # why a connection or a write was given up last
        self.engine_has_answered = False  # this process
        self.engine_is_older = False  # it was put back to a state before this member's epoch
        self.is_leaving = False
        self.is_counted = False  # an operator who recovers the cluster has seen how long its log is
        self.takers: dict[tuple[bytes, bytes], int] = {}  # set by the driver: of clients here
        self.weights = self.weights_kind()  # who takes a number of a queue group
        self.promises = self.promises_kind(self, stages)
        self.follower = self.follower_kind(self)
        self.reign: Reign | None = None
        self.settle_due = False  # an entry of the table may be final without a new watermark
        self._said = self.watermark
        self._ticked = now
        self._ask_at = now
        self._asked_with = self._asked_before = (0, 0)  # what was known at the last two reads
        self._swap_at = now
        self._progress_at = now  # when a message of a client here was settled, or none waited
        self._settled = 0
        self._enough_at = now  # when as many members as must were last heard

    # What the driver tells

    def tick(self) -> None:
        """Some time has passed."""
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
            self.actions.append(m.ReadView())
        if self.reign is not None:
            self.reign.tick()
        elif self.view is not None:
            self.follower.tick()
            self._watch(self.view)
        if self.table.settled != self._settled or self.table.settled == self.table.placed:
            self._settled = self.table.settled
            self._progress_at = self.now
        if self._is_enough():
            self._enough_at = self.now

    def receive(self, connection: int, message: Any) -> None:
        """Something came on a connection, in the order in which it was sent."""
        if type(message) not in m.TO_COORDINATOR:
            self.follower.receive(connection, message)
        elif self.reign is not None:
            self.reign.receive(connection, message)
        elif isinstance(message, m.Hello):
            refused = m.NotCoordinator("", self.revision, self.view)
            self.actions.append(m.Send(connection, refused))

    def dialled(self, connection: int, member_id: str) -> None:
        """The connection that `Dial` asked for is there."""
        self.follower.dialled(connection, member_id)

    def dial_failed(self, member_id: str, refused: bool) -> None:
        """It is not; `refused`: that machine is up, and no process listens there."""
        self.follower.dial_failed(member_id, refused)

    def disconnected(self, connection: int) -> None:
        """It is closed, by whomever. Nothing more comes from it."""
        self.follower.disconnected(connection)
        if self.reign is not None:
            self.reign.disconnected(connection)

    def synced(self, number: int) -> None:
        """The disk has everything up to that number: `log.synced` says so already."""
        if self.reign is None:
            self.follower.synced()
        else:
            self.reign.commit_is_due = True

    def readable(self) -> None:
        """What `log.read` did not have in memory is there."""
        self.follower.readable()
        if self.reign is not None:
            self.reign.readable()

    def engine_has(self, revision: int, view: View) -> None:
        """The engine answers a `ReadView`. The answer may be older than what is known by now."""
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
        self.learned(revision, view)

    def learned(self, revision: int, view: View) -> None:
        """The engine has, or had, this view; an older one than is known says nothing."""
        if (view.epoch, revision) <= (self.memory.epoch, self.revision):
            return
        if self.log.journal not in (NEW, view.journal):
            self.actions.append(
                m.Stop(f"this store is journal {self.log.journal}, the cluster's is {view.journal}")
            )
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
                self._begin_reign()
        elif self.reign is not None:
            self.reign.view_changed()

    def listed(self, run: int) -> None:
        """The engine's list of members has this process for this member.

        Runs only rise. So a higher one is a later process, on a copy of this store.
        """
        if run > self.run:
            why = f"process {run} serves as member {self.id} by now, and this one is {self.run}"
            self.actions.append(m.Stop(f"{why}: one of the stores is a copy of the other"))

    def ask(self, request: m.MemberRequest) -> None:
        """A client here stages or commits; `Done` is the answer."""
        if self.reign is not None:
            self.promises.serve(request, 0)
        else:
            self.promises.pass_on(request)

    def stages_synced(self) -> None:
        """What `stages.keep` was asked to sync is on the disk."""
        if self.reign is not None:
            self.reign.commit_is_due = True
        else:
            self.promises.held.look_again()

    def flush(self) -> None:
        """Say what is due, and commit. Called once after one or several events."""
        if self.reign is not None:
            self.reign.flush()
        else:
            self.follower.flush()
        numbering = self.numbering
        if self.watermark > self._said or self.settle_due or numbering.has_known:
            self._said, self.settle_due, numbering.has_known = self.watermark, False, False
            self.actions.append(m.Deliver(self.watermark))

    def hand_over(self, to: str) -> str:
        """Make another member coordinator; "", or why that is not possible."""
        if self.reign is None:
            return "this member does not coordinate"
        return self.reign.hand_over(to)

    def leave(self) -> None:
        """This process is to stop: hand over, or ask to be removed from the view."""
        self.is_leaving = True
        if self.reign is not None:
            self.reign.hand_over_to_any()
        else:
            self.follower.say_leave()

    # What the driver asks

    @property
    def role(self) -> str:
        """coordinator, follower or learner."""
        if self.reign is not None:
            return "coordinator"
        return "follower" if self.view is not None and self.id in self.view.members else "learner"

    @property
    def published(self) -> int:
        """The newest number that is known to be published: a subscription begins after it.

        UNKNOWN: `Begin` will say it. If some of it is cut, so is that subscription's beginning.
        """
        if self.reign is not None:
            return self.log.last if self.reign.is_begun else m.UNKNOWN
        return self.follower.published

    @property
    def coordinator_silent_for(self) -> float:
        """Milliseconds; 0 if this member coordinates."""
        return 0.0 if self.reign is not None else self.now - self.follower.heard

    @property
    def answering(self) -> int:
        """How many of the members in sync this one hears, itself included."""
        view = self.view
        if view is None:
            return 0
        if self.reign is not None:
            in_sync = self.reign.in_sync
            return sum(one == self.id or not in_sync.is_silent(one) for one in view.members)
        heard = self.coordinator_silent_for <= self.settings.dead
        return (self.id in view.members) + heard

    @property
    def stalled_for(self) -> float:
        """Milliseconds since a message of a client here was settled, while some wait for it."""
        return self.now - self._progress_at

    @property
    def is_full(self) -> bool:
        """Whether publishers are not to be read now: what waits takes as much as it may."""
        if self.reign is not None and self.reign.is_behind:
            return True
        return self.table.held_bytes > self.settings.forward_bytes

    @property
    def refusing(self) -> str:
        """Why a new message is refused now; "": it is taken. What waits already goes on waiting."""
        patience, silent_for = self.settings.patience, self.coordinator_silent_for
        is_short = not self._is_enough() and self.now - self._enough_at > patience
        is_stalled = self.now - self._progress_at > patience
        if not (is_short or is_stalled or silent_for > patience):
            return ""
        view = self.view
        if view is None:
            return "the cluster has no view"
        if self.reign is None and silent_for > patience:
            return f"no coordinator for {silent_for / 1000:.0f} s"
        there = self.reign.in_sync.speaking() if self.reign is not None else len(view.members)
        if there < view.min_in_sync:
            return f"the cluster has {there} of {view.min_in_sync} members in sync"
        if self.reign is not None and self.numbering.sequencer.full:
            return "the coordinator's journal has no room, and no other member takes over"
        waits = (self.now - self._progress_at) / 1000
        return f"nothing was committed for {waits:.0f} s"

    def _is_enough(self) -> bool:
        """Whether this one, if it coordinates, hears as many members as must have a message."""
        in_sync = self.reign.in_sync if self.reign is not None else None
        return in_sync is None or in_sync.speaking() >= in_sync.view.min_in_sync

    @property
    def keep_after(self) -> int:
        """Retention deletes nothing above this number: others, or a batch, need it."""
        others = self.watermark if self.reign is None else self.reign.least_acknowledged
        return min(self.watermark, others, self.promises.keep_after)

    # What both roles need

    def know_committed(self, watermark: int) -> None:
        """What an earlier process knew to be committed, or has deleted. Before the first event.

        The notes that had to be committed before these numbers are so, too. Others must have them
        before they show the numbers: if this member comes to coordinate, it tells them both.
        """
        watermark = max(watermark, self.watermark)
        notes = self.weights.newest_before(watermark), self.promises.newest_kept
        self.told(watermark, max(notes))

    def told(self, watermark: int, note_watermark: int) -> None:
        """So much is committed, of both logs. What notes say comes before the numbers it is for."""
        self.advance_notes(note_watermark)
        limit = self.weights.limit(self.note_watermark)
        if self.promises.held.last >= note_watermark:
            self.advance(watermark if limit is None else min(watermark, limit))

    def takers_message(self, epoch: int = 0) -> m.Takers:
        return m.Takers(epoch, tuple(sorted((*key, count) for key, count in self.takers.items())))

    def advance(self, watermark: int) -> None:
        """Everything up to there is committed: what is here of it is shown at the next flush."""
        self.watermark = max(self.watermark, min(watermark, self.log.last))

    def advance_notes(self, watermark: int) -> None:
        while self.note_watermark < min(watermark, self.promises.held.last):
            self.note_watermark += 1
            self.promises.apply(self.notes.at(self.note_watermark))

    def cut(self, number: int) -> bool:
        """Remove what is above; it was never committed. False: call again when it is readable.

        What clients here wait for is to be sent again; the cut records are their only copy if
        this member had numbered them.
        """
        if number < self.watermark:
            # A defect, or another engine than before: touch nothing.
            why = f"the coordinator would cut number {number}, and {self.watermark} is committed"
            self.actions.append(m.Stop(why))
            self.follower.leave()
            return False
        if self._would_lose(number):
            return False
        parts, after = [], number
        while after < self.log.last:
            records = self.log.read(after, self.settings.block_bytes)
            if records is None:
                return False
            parts.append(bytes(records.data))
            after = records.last
        if parts:
            self.counters.cut_records += self.log.last - number
            self.log.truncate(number)
            self.actions.append(m.LogCut(number))
            self.remembered = min(self.remembered, number)
        self.numbering.void_above(number, b"".join(parts))
        return True

    def _would_lose(self, number: int) -> bool:
        """Whether this log has more than the cluster, which was recovered without it.

        Clients may have been shown that. So it is kept, until an operator has looked at it.
        """
        view, known, last = self.view, self.memory.stream, self.log.last
        assert view is not None, "a coordinator has said so"
        if number >= last or not known or view.stream <= known or self.is_counted:
            return False
        why = (
            f"this journal goes up to number {last}, and the cluster was recovered without it: of"
            f" these, it has those up to {number}. Save this store, then start the member with an"
            " empty directory"
        )
        self.actions.append(m.Stop(why))
        self.follower.leave()
        return True

    def begin_anew(self, number: int, epoch: int, salt: int) -> bool:
        """Forget the log, and go on after `number`: what is before was deleted everywhere.

        What became of forwarded messages cannot be looked up then. Their connections are closed,
        with everything that they have sent after it: without it, that would leave a hole.
        """
        if number < self.watermark:
            why = f"the coordinator's log ends at {number}, and {self.watermark} is committed"
            self.actions.append(m.Stop(why))
            self.follower.leave()
            return False
        if self._would_lose(number):
            return False
        if self.log.last > number:
            self.actions.append(m.LogCut(number))
        self.log.begin_anew(number, epoch, salt)
        self.table.know_salt(salt)
        if number > self.delivered:
            self.actions.append(m.Missed(self.delivered + 1, number))
            self.watermark = self.delivered = self._said = number
        self.remembered = number
        self._abandon(self.table.sent_origins())
        return True

    def drop_expired(self) -> None:
        """Give up what may have waited for longer than ids are remembered.

        It may have been published again elsewhere, and that be forgotten. Half of the window is
        for what is still to come: the way to the coordinator, and the wait until it is taken.
        """
        before = self.steady - int(self.settings.id_window * NS / 2)
        self._abandon(self.table.expired(max(before, 0)))

    def _abandon(self, origins: frozenset[int]) -> None:
        if origins:
            self.table.drop(origins)
            self.settle_due = True
            self.actions.append(m.Abandon(origins))

    def propose(self, view: View) -> None:
        """Ask the engine to change the view, if it is still the one known here (rule 1)."""
        self.actions.append(m.SwapView(self.revision, view))

    # Taking over

    def _watch(self, view: View) -> None:
        """Propose itself where the coordinator is silent: it has all that was committed."""
        if self.id not in view.members or self.now < self._swap_at or self.is_leaving:
            return
        if not self.engine_has_answered or self.engine_is_older:
            return
        others = [one for one in view.members if one != view.coordinator]
        # A process finds its own id under another run: it was restarted, and its reign is over.
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
        """Whether it is this member's turn to replace the coordinator."""
        settings = self.settings
        if self.follower.refused_at:
            return self.now - self.follower.refused_at >= settings.refused_rank * rank
        return self.now - self.follower.heard >= settings.dead + settings.rank * rank

    def _begin_reign(self) -> None:
        try:
            self.log.begin_epoch(self.memory.epoch)
        except OSError as error:
            # It cannot write: others take over from its silence, or it tries again later.
            self.complaint = f"the journal cannot be written: {error}"
            self._swap_at = self.now + self.settings.disk
            return
        self.counters.takeovers += 1
        self.reign = self.reign_kind(self)
        self.reign.begin()

    def _step_down(self) -> None:
        if self.reign is not None:
            reign, self.reign = self.reign, None
            reign.end()
        self.promises.step_down()

    def _was_late(self, late: float) -> None:
        """This process was stopped, or got no processor: so much of others' silence was its own.

        On a machine that is starved each turn is late. Silence is then counted in the time that
        this process had: it takes longer, but who is dead is found out.
        """
        self.follower.heard = min(self.follower.heard + late, self.now)
        if self.reign is not None:
            self.reign.was_late(late)
