"""Sends the broker's own messages to a reply subject: without number, frame or record.

Most are acknowledgements: the number that a message got, as a netstring. A client's reply
subjects are all different (`_INBOX.x.1`, `_INBOX.x.2`) and used once, so a route is kept only if
there is a subscription to exactly that subject.

Only the requester's connection gets the answer, on its own subscriptions. Otherwise a client could
choose a reply subject that sends others messages they misinterpret, or more than they can read.
"""

from typing import Final

import cython

from broker.dataplane.connection import Connection
from broker.dataplane.gate import Gate
from broker.dataplane.outbox_writer import OutboxWriter
from sequencer.message import Message
from sublist.route import Route
from sublist.sublist import Sublist
from sublist.subscription import Subscription

if cython.compiled:
    from cython.cimports.libc.string import memcpy
else:
    from sequencer.digits import write_decimal, write_netstring
    from sublist.pattern_set import hears
    from sublist.subject import takes

    FEW = 8  # subscriptions of a client that are compared with a subject one by one
    ANSWER_WORK = 16  # cost of one answer, in offers
    COVER_WORK = 4  # cost of comparing a subscription with a subject
    # The longest answer: a pub ack of a stream whose name of 255 bytes is escaped in JSON.
    TEXT_MAX = 2048


REPEATED: Final = b',"duplicate": true}'


