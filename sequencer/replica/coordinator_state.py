"""The state of a coordinator in its epoch: connections, acknowledgements, and what waits.

`CoordinatorRole` is this state and its behaviour. Its parts (members in sync, batches, queue
groups) get the state alone.
"""

from collections import deque
from typing import Final

from sequencer.replica.member_messages import Hello
from sequencer.replica.member_state import BrokerLogs, MemberState
from sequencer.replica.replicated_log import ReplicatedLog

SECOND: Final = 1000.0  # in the core's time, which is milliseconds


class CopyPace:
    """The pace at which a member that catches up is sent what it lacks.

    It gets closer to the end of the log by `rate` bytes a second, however fast the log grows: what
    is written in the meantime comes on top. So copying takes a bounded part of the coordinator's
    time, and it always comes to an end.
    """

    def __init__(self, burst: int) -> None:
        """Allow at most `burst` bytes at once."""
        self._burst = burst
        self._left = float(burst)
        self._at = -1.0
        self._written = 0

    def allowed(self, now: float, written: int, rate: int) -> bool:
        """Return whether more may be sent now. `written`: bytes that the log got in this epoch."""
        if self._at < 0.0:
            self._at, self._written = now, written
        earned = (now - self._at) * rate / SECOND + written - self._written
        self._left = min(self._left + earned, float(self._burst))
        self._at, self._written = now, written
        return self._left > 0.0

    def spend(self, size: int) -> None:
        """Count bytes that are sent."""
        self._left -= size


class MemberLink:
    """A member's connection: what it was sent, and what it may be sent.

    A member has one; its next HELLO replaces it.
    """

    def __init__(
        self, connection: int, hello: Hello, common: int, note_common: int, burst: int
    ) -> None:
        self.connection = connection
        self.member = hello.member
        self.run = hello.run
        self.protocols = hello.protocols
        self.sent = self.acknowledged = common
        self.note_sent = note_common
        self.marks = (0, 0)  # the watermarks of both logs that were sent last
        self.in_flight: deque[tuple[int, int]] = deque()  # last number, bytes: not acknowledged
        self.bytes = 0  # in flight
        self.pace = CopyPace(burst)
        self.level_at = -1  # bytes written in this epoch when all of it was sent; -1: never
        self.is_read = False  # what it needs next is being read from the disk
        self.is_leaving = False
        self.near_since = 0.0  # when it came close to the head; 0: it is not
        self.held: deque[tuple[bytes | memoryview, float]] = deque()  # FORWARDs not taken, and when

    def has(self, last: int, note_last: int, watermark: int, note_watermark: int) -> bool:
        """Return whether it was sent all of this."""
        return (
            self.sent == last
            and self.note_sent == note_last
            and self.marks == (watermark, note_watermark)
            and self.level_at >= 0
        )

    def add(self, last: int, size: int) -> None:
        """Count records that are sent."""
        self.sent = last
        self.in_flight.append((last, size))
        self.pace.spend(size)
        self.bytes += size

    def near_for(self, now: float, is_near: bool) -> float:
        """Note whether it is close to the head; return for how long it has been."""
        self.near_since = (self.near_since or now) if is_near else 0.0
        return now - self.near_since if is_near else 0.0

    def acknowledge(self, number: int) -> None:
        """Count what it has: everything up to `number`."""
        self.acknowledged = max(self.acknowledged, number)
        while self.in_flight and self.in_flight[0][0] <= number:
            self.bytes -= self.in_flight.popleft()[1]


class UncommittedLog:
    """The journal as the coordinator's sequencer writes it; it counts what waits for a commit.

    A coordinator whose members do not acknowledge must stop taking messages: uncommitted ones
    can neither be deleted nor shown, and a member that comes back must be sent all of it.
    """

    def __init__(self, log: ReplicatedLog) -> None:
        self._log = log
        self._sizes: deque[tuple[int, int]] = deque()  # last number, bytes
        self.bytes = 0  # not committed
        self.written = 0  # bytes, in this epoch

    @property
    def salt(self) -> int:
        return self._log.salt

    @property
    def epoch(self) -> int:
        return self._log.epoch

    @property
    def checked(self) -> bool:
        return self._log.checked

    @property
    def last(self) -> int:
        return self._log.last

    @property
    def newest_time(self) -> int:
        return self._log.newest_time

    @property
    def room(self) -> int:
        return self._log.room

    def begin_epoch(self, epoch: int) -> None:
        self._log.begin_epoch(epoch)

    def reserve(self, need: int) -> None:
        self._log.reserve(need)

    def write(self, view: memoryview, first: int, last: int, time: int, ids: bool) -> None:
        self._log.write(view, first, last, time, ids)
        size = len(view)
        self._sizes.append((last, size))
        self.bytes += size
        self.written += size

    def committed(self, number: int) -> None:
        """Note that everything up to `number` is committed."""
        while self._sizes and self._sizes[0][0] <= number:
            self.bytes -= self._sizes.popleft()[1]


class EpochState:
    """The data of one epoch that batches need: of a coordinator, or of a broker that is alone."""

    def __init__(self, member: BrokerLogs, epoch: int) -> None:
        self.member = member
        self.epoch = epoch
        self.links: dict[int, MemberLink] = {}  # by connection
        # The end of what others may have committed before this epoch.
        self.inherited = member.log.last, member.notes.last
        self.is_begun = False

    @property
    def is_taking(self) -> bool:
        """True if messages get numbers now."""
        return not self.member.sequencer.full


class CoordinatorState(EpochState):
    """The data of one epoch of a coordinator."""

    member: MemberState

    def __init__(self, member: MemberState) -> None:
        super().__init__(member, member.memory.epoch)
        self.acked: dict[str, tuple[int, int]] = {}  # number and note, in this epoch
        self.journal = UncommittedLog(member.log)
        self.commit_is_due = True

    def link_of(self, name: str) -> MemberLink | None:
        """The connection of a member, if it has one."""
        return next((link for link in self.links.values() if link.member == name), None)

    def level(self, name: str) -> tuple[int, int]:
        """Return the last number and note that a member has acknowledged; this one, to itself."""
        if name != self.member.id:
            return self.acked.get(name, (0, 0))
        log, notes = self.member.log, self.member.notes
        return log.synced if self.member.settings.is_always else log.last, notes.synced

    @property
    def is_taking(self) -> bool:
        """True if messages get numbers now."""
        return self.member.numbering.is_coordinator and super().is_taking and not self.is_behind

    @property
    def is_behind(self) -> bool:
        """True if so much waits to be committed that nothing more is taken."""
        return self.journal.bytes > self.member.settings.uncommitted_bytes
