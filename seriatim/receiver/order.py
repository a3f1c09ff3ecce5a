"""The order: packets of one stream in, from the feeds and from fillers; events out.

    offer(packet, now, feed, source)      a packet from a feed
    filled, lose, answered                the outcome of a request
    due_requests(now, room, weight) -> [WantedRange]    what to request now; not needed before `due`
    drain() -> [FeedMessage | MessagesLost | Ended | NewStream]   in order, each number once

A gap is detected when a later number, or a heartbeat, arrives. A hole may last for `patience`
seconds, in case its messages come late or by the other feed. After that they are requested, at
most `tries` times, with twice the pause each time. Then they are lost, and an event takes their
place. While no server can be reached, tries do not count, and they start again when one can be
(`retry`). While the server answers but leaves many requests unanswered, they count less (`weight`).
Memory: seriatim/receiver/holes.py.

The codec may name the stream that a packet belongs to; otherwise its sender identifies it. A later
epoch of a journal continues the stream. Another stream, or another sender whose numbers begin
again, is a stranger at first, since anyone can send to a group. It is accepted when the current one
has announced its end, or has been silent for `SETTLED` seconds. Then missing numbers are lost, and
the order starts again with a NewStream. A filler may know the stream (`follow`) and how far it has
come (`expect`): then no other is accepted, and the order does not wait for numbers that were never
assigned.

No clock: `now` is in seconds of any clock that does not go back.
"""

# Theory of operation
#
# UDP loses packets, repeats them, changes their order; and anyone can send some. Each packet
# answers three questions, the cheapest first, before anything of it counts:
#
#     feed A --.           is_sound      numbers rise, and are inside what the packet says it covers
#     feed B --+- offer -> _belongs      whose is it?
#                          _is_credible  not more than JUMP ahead of what is known
#                              |
#                              v
#     filler ---- filled -> holes.cover --> events, in order --> drain       (holes.py)
#                                |
#                                `-- due_requests: what is missing
#
# Whose it is: a stream has one sender on each feed (or one session on all), `current`. The hard
# case is that another one appears, since a sequencer that fails over and a stranger look the same:
#
#     the sender is          the packet
#     ---------------------  ---------------------------------------------------------------------
#     current, or former     is used. `former` sent the same stream before a fail-over; its last
#                            packets may arrive late
#     new, and its numbers   is used: it goes on with the stream. `current` becomes `former`
#     do not fall back
#     new, and begins below  is a stranger's, as long as `current` was heard in the last SETTLED
#     `reach`, or names      seconds and has not announced its end. After that, it begins a new
#     another stream         stream, and all that is missing of this one is lost
#     stale                  the same: it sent the stream before this one
#
# If the filler knows which stream it is (`follow`), no other one is ever accepted.
#
# Not credible: one packet with a wild number would make a hole of millions that no server can fill.
# It is kept (`far`) until a second one of the same session goes on from there.
#
# The life of a hole:
#
#     found --- patience ---> request --- pause ---> request --- 2 * pause ---> ... ---> lost
#       |                        |                      |            (up to BACKOFF_MAX)
#       `------------------------'----------------------'--> filled, wholly or in part: tries = 0
#
# `patience` is for packets that are late, or come on the other feed. A try is counted by its
# weight, because an unanswered request proves little: with a server that is under pressure it
# counts as a part of TRY, and with none in reach it counts nothing. So a server that restarts does
# not cost messages, and one that lacks a range does not hold up the stream for ever. The pauses are
# spread by `chance`: many receivers miss the same packet at the same time.

from collections.abc import Callable
from random import random

import cython

from sequencer.feed.feed_codec import Packet
from sequencer.feed.feed_message import FeedMessage
from seriatim.receiver.events import Ended, MessagesLost, NewStream
from seriatim.receiver.holes import Hole, Holes

Event = FeedMessage | MessagesLost | Ended | NewStream

if not cython.compiled:
    from sequencer.feed.feed_codec import DATA, END

    BACKOFF_MAX = 2  # seconds
    DOUBLINGS_MAX = 64  # of the pause, however short it began
    SETTLED = 3
    INFINITY = float("inf")
    JUMP = 1 << 20  # how many numbers a feed may be ahead of what is known
    INT64_MAX = (1 << 63) - 1  # not a valid number: the one after the last must be valid, too

TRY = 8  # the weight of an unanswered request to a server that gives no sign of life
FEEDS = 2


