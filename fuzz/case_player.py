"""Records of the journal replayed to a connection; its output is compared with a slow reader's.

    flags connection number until subscriptions  subscription subscription ...  record record ...

The records are those of fuzz/records.py, including damaged ones. They are replayed in pieces of any
size, as broker/replay/replays.py does it, to a single subscription or to all of a connection's,
some of which are not compared one by one. When the outbox is full it is written, or the replay is
called again without writing: then nothing may have changed.
"""

from collections import deque
from dataclasses import dataclass

from broker.dataplane import outcomes
from broker.dataplane.ownership import connection_of
from broker.dataplane.replay_writer import ReplayWriter
from fuzz.model_journal import BAD, GAP, MORE, U64, Record, decode, walk
from fuzz.records import OWN_ORIGIN, SALT, read_records
from fuzz.supply import Supply
from sublist.subscription import Subscription
from testkit.fence import GRANULE, fenced
from testkit.model_frame import HEADER, NETSTRING, NONE, STAMP, Sequenced, delivery
from testkit.model_stream import Event, fits
from testkit.model_subject import is_pattern, tokens_match
from testkit.stage import QUIET, Stage

MAX_LEN = 1024
PATTERNS = (b">", b"a", b"a.*", b"*", b"b", b"*.b", b"a.b.c", b"a.>", b"zz", b"c", b"a.bb", b"*.*")
FRAMES = (NETSTRING, HEADER, NONE, STAMP)
PENDING = (64 << 20, 300, 5000, 1)
NUMBERS = (1, 3, 0, 90)
PIECES_MAX = 64
UNTIL = (0, 5, 100, 2)
NUMBER_MAX = (1 << 63) - 1
PAST = b"PUB" * 30
OUTCOMES = {outcomes.MORE: MORE, outcomes.BAD: BAD, outcomes.GAP: GAP}
ENDED = "ended"


@dataclass(slots=True)
class Wanted:
    """A subscription, as the model knows it."""

    subject: bytes
    sid: bytes
    last_seen: int
    limit: int
    deferred_numbers: set[int] | None  # for a queue group's member
    delivered: int = 0


