"""A stream, clients and a clock around one consumer, and a model that says what must come out.

A run is a seed: random events, and after each of them the invariants of a consumer are checked.
The model is plain: for each message of the stream what has become of it, by what was delivered and
acknowledged. It shares no code with the consumer. Sizes are numbers alone, times go in big steps.
"""

import copy
import random
from array import array
from collections import Counter
from dataclasses import dataclass, field

from broker.streams.consumer_config import ConsumerConfig, StreamRules
from broker.streams.kept_consumer import KeptConsumer
from broker.streams.offer_outcomes import FIRST, STOP, THEN
from broker.streams.pull_requests import PullRequest
from broker.streams.stream_consumer import (
    Advice,
    Confirm,
    Count,
    Look,
    Over,
    State,
    Status,
    StreamConsumer,
)

MS = 1_000_000
SECOND = 1_000 * MS
LIVE = 40  # messages of the stream that are kept
BURST = 1 << 20


@dataclass(slots=True)
class Message:
    number: int
    kind: int
    time: int
    size: int
    visible: bool = True


@dataclass(slots=True)
class Unacked:
    """A pending message, as the model has it."""

    number: int  # consumer sequence of the first delivery
    deliveries: int
    not_before: int
    sent: list[int] = field(default_factory=list)  # consumer sequences of all its deliveries


@dataclass(slots=True)
class Asked:
    """A pull request, as the model has it."""

    owner: object
    left: int
    bytes_left: int
    expires: int
    no_wait: bool
    sized: bool
    over: bool = False
    completes: bool = False  # it is done with bytes left: one more status may follow


class Model:
    """What has become of each message."""

    def __init__(self, position: int) -> None:
        self.position = position
        self.number = 0
        self.delivered = position - 1
        self.pending: dict[int, Unacked] = {}
        self.done: set[int] = set()  # acked, terminated, or delivered often enough
        self.allowed: set[int] | None = None  # of `last_per_subject`: those up to `resume`
        self.resume = 0
        self.base = (0, 0)  # consumer sequence of what came when nothing was pending, and the floor

    def floor(self) -> tuple[int, int]:
        if not self.pending:
            return self.number, self.delivered
        first = min(self.pending)
        number = self.pending[first].number
        return number - 1, self.base[1] if number == self.base[0] else first - 1


