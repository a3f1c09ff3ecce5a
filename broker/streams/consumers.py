"""The consumers of all streams: what moves the state machines, and carries out what they ask for.

    events                                from
    new records                           StreamTable.add_records --> `wake`
    pull requests, acks                   the API, by way of the control
    interest in deliver subjects          looked at when subscriptions have come or gone
    time                                  one timer for all
    closed connections, full outboxes     the control; `Unparking`

    actions                               to
    statuses, confirmations               the client's own subscriptions, or those to the subject
    count                                 the ledger, or a scan of the journal
    state                                 a STATE note: every `journal.sync_interval`, and at once
                                          if a confirmation waits for it

The notes have durable consumers and their state. An ephemeral one is gone after a restart.
"""

import asyncio
import contextlib
import logging
import random
import string
import time
from array import array
from collections import deque
from copy import copy
from heapq import heapify, heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from broker.core import Core
from broker.dataplane.connection import Connection
from broker.dataplane.ownership import connection_of
from broker.dataplane.stream_table import RecordWatcher
from broker.runtime.clocks import steady_ns
from broker.runtime.log_bounds import REPEATED
from broker.streams.ack_reader import AckReader
from broker.streams.advisories import percentage
from broker.streams.api_errors import ApiError, consumer_error, too_many_consumers
from broker.streams.consumer_bounds import (
    FILTER_BYTES_MOST,
    REQUESTS_MOST,
    ConsumerMaker,
    EphemeralBounds,
    PendingTotal,
)
from broker.streams.consumer_config import ConsumerConfig, StreamRules, read_config
from broker.streams.consumer_reader import PIECE, ConsumerReader, Unparking
from broker.streams.delivery_writer import DeliveryWriter
from broker.streams.go_duration import duration_text
from broker.streams.kept_consumer import KeptConsumer
from broker.streams.stream_config import EVERYTHING
from broker.streams.stream_consumer import (
    NEVER,
    Advice,
    Confirm,
    Count,
    Look,
    Over,
    State,
    Status,
    StreamConsumer,
    StreamFacts,
    read_ack,
    starting_point,
)
from broker.streams.stream_view import EVERY, Stream, is_within
from broker.streams.strict_json import GoTime
from sequencer.journal.record import Walk
from sublist.pattern_set import PatternSet
from sublist.subject import covers
from sublist.subscription import Subscription

if TYPE_CHECKING:
    from broker.streams.streams import Streams

log = logging.getLogger("seriatim")

WITHOUT_SUBJECTS: Final = (
    "SEQ keeps no list of subjects, which last_per_subject needs: make a stream of these subjects"
)
NAME_LETTERS: Final = string.ascii_letters + string.digits
SECOND_NS: Final = 1_000_000_000
TURN_NS: Final = 2_000_000  # in one turn of the event loop; then others work
ROOM_S: Final = 0.05  # until consumers are asked again that wait for room for unacked messages
STALE_MOST: Final = 1024  # entries of the heap of what is due, besides as many as are not stale
TOO_MANY: Final = b"NATS/1.0 409 Exceeded MaxWaiting\r\n\r\n"
INTEREST_S: Final = 0.02  # between two looks at who listens to deliver subjects; nothing tells


class RunningConsumer:
    """A consumer at work: its state machine, and its reader."""

    def __init__(
        self, consumers: "Consumers", stream: Stream, machine: StreamConsumer, created: int
    ) -> None:
        self.stream = stream
        self.machine = machine
        self.created = created  # ns since 1970
        self.reader = ConsumerReader(consumers, self)
        self.count_task: asyncio.Task[None] | None = None
        self.due: list[Any] | None = None  # its entry in the heap of what is due
        self.askers: set[Connection] = set()  # those that have sent a pull request
        self.patterns: list[bytes] = []
        self._consumers = consumers
        self.maker: ConsumerMaker | None = None  # of an ephemeral one
        self.pending_counted = 0  # by the total
        self.lost_told = 0  # of what it lost to retention, what the log has
        self.sampled = 0  # per cent of its acks are reported
        self.removes_seen = -1  # of the sublist, when each request was last seen to have a listener
        machine.deliverer.join(self, stream.ledger)
        self.take_config(machine.config)

    def take_config(self, config: ConsumerConfig) -> None:
        """Filter, and deliver, as the config says."""
        deliverer = self.machine.deliverer
        self.patterns = [one.encode() for one in config.filters]
        deliverer.choose(self.patterns, config.headers_only, bool(config.deliver_group))
        self.sampled = percentage(config.sample_freq)

    @property
    def name(self) -> str:
        """The consumer's name."""
        return self.machine.name

    def fields(self) -> dict[str, Any]:
        """Return the fields of its note; of a start, it is where it is now."""
        fields = {"stream": self.stream.name, "name": self.name, "created": self.created}
        fields |= {"config": self.machine.config.fields()}
        return fields | {"start": self.machine.deliverer.position}

    @property
    def ack_name(self) -> bytes:
        """Stream and name, as in its ack subjects."""
        return f"{self.stream.name}.{self.name}".encode()

    def send_endings(self) -> None:
        """Send the statuses of requests that end before a delivery."""
        self.machine.take_endings()
        self._consumers.carry_out(self)

    def send_what_follows(self, now: int) -> None:
        """Send what comes right after a delivery."""
        self.machine.follow(now)
        self._consumers.carry_out(self)

    def break_circles(self) -> None:
        """Let it be gone at once when it has ended: the collector finds circles late."""
        del self.reader
        self.machine.deliverer.leave()

    def wants(self, subject: bytes) -> bool:
        """True if a message to this subject is for it."""
        return not self.patterns or any(covers(one, subject) for one in self.patterns)


