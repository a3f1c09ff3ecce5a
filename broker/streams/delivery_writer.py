r"""Writes the deliveries of consumers into clients' outboxes, from a buffer of records.

    play(deliverer, buffer, ...)   the records from the consumer's position on, until `outcome`:
        MORE, BAD                  the buffer was played; there is no valid record at its end
        BEYOND                     the next record is not safe yet
        ENOUGH                     it was the last of the turn, or something else comes next
        HELD                       the consumer delivers nothing now; it says why
        FULL                       the outbox of `full` has enough
        UNHEARD                    the deliver subject has no listener
    deliver(deliverer, record, now)   one record, which comes again

    HMSG orders.1 4 $JS.ACK.S.C.1.88485.1.1795709001693184725.0 24 35\r\n headers payload \r\n
    |------------------------------ line --------------------------------|---- body ----|

A delivery has the message's own subject, and no frame; its reply subject is where the ack goes. It
goes to the subscriptions of the client that asked, to the inbox that it named; or to those who
listen to a push consumer's subject. Nothing is allocated for a message, but for its subject.
"""

import cython

from broker.dataplane.connection import Connection
from broker.dataplane.gate import Gate
from broker.dataplane.ledger import Ledger, SubjectEntry
from broker.dataplane.reply_publisher import ReplyPublisher
from broker.streams.deliverer import Deliverer
from broker.streams.pull_requests import PullRequest
from sequencer.headers import with_fields_behind
from sequencer.journal.record import Walk
from sequencer.message import Message
from sublist.subscription import Subscription

if not cython.compiled:
    from broker.streams.offer_outcomes import BEYOND, ENOUGH, FIRST, FULL, HELD, STOP, THEN, UNHEARD
    from sequencer.digits import write_decimal
    from sequencer.journal.layout import RECORD
    from sublist.subject import takes

    LINE_MIN = 1024
    NUMBERS = 64  # bytes of a line that are neither subject, sid nor ack subject
    FAR = 4096  # numbers that are passed by rather than looked up in an index
    HELD_MAX = 1 << 18  # unsent bytes of a client; then others are served