class World:
    def __init__(self, seed: int, kind: type[StreamConsumer] = StreamConsumer) -> None:
        self.random = random.Random(seed)
        self.kind = kind
        self.now = SECOND
        self.number = self.random.choice([0, 1 << 40])
        self.stream: dict[int, Message] = {}
        self.stats: Counter[str] = Counter()
        self.counts: list[Count] = []
        self.asked: dict[bytes, Asked] = {}
        self.flows: list[bytes] = []
        self.recent: list[tuple[int, int, int]] = []  # deliveries, to be acked
        self.inboxes = self.letters = 0
        self.interest = False
        self.parked: set[object] = set()
        self.paused_until = 0
        self.sent_bytes = self.answered = 0
        self.window = 2 << 20
        self.marks: dict[bytes, int] = {}
        self.level, self.level_at = float(BURST), self.now
        self.replayed: tuple[int, int] | None = None
        self.kinds = {0, 1, 2}
        self.ended = False
        self.floor, self.kept_floor = 0, False  # it may fall: a reset, or a crash
        for _ in range(self.random.randrange(12)):
            self.write()
        self.config = self.make_config()
        self.consumer = self.make()
        self.begin()
        self.saved: tuple[KeptConsumer, Model] | None = None
        self.kept = KeptConsumer()

    # The beginning

    def make_config(self) -> ConsumerConfig:
        choose = self.random.choice
        config = ConsumerConfig(
            durable_name="C", ack_policy=choose(["explicit"] * 3 + ["all", "none"])
        )
        if choose([0, 0, 1]):
            config.deliver_subject = "d"
            config.idle_heartbeat = choose([0, 200 * MS])
            if config.idle_heartbeat and choose([0, 1]):
                config.flow_control = True
            config.rate_limit_bps = choose([0, 0, 8 << 20])
        else:
            config.max_waiting = choose([1, 2, 512])
        config.replay_policy = choose(["instant"] * 4 + ["original"])
        if config.ack_policy != "none":
            config.ack_wait = choose([50, 1000, 5000]) * MS
            if choose([0, 0, 1]):
                config.backoff = [choose([10, 100]) * MS, choose([200, 1000]) * MS]
            config.max_deliver = choose([-1, 2, 2, 5])
            config.max_ack_pending = choose([-1, 1, 3, 10])
        config.inactive_threshold = choose([0] * 8 + [20 * SECOND])
        if choose([0] * 3 + [1]):
            config.deliver_policy, config.filter_subjects = "last_per_subject", ["a", "b", "c"]
        config.set_defaults(StreamRules())
        return config

    def make(self) -> StreamConsumer:
        def draw() -> bytes:
            self.letters += 1
            return b"%04d" % self.letters

        return self.kind("S", "C", self.config, self.now, BURST, draw)

    def begin(self) -> None:
        """Start the consumer, and the model with it."""
        first = min(self.stream, default=self.number + 1)
        if self.config.deliver_policy == "last_per_subject":
            last = {one.kind: one.number for one in self.stream.values() if self.matches(one)}
            numbers = sorted(last.values())
            self.model = Model(numbers[0] if numbers else self.number + 1)
            self.model.allowed, self.model.resume = set(numbers), self.number
            self.consumer.start_with(array("Q", numbers), self.number, self.now)
        else:
            position = self.random.choice([first, self.number + 1, self.number + 5])
            self.model = Model(max(position, 1))
            self.consumer.start(max(position, 1), self.number, self.now)
        self.replay_last = self.number
        self.settle()

    # The stream

    def matches(self, message: Message) -> bool:
        return message.visible and message.kind in self.kinds

    def is_ahead(self, message: Message) -> bool:
        model = self.model
        if message.number < model.position or not self.matches(message):
            return False
        if model.allowed is None or message.number > model.resume:
            return True
        return message.number in model.allowed

    def ahead(self, after: int = 0) -> list[int]:
        return [n for n, one in self.stream.items() if n > after and self.is_ahead(one)]

    def write(self) -> Message:
        self.number += self.random.choice([1, 1, 2, 7])
        size = self.random.choice([10, 10, 1000, 300_000, 900_000])
        message = Message(self.number, self.random.randrange(4), self.now, size)
        self.stream[self.number] = message
        return message

    # The cursor

    def settle(self) -> None:
        """Carry out the actions, and run the cursor for as long as its turn takes."""
        consumer = self.consumer
        self.carry_out()
        turn = self.random.choice([1, 3, 1000])
        while consumer.state == State.READING and turn:
            turn -= 1
            wanted = consumer.deliverer.wanted(self.now)
            if not wanted:
                consumer.decide(self.now)
                self.carry_out()
                assert consumer.state != State.READING, "it reads, and wants nothing"
                break
            again = bool(consumer.deliverer.again)
            if again:
                message = self.stream.get(wanted)
                if message is None or not message.visible:
                    self.finish(wanted)
                    consumer.gone(wanted, self.now)
                    self.carry_out()
                    continue
            else:
                number = min((n for n in self.ahead() if n >= wanted), default=0)
                assert number, "it reads, and nothing is there"
                consumer.deliverer.skip(number)
                message = self.stream[number]
            if not self.offer(message, again):
                consumer.decide(self.now)
                self.carry_out()
                assert consumer.state != State.READING, "it stops, and goes on"
        if consumer.state == State.READING:
            self.stats["turn over"] += 1
        consumer.decide(self.now)
        self.carry_out()

    def offer(self, message: Message, again: bool) -> bool:
        consumer = self.consumer
        outcome = consumer.deliverer.offer(message.number, message.time, message.size, self.now)
        if outcome == STOP:
            return False
        if outcome & FIRST:
            consumer.take_endings()
            self.carry_out()
        self.delivered(message, again)
        if outcome & THEN:
            consumer.follow(self.now)
        self.carry_out()
        return True

    def carry_out(self) -> None:
        actions = list(self.consumer.actions)
        self.consumer.actions.clear()
        for action in actions:
            self.stats[type(action).__name__] += 1
            match action:
                case Count():
                    self.counts.append(action)
                case Status():
                    self.heard(action)
                case Advice(kind="max_deliveries"):
                    unacked = self.model.pending[action.sequence]
                    assert unacked.deliveries == action.deliveries
                    assert self.is_limit(action.deliveries), "given up too early"
                    assert unacked.not_before <= self.now, "given up before its time"
                    self.finish(action.sequence)
                case Over():
                    assert self.config.inactive_threshold
                    assert not any(not one.over for one in self.asked.values())
                    self.ended = True
                case Advice() | Confirm() | Look():
                    pass

    # What clients get

    def delivered(self, message: Message, again: bool) -> None:
        """Check a message that goes out: invariants 2, 3, 4, 7 and 9."""
        model, config, number = self.model, self.config, message.number
        assert self.matches(message) or again, "not visible, or no match"
        assert self.paused_until <= self.now, "delivered while paused"
        model.number += 1
        if again:
            unacked = model.pending[number]
            assert unacked.not_before <= self.now, "delivered again before its time"
            assert not self.is_limit(unacked.deliveries), "delivered too often"
            unacked.deliveries += 1
            self.stats["again"] += 1
        else:
            assert number >= model.position, "first deliveries do not rise"
            assert number == min(self.ahead()), "something was left out"
            assert all(one.not_before > self.now for one in model.pending.values()), "due first"
            limit = config.max_ack_pending
            assert limit <= 0 or len(model.pending) < limit, "more pending than allowed"
            if not model.pending:
                model.base = model.number, model.delivered
            model.position, model.delivered = number + 1, number
            unacked = Unacked(model.number, 1, 0)
            if config.ack_policy != "none":
                model.pending[number] = unacked
        unacked.sent.append(model.number)
        unacked.not_before = self.now + self.wait_after(unacked.deliveries)
        deliverer = self.consumer.deliverer
        reply = bytes(deliverer.reply[: deliverer.reply_size])
        numbers = (unacked.deliveries, number, model.number, message.time, len(self.ahead()))
        assert reply == b"$JS.ACK.S.C.%d.%d.%d.%d.%d" % numbers, (reply, numbers)
        self.recent = [*self.recent[-20:], (number, model.number, message.time)]
        self.paced(message, again, message.size + len(reply))
        if config.deliver_subject:
            assert self.interest, "delivered without interest"
        else:
            assert isinstance(deliverer.target, PullRequest)
            self.answered_to(deliverer.target.inbox, message.size + len(reply))
        self.stats["delivered"] += 1

    def is_limit(self, deliveries: int) -> bool:
        return 0 < self.config.max_deliver <= deliveries

    def wait_after(self, deliveries: int) -> int:
        config = self.config
        if config.backoff:
            return config.backoff[min(deliveries, len(config.backoff)) - 1]
        return config.ack_wait

    def paced(self, message: Message, again: bool, total: int) -> None:
        if self.config.flow_control:
            assert self.sent_bytes - self.answered <= self.window, "above the window"
            self.sent_bytes += total
        if self.config.rate_limit_bps:
            earned = (self.now - self.level_at) * self.config.rate_limit_bps / 8 / SECOND
            self.level = min(self.level + earned, BURST)
            self.level_at = self.now
            assert self.level >= -2, "above the rate"
            self.level -= total
        if self.config.replay_policy == "original":
            if self.replayed and not again and message.number <= self.replay_last:
                pause = message.time - self.replayed[0]
                assert pause <= MS or self.now >= self.replayed[1] + pause, "before its time"
            self.replayed = message.time, self.now

    def answered_to(self, inbox: bytes, total: int) -> None:
        asked = self.asked[inbox]
        assert not asked.over, "a request that is over gets a message"
        assert asked.owner not in self.parked, "one that is full gets a message"
        asked.left -= 1
        assert asked.left >= 0, "a request gets more than its batch"
        if asked.sized:
            asked.bytes_left -= total
            assert asked.bytes_left >= 0, "a request gets more than its bytes"
        if asked.left == 0 or (asked.sized and asked.bytes_left == 0):
            asked.over = True
            asked.completes = asked.bytes_left > 0

    def heard(self, status: Status) -> None:
        """Check a status: what waits ends exactly once (7)."""
        if status.reply:
            assert self.sent_bytes - self.answered > self.window // 2
            self.flows.append(status.reply)
            self.marks[status.reply] = self.sent_bytes
            return
        if status.owner is None:
            assert b"Idle Heartbeat" in status.headers
            assert self.interest
            assert b"Last-Consumer: %d\r" % self.model.number in status.headers
            return
        asked = self.asked[status.inbox]
        self.stats[status.headers[9:30].decode().split("\r")[0]] += 1
        if b"Batch Completed" in status.headers:
            assert asked.completes, "completed, and not so"
            asked.completes = False
            return
        assert not asked.over, "a request ends twice"
        if b"Idle Heartbeat" in status.headers:
            return
        asked.over = True
        if b"404" in status.headers:
            assert asked.no_wait, "nothing for one that waits"
        if b"Request Timeout" in status.headers:
            assert 0 < asked.expires <= self.now, "a timeout before its time"
            assert b"Messages: %d\r" % asked.left in status.headers
            assert b"Bytes: %d\r" % asked.bytes_left in status.headers

    def finish(self, number: int) -> None:
        if self.model.pending.pop(number, None) is not None:
            self.model.done.add(number)

    # The invariants, after each event

    def check(self) -> None:
        if self.ended:
            return
        consumer, model, now = self.consumer, self.model, self.now
        assert consumer.next_tick > now, "it is due, and was not done"
        says = consumer.numbers()
        floor = model.floor()
        assert says["delivered"] == {"consumer_seq": model.number, "stream_seq": model.delivered}
        assert says["ack_floor"] == {"consumer_seq": floor[0], "stream_seq": floor[1]}, "the floor"
        assert says["num_ack_pending"] == len(model.pending), "how many are pending"
        assert floor[1] >= self.floor or not self.kept_floor, "the floor falls"
        self.floor, self.kept_floor = floor[1], True
        rows = consumer.deliverer.table.rows()
        assert [(row[0], row[1], row[3]) for row in rows] == [
            (n, one.number, one.deliveries) for n, one in sorted(model.pending.items())
        ], "what is pending"
        if consumer.counting:
            return
        ahead = self.ahead()
        assert says["num_pending"] == len(ahead), "how many are ahead"
        live = [one for one in self.asked.values() if not one.over]
        assert says["num_waiting"] == len(live)
        assert all(not one.expires or one.expires > now for one in live), "a request did not end"
        # At least once: what can be delivered now is being delivered, or there is a reason.
        wants = self.interest if self.config.deliver_subject else False
        wants = wants or any(one.owner not in self.parked for one in live)
        if self.paused_until > now or not wants or consumer.state == State.READING:
            return
        if self.config.deliver_subject and consumer.state == State.PARKED:
            return
        limit = self.config.max_ack_pending
        is_full = 0 < limit <= len(model.pending)
        is_due = any(one.not_before <= now for one in model.pending.values())
        if self.config.flow_control and self.sent_bytes - self.answered > self.window:
            return
        earned = (now - self.level_at) * self.config.rate_limit_bps / 8 / SECOND
        if self.level + earned < 1:
            return
        is_early = self.config.replay_policy == "original" and consumer.state == State.HELD
        assert not is_due, "due, and not delivered"
        assert not ahead or is_full or is_early, "ahead, and not delivered"