class Consumers:
    """All consumers of a broker, for its one thread."""

    def __init__(self, core: Core, streams: "Streams") -> None:
        assert core.replays is not None, "streams need a journal"
        self.streams = streams
        self.advisories = streams.advisories
        self.plane = core.plane
        self.sequencer = core.plane.sequencer
        self.replays = core.replays
        self.journal = streams.journal
        self.loop = core.loop
        self.buffer = bytearray(PIECE)
        plane = core.plane
        self.writer = DeliveryWriter(
            plane.gate, plane.reply_publisher, self.journal.salt, self.journal.checked
        )
        self.acks = AckReader(self.sequencer, self._note_later, self._has_room)
        self._core = core
        self._push: dict[RunningConsumer, None] = {}
        self._asked: dict[Connection, set[RunningConsumer]] = {}
        self._requests: dict[Connection, int] = {}  # open ones of those that ask, or more than that
        self._ephemeral = EphemeralBounds()
        self.pending = PendingTotal(self.all)
        self._without_room: list[ConsumerReader] = []
        self._filter_bytes = 0  # of all of them
        self._making = 0  # consumers that are not counted yet
        self._ready: deque[ConsumerReader] = deque()
        self._is_turn_due = False
        # A heap: when, a serial number, and the consumer; None for one that is stale.
        self._due: list[list[Any]] = []
        self._stale = 0
        self._serial = count()
        self._changes_seen = (-1, -1)  # of the sublist
        self._interest_timer: asyncio.TimerHandle | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = NEVER
        self._state_timer: asyncio.TimerHandle | None = None
        self._confirms: list[tuple[Connection, bytes]] = []
        self.lost = 0  # messages that retention deleted before consumers had acknowledged them
        self._is_woken = False
        self._woken: deque[RecordWatcher] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._asker: Connection | None = None  # whose request or ack is being served
        self._stopped = False
        streams.table.wake = self._wake_soon

    def now(self) -> int:
        """The present, by a clock that does not jump."""
        return steady_ns()

    @property
    def last_safe(self) -> int:
        """The last number that clients may see, and that is written."""
        return min(self.journal.last, self.sequencer.safe)

    def _stream(self, name: str) -> Stream | None:
        return self.streams.whole if name == EVERYTHING else self.streams.by_name.get(name)

    def count(self) -> int:
        """Return how many there are."""
        return sum(len(stream.consumers) for stream in self.streams.shown())

    # Waking

    def _wake_soon(self) -> None:
        if not self._is_woken:
            self._is_woken = True
            self.loop.call_soon(self._wake)

    def _wake(self) -> None:
        """Run those for whom a record has come, as soon as it may be shown, for `TURN_NS`."""
        self._is_woken = False
        table, later = self.streams.table, []
        self._woken.extend(table.woken)
        table.woken = []
        last, now = self.last_safe, self.now()
        until = now + TURN_NS
        while self._woken and now < until:
            watcher = self._woken.popleft()
            watcher.is_woken = False
            consumer = watcher.consumer  # type: ignore[attr-defined]
            if consumer is None:
                continue  # it has ended
            if consumer.machine.deliverer.position <= last:
                consumer.machine.decide(now)
                self.settle(consumer)
            else:
                later.append(watcher)
            now = self.now()
        if self._woken:  # many wait for the same messages
            self._wake_soon()
        for watcher in later:  # `StreamTable.flush` wakes them
            watcher.is_woken = True
        table.woken += later
        self.plane.release(None)

    def queue(self, reader: ConsumerReader) -> None:
        """Let a consumer have its turn, after all others that are ready."""
        self._ready.append(reader)
        if not self._is_turn_due:
            self._is_turn_due = True
            self.loop.call_soon(self._turn)

    def await_room(self, reader: ConsumerReader) -> None:
        """Let a consumer wait until fewer messages are unacknowledged in all."""
        self._without_room.append(reader)
        if len(self._without_room) == 1:
            self.loop.call_later(ROOM_S, self._look_for_room)

    def _look_for_room(self) -> None:
        waiting, self._without_room = self._without_room, []
        for reader in waiting:
            reader.go_on()

    def _turn(self) -> None:
        """Serve those that are ready, one after another, for `TURN_NS`; then others work."""
        self._is_turn_due = False
        self.sequencer.release()
        until = self.now() + TURN_NS
        while self._ready:
            self._ready.popleft().step()
            if self.now() >= until:
                break
        self.plane.release(None)
        if self._ready and not self._is_turn_due:
            self._is_turn_due = True
            self.loop.call_soon(self._turn)

    def _has_room(self, consumer: object, now: int) -> None:
        """Let a consumer go on that had too much unacked."""
        assert isinstance(consumer, RunningConsumer), "the deliverer's own"
        consumer.machine.decide(now)
        self.settle(consumer)

    def settle(self, consumer: RunningConsumer) -> None:
        """Carry out what a consumer asks for after an event, and let it go on."""
        self.carry_out(consumer)
        machine = consumer.machine
        if machine.is_over:
            return
        if machine.deliverer.changed:
            self.acks.note_changed(machine.deliverer)
        if machine.state == State.READING:
            if machine.deliverer.position <= self.last_safe or machine.deliverer.again:
                consumer.reader.run()
            else:
                self.streams.table.note_woken(machine.deliverer)
        if machine.next_tick < (NEVER if consumer.due is None else consumer.due[0]):
            self._set_due(consumer)

    def _set_due(self, consumer: RunningConsumer) -> None:
        self._forget_due(consumer)
        if consumer.machine.next_tick == NEVER:
            return
        consumer.due = [consumer.machine.next_tick, next(self._serial), consumer]
        heappush(self._due, consumer.due)
        self._set_timer()

    def _forget_due(self, consumer: RunningConsumer) -> None:
        """Let what the heap has of a consumer be stale; too many that are stale go at once."""
        if consumer.due is None:
            return
        consumer.due[2] = None
        consumer.due = None
        self._stale += 1
        if self._stale > STALE_MOST and 2 * self._stale > len(self._due):
            self._due = [one for one in self._due if one[2] is not None]
            heapify(self._due)
            self._stale = 0

    def _set_timer(self) -> None:
        """Let `_tick` be called when the first of them is due."""
        at = self._due[0][0] if self._due else NEVER
        if at >= self._timer_at:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = at
        delay = max(at - self.now(), 0) / SECOND_NS
        self._timer = self.loop.call_later(delay, self._tick)

    def _tick(self) -> None:
        """Tell the time to those who wait for it, for `TURN_NS`; the others are next."""
        self._timer, self._timer_at = None, NEVER
        now = self.now()
        until = now + TURN_NS
        while self._due and self._due[0][0] <= now < until:
            consumer = heappop(self._due)[2]
            if consumer is None:
                self._stale -= 1
                continue
            consumer.due = None
            machine = consumer.machine
            if machine.is_over:
                continue
            if machine.next_tick <= now:
                machine.tick(now)
                self.settle(consumer)
            else:
                self._set_due(consumer)
            now = self.now()
        self._set_timer()
        self.plane.release(None)

    def all(self) -> list[RunningConsumer]:
        """Return all consumers."""
        return [one for stream in self.streams.shown() for one in stream.consumers.values()]

    # Actions

    def carry_out(self, consumer: RunningConsumer) -> None:
        """Carry out the actions of a consumer, in order."""
        machine = consumer.machine
        while machine.actions:
            actions, machine.actions = machine.actions, []
            for action in actions:
                match action:
                    case Status():
                        self._send_status(consumer, action)
                    case Confirm():
                        self._confirm(consumer, action.reply)
                    case Count():
                        self._begin_count(consumer, action)
                    case Over():
                        self._tell_inactive(consumer)
                        self._end(consumer)
                        if machine.config.is_durable:
                            self._note_end(consumer)
                    case Look():
                        consumer.removes_seen = -1  # some may never have listened
                        self.forget_unheard(consumer)
                        machine.decide(self.now())
                    case Advice():
                        self._tell_advice(consumer, action)

    def _tell_inactive(self, consumer: RunningConsumer) -> None:
        log.log(
            logging.INFO if consumer.machine.config.is_durable else logging.DEBUG,
            "Streams: consumer %s of %s has ended: no client was there for %s",
            *(consumer.name, consumer.stream.name, duration_text(consumer.machine.threshold)),
            extra=REPEATED,
        )

    def _tell_advice(self, consumer: RunningConsumer, advice: Advice) -> None:
        self.advisories.of_advice(consumer.machine, advice)
        if advice.kind == "max_deliveries":
            log.warning(
                "Streams: consumer %s of %s gave message %d up: sent %d times (max_deliver),"
                " and not acknowledged",
                *(consumer.name, consumer.stream.name, advice.sequence, advice.deliveries),
            )

    def _send_status(self, consumer: RunningConsumer, status: Status) -> None:
        if isinstance(status.owner, Connection):
            if not status.owner.closed:
                self.plane.send_status(status.owner, status.inbox, status.headers)
            return
        listeners = self.listeners(consumer.machine.config)
        for sub in listeners[:1] if consumer.machine.deliverer.is_shared else listeners:
            self.plane.hand_to(sub, status.inbox, status.reply, b"", status.headers)

    def _confirm(self, consumer: RunningConsumer, reply: bytes) -> None:
        asker = self._asker
        if asker is None or asker.closed:
            return
        if not consumer.machine.config.is_durable:
            self.plane.answer_now(asker, reply, b"", b"")
            return
        self.acks.note_changed(consumer.machine.deliverer)
        self._confirms.append((asker, reply))
        if self._state_timer is not None:
            self._state_timer.cancel()
        self._state_timer = self.loop.call_soon(self._write_state)  # type: ignore[assignment]

    def park(self, consumer: RunningConsumer, connection: Connection) -> None:
        """Let a client read what it has, before it gets more."""
        consumer.machine.parked(connection, True, self.now())

        def go_on() -> None:
            if not consumer.machine.is_over:
                consumer.machine.parked(connection, False, self.now())
                self.settle(consumer)

        self.replays.serve_requests(Unparking(connection, go_on))

    # Interest

    def listeners(self, config: ConsumerConfig) -> tuple[Subscription, ...]:
        """Return the subscriptions to which a push consumer delivers now.

        With a deliver group, one of them gets each message. Without one, all of them do: every
        plain subscription and, of each queue group, the member with the fewest bytes waiting.
        """
        subject, group = config.deliver_subject.encode(), config.deliver_group.encode()
        fanout = self.plane.sublist.route(subject).fanout
        if not group:
            there = [sub for sub in fanout.plain if sub.owner is not None]
            for members in fanout.groups or ():
                live = [sub for sub in members if sub.owner is not None]
                random.shuffle(live)  # most have nothing waiting
                if live:
                    there.append(min(live, key=lambda sub: connection_of(sub).held()))
            return tuple(there)
        for members in fanout.groups or ():
            here = tuple(sub for sub in members if sub.queue == group and sub.owner is not None)
            if here:
                return here
        return ()

    def _look_for_interest(self) -> None:
        """Tell push consumers whether somebody listens to them."""
        self._interest_timer = None
        sublist = self.plane.sublist
        changes = sublist.inserts, sublist.removes
        if changes != self._changes_seen:
            self._changes_seen = changes
            for consumer in list(self._push):
                self.look_for_interest_in(consumer)
            self.plane.release(None)
        self._watch_interest()

    def look_for_interest_in(self, consumer: RunningConsumer) -> None:
        """Find out whether somebody listens to a push consumer now."""
        machine = consumer.machine
        if not machine.config.is_push:
            return
        is_there = bool(self.listeners(machine.config))
        if is_there != machine.has_interest:
            machine.interest(is_there, self.now())
            self.settle(consumer)

    def forget_unheard(self, consumer: RunningConsumer) -> None:
        """Forget pull requests whose inboxes have no listener any more."""
        waiting, removes = consumer.machine.deliverer.waiting, self.plane.sublist.removes
        if waiting is None or removes == consumer.removes_seen:
            return
        consumer.removes_seen = removes
        waiting.keep_heard(lambda request: self.plane.listens(request.owner, request.inbox))  # type: ignore[arg-type]

    def _watch_interest(self) -> None:
        if self._push and self._interest_timer is None and not self._stopped:
            self._interest_timer = self.loop.call_later(INTEREST_S, self._look_for_interest)

    def drop(self, connection: Connection) -> None:
        """Forget the requests of a connection that has closed."""
        now = self.now()
        self._requests.pop(connection, None)
        for consumer in self._asked.pop(connection, ()):
            consumer.askers.discard(connection)
            consumer.machine.closed(connection, now)
            self.settle(consumer)
        self._confirms = [one for one in self._confirms if one[0] is not connection]

    # Counting

    def _begin_count(self, consumer: RunningConsumer, wanted: Count) -> None:
        task = consumer.count_task = self.loop.create_task(self._count(consumer, wanted))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _count(self, consumer: RunningConsumer, wanted: Count) -> None:
        """Count the visible messages that a consumer wants, from its position on."""
        stream, machine = consumer.stream, consumer.machine
        async with stream.lock:
            self.sequencer.release()
            found = await self.count_matching(
                stream, consumer.patterns, wanted.position, wanted.last
            )
            machine.counted(wanted.serial, found, self.now())
            self._tell_lost(consumer)
        self.settle(consumer)
        self.plane.release(None)

    async def until_counted(self, consumer: RunningConsumer) -> None:
        """Return when it is known how much a consumer has pending."""
        while consumer.machine.counting and consumer.count_task is not None:
            await asyncio.wait({consumer.count_task})

    async def count_matching(
        self, stream: Stream, patterns: list[bytes], position: int, last: int
    ) -> int:
        """Return how many visible messages match, from a position to a last number."""
        ledger = stream.ledger
        if stream.is_whole:
            return await self._count_whole(stream, patterns, position, last)
        subjects: set[bytes] = set()
        for pattern in patterns or [b">"]:
            subjects.update(stream.subjects_of(pattern))
        if last < position or not subjects:
            return 0
        begin = min(map(ledger.begins, subjects))
        total = sum(map(ledger.count_of, subjects))
        newest = ledger.last
        if position <= begin and last >= newest:
            return total
        found = 0

        def count(walk: Walk, subject: bytes, size: int) -> bool:
            nonlocal found
            if walk.number > last:
                return False
            if walk.number >= position and subject in subjects:
                found += ledger.shows(subject, walk.number)
            return True

        await self.streams.visit(stream, max(position, begin), count)
        return found

    async def _count_whole(
        self, stream: Stream, patterns: list[bytes], position: int, last: int
    ) -> int:
        first = max(position, self.journal.first)
        if not patterns or b">" in patterns:
            return max(last + 1 - first, 0)
        wanted, found = PatternSet(patterns), 0

        def count(walk: Walk, subject: bytes, size: int) -> bool:
            nonlocal found
            if walk.number > last:
                return False
            found += wanted.takes(subject)
            return True

        await self.streams.visit(stream, first, count, patterns)
        return found

    # The API

    def rules(self, stream: Stream) -> StreamRules:
        """Return what a consumer's configuration is judged by."""
        config = stream.config
        return StreamRules(
            config.subjects,
            max_ack_pending=config.consumer_ack_pending,
            inactive_threshold=config.consumer_inactive,
            is_whole=stream.is_whole,
        )

    def find(self, stream: Stream, name: str) -> RunningConsumer:
        """Return the consumer of this name. Raises `ApiError`."""
        consumer = stream.consumers.get(name)
        if consumer is None:
            raise consumer_error(10014)
        return consumer

    async def create(
        self, stream: Stream, config: ConsumerConfig, maker: ConsumerMaker
    ) -> RunningConsumer:
        """Begin a consumer, or change the one of this name. Raises `ApiError`."""
        name = config.durable_name or config.name
        known = stream.consumers.get(name)
        if known is not None:
            await self._update(known, config)
            return known
        most = self._core.settings.streams.max_consumers
        own = stream.config.max_consumers
        if self.count() + self._making >= most or 0 < own <= len(stream.consumers):
            raise too_many_consumers()
        if not config.is_durable and (why := self._ephemeral.refusal(maker, most)):
            raise too_many_consumers(why)
        self._refuse_costly(config)
        self._making += 1
        try:
            consumer = await self._make(stream, config)
        finally:
            self._making -= 1
        if not config.is_durable:
            consumer.maker = maker
            self._ephemeral.add(maker, 1)
        self._add(consumer)
        return consumer

    async def _make(self, stream: Stream, config: ConsumerConfig) -> RunningConsumer:
        name = config.durable_name or config.name
        name = name or "".join(random.choices(NAME_LETTERS, k=8))
        config.name = config.name if config.durable_name or config.name else ""
        machine = self._machine(stream, name, config)
        consumer = RunningConsumer(self, stream, machine, time.time_ns())
        start = await self._start(consumer)
        # From here on it counts what comes, so that nothing is missed while the note is written.
        self._watch(consumer)
        try:
            if config.is_durable:
                fields = {"stream": stream.name, "config": config.fields(), "name": name}
                await self.streams.note(
                    "CONSUMER", fields | {"created": consumer.created, "start": start}
                )
        except BaseException:
            self._unwatch(consumer)
            raise
        self.advisories.of_consumer(consumer.machine, "create")
        return consumer

    def _machine(self, stream: Stream, name: str, config: ConsumerConfig) -> StreamConsumer:
        def draw() -> bytes:
            return "".join(random.choices(NAME_LETTERS, k=4)).encode()

        burst = self._core.settings.limits.max_payload
        return StreamConsumer(stream.name, name, config, self.now(), burst, draw)

    async def _start(self, consumer: RunningConsumer) -> int:
        """Find out where a new consumer begins; return the position.

        It is as of the turn in which this returns.
        """
        stream, config = consumer.stream, consumer.machine.config
        self.sequencer.release()
        first, _ = await self.streams.first_of(stream)
        at_time = matching = 0
        if config.opt_start_time is not None:
            at_time = await self.streams.first_since(stream, config.opt_start_time.ns)
        if config.deliver_policy == "last":
            matching = await self.streams.last_matching(stream, consumer.patterns)
        self.sequencer.release()
        self.streams.look_up(stream.name)
        ledger = stream.ledger
        last = ledger.last
        first, at_time = first or last + 1, at_time or last + 1
        facts = StreamFacts(first, last, matching, at_time)
        if config.deliver_policy == "last_per_subject":
            if stream.is_whole:
                raise consumer_error(10094, WITHOUT_SUBJECTS)
            subjects: set[bytes] = set()
            for pattern in consumer.patterns or [b">"]:
                subjects.update(stream.subjects_of(pattern))
            numbers = array("Q", sorted(map(ledger.last_of, subjects)))
            consumer.machine.start_with(numbers, last, self.now())
            return numbers[0] if numbers else last + 1
        position = starting_point(config, facts)
        consumer.machine.start(position, last, self.now())
        return position

    def _add(self, consumer: RunningConsumer) -> None:
        """Let a consumer begin its work."""
        machine = consumer.machine
        consumer.stream.consumers[machine.name] = consumer
        self._take_acks(consumer)
        if machine.config.is_push:
            self._push[consumer] = None
            machine.interest(bool(self.listeners(machine.config)), self.now())
            self._watch_interest()
        until = machine.config.pause_until
        if until is not None and not until.is_zero:
            machine.pause(until.ns, time.time_ns(), self.now())
        self.settle(consumer)

    def _watch(self, consumer: RunningConsumer) -> None:
        """Get the new records that it wants."""
        ledger, deliverer = consumer.stream.ledger, consumer.machine.deliverer
        if consumer.stream.is_whole:
            self.streams.follow_whole(1)
        if consumer.patterns:
            self._filter_bytes += sum(map(len, consumer.patterns))
            for pattern in consumer.patterns:
                self.streams.table.open_to(pattern, deliverer)
        else:
            ledger.watchers = [*(ledger.watchers or ()), deliverer]

    def _unwatch(self, consumer: RunningConsumer) -> None:
        ledger, deliverer = consumer.stream.ledger, consumer.machine.deliverer
        if consumer.stream.is_whole:
            self.streams.follow_whole(-1)
        if consumer.patterns:
            self._filter_bytes -= sum(map(len, consumer.patterns))
            for pattern in consumer.patterns:
                self.streams.table.close_to(pattern, deliverer)
        else:
            left = [one for one in ledger.watchers or () if one is not deliverer]
            ledger.watchers = left or None

    def _refuse_costly(self, config: ConsumerConfig) -> None:
        if self._filter_bytes + sum(map(len, config.filters)) > FILTER_BYTES_MOST:
            raise consumer_error(
                10094,
                f"the filters of all consumers have {self._filter_bytes} bytes already, and"
                f" {FILTER_BYTES_MOST} are the most",
            )
        costly = self.streams.costly(config.filters)
        if costly:
            raise consumer_error(
                10094, f"filter {costly} would make matching a message too expensive"
            )

    async def _update(self, consumer: RunningConsumer, config: ConsumerConfig) -> None:
        if config.filters != consumer.machine.config.filters:
            self._refuse_costly(config)
        if config.is_durable:
            fields = {"stream": consumer.stream.name, "config": config.fields()}
            await self.streams.note("CONSUMER", fields | {"name": consumer.name})
        if consumer.machine.is_over:  # it was idle for too long, and has ended meanwhile
            raise consumer_error(10014)
        self._unwatch(consumer)
        consumer.take_config(config)
        self._take_acks(consumer)
        self._watch(consumer)
        self.sequencer.release()
        consumer.machine.update(config, consumer.stream.ledger.last, self.now())
        self.settle(consumer)

    async def delete(self, consumer: RunningConsumer) -> None:
        """End a consumer, as somebody asks."""
        if consumer.machine.config.is_durable:
            fields = {"stream": consumer.stream.name, "name": consumer.name}
            await self.streams.note("CONSUMER_GONE", fields)
        self.end(consumer)

    def end(self, consumer: RunningConsumer) -> None:
        """End a consumer, and tell who waits."""
        consumer.machine.delete(self.now())
        self.carry_out(consumer)
        self._end(consumer)

    def _end(self, consumer: RunningConsumer) -> None:
        if consumer.stream.consumers.get(consumer.name) is consumer:
            del consumer.stream.consumers[consumer.name]
            self._unwatch(consumer)
            self._push.pop(consumer, None)
            self.acks.forget(consumer.ack_name)
            for connection in consumer.askers:
                self._asked[connection].discard(consumer)
            consumer.askers.clear()
            consumer.reader.stop()
            self.pending.forget(consumer)
            self._forget_due(consumer)
            self.loop.call_soon(consumer.break_circles)  # not now: a caller may still use it
            if consumer.maker is not None:
                self._ephemeral.add(consumer.maker, -1)
                consumer.maker = None
            self.advisories.of_consumer(consumer.machine, "delete")

    def _note_end(self, consumer: RunningConsumer) -> None:
        """Note that a durable consumer has ended, idle for too long."""

        async def note() -> None:
            with contextlib.suppress(ApiError):  # then it comes back, and ends again
                fields = {"stream": consumer.stream.name, "name": consumer.name}
                async with consumer.stream.changing:
                    is_there = self._stream(consumer.stream.name) is consumer.stream
                    if is_there and consumer.name not in consumer.stream.consumers:  # no new one
                        await self.streams.note("CONSUMER_GONE", fields)

        task = self.loop.create_task(note())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def pause(self, consumer: RunningConsumer, until: GoTime) -> None:
        """Deliver nothing until a time of day; the zero time: go on. Raises `ApiError`."""
        machine = consumer.machine
        config = copy(machine.config)
        config.pause_until = None if until.is_zero else until
        if config.is_durable:
            fields = {"stream": consumer.stream.name, "config": config.fields()}
            await self.streams.note("CONSUMER", fields | {"name": consumer.name})
        if machine.is_over:  # it was idle for too long, and has ended meanwhile
            raise consumer_error(10014)
        machine.config.pause_until = config.pause_until
        machine.pause(until.ns, time.time_ns(), self.now())
        self.settle(consumer)

    # Clients at work

    def ask(
        self, connection: Connection, consumer: RunningConsumer, inbox: bytes, text: bytes
    ) -> None:
        """Take a pull request."""
        if not self._may_ask(connection, consumer):
            self.plane.send_status(connection, inbox, TOO_MANY)
            return
        self._asker = connection
        self.sequencer.release()
        waiting = consumer.machine.deliverer.waiting
        if waiting is not None and len(waiting) >= waiting.most:
            self.forget_unheard(consumer)
        consumer.machine.request(inbox, connection, text, self.now())
        self.settle(consumer)
        self._asker = None

    def _may_ask(self, connection: Connection, consumer: RunningConsumer) -> bool:
        """True if a client may have one more pull request open; it is counted then."""
        if connection not in consumer.askers:
            consumer.askers.add(connection)
            self._asked.setdefault(connection, set()).add(consumer)
        count = self._requests.get(connection, 0)
        if count >= REQUESTS_MOST:  # some of these have ended
            self.plane.charge_work(count)
            count = 0
            for one in self._asked[connection]:
                self.forget_unheard(one)
                waiting = one.machine.deliverer.waiting
                count += waiting.count_of(connection) if waiting is not None else 0
        self._requests[connection] = count + 1 if count < REQUESTS_MOST else count
        return count < REQUESTS_MOST

    def acknowledge(
        self, connection: Connection, subject: bytes, reply: bytes, payload: bytes
    ) -> bool:
        """Take an ack; False if there is no such consumer, or it takes none."""
        names = subject.split(b".")
        if len(names) > 9:  # with domain and account in front, and a token at the end
            names = names[:2] + names[4:11]
        if len(names) != 9:
            return True
        stream = self._stream(names[2].decode("utf-8", "replace"))
        if stream is None:
            return False
        name = names[3].decode("utf-8", "replace")
        consumer = stream.consumers.get(name)
        if consumer is None:
            size = len(subject) + len(reply) + len(payload)
            return self.streams.serve_later(
                *(connection, stream.name, name, size),
                lambda: self.acknowledge(connection, subject, reply, payload),
            )
        if consumer.machine.config.ack_policy == "none":
            return False
        try:
            number, own, stamp = int(names[5]), int(names[6]), int(names[7])
        except ValueError:
            return True
        if not 0 < number < NEVER or not 0 < own < NEVER or not 0 <= stamp < NEVER:
            number = own = stamp = 0
        if consumer.sampled and self.advisories.are_heard:
            self._tell_sample(consumer, number, own, stamp, payload, self.now())
        if reply and payload.startswith(b"+NXT") and not self._may_ask(connection, consumer):
            self.plane.send_status(connection, reply, TOO_MANY)
            payload, reply = b"+ACK", b""
        self._asker = connection
        consumer.machine.ack(number, own, stamp, payload, reply, connection, self.now())
        self.settle(consumer)
        self._asker = None
        return True

    def _take_acks(self, consumer: RunningConsumer) -> None:
        """Let the quick reader take a consumer's acks, unless some of them are reported."""
        if consumer.sampled:
            self.acks.forget(consumer.ack_name)
        else:
            self.acks.know(consumer.ack_name, consumer.machine.deliverer)

    def _tell_sample(
        self,
        consumer: RunningConsumer,
        number: int,
        own: int,
        stamp: int,
        payload: bytes,
        now: int,
    ) -> None:
        """Tell how long an ack took that is about to be taken, if it is one of the sample."""
        deliverer = consumer.machine.deliverer
        place = deliverer.table.check(number, own, stamp, deliverer.number)
        if place < 0 or read_ack(payload)[0] not in ("ack", "next"):
            return
        if random.randrange(100) < consumer.sampled:
            deliveries = deliverer.table.deliveries_at(place)
            sent = deliverer.table.due_at(place) - deliverer.wait_after(deliveries)
            self.advisories.of_ack(consumer.machine, number, own, deliveries, max(now - sent, 0))

    def flow(self, subject: bytes) -> None:
        """Take the answer to a flow control request."""
        names = subject.decode("utf-8", "replace").split(".")
        stream = self._stream(names[2]) if len(names) == 5 else None
        consumer = stream.consumers.get(names[3]) if stream is not None else None
        if consumer is not None:
            consumer.machine.flow(subject, self.now())
            self.settle(consumer)

    # What has left a stream

    def messages_left(self, stream: Stream, filter: str, below: int) -> None:
        """Tell consumers that messages a filter matches, below a number, are not visible any more.

        What is unacked of them is dropped where all that a consumer wants has left. Otherwise it is
        noticed when it would be delivered again.
        """
        for consumer in list(stream.consumers.values()):
            deliverer = consumer.machine.deliverer
            wanted = consumer.machine.config.filters
            if filter == EVERY or (wanted and all(is_within(one, filter) for one in wanted)):
                deliverer.changed = bool(deliverer.table.drop_below(below)) or deliverer.changed
            if deliverer.position < below:
                consumer.machine.recount(stream.ledger.last, self.now())
            else:
                consumer.machine.decide(self.now())
            self.settle(consumer)

    def moved(self, stream: Stream, first: int) -> None:
        """Tell consumers that retention has deleted what is below a number."""
        for consumer in list(stream.consumers.values()):
            machine, last = consumer.machine, stream.ledger.last
            is_behind = machine.deliverer.position < first
            has_more = machine.counting or machine.deliverer.ahead > 0
            machine.moved(first, 0, last, self.now())
            if is_behind and has_more:
                machine.recount(last, self.now(), is_lost=True)
            self._tell_lost(consumer)
            self.settle(consumer)

    def pass_over(self, consumer: RunningConsumer, first: int, now: int) -> None:
        """Let a consumer go on from a number, for what comes before cannot be read."""
        last = consumer.stream.ledger.last
        consumer.machine.moved(first, 0, last, now)
        consumer.machine.recount(last, now)

    def _tell_lost(self, consumer: RunningConsumer) -> None:
        """Log what a consumer has lost to retention since the last time, once that is known."""
        machine = consumer.machine
        if machine.counting or machine.lost == consumer.lost_told:
            return
        lost, consumer.lost_told = machine.lost - consumer.lost_told, machine.lost
        self.lost += lost
        log.warning(
            "Streams: consumer %s of %s: retention has deleted %d of the messages that it had not"
            " got or not acknowledged",
            *(consumer.name, consumer.stream.name, lost),
        )

    def message_left(self, stream: Stream, subject: bytes, number: int) -> None:
        """Tell consumers that one message is not visible any more."""
        for consumer in list(stream.consumers.values()):
            if consumer.wants(subject):
                consumer.machine.unmatched(number, self.now())
                self.settle(consumer)

    # State

    def _note_later(self) -> None:
        if self._state_timer is None and not self._stopped:
            delay = self._core.settings.journal.sync_interval
            self._state_timer = self.loop.call_later(delay, self._write_state)

    def _write_state(self) -> None:
        """Note what has changed of durable consumers, all in one note."""
        self._state_timer = None
        confirms, self._confirms = self._confirms, []
        deliverers, self.acks.changed = self.acks.changed, []
        changed: list[RunningConsumer] = []
        for deliverer in deliverers:
            deliverer.is_listed = False
            consumer = deliverer.consumer
            if isinstance(consumer, RunningConsumer) and not consumer.machine.is_over:
                changed.append(consumer)
        states = [[one.stream.name, one.name, one.machine.note()] for one in changed]
        if not states:
            self._say_confirmed(confirms)
            return
        # In the notes before anything else happens: it must not come behind a newer state.
        noted = self.streams.note_at_once("STATE", {"consumers": states})
        task = self.loop.create_task(self._await_state(changed, noted, confirms))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _await_state(
        self,
        changed: list[RunningConsumer],
        noted: asyncio.Future[None],
        confirms: list[tuple[Connection, bytes]],
    ) -> None:
        try:
            await noted
        except Exception as error:  # the notes were taken back: the next one has everything
            log.error("Streams: the state of consumers is not on the disk: %s", error)
            for consumer in changed:
                consumer.machine.is_noted = False
                consumer.machine.deliverer.changed = True
                self.acks.note_changed(consumer.machine.deliverer)
            return
        self._say_confirmed(confirms)

    def _say_confirmed(self, confirms: list[tuple[Connection, bytes]]) -> None:
        for connection, reply in confirms:
            if not connection.closed:
                self.plane.answer_now(connection, reply, b"", b"")
        self.plane.release(None)

    def whole_state(self) -> list[Any]:
        """Return the state of all durable consumers."""
        found = []
        for consumer in self.all():
            if consumer.machine.config.is_durable:
                consumer.machine.is_noted = False
                found.append([consumer.stream.name, consumer.name, consumer.machine.note()])
        return found

    def restore(self, stream: Stream, fields: dict[str, Any], kept: KeptConsumer | None) -> None:
        """Go on with a durable consumer of an earlier broker."""
        config = read_config(fields["config"])
        machine = self._machine(stream, fields["name"], config)
        consumer = RunningConsumer(self, stream, machine, fields["created"])
        last = max(stream.ledger.last, self.journal.last)
        if kept is not None:
            kept.lower(last)
            machine.restore(kept, last, self.now())
        else:
            machine.start(min(fields["start"], last + 1), last, self.now())
        self._watch(consumer)
        self._add(consumer)

    async def stop(self) -> None:
        """Note the last state."""
        self._stopped = True
        for timer in (self._timer, self._interest_timer, self._state_timer):
            if timer is not None:
                timer.cancel()
        for one in self.all():
            if one.machine.deliverer.changed:
                self.acks.note_changed(one.machine.deliverer)
        self._write_state()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=5)
        for consumer in self.all():
            consumer.reader.stop()
