"""A simulated process: a member as the broker drives it, with its forward table and its clients."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from sequencer.journal.record import Walk
from sequencer.msgids import Window
from sequencer.replica import member_messages as m
from sequencer.replica.forward_table import NOBODY, ForwardTable
from sequencer.replica.member import Member
from sequencer.replica.numbering import Numbering
from sequencer.sequencer import Sequencer
from tests.replica.checker import Breach
from tests.replica.machine_disk import NUMBER, Disk
from tests.replica.messages_made import message_of

if TYPE_CHECKING:
    from tests.replica.world import World

NS = 1_000_000
BEGINNING = 1_700_000_000_000  # ms since 1970
SPARE = 4000  # bytes: what comes in one event, or is cut and has waited before
GROUP = (">", "workers")
IDS_MAX = 1 << 20
ID_FLAG_AT = 44
TIME_AT = 16


def time_of(record: bytes) -> int:
    return int(NUMBER.unpack_from(record, TIME_AT)[0])


class Saved(NamedTuple):
    """A snapshot of a disk, which `put_back` puts back."""

    member: str
    run: int  # whose process wrote it last
    put_back: Callable[[], None]


@dataclass
class Node:
    """A machine: it has a disk, and a process or none."""

    name: str
    disk: Disk
    skew: float = 0.0  # milliseconds by which its clock is ahead
    process: "Process | None" = None
    run: int = 0
    paused: float = 0.0
    slow: float = 0.0  # more delay for what it hears, until it is healed
    slow_disk: float = 0.0
    slow_notes: float = 0.0
    refuses_until: float = 0.0  # connections, as if no process were there
    is_syncing: bool = False
    is_noting: bool = False  # it writes its notes
    generation: int = 0
    clients: int = 0
    saved: "Saved | None" = None  # an older state of its disk
    inbox: deque[Any] = field(default_factory=deque)  # what came while the process was stopped

    @property
    def member(self) -> Member | None:
        return None if self.process is None else self.process.member


class Process:
    """One run of a member: what the broker's driver does, on a world that is not real."""

    def __init__(self, world: "World", node: Node) -> None:
        disk, settings = node.disk, world.settings
        self.world = world
        self.node = node
        self.run = node.run
        self.table = ForwardTable(node.run, disk.log.salt)
        self.window = Window(int(settings.id_window * NS), IDS_MAX)
        self.sequencer = Sequencer()
        numbering = Numbering(self.table, self.sequencer, self.window)
        kind = world.kinds.get("member", Member)
        self.member: Member = kind(
            *(disk.memory, disk.log, disk.notes, numbering, node.run, "sim", settings, world.now),
            stages=disk.stages,
        )
        self.member.know_committed(disk.known)
        self.member.delivered = self.member.watermark  # nobody is here yet
        self.started = world.now
        self.is_registered = False
        self.is_serving = False
        self.member.note_state.spare = 8  # so that notes are replaced all the time
        self.member.note_state.kept = 4
        self.numbering = numbering
        self.walk = Walk(disk.log.salt, False)
        self.waiting: deque[tuple[int, int, int]] = deque()  # place, origin, nth
        self.final = 0  # all places up to here are answered
        self.actions: deque[Any] = deque()
        self.is_acting = False
        self.flush_is_due = False
        self.draw = world.random.random
        self._booted = world.now - world.clocks.uniform(0, 100_000)
        self._clock = self.wall  # the latest that it has said since all was written
        self.member.wall, self.member.steady = self.wall, self.steady
        self._remember_all()

    def _remember_all(self) -> None:
        """The id window of the journal as it was found."""
        log = self.node.disk.log
        for number in range(log.first, log.last + 1):
            self._remember(log.at(number))
        self.member.remembered = log.last

    def _remember(self, record: bytes) -> None:
        if record[ID_FLAG_AT] & 1:
            self.walk.attach(record, 0, len(record))
            self.walk.next()
            self.numbering.committed(self.walk, self.member.steady)

    def serves(self) -> bool:
        """Whether clients may come: it has caught up once, or that takes too long."""
        member, role = self.member, self.member.coordinator
        if role is not None:
            has_caught_up = role.is_begun and member.watermark >= role.inherited[0]
        else:
            has_caught_up = member.role == "follower" and member.follower.is_ready
        is_late = self.world.now - self.started > self.world.settings.patience
        has_something = self.node.disk.known > 0
        self.is_serving = self.is_serving or has_caught_up or (is_late and has_something)
        return self.is_serving

    @property
    def wall(self) -> int:
        """The time of day on this machine: in whole numbers, as the clock of a broker is."""
        return int((BEGINNING + self.node.skew) * NS) + int(self.world.now * NS)

    @property
    def steady(self) -> int:
        return int((self.world.now - self._booted) * NS)

    # Events

    def do(self, what: Callable[["Process"], Any]) -> None:
        """Something happens; at once or a little later all that is due is said."""
        world, member = self.world, self.member
        member.now = world.now
        member.wall, member.steady = self.wall, self.steady
        coordinated, newest = member.coordinator is not None, member.log.newest_time
        self._clock = max(self._clock, self.wall) if coordinated else self.wall
        drawn = self.draw()
        if drawn < 0.01:
            member.takers = {(b">", b"workers"): world.random.randint(0, 3)}
        what(self)
        if drawn > 0.9:
            if not self.flush_is_due:
                self.flush_is_due = True
                world.at(1, lambda: world.call(self.node, self.run, lambda _: None))
        else:
            self.flush_is_due = False
            member.flush()
        if member.actions:
            self._act()
        self._check_bounds()
        if member.coordinator is not None:
            inherited = member.coordinator.inherited[0]
            if not coordinated and inherited > self.node.disk.log.base:
                newest = max(newest, time_of(self.node.disk.log.at(inherited)))
            self._check_time(newest)
        log = member.log
        if log.synced < log.last:
            world.sync(self.node)
        world.sync_notes(self.node)

    def _check_time(self, newest: int) -> None:
        """What a clock once said is in no record: times are the clock's now, or do not fall."""
        time = self.member.log.newest_time
        if time > max(newest, self._clock):
            ahead = (time - self._clock) / NS
            raise Breach(f"time: a record is {ahead:.0f} ms ahead of its coordinator's clock")
        if self.sequencer.number == self.sequencer.written:
            self._clock = self.wall

    def _check_bounds(self) -> None:
        """What waits takes no more than it may, and what one event brings."""
        settings, role = self.world.settings, self.member.coordinator
        most = settings.forward_bytes + settings.uncommitted_bytes + SPARE
        if self.table.held_bytes > most:
            raise Breach(f"bound: {self.table.held_bytes} bytes are to be forwarded")
        if role is not None:
            if role.journal.bytes > most:
                raise Breach(f"bound: {role.journal.bytes} bytes are not committed")
            for link in role.links.values():
                if link.bytes > settings.window_bytes + settings.block_bytes:
                    raise Breach(f"bound: {link.bytes} bytes are not acknowledged")

    def _act(self) -> None:
        """Do what the member asks for, in that order, also if it asks for more meanwhile."""
        self.actions += self.member.actions
        self.member.actions = []
        if self.is_acting:
            return
        self.is_acting = True
        try:
            while self.actions and self.node.process is self:
                self._carry_out(self.actions.popleft())
        finally:
            self.is_acting = False

    def publish(self, origin: int, nth: int, message_id: str, payload: str) -> bool:
        """A client here publishes; False: it is refused."""
        member, message = self.member, message_of(origin, nth, message_id, payload)
        place = self.numbering.submit(message, member.wall, member.steady)
        if place:
            self.waiting.append((place, origin, nth))
        return bool(place)

    # What the member asks for

    def _carry_out(self, action: Any) -> None:
        world, node = self.world, self.node
        match action:
            case m.Send():
                world.send(node, action.connection, action.message)
            case m.Dial():
                world.dial(node, action.member)
            case m.Close():
                world.close(node, action.connection)
            case m.ReadView():
                world.ask_engine(node, None)
            case m.SwapView():
                world.ask_engine(node, action)
            case m.Deliver():
                self._deliver(action.number)
                self._settle()
            case m.Missed():
                assert self.member.delivered >= action.last, "the member has passed over them"
            case m.Abandon():
                self._settle()
                world.abandoned(node, action.origins)
            case m.Done():
                world.done(node, action)
            case m.Stop():
                raise Breach(f"stop: {action.why}")
            case _:
                world.told(self, action)

    def _deliver(self, number: int) -> None:
        """Show what is committed; and remember its ids, for this member may come to coordinate."""
        world, member = self.world, self.member
        disks = [one.disk for one in world.nodes.values()]
        for one in range(member.delivered + 1, number + 1):
            record = self.node.disk.log.at(one)
            world.checker.delivered(one, record, disks, len(world.lost))
            member.delivered = one
            taker = member.note_state.weights.taker(one, GROUP)
            if one > member.note_state.weights.since:
                world.checker.taken(one, taker)
            world.shown(self, one, one > member.note_state.weights.since and taker == member.id)
            self._remember(record)
        member.remembered = max(member.remembered, number)

    def _settle(self) -> None:
        """Answer whose number is committed."""
        final = self.table.settle(self.member.delivered)
        while self.waiting and self.waiting[0][0] <= final:
            place, origin, nth = self.waiting.popleft()
            number = self.table.number_of(place)
            if number != NOBODY:
                self.world.published(self.node, origin, nth, number)
        self.table.free_up_to(final)