class ReplyPublisher:
    """The sender of the broker's own messages. One per broker, in the plane's thread."""

    def __init__(self, sublist: Sublist, gate: Gate) -> None:
        self.sublist = sublist
        self.gate = gate
        self.outbox_writer = OutboxWriter(gate)
        self.text = bytearray(TEXT_MAX)
        self.data = self.text
        self.message = Message()  # the answer, in `text`; it has no number
        self.message.buffer = self.text
        self.message.data = self.data
        self.looked = 0  # cost of finding the requester's subscriptions, in offers

    def acknowledge(self, asker: Connection, message: Message) -> int:
        """Send a message's number to its reply subject; return the offers it cost."""
        return self._acknowledge(asker, message, write_netstring(self.data, 0, message.number))

    def acknowledge_in_stream(
        self, asker: Connection, message: Message, head: bytes, repeated: bool
    ) -> int:
        """Send a pub ack to a message's reply subject; return the offers it cost.

        `head` is what comes before the number; `repeated`: the message had it already.
        """
        size = len(head)
        assert size < TEXT_MAX - 64, "a stream's name has a limit"
        if cython.compiled:
            memcpy(self.data, cython.cast("const char *", head), size)
        else:
            self.text[:size] = head
        size = write_decimal(self.data, size, message.number)
        tail = REPEATED if repeated else b"}"
        if cython.compiled:
            memcpy(self.data + size, cython.cast("const char *", tail), len(tail))
        else:
            self.text[size : size + len(tail)] = tail
        return self._acknowledge(asker, message, size + len(tail))

    def _acknowledge(self, asker: Connection, message: Message, text_size: int) -> int:
        """Send what is in `text` to a message's reply subject."""
        size = message.reply_size
        reply = self.message
        reply.subject_data = message.data
        reply.subject = message.reply
        reply.subject_size = size
        reply.size = reply.payload_size = text_size
        self.outbox_writer.expire()
        only = self._only_one(asker, message)
        if only is not None:
            self.outbox_writer.offer(asker, only, reply, None)
            return ANSWER_WORK
        route = self.sublist.reach(message.data, message.reply, size)
        fanout = route.fanout
        own = fanout.plain
        self.looked = 0
        if fanout.groups is not None or len(own) > len(asker.subs):
            own = self._own(asker, route)
        for item in own:
            sub = cython.cast(Subscription, item)
            if sub.owner is asker:
                self.outbox_writer.offer(asker, sub, reply, route)
        return self.looked + ANSWER_WORK * len(own)

    def _only_one(self, asker: Connection, message: Message) -> Subscription | None:
        """Return the one subscription of the requester that gets the answer.

        None: there are none or several, it is in a queue group, or the requester has more than a
        few. Most have one for all answers; finding that here costs less than a route.
        """
        only = asker.answered
        if only is None or only.owner is not asker or len(asker.subs) > 1:
            only = self._search(asker, message)
        elif not self._gets(only, message):  # and it is the only one
            return None
        if only is not None and (only.replay is not None or only.denied is not None):
            return None
        asker.answered = only
        return only

    def _search(self, asker: Connection, message: Message) -> Subscription | None:
        """Find that one among the few subscriptions of the requester."""
        only: Subscription | None = None
        if len(asker.subs) > FEW:
            return None
        for item in asker.subs.values():
            sub = cython.cast(Subscription, item)
            if self._gets(sub, message):
                if only is not None or sub.queue is not None:
                    return None
                only = sub
        return only

    def _gets(self, sub: Subscription, message: Message) -> bool:
        """True if a subscription matches a message's reply subject."""
        pattern = sub.subject
        return takes(pattern, len(pattern), message.data, message.reply, message.reply_size)

    def answer(
        self, asker: Connection, reply: bytes, payload: bytes, headers: bytes, numbered: bool
    ) -> int:
        """Send a payload, with headers if the client takes them; return the offers it cost.

        `numbered`: the answer may show a number that is not safe yet.
        """
        own = self._own(asker, self.sublist.reach(reply, 0, len(reply)))
        for item in own:
            sub = cython.cast(Subscription, item)
            if self.hand_to(sub, reply, b"", payload, headers, not numbered) and numbered:
                asker.shows_number = True
        return self.looked + ANSWER_WORK * len(own)

    def send_status(self, asker: Connection, inbox: bytes, headers: bytes) -> int:
        """Send headers alone to the requester's inbox, in line; return the offers it cost.

        They show no number that is not safe.
        """
        own = self._own(asker, self.sublist.reach(inbox, 0, len(inbox)))
        for item in own:
            self.hand_to(cython.cast(Subscription, item), inbox, b"", b"", headers, False)
        return self.looked + ANSWER_WORK * len(own)

    def hand_to(
        self,
        sub: Subscription,
        subject: bytes,
        reply: bytes,
        payload: bytes,
        headers: bytes,
        at_once: bool,
    ) -> bool:
        """Send one subscription a message of the broker's own; return False if it was not sent.

        `at_once`: it shows no number, see `Gate.say_now`.
        """
        if sub.owner is None:
            return False  # the subscription ended with the message before
        connection = cython.cast(Connection, sub.owner)
        size = len(payload)
        after = b" " + reply if reply else b""
        if headers and connection.headers:
            size += len(headers)
            line = b"HMSG %b %b%b %d %d\r\n" % (subject, sub.sid, after, len(headers), size)
            line += headers
        else:
            line = b"MSG %b %b%b %d\r\n" % (subject, sub.sid, after, size)
        line += payload + b"\r\n"
        is_sent = (
            self.gate.say_now(connection, line) if at_once else self.gate.say(connection, line)
        )
        if is_sent:
            connection.out_msgs += 1
            connection.out_bytes += size
            sub.delivered += 1
            if sub.delivered == sub.limit:
                self.gate.control.finished(sub)
        return is_sent

    def subscriptions_of(self, asker: Connection, inbox: bytes) -> tuple[Subscription, ...]:
        """Return the requester's subscriptions that get what is sent to its inbox."""
        return self._own(asker, self.sublist.reach(inbox, 0, len(inbox)))

    def listens(self, asker: Connection, reply: bytes) -> bool:
        """True if an answer would have a receiver; `looked` is the cost of finding out."""
        return len(self._own(asker, self.sublist.reach(reply, 0, len(reply)))) > 0

    def _own(self, asker: Connection, route: Route) -> tuple[Subscription, ...]:
        """Return the requester's subscriptions that get an answer: one of each queue group.

        Searches the subscriptions of the route or those of the requester, whichever are fewer.
        """
        fanout = route.fanout
        here = len(fanout.plain)
        if fanout.groups is not None:
            for members in fanout.groups:
                here += len(members)
                if here > len(asker.subs):
                    break
        if here > len(asker.subs):
            self.looked = COVER_WORK * len(asker.subs)
            return _own_that_cover(asker, route.subject)
        self.looked = here
        own: list[Subscription] = []
        for item in fanout.plain:
            if cython.cast(Subscription, item).owner is asker:
                own.append(item)
        if fanout.groups is not None:
            for members in fanout.groups:
                for item in members:
                    if cython.cast(Subscription, item).owner is asker:
                        own.append(item)
                        break
        return tuple(own)


def _own_that_cover(asker: Connection, subject: bytes) -> tuple[Subscription, ...]:
    """Return the requester's live subscriptions to a subject: one of each queue group."""
    own: list[Subscription] = []
    queues: set[bytes] = set()
    for item in asker.subs.values():
        sub = cython.cast(Subscription, item)
        if sub.replay is None and sub.queue not in queues and hears(sub, subject):
            own.append(sub)
            if sub.queue is not None:
                queues.add(sub.queue)
    return tuple(own)


def under(message: Message, route: Route) -> int:
    """Give a message the subject of a route, and no reply."""
    message.subject_data = route.text
    message.subject = 0
    message.subject_size = route.size
    message.reply_size = 0
    return 0


def is_plain_reply(data: bytes | bytearray, reply: int, size: int) -> bool:
    """True if a reply is surely not reserved: reserved ones begin with `$`, `_R` or `_G`."""
    if size == 0 or (data[reply] != ord("$") and data[reply] != ord("_")):
        return True
    return data[reply] == ord("_") and size > 1 and data[reply + 1] == ord("I")