class DeliveryWriter:
    """The writer of deliveries. One per broker: it works for one consumer at a time.

    `outcome`, `messages`, `number` and `full` are the results of the last `play`.
    """

    def __init__(
        self, gate: Gate, replies: ReplyPublisher, salt: int, checked: bool = True
    ) -> None:
        self.gate = gate
        self.replies = replies
        self.walk = Walk(salt, checked)
        self.line = bytearray(LINE_MIN)
        self.data = self.line
        self.end = 0
        self.subject = b""  # of the last record
        self.entry: SubjectEntry | None = None  # its visible messages,
        self.matches = False  # and whether the consumer's filters take it
        self.outcome = 0
        self.messages = 0  # delivered
        self.number = 0  # no record before this one is left
        self.full: Connection | None = None
        self.turn = 0  # whose it is in a queue group

    def play(
        self, deliverer: Deliverer, buffer: bytearray, size: int, last: int, most: int, now: int
    ) -> int:
        """Deliver from `buffer[:size]` what the consumer wants; return where it stopped.

        Delivers nothing above number `last`, and at most `most` messages.
        """
        walk = self.walk
        walk.attach(buffer, 0, size)
        self.subject = b""  # another consumer, and some messages may be gone
        self.full = None
        self.messages = 0
        self.number = 0
        while True:
            self.outcome = walk.next()
            if self.outcome != RECORD:
                return walk.at
            if walk.number > last:
                self.outcome = BEYOND
                return walk.at
            self.number = walk.number
            if walk.number >= deliverer.position:
                if not self._is_wanted(deliverer, walk):
                    deliverer.skip(walk.number + 1)
                elif not self.deliver(deliverer, walk, now):
                    return walk.at
                else:
                    self.messages += 1
                    if (
                        self.messages >= most
                        or not deliverer.wanted(now)
                        or deliverer.again
                        or deliverer.position > walk.number + FAR
                    ):
                        self.number = walk.number + 1
                        self.outcome = ENOUGH
                        return walk.after
            self.number = walk.number + 1

    def deliver(self, deliverer: Deliverer, record: Walk, now: int) -> bool:
        """Deliver a record, unless it is not its time: then return False, with the outcome."""
        if not self._has_receiver(deliverer):
            return False
        outcome = deliverer.offer(
            record.number, record.time, record.subject_size + record.size, now
        )
        if outcome & FIRST:
            deliverer.consumer.send_endings()  # type: ignore[attr-defined]
        if outcome == STOP:
            self.outcome = HELD
            return False
        self._write(deliverer, record, outcome)
        if outcome & THEN:
            deliverer.consumer.send_what_follows(now)  # type: ignore[attr-defined]
        return True

    def _is_wanted(self, deliverer: Deliverer, record: Message) -> bool:
        """True if a record is visible in the stream, and a filter takes its subject."""
        ledger = deliverer.ledger
        if ledger is None:
            return False
        size = record.subject_size
        if cython.compiled:
            raw = cython.cast("const unsigned char *", cython.cast("const char *", self.subject))
            if size != len(self.subject) or not same_text(raw, record.data + record.subject, size):
                subject = record.data[record.subject : record.subject + size]
                self._look_up(deliverer, ledger, subject)
        else:
            subject = bytes(record.buffer[record.subject : record.subject + size])
            if subject != self.subject:
                self._look_up(deliverer, ledger, subject)
        return self.matches and ledger.shows_in(self.entry, self.subject, record.number)

    def _look_up(self, deliverer: Deliverer, ledger: Ledger, subject: bytes) -> int:
        """Look up what holds for all messages of a subject, until the end of `play`."""
        self.subject = subject
        self.entry = ledger.entry(subject)
        pattern = deliverer.filter
        if deliverer.filters is not None:
            self.matches = deliverer.filters.takes(subject)
        else:
            self.matches = pattern is None or takes(pattern, len(pattern), subject, 0, len(subject))
        return 0

    def _has_receiver(self, deliverer: Deliverer) -> bool:
        """True if a client takes a delivery now.

        Requests end, in silence, whose inbox nobody listens to any more.
        """
        waiting = deliverer.waiting
        if waiting is None:
            return self._has_listener(deliverer)
        while waiting.head is not None:
            request = waiting.head
            if self._knows_place(request):
                return self._takes_more(cython.cast(Connection, request.owner))
            waiting.drop_head()
        return True  # the offer says that nobody asks

    def _has_listener(self, deliverer: Deliverer) -> bool:
        """True if the listeners of a push consumer, or the next one of its group, take more."""
        listeners = deliverer.listeners
        self.outcome = UNHEARD
        for at in range(len(listeners)):
            if deliverer.is_shared:
                at = (self.turn + at) % len(listeners)
            sub = cython.cast(Subscription, listeners[at])
            if sub.owner is None:
                self.outcome = UNHEARD
                return False
            takes_more = self._takes_more(cython.cast(Connection, sub.owner))
            if deliverer.is_shared and takes_more:
                self.turn = at
                return True
            if not deliverer.is_shared and not takes_more:
                return False
        return len(listeners) > 0 and not deliverer.is_shared

    def _takes_more(self, connection: Connection) -> bool:
        held = connection.held()
        if held and (held > HELD_MAX or self.gate.budget.is_exceeded()):
            self.full = connection
            self.outcome = FULL
            return False
        return True

    def _knows_place(self, request: PullRequest) -> bool:
        """True if a client listens to the inbox of its request; `place` has its subscriptions."""
        asker = cython.cast(Connection, request.owner)
        if asker.closed:
            return False
        place = cython.cast(tuple, request.place)
        if place is not None:
            live = True
            for item in place:
                live = live and cython.cast(Subscription, item).owner is not None
            if live:
                return True
        place = self.replies.subscriptions_of(asker, request.inbox)
        request.place = place if place else None
        return len(place) > 0

    def _write(self, deliverer: Deliverer, record: Message, outcome: int) -> int:
        """Write a delivery to those who get it."""
        if deliverer.waiting is not None:
            request = cython.cast(PullRequest, deliverer.target)
            # The first request was looked at (`_has_receiver`). If it has ended since, it is the
            # turn of another one.
            if not outcome & FIRST or self._knows_place(request):
                for item in cython.cast(tuple, request.place):
                    self._write_to(deliverer, cython.cast(Subscription, item), record)
            return 0
        if deliverer.is_shared:
            sub = cython.cast(Subscription, deliverer.listeners[self.turn])
            self._write_to(deliverer, sub, record)
            self.turn += 1
            return 0
        for item in deliverer.listeners:
            self._write_to(deliverer, cython.cast(Subscription, item), record)
        return 0

    def _write_to(self, deliverer: Deliverer, sub: Subscription, record: Message) -> int:
        """Write a delivery to one subscription."""
        if sub.owner is None:
            return 0
        connection = cython.cast(Connection, sub.owner)
        header_size, size = record.header_size, record.size
        if deliverer.headers_only:
            return self._write_headers(deliverer, connection, sub, record)
        body = record.body
        if header_size and not connection.headers:
            body, size, header_size = record.payload, record.payload_size, 0
        self._begin_line(deliverer, sub, record, header_size > 0)
        self._end_line(header_size, size)
        self._put(connection, sub, record.data, body, size)
        return 0

    def _write_headers(
        self, deliverer: Deliverer, connection: Connection, sub: Subscription, record: Message
    ) -> int:
        """Write a delivery without its payload, whose size is in a header."""
        field = b"Nats-Msg-Size: %d\r\n" % record.payload_size
        block = bytes(record.buffer[record.body : record.body + record.header_size])
        headers = with_fields_behind(block, field) if connection.headers else b""
        self._begin_line(deliverer, sub, record, connection.headers)
        self._end_line(len(headers), len(headers))
        self._put(connection, sub, headers, 0, len(headers))
        return 0

    def _begin_line(
        self, deliverer: Deliverer, sub: Subscription, record: Message, headed: bool
    ) -> int:
        """Write the line up to the sizes."""
        need = record.subject_size + len(sub.sid) + deliverer.reply_size + NUMBERS
        if len(self.line) < need:
            self.line = bytearray(2 * need)
            self.data = self.line
        self.end = 0
        verb = b"HMSG " if headed else b"MSG "
        self._copy(verb, 0, len(verb))
        self._copy(record.data, record.subject, record.subject_size)
        self._byte(ord(" "))
        self._copy(sub.sid, 0, len(sub.sid))
        self._byte(ord(" "))
        if deliverer.reply_size:
            self._copy(deliverer.reply_data, 0, deliverer.reply_size)
            self._byte(ord(" "))
        return 0

    def _end_line(self, header_size: int, size: int) -> int:
        """Write the sizes of the headers, if there are any, and of the whole."""
        if header_size:
            self.end = write_decimal(self.data, self.end, header_size)
            self._byte(ord(" "))
        self.end = write_decimal(self.data, self.end, size)
        self._byte(ord("\r"))
        self._byte(ord("\n"))
        return 0

    def _put(
        self,
        connection: Connection,
        sub: Subscription,
        data: bytes | bytearray,
        body: int,
        size: int,
    ) -> int:
        """Put line and body into an outbox, and count the message."""
        if not connection.dirty:
            self.gate.mark_dirty(connection)
        if not connection.add_message(self.data, self.end, data, body, size):
            if not self.gate.make_room(connection, self.end + size + 2, 0):
                return 0
            connection.add_message(self.data, self.end, data, body, size)
        sub.delivered += 1
        if sub.delivered == sub.limit:
            self.gate.control.finished(sub)
        return 0

    def _copy(self, source: bytes | bytearray, start: int, count: int) -> None:
        if cython.compiled:
            copy_span(self.data + self.end, source + start, count)
        else:
            self.data[self.end : self.end + count] = source[start : start + count]
        self.end += count

    def _byte(self, byte: int) -> None:
        self.data[self.end] = byte
        self.end += 1
