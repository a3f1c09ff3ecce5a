"""What happens to every message between being read and being written.

    receive(link, store, stop)     one read event: the bytes a socket has brought
      parser.next() -> PUB ...     spans of the store, no object
      sublist.find                 who wants the subject
      sequencer.take               the number, when nothing can refuse the message any more
      _offer, per subscriber       the frame's head, the payload, the tail, to its outbox
    release                        journal, then subscribers' outboxes, then the publisher's

Control operations go to `control` (broker/control.py), which knows the protocol's rules.
The straight way is for `PUB subject size` from a silent client to an ordinary subject; a
reply, headers, +OK and `$SEQ.` subjects take `_publish_uncommon`, and pay for themselves.

The plane reads no clock and touches no socket: sessions flush, pause and close.
"""

from typing import Any

import cython

from broker.kinds import is_reserved_reply
from broker.link import Link
from parser.machine import Parser
from sequencer.frame import Frame
from sequencer.sequencer import Sequencer
from sublist.route import Route
from sublist.subject import is_literal
from sublist.sublist import Sublist
from sublist.subscription import Subscription

if not cython.compiled:
    from broker.kinds import CONTROL, EXCLUDED, ORDINARY
    from broker.link import SEGMENT
    from parser.ops import HPUB, IGNORED, MORE, PUB
    from sequencer.frame import BARE, BARE_HEADERS, FRAMED_HEADERS

    ROUTES_NEAR = 8192  # more do not stay in the processor's own cache
    WORK_MAX = 1 << 18  # offers in one read event; in the time they take nobody else is served
    MASK32 = 0xFFFFFFFF
    ANSWER_WORK = 16  # offers that one answer costs
    CONTROL_WORK = 64  # and one control operation, which is not compiled
    SPARE_MAX = 16  # stores kept for the next read event: as many links, up to 512 KiB each


