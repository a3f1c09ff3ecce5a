"""Messages of the broker's own to a reply subject: without a number, a frame, or a record.

Most are acknowledgements: the number that a message got, as a netstring. A client's replies
are all different (`_INBOX.x.1`, `_INBOX.x.2`) and each is used once, so the route of one
is not remembered unless somebody subscribes to just that subject.

Only the connection that asked gets an answer, on its own subscriptions: a reply subject is not a
way to send others what they would take for something else, or more than they can read.
"""

from typing import Any

import cython

from broker.dataplane.connection import Connection
from broker.dataplane.frame import Frame
from broker.dataplane.gate import Gate
from sublist.route import Route
from sublist.sublist import Sublist
from sublist.subscription import Subscription

if cython.compiled:
    from cython.cimports.broker.dataplane.frame import BARE
else:
    from broker.dataplane.frame import BARE
    from sequencer.digits import width_of
    from sublist.subject import covers, digest_of, digest_span

    SIZE_AT = 28
    ANSWER_WORK = 16  # offers that one answer costs
    COVER_WORK = 4  # and to compare a subscription with a subject

TEXT_MAX = 32  # `19:9223372036854775807,`, and at its end the size of that


class ReplyPublisher:
    """One per broker, beside the plane, for the same thread."""

    def __init__(self, sublist: Sublist, gate: Gate) -> None:
        self.sublist = sublist
        self.gate = gate
        self.control: Any = None
        self.frame = Frame(BARE)
        self.text = bytearray(TEXT_MAX)
        self.data = self.text
        self.looked = 0  # offers that it cost to find the asker's subscriptions

    def acknowledge(
        self, asker: Connection, data: bytearray, reply: int, size: int, number: int
    ) -> int:
        """Send `number` to the reply subject `data[reply : reply + size]`; the offers it cost."""
        route = self.sublist.reach(data, reply, size, digest_span(data, reply, size))
        text_size = self._write(number)
        self.frame.stamp(0, self.data, text_size, SIZE_AT, SIZE_AT + 2 - (text_size < 10))
        fanout = route.fanout
        own = fanout.plain
        self.looked = 0
        if fanout.groups is not None or len(own) > len(asker.subs):
            own = self._own(asker, route)
        for item in own:
            sub = cython.cast(Subscription, item)
            if sub.owner is asker:
                self._deliver(sub, asker, route, data, reply, text_size)
        return self.looked + ANSWER_WORK * len(own)

    def answer(self, asker: Connection, reply: bytes, payload: bytes, headers: bytes) -> int:
        """Send headers, where they are taken, and a payload; the offers it cost."""
        own = self._own(asker, self.sublist.reach(reply, 0, len(reply), digest_of(reply)))
        for item in own:
            self._answer_one(cython.cast(Subscription, item), asker, reply, payload, headers)
        return self.looked + ANSWER_WORK * len(own)

    def listens(self, asker: Connection, reply: bytes) -> bool:
        """Whether an answer would have a receiver; `looked` says what it cost to see that."""
        return len(self._own(asker, self.sublist.reach(reply, 0, len(reply), digest_of(reply)))) > 0

    def _own(self, asker: Connection, route: Route) -> tuple[Subscription, ...]:
        """The asker's subscriptions that an answer goes to: of each queue group one.

        They are looked for among all that the route leads to, or among all that the asker has:
        where there are fewer.
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

    def _write(self, number: int) -> int:
        """Write a number as a netstring, and elsewhere its size; the size."""
        width = width_of(number)
        at = 1 if width < 10 else 2
        end = at + 1 + width
        if width >= 10:
            self.data[0] = ord("1")
        self.data[at - 1] = ord("0") + width % 10
        self.data[at] = ord(":")
        self.data[end] = ord(",")
        while width:
            width -= 1
            self.data[at + 1 + width] = ord("0") + number % 10
            number //= 10
        size = end + 1
        if size < 10:
            self.data[SIZE_AT] = ord("0") + size
        else:
            self.data[SIZE_AT] = ord("0") + size // 10
            self.data[SIZE_AT + 1] = ord("0") + size % 10
        return size

    def _deliver(
        self,
        sub: Subscription,
        connection: Connection,
        route: Route,
        data: bytearray,
        reply: int,
        text_size: int,
    ) -> int:
        """Put the number that was written into the outbox of the client that asked."""
        frame = self.frame
        if not frame.is_addressed(route, sub.sid):
            if cython.compiled:
                frame.address(route, data + reply, route.size, sub.sid, data, 0)
            else:
                frame.address(route, route.subject, route.size, sub.sid, b"", 0)
        if not connection.dirty:
            self.gate.mark_dirty(connection)
        if not connection.deliver(frame, self.data, 0, text_size, text_size):
            if not self.gate.make_room(connection, frame.end - frame.start + text_size + 4, 0):
                return 0
            connection.deliver(frame, self.data, 0, text_size, text_size)
        connection.numbered = True
        sub.delivered += 1
        if sub.delivered == sub.limit:
            self.control.finished(sub)
        return 0

    def _answer_one(
        self,
        sub: Subscription,
        connection: Connection,
        reply: bytes,
        payload: bytes,
        headers: bytes,
    ) -> None:
        if sub.owner is None:
            return  # it has ended with the answer before
        size = len(payload)
        if headers and connection.headers:
            size += len(headers)
            line = b"HMSG %b %b %d %d\r\n" % (reply, sub.sid, len(headers), size)
            line += headers
        else:
            line = b"MSG %b %b %d\r\n" % (reply, sub.sid, size)
        if self.gate.say(connection, line + payload + b"\r\n"):
            connection.numbered = True  # most answers tell one
            connection.out_msgs += 1
            connection.out_bytes += size
            sub.delivered += 1
            if sub.delivered == sub.limit:
                self.control.finished(sub)


def _own_that_cover(asker: Connection, subject: bytes) -> tuple[Subscription, ...]:
    """The asker's live subscriptions that take in a subject: of each queue group one."""
    own: list[Subscription] = []
    queues: set[bytes] = set()
    for item in asker.subs.values():
        sub = cython.cast(Subscription, item)
        if sub.replay is None and sub.queue not in queues and covers(sub.subject, subject):
            own.append(sub)
            if sub.queue is not None:
                queues.add(sub.queue)
    return tuple(own)


def is_plain_reply(data: bytearray, reply: int, size: int) -> bool:
    """Whether a reply is surely none that is reserved: those begin with `$`, `_R` or `_G`."""
    if size == 0 or (data[reply] != ord("$") and data[reply] != ord("_")):
        return True
    return data[reply] == ord("_") and size > 1 and data[reply + 1] == ord("I")