class Case:
    """A connection with subscriptions, a second one that must receive nothing, and a writer."""

    def __init__(self, flags: int, choice: int, supply: Supply) -> None:
        stage = Stage(number=NUMBER_MAX - 1)
        self.plane = stage.plane
        self.user_matches = stage.control.user_matches
        self.checked = not flags & 1
        self.replayed = bool(flags & 2)
        self.writable = bool(flags & 4)
        self.replay_writer = ReplayWriter(self.plane.gate, stage.sublist, SALT, self.checked)
        self.client = stage.join(QUIET, max_pending=PENDING[choice & 3])
        self.other = stage.join(QUIET, max_pending=1 << 20)
        connection = self.client.connection
        connection.headers, connection.echo = bool(choice & 4), bool(choice & 8)
        connection.origin, connection.writable = OWN_ORIGIN, self.writable
        connection.settle(FRAMES[choice >> 4 & 3])
        self.events: list[Event] = []
        self.wanted: list[Wanted] = []
        self.sub: Subscription | None = None
        for at in range(1 if self.replayed else supply.take() % 12):
            self._subscribe(at, supply)

    def _subscribe(self, at: int, supply: Supply) -> None:
        what, pattern = supply.take(), PATTERNS[supply.take() % len(PATTERNS)]
        assert is_pattern(pattern)
        wanted = Wanted(pattern, b"%d" % at, what >> 4 & 3, what >> 2 & 3, None)
        connection = self.client.connection
        in_group = bool(what & 1) and not self.replayed
        sub = Subscription(pattern, wanted.sid, b"q" if in_group else None, connection)
        sub.limit, sub.last_seen = wanted.limit, wanted.last_seen
        if in_group:
            wanted.deferred_numbers = set(range(supply.take(), 120, 1 + (what >> 6)))
        connection.subs[wanted.sid] = sub
        self.wanted.append(wanted)
        if self.replayed:
            sub.replay = self
            self.sub = sub
            return
        self._insert(sub)
        deaf = Subscription(pattern, wanted.sid, sub.queue, self.other.connection)
        self.other.connection.subs[wanted.sid] = deaf
        self._insert(deaf)

    def _insert(self, sub: Subscription) -> None:
        """Make a subscription live, as SUB does."""
        self.user_matches.acquire(connection_of(sub), sub.subject)
        self.plane.sublist.insert(sub)

    def defer(self, records: list[Record]) -> None:
        """Limit the deferred numbers of queue group members to records that match their pattern."""
        for wanted in self.wanted:
            if wanted.deferred_numbers is None:
                continue
            wanted.deferred_numbers &= {record.number for record in records}
            for record in records:
                if not tokens_match(wanted.subject, record.subject):
                    wanted.deferred_numbers.discard(record.number)
            self.client.connection.subs[wanted.sid].deferred_numbers = deque(
                sorted(wanted.deferred_numbers)
            )

    # The model

    def hear(self, record: Record) -> None:
        """Add a record to the model's output, unless it is skipped."""
        connection = self.client.connection
        if not connection.echo and record.origin == OWN_ORIGIN:
            return
        texts = []
        for wanted in list(self.wanted):
            if not self._wants(wanted, record):
                continue
            wanted.delivered += 1
            texts.append(self._copy(record, wanted.sid))
            if wanted.delivered == wanted.limit:
                self.wanted.remove(wanted)
        if texts:
            self.events.append(Event(texts))

    def _wants(self, wanted: Wanted, record: Record) -> bool:
        if wanted.deferred_numbers is not None:
            return record.number in wanted.deferred_numbers
        passed_by = self.replayed or record.number > wanted.last_seen
        # An old journal may have records with an empty token. Only replays see these.
        every = self.replayed and wanted.subject == b">"
        return passed_by and (every or tokens_match(wanted.subject, record.subject))

    def _copy(self, record: Record, sid: bytes) -> bytes:
        headers, payload = record.headers, record.payload
        digits, header_digits = b"%d" % (len(headers) + len(payload)), b"%d" % len(headers)
        message = Sequenced(
            *(record.number, record.subject, record.reply, digits, header_digits, headers, payload),
            time=record.time,
        )
        return delivery(message, sid, self.client.connection.frame, self.client.connection.headers)

    # The player

    def play(self, buffer: bytes, number: int, until: int, since: int, cut: int) -> bool:
        """Replay all of `buffer`, and compare; return whether its numbers were plausible."""
        size = len(buffer)
        held = bytearray(buffer + PAST)
        stop = min(cut or size, size)
        follower = Follower(self, number, until, since)
        at = 0
        while True:
            number, at, outcome = self._ask(held, at, stop, number, until, since)
            state = follower.follow(buffer, stop)
            if not follower.sane:
                return False
            if self.sub is not None and self.sub.owner is None:
                return True
            assert (number, at, outcome) == (follower.number, follower.at, state), "both are there"
            if outcome == GAP:
                number = follower.number = self.replay_writer.found
            elif outcome != MORE or stop == size:
                return True
            else:
                stop = min(stop + cut, size)

    def _ask(
        self, held: bytearray, at: int, stop: int, number: int, until: int, since: int
    ) -> tuple[int, int, str]:
        """Replay until something other than a full outbox ends it."""
        replay_writer, connection = self.replay_writer, self.client.connection
        while True:
            with fenced(held, at - at % GRANULE, stop):
                to = replay_writer.play(connection, self.sub, number, until, since, held, at, stop)
            assert at <= to <= stop, "it consumes what there is"
            assert not connection.closed, "who is played to is waited for, not cut off"
            at, number = to, replay_writer.number
            if replay_writer.outcome != outcomes.FULL:
                break
            if self.sub is not None and self.sub.owner is None:
                break
            assert connection.held(), "an empty outbox has room"
            with fenced(held, at - at % GRANULE, stop):
                again = replay_writer.play(
                    connection, self.sub, number, until, since, held, at, stop
                )
            if not self.writable:
                assert (again, replay_writer.outcome) == (at, outcomes.FULL), "it is still full"
            at, number = again, replay_writer.number
            if replay_writer.outcome != outcomes.FULL:
                break
            connection.writable = True
            self.plane.release(None)
            connection.writable = self.writable
        return number, at, OUTCOMES.get(replay_writer.outcome, ENDED)

    def finish(self) -> None:
        connection = self.client.connection
        connection.writable = True
        self.plane.release(None)
        self.client.flush()
        output = bytes(self.client.heard)
        assert fits(output, self.events, True), f"{output!r} is not {self.events}"
        assert connection.out_msgs == sum(len(event.must) for event in self.events)
        assert self.replay_writer.messages == connection.out_msgs, "and counted"
        assert not self.other.heard, "nobody else hears what is played to one"
        assert not self.other.connection.held()


class Follower:
    """The model's position in the records."""

    def __init__(self, case: Case, number: int, until: int, since: int) -> None:
        self.case = case
        self.number = number
        self.until = until
        self.since = since
        self.at = 0
        self.sane = True  # the numbers are plausible

    def follow(self, buffer: bytes, stop: int) -> str:
        """Process all whole records from the next number on; returns what follows them."""
        case = self.case
        salt = SALT if case.checked else None
        while True:
            state, record, after = decode(buffer, self.at, stop, salt)
            if record is None:
                return state
            self.sane = self.sane and 0 < record.number <= NUMBER_MAX
            if record.number > self.number != 0:
                return GAP
            if record.number >= self.number:
                if 0 < self.until < record.number:
                    return ENDED
                if case.replayed and not case.wanted:
                    return state
                if record.time >= self.since:
                    case.hear(record)
                self.number = record.number + 1 & U64
            self.at = after


def check(data: bytes) -> None:
    """Run one input."""
    supply = Supply(data)
    flags, choice, where, cut = (supply.take() for _ in range(4))
    case = Case(flags, choice, supply)
    number, until = NUMBERS[where & 3], UNTIL[where >> 2 & 3]
    if not case.replayed:
        number = number or 1
        until = 0
    buffer = read_records(supply, max(number, 1), case.checked)
    buffer = buffer[: max(len(buffer) - (flags >> 4), 0)]
    piece = max(cut * 8, len(buffer) // PIECES_MAX) if cut else 0
    case.defer(walk(buffer, 0, SALT if case.checked else None)[0])
    if case.play(buffer, number, until, where >> 4 & 7, piece):
        case.finish()
