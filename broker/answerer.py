"""Messages of the broker's own to a reply subject: without a number, a frame, or a record.

Most are acknowledgements: the number that a message got, as a netstring. A client's replies
are all different (`_INBOX.x.1`, `_INBOX.x.2`) and each is used once, so the route of one
is not remembered unless somebody subscribes to just that subject.
"""

from typing import Any

import cython

from broker.gate import Gate
from broker.link import Link
from sequencer.frame import Frame
from sublist.route import Route
from sublist.sublist import Sublist
from sublist.subscription import Subscription

if cython.compiled:
    from cython.cimports.sequencer.frame import BARE
else:
    from sequencer.frame import BARE, width_of
    from sublist.subject import digest_of, digest_span

    SIZE_AT = 28

TEXT_MAX = 32  # `19:9223372036854775807,`, and at its end the size of that


class Answerer:
    """One per broker, beside the plane, for the same thread."""

    def __init__(self, sublist: Sublist, gate: Gate) -> None:
        self.sublist = sublist
        self.gate = gate
        self.control: Any = None
        self.frame = Frame(BARE)
        self.text = bytearray(TEXT_MAX)
        self.data = self.text

    def acknowledge(self, data: bytearray, reply: int, size: int, number: int) -> int:
        """Send `number` to the reply subject `data[reply : reply + size]`; to how many."""
        route = self.sublist.reach(data, reply, size, digest_span(data, reply, size))
        text_size = self._write(number)
        self.frame.stamp(0, self.data, text_size, SIZE_AT, SIZE_AT + 2 - (text_size < 10))
        fanout = route.fanout
        for item in fanout.plain:
            self._deliver(cython.cast(Subscription, item), route, data, reply, text_size)
        if fanout.groups is not None:
            for members in fanout.groups:
                self._deliver(able_member(members), route, data, reply, text_size)
        return len(fanout.plain)

    def answer(self, reply: bytes, payload: bytes, headers: bytes) -> int:
        """Send headers, where they are taken, and a payload; to how many."""
        fanout = self.sublist.reach(reply, 0, len(reply), digest_of(reply)).fanout
        for item in fanout.plain:
            self._answer_one(cython.cast(Subscription, item), reply, payload, headers)
        if fanout.groups is not None:
            for members in fanout.groups:
                self._answer_one(able_member(members), reply, payload, headers)
        return len(fanout.plain)

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
        self, sub: Subscription, route: Route, data: bytearray, reply: int, text_size: int
    ) -> int:
        """Put the number that was written into one outbox."""
        if sub.owner is None:
            return 0
        link = cython.cast(Link, sub.owner)
        frame = self.frame
        if not frame.is_addressed(route, sub.sid):
            if cython.compiled:
                frame.address(route, data + reply, route.size, sub.sid, data, 0)
            else:
                frame.address(route, route.subject, route.size, sub.sid, b"", 0)
        if not link.dirty:
            self.gate.soil(link)
        if not link.deliver(frame, self.data, 0, text_size, text_size):
            if not self.gate.make_room(link, frame.end - frame.start + text_size + 4, 0):
                return 0
            link.deliver(frame, self.data, 0, text_size, text_size)
        link.numbered = True
        sub.delivered += 1
        if sub.delivered == sub.limit:
            self.control.finished(sub)
        return 0

    def _answer_one(self, sub: Subscription, reply: bytes, payload: bytes, headers: bytes) -> None:
        if sub.owner is None:
            return
        link = cython.cast(Link, sub.owner)
        size = len(payload)
        if headers and link.headers:
            size += len(headers)
            line = b"HMSG %b %b %d %d\r\n" % (reply, sub.sid, len(headers), size)
            line += headers
        else:
            line = b"MSG %b %b %d\r\n" % (reply, sub.sid, size)
        if self.gate.say(link, line + payload + b"\r\n"):
            link.numbered = True  # most answers tell one
            link.out_msgs += 1
            link.out_bytes += size
            sub.delivered += 1
            if sub.delivered == sub.limit:
                self.control.finished(sub)


def able_member(members: tuple[Subscription, ...]) -> Subscription:
    """The member of a queue group that an answer goes to: one that reads, if there is one."""
    able: Subscription = members[0]
    for item in members:
        sub = cython.cast(Subscription, item)
        if sub.owner is not None:
            link = cython.cast(Link, sub.owner)
            if link.writable and not link.detached and not link.closed:
                able = sub
                break
    return able


def is_plain_reply(data: bytearray, reply: int, size: int) -> bool:
    """Whether a reply is surely none that is reserved: those begin with `$`, `_R` or `_G`."""
    if size == 0 or (data[reply] != ord("$") and data[reply] != ord("_")):
        return True
    return data[reply] == ord("_") and size > 1 and data[reply + 1] == ord("I")
