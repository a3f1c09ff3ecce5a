"""A consumer as a state machine: events in, actions out. No clock, no sockets, no disk.

    events    matched, unmatched    a record that matches was written, or is not visible any more
              request, closed       a pull request came; a connection is gone
              interest, parked      somebody listens to the deliver subject; its outbox is full
              follow, gone          of the cursor: after a message; a record is not visible
              ack, flow             what clients answer
              tick, counted, moved  the clock; the pending number; retention moved on
              pause, update, reset, delete
    actions   Status, Confirm, Advice, Count, Over: to be carried out after each event, in order

Each message passes through `deliverer` alone (see there), driven by a cursor that reads records.
After each event, `state` says whether that cursor is to run, and `next_tick` when `tick` is due.

    COUNTING  how much is pending is being counted; nothing is delivered meanwhile
    PAUSED    until its time
    ASLEEP    a push consumer to which nobody listens
    IDLE      there is nothing to deliver, or nobody who wants it
    PARKED    its client does not read what it has
    HELD      too much is unacked or on the way, or it is too early
    READING   the cursor runs
    ENDED     it is over

With demand, what is due again comes first, by its time and then by its sequence; then the next
record. Times are of one steady clock, in ns, and above 0; `update` and `pause` also know the time
of day. Bound: 32 bytes and more for an unacked message (`pending_table`), 200 for a pull request.
"""

from array import array
from collections.abc import Callable
from enum import IntEnum
from functools import lru_cache
from typing import Any, Final, NamedTuple

from broker.streams.api_errors import consumer_error
from broker.streams.consumer_config import ConsumerConfig
from broker.streams.deliverer import Deliverer
from broker.streams.go_duration import duration_text, read_duration
from broker.streams.kept_consumer import KeptConsumer
from broker.streams.pace import FlowWindow, RateLimit, ReplayTimes
from broker.streams.pull_requests import PullRequest, WaitingQueue
from broker.streams.strict_json import (
    BOOL,
    DURATION,
    INT,
    STRING,
    JsonKinds,
    WrongJson,
    read_loosely,
)

NEVER: Final = (1 << 63) - 1
# Pull requests that wait, whatever `max_waiting` says: each new one is compared with the others.
WAITING_MOST: Final = 4096
LOOK_NS: Final = 1_000_000_000  # between two looks for clients that wait, at least
ACK_PENDING_MOST: Final = 65_536  # of a consumer that sets no limit
DELETED: Final = b"NATS/1.0 409 Consumer Deleted\r\n\r\n"
FLOW_REQUEST: Final = b"NATS/1.0 100 FlowControl Request\r\n\r\n"
LIMITS_REASON: Final = "Message deleted by stream limits"
UNACKED_REASON: Final = "Unacknowledged message was deleted"


class State(IntEnum):
    """The states of a consumer; see the module."""

    COUNTING = 0
    IDLE = 1
    READING = 2
    PARKED = 3
    HELD = 4
    PAUSED = 5
    ASLEEP = 6
    ENDED = 7


class Status(NamedTuple):
    """Send a message without a payload: its headers, and perhaps a reply subject.

    To the inbox of a pull request, at the connection that has asked; or, without an owner, to the
    deliver subject.
    """

    inbox: bytes
    owner: object
    headers: bytes
    reply: bytes = b""


class Confirm(NamedTuple):
    """Answer an ack with an empty message, once a note has what it has changed."""

    reply: bytes


class Advice(NamedTuple):
    """Tell those that listen to advisories.

    `kind` is `max_deliveries`, `nak`, `terminated` or `pause`. The rest is about the message.
    """

    kind: str
    sequence: int = 0
    number: int = 0
    deliveries: int = 0
    reason: str = ""


class Count(NamedTuple):
    """Count the visible messages from `position` up to number `last` that match.

    The answer is the event `counted`, with this `serial`. Until then the counter answers for
    messages up to `last` that go; later ones are counted by the events.
    """

    serial: int
    position: int
    last: int


class Over(NamedTuple):
    """Remove the consumer: it was inactive for too long."""


class Look(NamedTuple):
    """Find out whether those that have asked still listen, and forget the requests of others.

    Nobody else has shown for so long that the consumer may end.
    """


Action = Status | Confirm | Advice | Count | Over | Look


