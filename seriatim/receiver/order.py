"""The order: packets of one stream in, from the feeds and from who fills holes; events out.

    offer(packet, now, feed, source)      a feed has brought it
    filled, lose, answered                what came of a question
    ask(now, room, weight) -> [Wanted]    what to ask for now; nothing is to be done before `due`
    take() -> [FeedMessage | MessagesLost | Ended | NewStream]    in order, each number once

A number is known to miss as soon as a later one is heard of, or a heartbeat. `patience` is how
long a hole may be, for what comes late or by the other feed; then it is asked for, again and
again, each time after twice the time, at most `tries` times; then it is lost, and that is an
event in its place. While nobody can be reached, tries do not count, and begin anew when somebody
can (`retry`); where who is asked answers, but leaves many unanswered, they count less (`weight`).
Memory: seriatim/receiver/holes.py.

Whose numbers they are: where the codec names the stream, that; else who sends. A later epoch of
a journal goes on. Another stream, or another sender whose numbers begin again, is a stranger,
for anybody can speak in a group: it is heard when the one before has said that it ends, or has
been silent for `SETTLED` seconds. Then what misses is lost, and the order begins anew with a
NewStream. Somebody who knows may say which stream it is (`follow`), and how far it has come
(`expect`): then no other is heard, and what was never given is not waited for.

No clock: `now` is in seconds of any clock that does not go back.
"""

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
    DOUBLINGS_MAX = 64  # of the pause between two questions, if that were ever so short
    SETTLED = 3
    INFINITY = float("inf")
    JUMP = 1 << 20  # numbers that a feed may be ahead of what is known
    INT64_MAX = (1 << 63) - 1  # no number: the one behind the last must be one, too

TRY = 8  # what a question without an answer counts, where nothing speaks for who was asked
FEEDS = 2


class WantedRange:
    """A question: numbers `first` to `last` of the stream; some of them may be here already."""

    def __init__(self, stream: int, first: int, last: int) -> None:
        self.stream = stream
        self.first = first
        self.last = last

    def __repr__(self) -> str:
        return f"Wanted({self.stream}, {self.first}, {self.last})"


class Origin:
    """Who speaks on a feed, or in all of them: a sender's address, or a session; 0 is nobody."""

    def __init__(self) -> None:
        self.current = 0
        self.former = 0  # who spoke of the same stream before: what is late is no change
        self.stale = 0  # who spoke of the stream before
        self.reach = 0  # the next number, as heard from here
        self.heard = 0.0  # when the current one spoke last

    def leave(self) -> int:
        """Whoever spoke is of the stream before."""
        if self.current:
            self.stale = self.current
        self.current = self.former = self.reach = 0
        return 0