class WantedRange:
    """A request: numbers `first` to `last` of the stream; some of them may be here already."""

    def __init__(self, stream: int, first: int, last: int) -> None:
        self.stream = stream
        self.first = first
        self.last = last

    def __repr__(self) -> str:
        return f"WantedRange({self.stream}, {self.first}, {self.last})"


class Origin:
    """The sender on one feed, or on all: a sender's address, or a session; 0 is none."""

    def __init__(self) -> None:
        self.current = 0
        self.former = 0  # an earlier sender of the same stream: its late packets are no change
        self.stale = 0  # the sender of the previous stream
        self.reach = 0  # the next number, as heard from this feed
        self.heard = 0.0  # when the current one was last heard

    def retire(self) -> int:
        """Assign the current sender to the previous stream."""
        if self.current:
            self.stale = self.current
        self.current = self.former = self.reach = 0
        return 0


class Order:
    """The order of one receiver.

    `start` is the first number wanted; 0 is the first to arrive. `filtered`: the feed leaves
    numbers out, and its codec may not say so. `fills`: there is a filler. A request has at most
    `piece` numbers, and covers several holes that are at most `bridge` numbers apart. `answer` is
    the time in seconds for the first answer; `chance` spreads the times, with 0 to 1.
    """

    def __init__(
        self,
        start: int = 0,
        *,
        fills: bool = False,
        filtered: bool = False,
        patience: float = 0.005,
        answer: float = 0.25,
        tries: int = 8,
        piece: int = 16384,
        bridge: int = 0,
        held_max: int = 64 << 20,
        chance: Callable[[], float] = random,
    ) -> None:
        self.start = start
        self.fills = fills
        self.filtered = filtered
        self.answer = answer
        self.spend_max = tries * TRY
        self.piece = piece
        self.bridge = bridge
        self.chance = chance
        self.holes = Holes(start, held_max, patience)
        self.stream = 0  # counts streams
        self.session = b""
        self.blind = False  # the codec does not say which numbers a filter has left out
        self.followed = b""  # the only stream to accept, if that is known
        self.unsure = False  # a stranger was heard: is it another stream by now?
        self.far: Packet | None = None  # a packet too far ahead to be believed yet
        self.ended_at = 0
        self.origin = Origin()
        self.origins = [Origin() for _ in range(FEEDS)]
        self.malformed = self.heartbeats = self.asked = self.strangers = 0

    @property
    def next(self) -> int:
        """The number to be delivered next; 0 if it is not known."""
        return self.holes.next()

    @property
    def due(self) -> float:
        """The time at which `due_requests` has some; infinite when nothing is missing."""
        return self.holes.due if self.holes.all else INFINITY

    @property
    def ready(self) -> bool:
        """True if `drain` would return anything."""
        return len(self.holes.events) > 0

    @property
    def pending(self) -> int:
        """The bytes that `drain` would return."""
        return self.holes.pending

    def drain(self) -> list[Event]:
        """Return the events that can be delivered now; each is returned once."""
        return self.holes.drain()

    # From the feeds

    def offer(self, packet: Packet, now: float, feed: int = 0, source: int = 0) -> int:
        """Use a packet of feed 0 or 1; `source` is its sender, as a number.

        Any packet is safe to offer.
        """
        messages = packet.messages
        if not is_sound(packet, messages):
            self.malformed += 1
            return 0
        origin: Origin = self.origins[feed]
        if packet.session:
            origin, source = self.origin, hash(packet.session)
        if source != origin.current and not self._belongs(packet, origin, source, now):
            return 0
        origin.heard = now
        after = _after_of(packet, messages)
        if after - self.holes.top > JUMP and self.holes.top and not self._is_credible(packet, now):
            return 0
        origin.reach = max(origin.reach, after)
        return self._use(packet, now)

    def _use(self, packet: Packet, now: float) -> int:
        """Apply the contents of a packet."""
        messages, after = packet.messages, packet.after
        holes: Holes = self.holes
        if holes.top == 0:
            holes.top = _first_of(packet, messages)
        if packet.previous >= 0:
            holes.cover(packet.previous + 1, after, messages, now, INFINITY)
        else:
            self.blind = True
            holes.cover_each(messages, now)
        if packet.kind != DATA:
            self.heartbeats += 1
            self._reach(after, now)
            if packet.kind == END:
                self._end(after)
        return 0

    def _is_credible(self, packet: Packet, now: float) -> bool:
        """True if an earlier packet confirms one so far ahead; if not, keep it to confirm the next.

        Otherwise one wrong number would make a hole that can never be filled.
        """
        after, before = _after_of(packet, packet.messages), self.far
        self.far = packet
        if before is None or packet.session != before.session:
            return False
        behind = after - _after_of(before, before.messages)
        if behind > JUMP or behind < (0 if packet.kind else 1):
            return False
        self.far = None
        self._use(before, now)
        return True

    def expect(self, after: int, now: float, heard: int = 0) -> int:
        """Learn that numbers below `after` were assigned, and no others when the top was `heard`.

        The filler knows this from the broker. Numbers heard beyond that are wrong, and forgotten.
        """
        if after < heard:
            self.holes.cut(after)
            for at in range(len(self.origins)):
                origin: Origin = self.origins[at]
                origin.reach = min(origin.reach, after)
            self.origin.reach = min(self.origin.reach, after)
        self.unsure = False
        return self._reach(after, now)

    def follow(self, session: bytes) -> int:
        """Accept no other stream any more: the filler knows which one it is."""
        stream, known = stream_of(session), self.followed or stream_of(self.session)
        if known and known != stream:
            self.renew(session)
        self.followed = stream
        return 0

    def _end(self, after: int) -> int:
        """Report the end of the stream once, after everything that came before."""
        if after == self.holes.top and after != self.ended_at:
            self.ended_at = after
            self.holes.end(Ended(after))
        return 0

    def _reach(self, after: int, now: float) -> int:
        if self.holes.top == 0:
            self.holes.top = after
        elif after > self.holes.top:
            self.holes.miss(after, now)
        return 0

    def renew(self, session: bytes = b"") -> int:
        """Begin another stream: missing numbers of this one are lost."""
        self.holes.lose_all()
        self.holes.top = 1 if self.start else 0
        self.ended_at = 0
        self.far = None
        self.stream += 1
        self.session = session
        for at in range(len(self.origins)):
            origin: Origin = self.origins[at]
            origin.retire()
        self.origin.retire()
        self.holes.end(NewStream(session))
        return 0

    # The outcome of requests

    def filled(
        self, stream: int, first: int, last: int, messages: list[FeedMessage], now: float
    ) -> int:
        """Take all the messages there are of numbers `first` to `last`."""
        if stream != self.stream or first > last:
            return 0
        if not is_sound(Packet(DATA, messages, first - 1, last + 1), messages):
            self.malformed += 1
            return 0
        return self.holes.cover(first, last + 1, messages, now, now + self._pause(0))

    def lose(self, stream: int, first: int, last: int) -> int:
        """Give up numbers `first` to `last`, if missing: the server does not have them."""
        if stream == self.stream:
            self.holes.lose(first, last)
        return 0

    def answered(self, stream: int, first: int, last: int, now: float) -> int:
        """Note that a request is answered as far as it will be: the rest is requested now."""
        if stream != self.stream:
            return 0
        holes: Holes = self.holes
        for at in range(holes.find(first), len(holes.all)):
            hole: Hole = holes.all[at]
            if hole.start > last:
                break
            if hole.tries == 0:
                hole.due = min(hole.due, now)
                holes.due = min(holes.due, now)
        return 0

    def missing(self, first: int, last: int) -> list[tuple[int, int]]:
        """Return the missing numbers from `first` to `last`, as pairs of first and last."""
        holes: Holes = self.holes
        found = []
        for at in range(holes.find(first), len(holes.all)):
            hole: Hole = holes.all[at]
            if hole.start > last:
                break
            found.append((max(first, hole.start), min(last, hole.stop - 1)))
        return found

    # Requests

    def due_requests(self, now: float, room: int, weight: int = TRY) -> list[WantedRange]:
        """Return up to `room` requests to send now; numbers tried too often are lost.

        `weight` is what a request counts if it is not answered: a `TRY`, or a part of it. With 0,
        because no server can be reached, nothing is lost.
        """
        holes: Holes = self.holes
        wanted: list[WantedRange] = []
        due = INFINITY
        at = 0
        while at < len(holes.all):
            hole: Hole = holes.all[at]
            if hole.due > now:
                due = min(due, hole.due)
            elif not self.fills or (weight and hole.spent >= self.spend_max):
                at = self._give_up(at, hole)
                continue
            elif at > 0 and (holes.full or holes.held >= holes.held_max):
                holes.full = True  # there is no room for the answer
                break
            elif self._ask_for(hole, at, wanted, room):
                hole.due = now + self._pause(hole.tries)
                hole.tries = min(hole.tries + 1, DOUBLINGS_MAX)
                hole.spent += weight
                due = min(due, hole.due)
            else:
                due = now
                break
            at += 1
        holes.due = due
        self.asked += len(wanted)
        return wanted

    def give_up(self, now: float) -> int:
        """Stop waiting for the filler: numbers that are due are lost."""
        holes: Holes = self.holes
        due = INFINITY
        at = 0
        while at < len(holes.all):
            hole: Hole = holes.all[at]
            if hole.due > now:
                due = min(due, hole.due)
                at += 1
            else:
                at = self._give_up(at, hole)
        holes.due = due
        return 0

    def retry(self, now: float) -> int:
        """Start the tries from the beginning: the server is reachable again."""
        holes: Holes = self.holes
        for at in range(len(holes.all)):
            hole: Hole = holes.all[at]
            if hole.tries > 0:
                hole.ask_again(min(hole.due, now + self._pause(0)))
                holes.due = min(holes.due, hole.due)
        return 0

    def _ask_for(self, hole: Hole, at: int, wanted: list[WantedRange], room: int) -> bool:
        """Put a hole, or the first piece of it, into a request."""
        if wanted:
            last: WantedRange = wanted[len(wanted) - 1]
            near = hole.start - last.last - 1 <= self.bridge
            if near and hole.stop - last.first <= self.piece:
                last.last = hole.stop - 1
                return True
        if len(wanted) >= room:
            return False
        if hole.stop - hole.start > self.piece:
            self.holes.divide(at, hole, hole.start + self.piece)
        wanted.append(WantedRange(self.stream, hole.start, hole.stop - 1))
        return True

    def _pause(self, tries: int) -> float:
        """Return how long to wait for an answer; longer with each try."""
        pause = self.answer
        while tries > 0 and pause < BACKOFF_MAX:
            pause = min(2 * pause, BACKOFF_MAX)
            tries -= 1
        return pause * (0.75 + 0.5 * self.chance())

    def _give_up(self, at: int, hole: Hole) -> int:
        """Give up a hole: it is lost, or a filter that the codec does not report left it out."""
        left_out = self.filtered and self.blind and not self.fills
        gone = [] if left_out else [MessagesLost(hole.start, hole.stop - 1)]
        return self.holes.fill(at, hole.start, hole.stop, gone, INFINITY)

    # Streams

    def _belongs(self, packet: Packet, origin: Origin, source: int, now: float) -> bool:
        """True if a packet of another sender than before is used; it may begin a new stream."""
        if source == origin.former:
            return True
        session, current = packet.session, origin.current
        if session and self.followed and stream_of(session) != self.followed:
            self.strangers += 1
            self.unsure = True
            return False
        fresh = source == origin.stale
        if current and not fresh:
            first = _first_of(packet, packet.messages)
            fresh = first < origin.reach or stream_of(session) != stream_of(self.session)
        if fresh:
            ended = self.ended_at > 0 and self.ended_at == self.holes.top
            if not (ended and current) and now - origin.heard < SETTLED:
                self.strangers += 1
                self.unsure = True
                return False
            if current:
                self.renew(session)
        else:
            origin.former = current
        origin.current = source
        self.session = session
        return True