REQUEST: Final[JsonKinds] = {
    "expires": DURATION,
    "batch": INT,
    "max_bytes": INT,
    "no_wait": BOOL,
    "idle_heartbeat": DURATION,
    "group": STRING,
    "min_pending": INT,
    "min_ack_pending": INT,
    "id": STRING,
    "priority": INT,
}


class BadPull(Exception):
    """A pull request that is refused, with the words of its status."""


class StreamConsumer:
    """One consumer of one stream. Written by the event loop's thread.

    `burst` is the largest message, `draw` gives four letters for a flow control subject.
    """

    def __init__(
        self,
        stream: str,
        name: str,
        config: ConsumerConfig,
        now: int,
        burst: int = 1 << 20,
        draw: Callable[[], bytes] = lambda: b"0000",
    ) -> None:
        self.stream = stream
        self.name = name
        self.config = config
        self.is_pull = not config.is_push  # clients ask for messages
        self.burst = burst
        self.draw = draw
        self.actions: list[Action] = []
        self.state = State.COUNTING
        self.next_tick = NEVER
        place = f"{stream}.{name}.".encode()
        self.flow_prefix = b"$JS.FC." + place
        self.deliverer = Deliverer(
            b"$JS.ACK." + place,
            config.ack_policy != "none",
            config.is_durable,
            0 if config.is_push else min(max(config.max_waiting, 1), WAITING_MOST),
            config.ack_policy == "all",
            FlowWindow() if config.flow_control else None,
        )
        self.has_interest = False  # in the deliver subject
        self.is_parked = False
        self.is_over = False
        self.paused_until = 0
        self.counting = 0  # the serial of the count that is awaited; 0: none
        self.counting_to = 0
        self.serial = 0
        self.heard_at = now  # of clients
        self.looked_at = now  # for clients that wait
        self.beat_at = now
        self.lost = 0  # messages that retention deleted before they were delivered or acked
        self.expected = 0  # what was ahead before retention deleted some of it, until a count ends
        self.is_noted = False  # a note has been made: the next one is a difference
        self._take_config()

    def _take_config(self) -> None:
        """Set what the deliverer must know of the config."""
        config, deliverer = self.config, self.deliverer
        self.most_deliveries = max(config.max_deliver, 0)
        self.heartbeat = config.idle_heartbeat
        self.threshold = config.inactive_threshold
        most_pending = config.max_ack_pending if config.max_ack_pending > 0 else ACK_PENDING_MOST
        bits = config.rate_limit_bps
        deliverer.pace(
            config.ack_wait,
            tuple(config.backoff),
            most_pending if deliverer.with_acks else 0,
            RateLimit(bits, self.burst) if bits else None,
        )

    # Its beginning

    def start(self, position: int, last: int, now: int) -> None:
        """Begin at a number; what is pending up to `last`, the last record, is to be counted."""
        self.deliverer.begin_at(position)
        self._count(last)
        self._begin(last, now)

    def start_with(self, numbers: "array[int]", last: int, now: int) -> None:
        """Begin with these numbers (`last_per_subject`), then with what comes after `last`."""
        self.deliverer.begin_with(numbers, last)
        self._begin(last, now)

    def restore(self, kept: KeptConsumer, last: int, now: int) -> None:
        """Go on from what the notes had. What is unacked comes again after its wait."""
        deliverer = self.deliverer
        deliverer.begin_at(kept.delivered + 1)
        deliverer.number = kept.number
        for sequence, (number, time, deliveries) in sorted(kept.pending.items()):
            due = now + deliverer.wait_after(deliveries)
            deliverer.table.restore(sequence, number, time, deliveries, due)
        self.is_noted = True
        self._count(last)
        self._begin(last, now)

    def _begin(self, last: int, now: int) -> None:
        if self.config.replay_policy == "original":
            self.deliverer.times = ReplayTimes(last)
        self.decide(now)

    def _count(self, last: int) -> None:
        """Ask how much is pending; until that is known, nothing is delivered."""
        self.serial += 1
        self.counting, self.counting_to = self.serial, last
        self.deliverer.begin_count()
        self.actions.append(Count(self.serial, self.deliverer.position, last))

    def recount(self, last: int, now: int, is_lost: bool = False) -> None:
        """Have what is pending counted anew: messages have left the stream.

        `is_lost`: retention has deleted them, so the difference is lost.
        """
        if is_lost and not self.counting:
            self.expected = self.deliverer.ahead
        self._count(last)
        self.decide(now)

    def counted(self, serial: int, count: int, now: int) -> None:
        """Take the answer to a `Count`; one to an earlier question is ignored."""
        if serial == self.counting:
            self.counting = 0
            self.deliverer.end_count(count)
            self.lost += max(self.expected - count, 0)
            self.expected = 0
            self.decide(now)

    # Records

    def unmatched(self, number: int, now: int) -> None:
        """A message that matched is not visible any more."""
        deliverer = self.deliverer
        if deliverer.is_ahead(number):
            if not self.counting or number > self.counting_to:
                deliverer.ahead -= 1
        else:
            self._terminate(number, UNACKED_REASON)
        self.decide(now)

    def gone(self, number: int, now: int) -> None:
        """The cursor did not find a message that was to be delivered again."""
        self._terminate(number, UNACKED_REASON)
        self.decide(now)

    def moved(self, first: int, passed: int, last: int, now: int) -> None:
        """Take that nothing below number `first` is there any more; `passed` of it were ahead.

        All that was ahead or unacked of it is lost, and the floor follows.
        """
        deliverer = self.deliverer
        is_behind = deliverer.position < first
        lost = deliverer.table.drop_below(first) + passed
        if is_behind:
            deliverer.skip(first)
        if lost:
            self.lost += lost
            deliverer.delivered = max(deliverer.delivered, first - 1)
            deliverer.changed = True
        if self.counting and is_behind:
            self._count(last)
        else:
            deliverer.ahead -= passed
        self.decide(now)

    def _terminate(self, number: int, reason: str) -> None:
        table = self.deliverer.table
        place = table.find(number)
        if place >= 0:
            advice = Advice(
                *("terminated", number, table.number_at(place), table.deliveries_at(place)), reason
            )
            table.ack(place)
            self.deliverer.changed = True
            self.actions.append(advice)

    # Demand

    def request(self, inbox: bytes, owner: object, text: bytes, now: int) -> None:
        """A client asks for messages, to be sent to its inbox."""
        self.heard_at = now
        try:
            self._add_request(inbox, owner, text, now)
        except BadPull as refused:
            headers = b"NATS/1.0 %b\r\n\r\n" % str(refused).encode()
            self.actions.append(Status(inbox, owner, headers))
        self.decide(now)

    def _add_request(self, inbox: bytes, owner: object, text: bytes, now: int) -> None:
        waiting = self.deliverer.waiting
        if waiting is None:
            raise BadPull("409 Consumer is push based")
        asked = read_request(text) if len(text) < 256 else read_request.__wrapped__(text)
        self._check_limits(asked)
        expires = asked.get("expires", 0)
        request = PullRequest(
            inbox,
            owner,
            asked.get("batch", 0),
            max(asked.get("max_bytes", 0), 0),
            max(now + expires, 1) if expires else 0,
            max(asked.get("idle_heartbeat", 0), 0),
            asked.get("no_wait", False),
        )
        waiting.end_expired(now)
        if request.no_wait and not self.counting:
            there = self.deliverer.ahead + self.deliverer.table.count_ready()
            if there == 0 and not request.expires:
                raise BadPull("404 No Messages")
            if 0 < there < waiting.wanted():
                raise BadPull("408 Requests Pending")
        if not waiting.enqueue(request, now) and not request.heartbeat:
            # A client with a heartbeat would ask again at once: it may miss the heartbeat instead.
            raise BadPull("409 Exceeded MaxWaiting")

    def _check_limits(self, asked: dict[str, Any]) -> None:
        config = self.config
        if 0 < config.max_batch < asked.get("batch", 0):
            raise BadPull(f"409 Exceeded MaxRequestBatch of {config.max_batch}")
        if 0 < config.max_expires < asked.get("expires", 0):
            most = duration_text(config.max_expires)
            raise BadPull(f"409 Exceeded MaxRequestExpires of {most}")
        if 0 < config.max_bytes < asked.get("max_bytes", 0):
            raise BadPull(f"409 Exceeded MaxRequestMaxBytes of {config.max_bytes}")
        if asked.get("min_pending") or asked.get("min_ack_pending"):
            raise BadPull("400 Bad Request - Not a Overflow Priority consumer")
        if asked.get("id"):
            raise BadPull("400 Bad Request - Not a Pinned Client Priority consumer")
        if not 0 <= asked.get("priority", 0) <= 9:
            raise BadPull("400 Bad Request - Priority must be between 0 and 9")

    def closed(self, owner: object, now: int) -> None:
        """A connection is gone, or does not listen to its inboxes any more."""
        if self.deliverer.waiting is not None:
            self.deliverer.waiting.forget(owner)
            self.decide(now)

    def interest(self, is_there: bool, now: int) -> None:
        """Take whether anybody listens to the deliver subject."""
        if is_there != self.has_interest:
            self.has_interest = is_there
            self.heard_at = self.beat_at = now
            self.decide(now)

    def parked(self, owner: object, is_full: bool, now: int) -> None:
        """The outbox of a client is full, or has room again.

        `owner` is the one who has asked; others that wait go on. A push consumer has only one.
        """
        if self.deliverer.waiting is not None:
            self.deliverer.waiting.pass_over(owner, is_full)
        else:
            self.is_parked = is_full
        self.decide(now)

    # Deliveries

    def follow(self, now: int) -> None:
        """Send what follows a message for which `offer` has said `THEN`."""
        window, target = self.deliverer.window, self.deliverer.target
        if self.is_pull:
            assert isinstance(target, PullRequest)
            headers = target.with_pending(b"409 Batch Completed")
            self.actions.append(Status(target.inbox, target.owner, headers))
        elif window is not None:
            reply = self.flow_prefix + self.draw()
            window.ask(reply)
            self.actions.append(Status(self._inbox, None, FLOW_REQUEST, reply))

    @property
    def _inbox(self) -> bytes:
        return self.config.deliver_subject.encode()

    def flow(self, subject: bytes, now: int) -> None:
        """A client has read up to a flow control request: it answers to its reply subject."""
        window = self.deliverer.window
        if window is not None and window.answer(subject):
            self.decide(now)

    # Acks

    def ack(
        self,
        number: int,
        consumer: int,
        time: int,
        payload: bytes,
        reply: bytes,
        owner: object,
        now: int,
    ) -> None:
        """Take an ack: stream and consumer sequence, the message's time, and what it says.

        What does not name an unacked message is confirmed, and does nothing else.
        """
        self.heard_at = now
        place = self.deliverer.table.check(number, consumer, time, self.deliverer.number)
        word, said = read_ack(payload)
        if place >= 0:
            if word in ("ack", "next"):
                self.deliverer.ack(number, consumer, time, now)
            elif word == "nak":
                self._nak(place, number, consumer, said, now)
            elif word == "progress":
                table = self.deliverer.table
                wait = self.deliverer.wait_after(table.deliveries_at(place))
                table.postpone(place, now + wait)
            elif word == "term":
                deliveries = self.deliverer.table.deliveries_at(place)
                self.deliverer.ack(number, consumer, time, now)
                self.actions.append(Advice("terminated", number, consumer, deliveries, said))
        if word == "next":
            if reply:
                self.request(reply, owner, said.encode(), now)
        elif reply and number < self.deliverer.position:
            self.actions.append(Confirm(reply))
        self.decide(now)

    def _nak(self, place: int, number: int, consumer: int, said: str, now: int) -> None:
        """Deliver a message again: at once, or after the delay that the nak names."""
        table = self.deliverer.table
        deliveries = table.deliveries_at(place)
        self.actions.append(Advice("nak", number, consumer, deliveries))
        delay = nak_delay(said)
        if delay is not None:
            table.postpone(place, min(max(now + delay, now), NEVER - 1))
        elif 0 < self.most_deliveries <= deliveries:
            self.actions.append(Advice("max_deliveries", number, 0, deliveries))
            table.ack(place)
            self.deliverer.changed = True
        else:
            table.hurry(place)

    # The clock

    def tick(self, now: int) -> None:
        """Do what is due: it is `next_tick`, or later."""
        self.decide(now)

    def decide(self, now: int) -> None:
        """Do what the time asks for, and find out the state. The last step of each event."""
        deliverer = self.deliverer
        if self.is_over:
            self.state, self.next_tick = State.ENDED, NEVER
            deliverer.is_open = False
            return
        if deliverer.table.count:
            deliverer.table.expire(now, self.most_deliveries)
        if deliverer.table.exhausted:
            self._give_up()
        if self.paused_until and self.paused_until <= now:
            self.paused_until = 0
            self.actions.append(Advice("pause"))
        is_awake = self.is_pull or self.has_interest
        is_open = not self.counting and not self.paused_until and is_awake
        deliverer.is_open = is_open
        self.state = self._state(now)
        if deliverer.waiting is not None:
            self._serve_waiting(deliverer.waiting, now)
        if self.heartbeat and self.has_interest:
            self._beat(now)
        if self.threshold and self._inactive_at() <= now:
            self._end_unless_at_work(now)
        self.next_tick = NEVER if self.is_over else self._next_tick(now)

    def _give_up(self) -> None:
        """Say what was delivered often enough, and is not pending any more."""
        table = self.deliverer.table
        self.deliverer.changed = True
        for sequence, _, deliveries in table.exhausted:
            self.actions.append(Advice("max_deliveries", sequence, 0, deliveries))
        table.exhausted.clear()

    def _state(self, now: int) -> State:
        deliverer = self.deliverer
        if self.counting:
            return State.COUNTING
        if self.paused_until:
            return State.PAUSED
        if not deliverer.is_open:
            return State.ASLEEP
        is_parked = self.is_parked
        if deliverer.waiting is not None and deliverer.waiting.head is None:
            if not deliverer.waiting.aside:
                return State.IDLE
            is_parked = True
        if deliverer.ahead <= 0 and not deliverer.table.next_ready():
            return State.IDLE
        if is_parked:
            return State.PARKED
        return State.READING if deliverer.wanted(now) else State.HELD

    def _serve_waiting(self, waiting: WaitingQueue, now: int) -> None:
        """Send to those that wait what the time asks for; end those that do not wait."""
        is_full = 0 < self.deliverer.most_pending <= self.deliverer.table.count
        if waiting.soonest <= now:
            waiting.end_expired(now)
            if is_full:  # as in nats-server, a heartbeat in time is what ends them then
                waiting.end_impatient()
            for request in waiting.beats(now):
                self.actions.append(Status(request.inbox, request.owner, self._heartbeat()))
        # While too much is unacked no client learns that nothing is there, even if that is so.
        is_idle = self.state == State.IDLE and not is_full
        if len(waiting) and (is_idle or self.state == State.PAUSED):
            waiting.end_impatient()
        if waiting.endings:
            self.take_endings()
        if waiting.head is None and self.state in (State.READING, State.HELD, State.PARKED):
            self.state = self._state(now)

    def take_endings(self) -> None:
        """Turn requests that ended in the last `offer` into actions: it has said `FIRST`."""
        waiting = self.deliverer.waiting
        if waiting is not None:
            for request, headers in waiting.endings:
                self.actions.append(Status(request.inbox, request.owner, headers))
            waiting.endings.clear()

    def _beat(self, now: int) -> None:
        """Send a push consumer's heartbeat, if it has sent nothing else for so long."""
        if self._next_beat() <= now:
            self.beat_at = now
            self.actions.append(Status(self._inbox, None, self._heartbeat()))

    def _next_beat(self) -> int:
        last = max(self.beat_at, self.deliverer.delivered_at)
        return last + self.heartbeat

    def _heartbeat(self) -> bytes:
        deliverer = self.deliverer
        numbers = b"Nats-Last-Consumer: %d\r\nNats-Last-Stream: %d\r\n"
        text = b"NATS/1.0 100 Idle Heartbeat\r\n" + numbers % (
            deliverer.number,
            max(deliverer.delivered, deliverer.position - 1),
        )
        if deliverer.window is not None and deliverer.window.reply:
            text += b"Nats-Consumer-Stalled: %b\r\n" % deliverer.window.reply
        return text + b"\r\n"

    def _end_unless_at_work(self, now: int) -> None:
        """End it, for no client has shown for so long, unless some may still wait or work."""
        table = self.deliverer.table
        if self.deliverer.waiting is not None and len(self.deliverer.waiting):
            self.looked_at = now
            self.actions.append(Look())
            return
        if self.is_pull and table.count:
            # Its clients may still be at work: they have the time that is left for an ack.
            self.heard_at = max(self.heard_at, table.last_due())
            if self._inactive_at() > now:
                return
        self.is_over = True
        self.actions.append(Over())
        self.state, self.next_tick = State.ENDED, NEVER
        self.deliverer.is_open = False

    def _inactive_at(self) -> int:
        """Return when it ends, if no client shows before: none asks, listens, or acks.

        While requests wait, it is when they are looked for.
        """
        threshold, deliverer = self.threshold, self.deliverer
        if deliverer.waiting is None:
            return NEVER if self.has_interest else self.heard_at + threshold
        shown_at = max(self.heard_at, deliverer.acked_at, deliverer.delivered_at)
        if len(deliverer.waiting):
            return max(shown_at + threshold, self.looked_at + max(threshold, LOOK_NS))
        return shown_at + threshold

    def _next_tick(self, now: int) -> int:
        deliverer = self.deliverer
        next_tick = deliverer.table.next_due() if deliverer.table.count else NEVER
        if self.threshold:
            next_tick = min(next_tick, self._inactive_at())
        if self.paused_until:
            next_tick = min(next_tick, self.paused_until)
        if deliverer.waiting is not None:
            next_tick = min(next_tick, deliverer.waiting.soonest)
        if self.heartbeat and self.has_interest:
            next_tick = min(next_tick, self._next_beat())
        if self.state == State.HELD:
            if deliverer.limit is not None and deliverer.limit.paid > now:
                next_tick = min(next_tick, deliverer.limit.paid)
            if deliverer.held_until > now:
                next_tick = min(next_tick, deliverer.held_until)
        return next_tick

    # What the API asks for

    def pause(self, until: int, wall: int, now: int) -> None:
        """Deliver nothing until a time of day, `wall` being the time of day now; 0: go on."""
        was_paused = self.paused_until
        self.paused_until = now + until - wall if until > wall else 0
        if was_paused or self.paused_until:
            self.actions.append(Advice("pause"))
        self.decide(now)

    def update(self, config: ConsumerConfig, last: int, now: int) -> None:
        """Take a changed config, which was checked.

        Other filters hold from its position on: what they match there is counted.
        """
        old, self.config = self.config, config
        deliverer = self.deliverer
        waits = deliverer.ack_wait, deliverer.backoff
        self._take_config()
        if (deliverer.ack_wait, deliverer.backoff) != waits:
            self._change_waits(*waits)
        if config.deliver_subject != old.deliver_subject:
            deliverer.table.set_waits(lambda due, deliveries: now)
        if config.max_deliver != old.max_deliver:
            deliverer.table.give_up(self.most_deliveries)
        if config.filters != old.filters:
            deliverer.drop_list()
            self._count(last)
        self.heard_at = now
        self.decide(now)

    def _change_waits(self, old_wait: int, old_backoff: tuple[int, ...]) -> None:
        """Make what is unacked due as if the new waits had always held."""
        deliverer = self.deliverer

        def due_of(due: int, deliveries: int) -> int:
            before = old_backoff[min(deliveries, len(old_backoff)) - 1] if old_backoff else old_wait
            return due - before + deliverer.wait_after(deliveries)

        deliverer.table.set_waits(due_of)

    def reset(self, sequence: int, earliest: int, last: int, now: int) -> int:
        """Begin again at a sequence, or above the floor if it is 0; return the sequence.

        `earliest` is where a consumer that starts by time began. Raises 10204.
        """
        policy = self.config.deliver_policy
        if sequence == 0:
            sequence = self.deliverer.floor()[1] + 1
        elif policy == "by_start_sequence" and sequence < self.config.opt_start_seq:
            raise consumer_error(10204, "below start seq")
        elif policy == "by_start_time" and sequence < earliest:
            raise consumer_error(10204, "below start time")
        elif policy not in ("all", "by_start_sequence", "by_start_time"):
            raise consumer_error(10204, "not allowed")
        self.deliverer.begin_at(max(sequence, 1))
        self.deliverer.delivered_at = self.deliverer.acked_at = 0
        self.deliverer.changed = True
        self.is_noted = False
        self.heard_at = now
        self._count(last)
        self.decide(now)
        return sequence

    def delete(self, now: int) -> None:
        """End it: whoever waits is told."""
        if self.deliverer.waiting is not None:
            self.deliverer.waiting.end_all(DELETED)
            self.take_endings()
        self.is_over = True
        self.decide(now)

    # What notes and answers have of it

    def note(self) -> dict[str, Any]:
        """Return what has changed since the last note; the first one has everything.

        `KeptConsumer.apply` reads it.
        """
        deliverer = self.deliverer
        is_whole = not self.is_noted
        if is_whole:
            deliverer.table.forget_notes()
        floor = deliverer.floor()
        new, gone, again = deliverer.table.take_changes(floor[1])
        found: dict[str, Any] = {
            "delivered": [deliverer.number, deliverer.delivered],
            "floor": list(floor),
        }
        for name, value in (("new", new), ("gone", gone), ("again", again)):
            if value:
                found[name] = value
        if is_whole:
            found["whole"] = True
        self.is_noted = True
        deliverer.changed = False
        return found

    def numbers(self) -> dict[str, Any]:
        """Return what INFO says of it, but for times: these are of another clock."""
        deliverer = self.deliverer
        floor_number, floor = deliverer.floor()
        is_once = self.config.max_deliver == 1
        return {
            "delivered": {"consumer_seq": deliverer.number, "stream_seq": deliverer.delivered},
            "ack_floor": {"consumer_seq": floor_number, "stream_seq": floor},
            "num_ack_pending": deliverer.table.count,
            "num_redelivered": 0 if is_once else deliverer.table.redelivered,
            "num_waiting": len(deliverer.waiting) if deliverer.waiting is not None else 0,
            "num_pending": max(deliverer.ahead, 0),
        }