class Order:
    """One per receiver.

    `start` is the first number wanted; 0 is whichever comes first. `filtered`: the feed leaves
    numbers out, and its codec may not say so. `fills`: there is somebody to ask; a question has
    at most `piece` numbers, and takes in several holes that are at most `bridge` numbers apart.
    `answer` seconds are given to the first answer; `chance` spreads the times, with 0 to 1.
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
        self.blind = False  # the codec does not say what a filter has left out
        self.followed = b""  # the stream that it must be, if that is known
        self.unsure = False  # a stranger was heard: is it another stream by now?
        self.far: Packet | None = None  # it is too far ahead to be believed yet
        self.ended_at = 0
        self.origin = Origin()
        self.origins = [Origin() for _ in range(FEEDS)]
        self.malformed = self.heartbeats = self.asked = self.strangers = 0

    @property
    def next(self) -> int:
        """The number that is to be delivered next; 0 when it is not known."""
        return self.holes.next()

    @property
    def due(self) -> float:
        """When `ask` has something to do; infinite when nothing misses."""
        return self.holes.due if self.holes.all else INFINITY

    @property
    def ready(self) -> bool:
        """Whether `take` would bring anything."""
        return len(self.holes.events) > 0

    @property
    def pending(self) -> int:
        """The bytes that `take` would bring."""
        return self.holes.pending

    def take(self) -> list[Event]:
        """What can be delivered now; once."""
        return self.holes.take()

    # What feeds bring

    def offer(self, packet: Packet, now: float, feed: int = 0, source: int = 0) -> int:
        """Use a packet of feed 0 or 1; `source` is who sent it, as a number. Any packet will do."""
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
        """Take in what a packet says."""
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
        """Whether a packet so far ahead is borne out by one before; else it is kept for the next.

        One wrong number would otherwise make a hole that nobody can ever fill.
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
        """All numbers below `after` have been given, and no others when `heard` was the top.

        So says somebody who knows. What was heard of beyond that is not true, and is forgotten.
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
        """Somebody who knows says which stream it is: no other is heard any more."""
        stream, known = stream_of(session), self.followed or stream_of(self.session)
        if known and known != stream:
            self.renew(session)
        self.followed = stream
        return 0

    def _end(self, after: int) -> int:
        """Nothing more comes: say so once, behind all that came before."""
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
        """Another stream begins: what misses of this one is lost."""
        self.holes.lose_all()
        self.holes.top = 1 if self.start else 0
        self.ended_at = 0
        self.far = None
        self.stream += 1
        self.session = session
        for at in range(len(self.origins)):
            origin: Origin = self.origins[at]
            origin.leave()
        self.origin.leave()
        self.holes.end(NewStream(session))
        return 0

    # What came of a question

    def filled(
        self, stream: int, first: int, last: int, messages: list[FeedMessage], now: float
    ) -> int:
        """There is nothing else of numbers `first` to `last` than these messages."""
        if stream != self.stream or first > last:
            return 0
        if not is_sound(Packet(DATA, messages, first - 1, last + 1), messages):
            self.malformed += 1
            return 0
        return self.holes.cover(first, last + 1, messages, now, now + self._pause(0))

    def lose(self, stream: int, first: int, last: int) -> int:
        """Who was asked has not got numbers `first` to `last`: what misses of them is lost."""
        if stream == self.stream:
            self.holes.lose(first, last)
        return 0

    def answered(self, stream: int, first: int, last: int, now: float) -> int:
        """A question is answered as far as it will be: what there was more of is asked for now."""
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
        """What still misses of numbers `first` to `last`, as pairs of a first and a last number."""
        holes: Holes = self.holes
        found = []
        for at in range(holes.find(first), len(holes.all)):
            hole: Hole = holes.all[at]
            if hole.start > last:
                break
            found.append((max(first, hole.start), min(last, hole.stop - 1)))
        return found

    # What to ask

    def ask(self, now: float, room: int, weight: int = TRY) -> list[WantedRange]:
        """What to ask for now, in at most `room` questions; what was asked too often is lost.

        `weight` is what such a question counts if it has no answer: a `TRY`, or a part of it; with
        0, for it is known that nobody hears, nothing is lost.
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
                holes.full = True  # there is no room for what it would bring
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
        """Nobody is waited for any longer: what is due is lost."""
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
        """Whoever fills is there again: what was asked for is asked for as if anew."""
        holes: Holes = self.holes
        for at in range(len(holes.all)):
            hole: Hole = holes.all[at]
            if hole.tries > 0:
                hole.tries = hole.spent = 0
                hole.due = min(hole.due, now + self._pause(0))
                holes.due = min(holes.due, hole.due)
        return 0

    def _ask_for(self, hole: Hole, at: int, wanted: list[WantedRange], room: int) -> bool:
        """Put a hole, or the first piece of it, into a question."""
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
        """How long to wait for an answer, the more the oftener there was none."""
        pause = self.answer
        while tries > 0 and pause < BACKOFF_MAX:
            pause = min(2 * pause, BACKOFF_MAX)
            tries -= 1
        return pause * (0.75 + 0.5 * self.chance())

    def _give_up(self, at: int, hole: Hole) -> int:
        """Nobody has it: it is lost, or was left out by a filter of which nothing is known."""
        left_out = self.filtered and self.blind and not self.fills
        gone = [] if left_out else [MessagesLost(hole.start, hole.stop - 1)]
        return self.holes.fill(at, hole.start, hole.stop, gone, INFINITY)

    # Streams

    def _belongs(self, packet: Packet, origin: Origin, who: int, now: float) -> bool:
        """Whether to use a packet of a sender other than before; a stream may begin with it."""
        if who == origin.former:
            return True
        session, current = packet.session, origin.current
        if session and self.followed and stream_of(session) != self.followed:
            self.strangers += 1
            self.unsure = True
            return False
        fresh = who == origin.stale
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
        origin.current = who
        self.session = session
        return True


def is_sound(packet: Packet, messages: list[FeedMessage]) -> bool:
    """Whether the messages' numbers rise, and stand where the packet says."""
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
    """The number behind all that a packet speaks of."""
    if messages and packet.previous < 0:
        message: FeedMessage = messages[len(messages) - 1]
        return message.number + 1
    return packet.after


def _first_of(packet: Packet, messages: list[FeedMessage]) -> int:
    """The first number that a packet speaks of."""
    if packet.previous >= 0:
        return packet.previous + 1
    if messages:
        message: FeedMessage = messages[0]
        return message.number
    return packet.after


def stream_of(session: bytes) -> bytes:
    """What stays the same in a session's name over the epochs of a journal."""
    head, dash, _ = session.partition(b"-")
    return head if dash else session[:8]
