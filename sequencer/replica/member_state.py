"""The state of a member of a cluster. Its roles read and write it, and so does its driver.

    Member --> CoordinatorRole, FollowerRole --> BatchCommits, InSync, NoteState --> MemberState

Every part of the core is given the state when it is made. None of them knows `Member`, which joins
them, or the part that calls it. Batches and notes need only `BrokerLogs`: so a broker that is alone
has them, too (broker/staging/local_batches.py).
"""

from dataclasses import dataclass
from typing import Final

from sequencer.replica import member_messages as m
from sequencer.replica.numbering import Numbering
from sequencer.replica.replica_settings import ReplicaSettings
from sequencer.replica.replicated_log import LogEnds, MemberMemory, NoteLog, ReplicatedLog
from sequencer.replica.view import View
from sequencer.sequencer import Sequencer

NS: Final = 1_000_000  # in a millisecond


@dataclass(slots=True)
class ReplicaCounters:
    """Counts of what a member has done since its process began, for monitoring."""

    views: int = 0  # newer views that it has learned of
    takeovers: int = 0  # epochs in which it coordinated
    cut_records: int = 0  # removed from the end of its log: they were never committed
    found_in_log: int = 0  # forwarded before a connection broke, and not to be sent again
    ids_answered: int = 0  # whose id had a number already, as the coordinator answered


class BrokerLogs:
    """The two logs of a broker, how far they are committed, and what the driver has to do.

    The driver sets the times before each event, and carries out the actions after it.
    """

    def __init__(
        self, log: LogEnds, notes: NoteLog, sequencer: Sequencer, is_durable: bool
    ) -> None:
        """Begin with all that retention has deleted committed. `is_durable`: the log is synced."""
        self.log = log
        self.notes = notes
        self.sequencer = sequencer
        self.is_durable = is_durable
        self.wall = 0  # ns since 1970, for records
        self.steady = 0  # ns of a clock that does not jump, for ages
        self.watermark = log.first - 1
        self.note_watermark = notes.first - 1
        self.complaint = ""  # why a connection or a write was given up last
        self.note_trouble = ""  # why a member's disk takes no notes; "": it takes them
        self.actions: list[m.Action] = []

    def take_actions(self) -> list[m.Action]:
        """Return the actions that are to be carried out, once."""
        actions, self.actions = self.actions, []
        return actions

    def take_complaint(self) -> str:
        """Return what an operator must know, once; empty: nothing."""
        complaint, self.complaint = self.complaint, ""
        return complaint

    def say(self, action: m.Action) -> None:
        """Ask the driver for an action, after all earlier ones."""
        self.actions.append(action)

    def send(self, connection: int, message: m.Message) -> None:
        self.actions.append(m.Send(connection, message))

    def advance(self, watermark: int) -> None:
        """Show at the next flush everything up to there that is here: it is committed."""
        self.watermark = max(self.watermark, min(watermark, self.log.last))


class MemberState(BrokerLogs):
    """The data of one member, and what its parts ask of the driver: `actions`."""

    log: ReplicatedLog

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
    ) -> None:
        super().__init__(log, notes, numbering.sequencer, settings.sync != "never")
        self.memory = memory
        self.id = memory.member
        self.numbering = numbering
        self.table = numbering.table
        self.run = run
        self.cluster = cluster
        self.settings = settings
        self.now = now  # milliseconds of a clock that does not jump; set before each event
        self.takers: dict[tuple[bytes, bytes], int] = {}  # of queue groups: clients here
        self.is_counted = False  # an operator who recovers the cluster has seen how long the log is
        self.counters = ReplicaCounters()
        self.view: View | None = memory.view
        self.revision = memory.revision
        # Set by the driver: up to where it has shown records; and the id window has their ids.
        self.delivered = self.remembered = self.watermark
        self.announced = self.watermark  # up to where the driver was asked to show them
        self.settle_due = False  # an entry of the table may be final without a new watermark
        self.is_leaving = False

    def stop(self, why: str) -> None:
        """End this process: it can't go on, and has changed nothing."""
        self.actions.append(m.Stop(why))

    def propose(self, view: View) -> None:
        """Ask the engine to change the view, if it is still the one known here (rule 1)."""
        self.actions.append(m.SwapView(self.revision, view))

    def takers_message(self, epoch: int = 0) -> m.Takers:
        return m.Takers(epoch, tuple(sorted((*key, count) for key, count in self.takers.items())))

    def drop_expired(self) -> None:
        """Give up messages that may have waited for longer than ids are remembered.

        They may have been published again elsewhere, and that forgotten. Half of the window is for
        what is still to come: the way to the coordinator, and the wait until it takes the message.
        """
        before = self.steady - int(self.settings.id_window * NS / 2)
        self.abandon(self.table.expired(max(before, 0)))

    def abandon(self, origins: frozenset[int]) -> None:
        """Close the connections of these clients: the outcome of their messages is unknown."""
        if origins:
            self.table.drop(origins)
            self.settle_due = True
            self.actions.append(m.Abandon(origins))