class Run(World):
    """A run of random events."""

    def go(self, events: int) -> None:
        names = [name for name in vars(Run) if name.startswith("on_")]
        weights = [WEIGHTS.get(name, 1) for name in names]
        handlers = [getattr(self, name) for name in names]
        self.check()
        for handler in self.random.choices(handlers, weights, k=events):
            if self.ended:
                return
            self.stats[handler.__name__] += 1
            handler()
            if not self.ended:
                self.settle()
                self.check()

    # The stream and its edge

    def on_write(self) -> None:
        message = self.write()
        if self.matches(message) and self.consumer.deliverer.matched(message.number):
            self.consumer.decide(self.now)
        if len(self.stream) > LIVE:
            self.on_move()

    def on_delete(self) -> None:
        if not self.stream:
            return
        message = self.random.choice(list(self.stream.values()))
        if message.kind in self.kinds and message.visible:
            message.visible = False
            self.finish(message.number)
            self.consumer.unmatched(message.number, self.now)
        message.visible = False

    def on_move(self) -> None:
        """Retention deletes the oldest."""
        first = self.random.choice([*self.stream, self.number + 1])
        gone = [n for n in self.stream if n < first]
        passed = sum(self.is_ahead(self.stream[n]) for n in gone)
        model = self.model
        if passed or any(number in model.pending for number in gone):
            model.delivered = max(model.delivered, first - 1)
        for number in gone:
            self.finish(number)
            del self.stream[number]
        if model.position < first:
            self.skip(first)
        self.consumer.moved(first, passed, self.number, self.now)

    def skip(self, first: int) -> None:
        """The model's position after a move: in a list it is the next of its numbers."""
        model = self.model
        left = sorted(n for n in model.allowed or () if n >= first)
        in_list = any(n >= model.position for n in model.allowed or ())
        if in_list and not left:
            first = max(first, model.resume + 1)
        model.position = max(model.position, left[0] if in_list and left else first)

    def on_count(self) -> None:
        if self.counts:
            count = self.counts.pop(self.random.randrange(len(self.counts)))
            there = [n for n in self.ahead() if count.position <= n <= count.last]
            self.consumer.counted(count.serial, len(there), self.now)

    # Clients

    def on_request(self) -> None:
        choose = self.random.choice
        self.inboxes += 1
        inbox = b"i%d" % self.inboxes
        batch, size = choose([1, 1, 3, 10]), choose([0, 0, 400, 1_000_000, 2_000_000])
        expires, no_wait = choose([0, 100, 3000]) * MS, choose([True, False, False])
        beat = choose([0, 0, 50]) * MS
        text = b'{"batch":%d,"max_bytes":%d,"expires":%d' % (batch, size, expires)
        text += b',"idle_heartbeat":%d' % beat if beat and 2 * beat <= expires else b""
        text += b',"no_wait":true}' if no_wait else b"}"
        owner = choose(["a", "b"])
        until = self.now + expires if expires else 0
        asked = Asked(owner, batch, size, until, no_wait, sized=size > 0)
        self.asked[inbox] = asked
        live = sum(not one.over for one in self.asked.values()) - 1
        self.consumer.request(inbox, owner, text, self.now)
        # A request for which there is no room, and that has a heartbeat, is told nothing.
        silent = b"idle" in text and live >= self.config.max_waiting
        if silent or self.config.deliver_subject:
            said = [one for one in self.consumer.actions if isinstance(one, Status)]
            asked.over = silent and not any(one.inbox == inbox for one in said)
        if not silent:
            assert not (live >= self.config.max_waiting > 0) or self.consumer.actions

    def on_close(self) -> None:
        owner = self.random.choice(["a", "b"])
        self.consumer.closed(owner, self.now)
        self.parked.discard(owner)
        for asked in self.asked.values():
            asked.over = asked.over or asked.owner == owner

    def on_interest(self) -> None:
        if self.config.deliver_subject:
            self.interest = not self.interest
            self.consumer.interest(self.interest, self.now)

    def on_park(self) -> None:
        owner = self.random.choice(["a", "b"])
        self.parked ^= {owner}
        self.consumer.parked(owner, owner in self.parked, self.now)

    def on_flow(self) -> None:
        if self.flows:
            reply = self.random.choice(self.flows)
            is_last = reply == self.flows[-1] and reply in self.marks
            self.consumer.flow(
                self.random.choice([reply, b"forged"][: 1 + (not is_last)]), self.now
            )
            if is_last:
                self.answered = self.marks.pop(reply)
                self.window = min(2 * self.window, 32 << 20)

    # Acks

    def on_ack(self) -> None:
        choose = self.random.choice
        if not self.recent:
            return
        number, consumer, time = choose(self.recent)
        if choose([0] * 9 + [1]):  # forged
            number, consumer, time = choose(
                [
                    (number, consumer, time ^ 1),
                    (number, consumer + 99, time),
                    (number + 1, consumer, time),
                ]
            )
        word = choose(
            [b"", b"", b"", b"+ACK", b"-NAK", b"-NAK 100ms", b"+WPI", b"+TERM why", b"-N"]
        )
        if word == b"-NAK" and choose([0, 1]):
            word = b'-NAK {"delay": 2000000000}'
        self.acked(number, consumer, time, word)
        self.consumer.ack(number, consumer, time, word, b"r", "a", self.now)

    def acked(self, number: int, consumer: int, time: int, word: bytes) -> None:
        unacked, model = self.model.pending.get(number), self.model
        message = self.stream.get(number)
        if unacked is None or message is None or message.time != time:
            return
        # After a crash the numbers of deliveries since the note are unknown, and some may count.
        if consumer not in unacked.sent:
            ours = unacked.number < consumer <= model.number and unacked.deliveries > 1
            if not ours:
                return
        if word in (b"", b"+ACK") or word.startswith(b"+TERM"):
            all_of = self.config.ack_policy == "all"
            for one in [n for n in model.pending if n <= number] if all_of else [number]:
                self.finish(one)
        elif word == b"-NAK":
            if self.is_limit(unacked.deliveries):
                unacked.not_before = self.now
            unacked.not_before = min(self.now, unacked.not_before)
        elif word.startswith(b"-NAK"):
            unacked.not_before = self.now + (100 * MS if b"ms" in word else 2 * SECOND)
        elif word == b"+WPI":
            unacked.not_before = self.now + self.wait_after(unacked.deliveries)

    # The clock

    def on_time(self) -> None:
        until = self.now + self.random.choice([1, 10, 100, 1000, 7000]) * MS
        while not self.ended and self.consumer.next_tick <= until:
            self.now = max(self.consumer.next_tick, self.now + 1)
            self.consumer.tick(self.now)
            self.settle()
            self.check()
        self.now = max(self.now, until)
        if not self.ended:
            self.consumer.tick(self.now)

    # The API

    def on_pause(self) -> None:
        self.paused_until = self.now + self.random.choice([0, 500, 3000]) * MS
        self.consumer.pause(5 * SECOND + self.paused_until - self.now, 5 * SECOND, self.now)

    def on_update(self) -> None:
        choose = self.random.choice
        config = copy.copy(self.config)
        old_waits = {k: self.wait_after(k) for k in range(1, 60)}
        what = choose(["pending", "waits", "most", "filters", "subject"])
        if what == "filters":
            # What the cursor has passed is passed, and the rest of a list is forgotten.
            position = self.consumer.deliverer.position
            assert self.model.position <= position <= min([*self.ahead(), position])
            self.model.position, self.model.allowed = position, None
            self.kinds = set(self.random.sample(range(4), 3))
            config.filter_subjects = [f"{kind}" for kind in sorted(self.kinds)]
        elif what == "subject" and config.deliver_subject:
            config.deliver_subject += "x"
        elif config.ack_policy != "none":
            if what == "pending":
                config.max_ack_pending = choose([1, 3, 10])
            elif what == "most":
                config.max_deliver = choose([2, 5, -1])
            else:
                config.ack_wait = choose([50, 1000, 5000]) * MS
                config.backoff = (
                    [config.ack_wait, choose([200, 1000]) * MS] if choose([0, 1]) else []
                )
        if what == "subject" and config.deliver_subject != self.config.deliver_subject:
            for unacked in self.model.pending.values():
                unacked.not_before = min(self.now, unacked.not_before)
        old, self.config = self.config, config
        if (old.ack_wait, old.backoff) != (config.ack_wait, config.backoff):
            for unacked in self.model.pending.values():
                k = min(unacked.deliveries, 59)
                if unacked.not_before > self.now:  # what is ready stays so
                    unacked.not_before += self.wait_after(k) - old_waits[k]
        if config.rate_limit_bps:
            self.level, self.level_at = float(BURST), self.now
        self.consumer.update(config, self.number, self.now)

    def on_reset(self) -> None:
        if self.config.deliver_policy != "all" and self.random.choice([0, 1]):
            return
        model = self.model
        sequence = model.floor()[1] + 1
        if self.config.deliver_policy == "all" and self.random.choice([0, 1]):
            sequence = self.random.choice([*self.stream, self.number + 1])
            asked = sequence
        else:
            asked = 0
        self.model = Model(sequence)
        self.recent.clear()
        self.kept_floor = False
        assert self.consumer.reset(asked, 0, self.number, self.now) == sequence

    # Notes, restarts and crashes

    def on_note(self) -> None:
        note = self.consumer.note()
        self.kept.apply(note)
        model = self.model
        assert (self.kept.number, self.kept.delivered) == (model.number, model.delivered)
        kept = {n: (number, deliveries) for n, (number, _, deliveries) in self.kept.pending.items()}
        assert kept == {n: (one.number, one.deliveries) for n, one in model.pending.items()}
        for number, (_, time, _) in self.kept.pending.items():
            message = self.stream.get(number)
            assert message is None or message.time & 0xFFFFFFFF == time
        again = KeptConsumer()
        again.apply(self.kept.note())
        assert again.pending == self.kept.pending
        if self.random.choice([0, 0, 1]):
            self.saved = copy.deepcopy((self.kept, model))

    def on_restart(self) -> None:
        if self.random.choice([0, 1]) and self.saved is not None:
            self.kept, self.model = self.saved  # a crash: what came after the note is forgotten
            self.saved = None
            self.kept_floor = False
            self.stats["crash"] += 1
        else:
            self.on_note()
        model = self.model
        model.allowed, model.base = None, (0, 0)  # neither is kept
        model.position = model.delivered + 1
        self.asked.clear()
        self.counts.clear()
        self.flows.clear()
        self.interest = False
        self.parked.clear()
        self.paused_until = 0
        self.sent_bytes = self.answered = 0
        self.window = 2 << 20
        self.level, self.level_at = float(BURST), self.now
        self.replayed, self.replay_last = None, self.number
        self.consumer = self.make()
        for unacked in model.pending.values():
            unacked.not_before = self.now + self.wait_after(unacked.deliveries)
        self.consumer.restore(self.kept, self.number, self.now)
        first = min(self.stream, default=self.number + 1)
        gone = [n for n in model.pending if n < first]
        for number in gone:
            self.finish(number)
        model.position = max(model.position, first)
        if gone:
            model.delivered = max(model.delivered, first - 1)
        self.consumer.moved(first, 0, self.number, self.now)
        for number in list(model.pending):
            if not self.stream[number].visible:
                self.finish(number)
                self.consumer.unmatched(number, self.now)


WEIGHTS = {
    "on_write": 20,
    "on_ack": 20,
    "on_request": 10,
    "on_time": 10,
    "on_flow": 3,
    "on_count": 6,
    "on_interest": 3,
    "on_note": 3,
    "on_delete": 2,
}


def simulate(
    seed: int, kind: type[StreamConsumer] = StreamConsumer, events: int = 150
) -> Counter[str]:
    """Run a seed; an `AssertionError` says which invariant is broken."""
    run = Run(seed, kind)
    run.go(events)
    return run.stats


def breach(seed: int, kind: type[StreamConsumer] = StreamConsumer, events: int = 150) -> str:
    """What is broken in a seed; empty if nothing is."""
    try:
        simulate(seed, kind, events)
    except (AssertionError, KeyError) as found:
        return f"{type(found).__name__}: {found}"
    return ""