# What clients say


@lru_cache(maxsize=256)  # clients ask in the same words again and again
def read_request(text: bytes) -> dict[str, Any]:
    """Read a pull request: nothing, a number, or JSON. Raises `BadPull`."""
    words = text.strip()
    if words.startswith(b"{"):
        try:
            asked = read_loosely(words, REQUEST, "")
        except WrongJson as wrong:
            raise BadPull(f"400 Bad Request - {wrong}") from None
        beat = asked.get("idle_heartbeat", 0)
        if beat > 0 and 2 * beat > asked.get("expires", 0):
            raise BadPull("400 Bad Request - heartbeat value too large")
        return asked
    digits = words[1:] if words[:1] in (b"+", b"-") else words
    if digits.isdigit() and len(digits) < 19:
        return {"batch": int(words)}
    return {"batch": 1}


def read_ack(payload: bytes) -> tuple[str, str]:
    """Return what an ack says, and what follows the word; an unknown one is ``."""
    if payload in (b"", b"+ACK", b"+OK"):
        return "ack", ""
    for word, name in ((b"+NXT", "next"), (b"-NAK", "nak"), (b"+TERM", "term")):
        if payload.startswith(word):
            return name, payload[len(word) :].decode("utf-8", "replace").strip()
    return ("progress", "") if payload == b"+WPI" else ("", "")


def nak_delay(said: str) -> int | None:
    """Return the delay that a nak asks for; None if it has none, or one that cannot be read."""
    if not said:
        return None
    try:
        if said.startswith("{"):
            return int(read_loosely(said.encode(), {"delay": DURATION}, "").get("delay", 0))
        return read_duration(said)
    except ValueError:
        return None


# Where it begins


class StreamFacts(NamedTuple):
    """Facts of its stream when a consumer begins. Sequences; 0: there is none."""

    first: int  # the first visible message
    last: int  # the last one ever
    last_matching: int  # the last one that is visible and matches
    at_time: int  # the first one of the start time or later; `last` + 1 if there is none


def starting_point(config: ConsumerConfig, stream: StreamFacts) -> int:
    """Return the position of a new consumer; not for `last_per_subject`, which has a list."""
    policy = config.deliver_policy
    if policy == "by_start_sequence":
        return max(config.opt_start_seq, stream.first)
    if stream.last == 0:
        return 1
    position = {
        "all": stream.first,
        "last": stream.last_matching or (stream.last + 1 if config.filters else stream.last),
        "by_start_time": stream.at_time,
    }.get(policy, stream.last + 1)
    return max(min(position, stream.last + 1), stream.first)
