"""The part of a consumer that each message passes: its numbers, its ack subject, and who gets it.

    wanted(now)                      the number to read next; 0: none
    offer(number, time, size, now)   a record that matches and is visible
      -> STOP       not now: `held_by` and `held_until` say why
      -> DELIVER    write it to `target`, with `reply[:reply_size]` as its reply subject
         | FIRST    but before it, send what `consumer.actions` has
         | THEN     and after it, call `consumer.follow`
    skip(number)                     nothing below this number is wanted any more
    matched(number)                  a new record matches; true if somebody waits for it
    ack(number, consumer, time)      a plain ack

Everything else is the business of `broker.streams.stream_consumer`, which owns it: it decides when
the consumer `is_open`, and takes what is rare. Here, nothing is allocated for a message.

`position` is the number from which the next first delivery is looked for, and `ahead` the exact
count of visible messages from there on that match: `num_pending`, once they are counted. So with
`ahead` 0 there is nothing to read, and the next one that matches is the position. With a list
(`last_per_subject`) only its numbers are wanted at first, then everything above `resume`.
"""

from array import array
from bisect import bisect_left
from typing import Final

import cython

from broker.dataplane.ledger import Ledger
from broker.dataplane.stream_table import RecordWatcher
from broker.streams.pace import FlowWindow, RateLimit, ReplayTimes
from broker.streams.pending_table import PendingTable
from broker.streams.pull_requests import WaitingQueue
from sublist.pattern_set import PatternSet
from sublist.subscription import Subscription

if not cython.compiled:
    from broker.streams.offer_outcomes import (
        ACKS,
        DELIVER,
        DEMAND,
        FIRST,
        NOTHING,
        STOP,
        THEN,
        TIME,
        WINDOW,
    )
    from broker.streams.pending_table import ABSENT
    from sequencer.digits import WIDTH_MAX, write_decimal

    DIGITS = 120  # five numbers and the dots between them
    ACKED = 1  # what `ack` says: it counted
    ROOM = 2  # and there is room again for another message

NO_LIST: Final = array("Q")