class Plane:
    """One per broker, for its one thread. Owns the message at hand while it is handed out."""

    def __init__(self, sublist: Sublist, sequencer: Sequencer, hold_pending: int) -> None:
        self.sublist = sublist
        self.sequencer = sequencer
        self.control: Any = None
        self.hold_pending = hold_pending
        self.crowded: list[Link] = []  # links whose publishers should wait a little
        self.frames = tuple(Frame(shape) for shape in range(5))
        self.dirty: list[Link] = []  # links with something to flush
        self.spare: list[bytearray] = []
        self.cut: list[Link] = []  # slow consumers, to be closed at the release
        self.work = 0  # offers made, and routes found, in this read event
        self.interrupted = False
        self.random = 2463534242  # xorshift32, for queue groups
        self.store = bytearray()
        self.data = self.store
        self.route: Route | None = None
        self.reader: Link | None = None  # the link whose read event this is
        self.mute: Link | None = None  # the link that must not hear itself
        self.number = 0
        self.body = self.size = self.header_size = self.payload = self.payload_size = 0
        self.digits = self.digits_end = self.subject = self.reply = self.reply_size = 0
        self.renamed = False  # the message goes out under another subject than it came with
        self.sizes = b""  # header size and size, as the publisher wrote them

    def attach(self, control: Any) -> None:
        """Say who handles what is not a message. Once, before the first `receive`."""
        self.control = control

    def receive(self, link: Link, store: bytearray, stop: int) -> int:
        """Serve the operations in `store[:stop]`; return where the unserved rest begins.

        After `WORK_MAX` of work it stops with `interrupted` set, and whoever called goes on
        with the rest when others have had their turn.
        """
        parser = link.parser
        parser.begin(store, 0, stop)
        self.work = -self.sublist.effort
        self.interrupted = False
        self.store = store
        self.reader = link
        self.data = self.store
        self.mute = None if link.echo else link
        self.crowded.clear()
        while True:
            op = parser.next()
            if op == PUB:
                if self.sublist.routes > ROUTES_NEAR:
                    self.sublist.fetch(parser.peek())
                self._publish(link, parser)
            elif op == MORE:
                break
            elif op == HPUB:
                self._publish_headers(link, parser)
            elif op != IGNORED:
                self.work += CONTROL_WORK
                self.control.handle(link, op)
                self.mute = None if link.echo else link
            if link.closed:
                break
            if self.work + self.sublist.effort > WORK_MAX:
                self.interrupted = True
                break
        self.release(link)
        return parser.at

    def spend(self, work: int) -> None:
        """Count work that was done for the message at hand outside the plane."""
        self.work += work

    def _publish(self, link: Link, parser: Parser) -> int:
        """PUB: the straight way, or the other one."""
        route = self.sublist.find(
            self.data, parser.subject, parser.subject_end - parser.subject, parser.digest
        )
        self.route = route
        if link.chatty or route.kind != ORDINARY or parser.reply_end:
            return self._publish_uncommon(link, parser, 0)
        link.in_msgs += 1
        link.in_bytes += parser.size
        self.number = self.sequencer.take()
        fanout = route.fanout
        if fanout.plain or fanout.groups is not None:
            self._describe(parser, 0)
            self._fan_out()
        return 0

    def _describe(self, parser: Parser, header_size: int) -> int:
        """Note where the message at hand lies, for whoever it is offered to."""
        self.body = parser.body
        self.size = parser.size
        self.header_size = header_size
        self.payload = parser.body + header_size
        self.payload_size = parser.size - header_size
        self.digits = parser.digits
        self.digits_end = parser.digits_end
        self.subject = parser.subject
        self.renamed = False
        self.reply = parser.reply
        self.reply_size = parser.reply_end - parser.reply
        return 0

    def _publish_headers(self, link: Link, parser: Parser) -> int:
        """HPUB; without headers to speak of it is a PUB."""
        self.route = self.sublist.find(
            self.data, parser.subject, parser.subject_end - parser.subject, parser.digest
        )
        self.sizes = bytes(
            self.store[parser.header_digits : parser.header_digits_end]
            + b" "
            + self.store[parser.digits : parser.digits_end]
        )
        return self._publish_uncommon(link, parser, parser.header_size)

    def _publish_uncommon(self, link: Link, parser: Parser, header_size: int) -> int:
        """A message with a reply or headers, from a verbose client, or to a special subject."""
        link.in_msgs += 1
        link.in_bytes += parser.size
        route = self.route
        assert route is not None, "it was found before"
        self._describe(parser, header_size)
        reply = bytes(self.store[parser.reply : parser.reply_end])
        if link.pedantic and not is_literal(route.subject):
            self.control.invalid_publish_subject(link)
        if route.kind >= CONTROL or (reply and is_reserved_reply(reply)):
            self.work += CONTROL_WORK
            self.control.publish_special(link, route, reply)
            return 0
        if link.verbose:
            self.say(link, b"+OK\r\n")
        self.number = 0 if route.kind == EXCLUDED else self.sequencer.take()
        if self._fan_out() == 0 and reply and link.no_responders:
            self.work += CONTROL_WORK
            self.control.no_responders(link, route.subject, reply)
        return 0

    def sequence(self, route: Route) -> int:
        """Publish the message at hand under another subject, without its reply; its number."""
        self.route = route
        self.renamed = True
        self.reply_size = 0
        self.number = self.sequencer.take()
        self._fan_out()
        return self.number

    def payload_bytes(self) -> int:
        """The size of the payload of the message at hand, without headers."""
        return self.payload_size

    def _fan_out(self) -> int:
        """Offer the message at hand to all that its route leads to; how many took it."""
        assert self.route is not None, "there is a message at hand"
        fanout = self.route.fanout
        reached = 0
        if self.number == 0:  # unnumbered: a bare frame is stale though its number is the same
            for shape in (BARE, BARE_HEADERS):
                cython.cast(Frame, self.frames[shape]).expire()
        self.work += len(fanout.plain)
        for item in fanout.plain:
            reached += self._offer(cython.cast(Subscription, item))
        if fanout.groups is not None:
            for members in fanout.groups:
                reached += self._offer_group(members)
        return reached

    def _offer_group(self, members: tuple[Subscription, ...]) -> bool:
        """Offer to one member, chosen at random; those that lag come last."""
        self.random ^= (self.random << 13) & MASK32
        self.random ^= self.random >> 17
        self.random ^= (self.random << 5) & MASK32
        count = len(members)
        self.work += count
        first = self.random % count
        for turn in range(2):
            for at in range(count):
                sub = cython.cast(Subscription, members[(first + at) % count])
                if sub.owner is None:
                    continue
                link = cython.cast(Link, sub.owner)
                if link.writable != (turn == 0) or link.closed or link is self.mute:
                    continue
                if self._offer(sub):
                    return True
        return False

    def _offer(self, sub: Subscription) -> bool:
        """Put the message at hand into one subscriber's outbox; whether it took it."""
        if sub.owner is None:
            return False  # it has gone while this message was handed out
        link = cython.cast(Link, sub.owner)
        if link is self.mute:
            return False
        shape = link.shape
        counted = self.payload_size
        if self.header_size and link.headers:
            shape = link.headed_shape
            counted = self.size
        if self.number == 0:
            shape = BARE_HEADERS if shape >= FRAMED_HEADERS and self.header_size else BARE
        frame = cython.cast(Frame, self.frames[shape])
        if frame.number != self.number:
            self._stamp(frame)
        if self.reply_size or not frame.is_addressed(self.route, sub.sid):
            self._address(frame, sub)
        if not link.dirty:
            self._soil(link)
        if not link.deliver(frame, self.data, self.payload, self.payload_size, counted):
            if not self._make_room(link, frame.end - frame.start + self.payload_size + 4):
                return False
            link.deliver(frame, self.data, self.payload, self.payload_size, counted)
        sub.delivered += 1
        if sub.delivered == sub.limit:
            self.control.finished(sub)
        return True

    def _stamp(self, frame: Frame) -> int:
        """Write the frame's head for the message at hand."""
        if frame.shape >= FRAMED_HEADERS and self.header_size:
            frame.stamp_headers(
                self.number, self.data, self.body, self.header_size, self.size, self.sizes
            )
        elif self.header_size:
            frame.stamp(self.number, self.data, self.payload_size, 0, 0)
        else:
            frame.stamp(self.number, self.data, self.payload_size, self.digits, self.digits_end)
        return 0

    def _address(self, frame: Frame, sub: Subscription) -> int:
        """Write the frame's line for one subscriber; one with a reply is not kept."""
        route = self.route
        assert route is not None, "there is a message at hand"
        owner = route if self.reply_size == 0 else None
        if cython.compiled:
            # From the receive buffer, which is at hand, rather than from the route's own copy.
            subject = route.text if self.renamed else self.data + self.subject
            frame.address(
                owner, subject, route.size, sub.sid, self.data + self.reply, self.reply_size
            )
        else:
            reply = self.data[self.reply : self.reply + self.reply_size]
            frame.address(owner, route.subject, route.size, sub.sid, reply, self.reply_size)
        return 0

    def say(self, link: Link, text: bytes) -> bool:
        """Put what is no message, or a message of the broker's own, into an outbox."""
        if not link.dirty:
            self._soil(link)
        if not link.write(text):
            if not self._make_room(link, len(text)):
                return False
            link.write(text)
        return True

    def answer(self, reply: bytes, payload: bytes, headers: bytes) -> None:
        """Send a message of the broker's own, without number or frame, to a reply subject."""
        fanout = self.sublist.route(reply).fanout
        groups = fanout.groups
        self.work += ANSWER_WORK * len(fanout.plain)
        for item in fanout.plain:
            self._answer_one(cython.cast(Subscription, item), reply, payload, headers)
        if groups is not None:
            for members in groups:
                self._answer_one(able_member(members), reply, payload, headers)

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
        if self.say(link, line + payload + b"\r\n"):
            link.out_msgs += 1
            link.out_bytes += size
            sub.delivered += 1
            if sub.delivered == sub.limit:
                self.control.finished(sub)

    def _make_room(self, link: Link, need: int) -> bool:
        """Room in an outbox for so much more; False if its client is too slow, or closed."""
        if link.closed:
            return False
        stored = link.stored()
        full = stored >= SEGMENT // 2 or link.held() + need > link.max_pending
        if link.writable and stored and full:
            self.release(self.reader)  # it reads: one read event must not cut it off
            if not link.dirty:
                self._soil(link)
        if link.make_room(need, self.spare):
            return True
        if not link.closed:
            link.closed = True
            self.cut.append(link)
        return False

    def release(self, last: Link | None) -> None:
        """Let out what this read event has caused: journal, subscribers, then `last`."""
        self.sequencer.release()
        for item in self.dirty:
            link = cython.cast(Link, item)
            link.dirty = False
            if link is not last:
                self._flush(link)
        self.dirty.clear()
        if last is not None:
            self._flush(last)
        if self.cut:
            cut = self.cut
            self.cut = []
            for item in cut:
                cython.cast(Link, item).session.cut_off()

    def _flush(self, link: Link) -> None:
        if link.end or link.waiting_bytes:
            link.session.flush()
            if link.held() > self.hold_pending and not link.lagging:
                self.crowded.append(link)
        if link.end == 0 and link.size:
            store = link.take_store()
            if len(self.spare) < SPARE_MAX and len(store) <= 2 * SEGMENT:
                self.spare.append(store)

    def _soil(self, link: Link) -> None:
        """This link has something to flush."""
        link.dirty = True
        self.dirty.append(link)


def able_member(members: tuple[Subscription, ...]) -> Subscription:
    """The member of a queue group that an answer goes to: one that reads, if there is one."""
    able: Subscription = members[0]
    for item in members:
        sub = cython.cast(Subscription, item)
        if sub.owner is not None:
            link = cython.cast(Link, sub.owner)
            if link.writable and not link.closed:
                able = sub
                break
    return able