def is_sound(packet: Packet, messages: list[FeedMessage]) -> bool:
    """True if the messages' numbers rise and agree with the packet."""
    before, after, limit = packet.previous, packet.after, INT64_MAX
    if not -2 < before < limit or (packet.kind != DATA and not 0 < after < limit):
        return False
    for at in range(len(messages)):
        if not isinstance(messages[at], FeedMessage):
            return False
        message: FeedMessage = messages[at]
        number = message.number
        if not 0 < number < limit or number <= before:
            return False
        before = number
    return packet.previous == -1 or before < after < limit


def _after_of(packet: Packet, messages: list[FeedMessage]) -> int:
    """Return the number after everything that a packet covers."""
    if messages and packet.previous < 0:
        message: FeedMessage = messages[len(messages) - 1]
        return message.number + 1
    return packet.after


def _first_of(packet: Packet, messages: list[FeedMessage]) -> int:
    """Return the first number that a packet covers."""
    if packet.previous >= 0:
        return packet.previous + 1
    if messages:
        message: FeedMessage = messages[0]
        return message.number
    return packet.after


def stream_of(session: bytes) -> bytes:
    """Return the part of a session's name that is the same in all epochs of a journal."""
    head, dash, _ = session.partition(b"-")
    return head if dash else session[:8]