class Deliverer(RecordWatcher):
    """The deliveries of one consumer. Written by its consumer, and by the cursor that reads for it.

    `number` is the consumer sequence of the last delivery, `delivered` the stream sequence of the
    last first one. `changed` is true when a note would have something new.
    """

    def __init__(
        self,
        prefix: bytes,
        with_acks: bool,
        kept: bool,
        most_waiting: int,
        acks_all: bool = False,
        window: FlowWindow | None = None,
    ) -> None:
        super().__init__()
        self.consumer: object = None  # whose it is
        self.kept = kept
        self.is_listed = False  # among those that have something to be kept
        self.filter: bytes | None = None  # if there is one, what subjects it must match;
        self.filters: PatternSet | None = None  # if there are several, one of which must match
        self.headers_only = False
        self.listeners: tuple[Subscription, ...] = ()  # those of a push consumer;
        self.is_shared = False  # each message goes to one of them, a member of a queue group
        self.prefix_size = len(prefix)
        self.reply = bytearray(prefix + bytes(DIGITS))
        self.reply_data = self.reply
        self.reply_size = 0
        self.time = 0  # of the last delivered message;
        self.time_text = bytearray(WIDTH_MAX)  # its digits, for most in a burst have the same
        self.time_data = self.time_text
        self.time_size = write_decimal(self.time_data, 0, 0)
        self.target: object = None  # a PullRequest, or the one place of a push consumer
        self.push_target: object = None  # set for a push consumer
        self.with_acks = with_acks
        self.table = PendingTable(kept)
        self.waiting: WaitingQueue | None = WaitingQueue(most_waiting) if most_waiting else None
        self.window = window
        self.limit: RateLimit | None = None
        self.times: ReplayTimes | None = None
        self.is_open = False
        self.ack_wait = 0
        self.backoff: tuple[int, ...] = ()
        self.most_pending = 0  # 0: no limit
        self.held_by = NOTHING
        self.held_until = 0
        self.changed = False
        self.delivered_at = self.acked_at = 0
        self.acks_all = acks_all
        self.is_counting = False
        self.list = NO_LIST
        self.list_size = 0
        self.begin_at(0)

    def join(self, consumer: object, ledger: Ledger) -> None:
        """Work for this consumer, of the stream with this ledger."""
        self.consumer = consumer
        self.ledger = ledger

    def leave(self) -> None:
        """Let go of what makes circles: the consumer has ended."""
        self.consumer = self.ledger = self.filters = None

    def choose(self, patterns: list[bytes], headers_only: bool, is_shared: bool) -> None:
        """Deliver messages that match one of these patterns; without any, all."""
        several = len(patterns) > 1
        self.filter = None if several or not patterns else patterns[0]
        self.filters = PatternSet(patterns) if several else None
        self.headers_only = headers_only
        self.is_shared = is_shared

    def pace(
        self, ack_wait: int, backoff: tuple[int, ...], most_pending: int, limit: RateLimit | None
    ) -> None:
        """Set how long an ack may take, and how much is delivered before acks come."""
        self.ack_wait = ack_wait
        self.backoff = backoff
        self.most_pending = most_pending
        self.limit = limit

    def begin_count(self) -> None:
        """Count what is ahead: nothing is delivered until that is known."""
        self.is_counting = True
        self.ahead = 0

    def end_count(self, count: int) -> None:
        """Add the messages that were counted to those ahead; deliveries may begin."""
        self.is_counting = False
        self.ahead += count

    def begin_at(self, position: int) -> None:
        """Begin at a number, as if nothing had been delivered before."""
        self.position = position
        self.number = 0
        self.delivered = max(position - 1, 0)
        self.ahead = 0
        self.again = 0
        # The last delivery when nothing was pending, and the consumer sequence of the next one.
        self.empty_at = self.after_empty = 0
        self.list_at = self.list_size = 0
        self.resume = 0
        self.table.forget_all()

    def begin_with(self, numbers: "array[int]", resume: int) -> None:
        """Begin with these numbers alone, in order; then with what is above `resume`."""
        self.begin_at(numbers[0] if numbers else resume + 1)
        self.list = numbers
        self.list_size = self.ahead = len(numbers)
        self.resume = resume

    def drop_list(self) -> None:
        """Want every number from the position on, whatever the list has left."""
        self.list_at = self.list_size = 0

    # What to read

    def wanted(self, now: int) -> int:
        """Return the number to read next, 0 if none; `again` is the same if it is a redelivery."""
        self.again = 0
        if not self.is_open or (self.waiting is not None and self.waiting.head is None):
            return 0
        if self.window is not None and self.window.used > self.window.size:
            return 0
        if self.limit is not None and self.limit.paid > now:
            return 0
        if self.table.count:
            self.again = self.table.next_ready()
            if self.again:
                return self.again
            if self.most_pending and self.table.count >= self.most_pending:
                return 0
        if self.held_by == TIME and self.held_until > now:
            return 0
        return self.position if self.ahead > 0 else 0

    def is_ahead(self, number: int) -> bool:
        """True if a message counts as pending: it has not been delivered for the first time yet."""
        if number < self.position:
            return False
        if self.list_at == self.list_size or number > self.resume:
            return True
        at = bisect_left(self.list, number, self.list_at)
        return at < self.list_size and self.list[at] == number

    def matched(self, number: int) -> bool:
        """Count a new message; return True if it should be read now: nothing else was ahead."""
        if number < self.position:
            return False
        self.ahead += 1
        if self.ahead != 1 or self.is_counting:
            return False
        self.position = number
        self.list_at = self.list_size
        return self.is_open and (self.waiting is None or self.waiting.head is not None)

    def skip(self, number: int) -> int:
        """Go on from this number: nothing below it is wanted."""
        if self.list_at < self.list_size:
            self._skip_in_list(number)
        elif number > self.position:
            self.position = number
        return 0

    def _skip_in_list(self, number: int) -> int:
        self.list_at = bisect_left(self.list, number, self.list_at)
        if self.list_at < self.list_size:
            self.position = self.list[self.list_at]
        else:
            self.position = max(number, self.resume + 1)
            self.list = NO_LIST
            self.list_at = self.list_size = 0
        return 0

    # Deliveries

    def offer(self, number: int, time: int, size: int, now: int) -> int:
        """Offer a record: its number and time, and the size of subject, headers and payload.

        If it is the one that `again` names, it is delivered again; else for the first time, and
        then its number must not be below the position. What it returns is said above.
        """
        if self.again:
            return self._offer_again(number, time, size, now)
        if number < self.position or self.ahead <= 0 or not self.is_open:
            return self._hold(NOTHING, 0)
        if self.most_pending and self.table.count >= self.most_pending:
            return self._hold(ACKS, 0)
        self._write_reply(1, number, time, self.ahead - 1)
        outcome = self._admit(number, time, size, now)
        if outcome == STOP:
            return STOP
        self.number += 1
        if not self.table.count:
            self.empty_at, self.after_empty = self.delivered, self.number
        self.delivered = number
        self.ahead -= 1
        if self.list_at < self.list_size:
            self._skip_in_list(number + 1)
        else:
            self.position = number + 1
        if self.with_acks:
            self.table.track(number, self.number, time, now + self.ack_wait)
        self.delivered_at = now
        self.changed = True
        return outcome

    def _offer_again(self, number: int, time: int, size: int, now: int) -> int:
        """Deliver a message once more."""
        place = self.table.find(number)
        if number != self.again or place == ABSENT:
            return STOP
        deliveries = self.table.deliveries_at(place) + 1
        self._write_reply(deliveries, number, time, self.ahead)
        outcome = self._admit(number, time, size, now)
        if outcome == STOP:
            return STOP
        self.number += 1
        self.again = 0
        self.table.redeliver(place, now + self.wait_after(deliveries))
        self.delivered_at = now
        self.changed = True
        return outcome

    def wait_after(self, deliveries: int) -> int:
        """Return how long a message may stay unacked after so many deliveries."""
        if not self.backoff:
            return self.ack_wait
        return self.backoff[min(deliveries, len(self.backoff)) - 1]

    def _admit(self, number: int, time: int, size: int, now: int) -> int:
        """Find out who gets a message, if anybody may get it now, and count its bytes."""
        total = size + self.reply_size
        if self.window is not None and self.window.used > self.window.size:
            return self._hold(WINDOW, 0)
        if self.limit is not None and self.limit.paid > now:
            return self._hold(TIME, self.limit.paid)
        if self.times is not None and not self.again:  # only first deliveries keep the old pace
            due = self.times.due(number, time)
            if due > now:
                return self._hold(TIME, due)
        outcome = DELIVER
        if self.waiting is not None:
            request = self.waiting.next(total, now)
            if self.waiting.endings:
                outcome |= FIRST
            if request is None:
                return self._hold(DEMAND, 0)
            if request.left <= 0 and request.bytes_left > 0:
                outcome |= THEN
            self.target = request
        else:
            self.target = self.push_target
            if self.window is not None and self.window.add(total):
                outcome |= THEN
        if self.limit is not None:
            self.limit.spend(total, now)
        if self.times is not None:
            self.times.note(time, now)
        self.held_by = NOTHING
        return outcome

    def _hold(self, why: int, until: int) -> int:
        self.held_by = why
        self.held_until = until
        return STOP

    def _write_reply(self, deliveries: int, number: int, time: int, pending: int) -> int:
        """Write the ack subject: deliveries, stream and consumer sequence, time, pending."""
        raw, at, dot = self.reply_data, self.prefix_size, ord(".")
        at = write_decimal(raw, at, deliveries)
        raw[at] = dot
        at = write_decimal(raw, at + 1, number)
        raw[at] = dot
        at = write_decimal(raw, at + 1, self.number + 1)
        raw[at] = dot
        if time != self.time:
            self.time = time
            self.time_size = write_decimal(self.time_data, 0, time)
        if cython.compiled:
            copy_span(raw + at + 1, self.time_data, self.time_size)
        else:
            raw[at + 1 : at + 1 + self.time_size] = self.time_text[: self.time_size]
        at += 1 + self.time_size
        raw[at] = dot
        self.reply_size = write_decimal(raw, at + 1, pending)
        return 0

    # Acks

    def ack(self, number: int, consumer: int, time: int, now: int) -> int:
        """Take an ack of one message; return `ACKED`, with `ROOM` if that makes room, or 0."""
        place = self.table.check(number, consumer, time, self.number)
        if place == ABSENT:
            return 0
        was_full = 0 < self.most_pending <= self.table.count
        if self.acks_all:
            self.table.ack_through(place)
        else:
            self.table.ack(place)
        self.acked_at = now
        self.changed = True
        return ACKED | ROOM if was_full else ACKED

    def floor(self) -> tuple[int, int]:
        """Return the consumer and stream sequence up to which nothing is pending.

        It stays at the last delivery before the first pending one, until that is acked; from then
        on it is just below the first that is pending.
        """
        if not self.table.count:
            return self.number, self.delivered
        number = self.table.first_number()
        below = self.empty_at if number == self.after_empty else self.table.first_sequence() - 1
        return number - 1, below
