"""The receiver: one or two multicast groups in, and the messages in the one order out.

    group = Group("239.0.0.1", 1234, interface="127.0.0.1")
    async with Receiver([group], fill="nats://127.0.0.1:4222") as receiver:
        async for event in receiver:
            match event:
                case FeedMessage(): ...             number, payload, subject, headers, time
                case MessagesLost(): ...        first to last: no server has them

It reads only as fast as the application takes events. When `pending_bytes` of them wait, it stops
reading; the kernel's buffer overflows, and lost messages are fetched later like any others.
Memory: `pending_bytes`, `held_bytes` after a hole, and the answers to four requests.
"""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator, Sequence
from math import ceil, inf
from typing import Any, Final, Self

from sequencer.feed.codecs import codec_named
from sequencer.feed.errors import CodecNotFound
from sequencer.feed.feed_codec import Codec
from sequencer.feed.moldudp64 import MoldUDP64Codec
from sequencer.feed.netstrings import NetstringCodec
from seriatim.receiver.arrivals import Arrivals
from seriatim.receiver.counters import Counters
from seriatim.receiver.errors import FillError, ReceiverError
from seriatim.receiver.filler import Filler, JournalHead, probe
from seriatim.receiver.group import Group, join, rejoined
from seriatim.receiver.journal_filler import JournalFiller
from seriatim.receiver.mold_filler import MoldFiller
from seriatim.receiver.order import FEEDS, TRY, Event, Order

TICK_SECONDS = 0.001  # the shortest time between two checks for missing numbers
CROWDED_SECONDS = 0.02  # the same while no more can be requested; an answer makes room earlier
PRESSED_TRY = 1  # 8 tries become 64: enough even if three of four requests are not answered
CAUGHT_UP_READS = 64  # before anything is considered missing; a socket of 4 MiB holds only 40
START_MAX: Final = (1 << 63) - 2  # the number after the last one must be valid, too
COUNT_MAX: Final = (1 << 31) - 1
BYTES_MAX: Final = (1 << 63) - 1


# Checks a receiver's arguments: an invalid one raises `ReceiverError` before a socket is made.
#
# Otherwise a wrong type would only show later, as an exception in the event loop.


def check_feeds(feeds: Any) -> None:
    """Raise `ReceiverError` unless this is a list of one or two groups."""
    if isinstance(feeds, Group):
        raise ReceiverError("feeds must be a list of groups, even of a single one: give [group]")
    if not isinstance(feeds, Sequence) or not all(isinstance(one, Group) for one in feeds):
        raise ReceiverError(f"{feeds!r} is not a list of groups; give [Group(..)]")
    if not 0 < len(feeds) <= FEEDS:
        raise ReceiverError(f"a receiver has one or two feeds, not {len(feeds)}")


def codec_of(codec: Any, subject: Any) -> Codec:
    """Return the codec, or the one of this name; by default netstring. Raises `ReceiverError`."""
    if not isinstance(subject, str):
        raise ReceiverError(
            f"{subject!r} is not a valid subject; give the feed's filter as a string"
        )
    if codec is None:
        return NetstringCodec()
    if isinstance(codec, Codec):
        return codec
    if not isinstance(codec, str):
        raise ReceiverError(f"{codec!r} is not a codec; give one's name, or an object of its class")
    try:
        return codec_named(codec, filtered=subject != ">")
    except CodecNotFound as error:
        raise ReceiverError(str(error)) from error


def check_fill(fill: Any) -> None:
    """Raise `ReceiverError` unless this is a server that missing messages can be requested from."""
    if fill is not None and not isinstance(fill, str | Filler):
        raise ReceiverError(
            f"{fill!r} is not a valid fill; give nats://HOST:PORT, mold://HOST:PORT, or None"
        )


def first_of(start: Any) -> int:
    """Return the first number wanted; 0 for the first to arrive. Raises `ReceiverError`."""
    if isinstance(start, str) and start == "live":
        return 0
    if not _is_whole(start) or not 1 <= start <= START_MAX:
        raise ReceiverError(
            f'{start!r} is not a valid start; give a number from 1 to {START_MAX}, or "live"'
        )
    return int(start)


def check_seconds(**seconds: Any) -> None:
    """Raise `ReceiverError` for an invalid time to wait."""
    for name, value in seconds.items():
        if not (_is_whole(value) or isinstance(value, float)) or not value >= 0:
            raise ReceiverError(f"{name} is {value!r}; give seconds, 0 or more")


def check_idle(idle: Any) -> None:
    """Raise `ReceiverError` unless this is more than 0 seconds."""
    check_seconds(idle=idle)
    if idle == 0:
        raise ReceiverError("idle is 0; give seconds, more than 0")


def check_counts(most: int, **counts: Any) -> None:
    """Raise `ReceiverError` for an invalid count; `most` is the maximum."""
    for name, value in counts.items():
        if not _is_whole(value) or not 0 <= value <= most:
            raise ReceiverError(f"{name} is {value!r}; give a whole number, 0 to {most}")


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


class Receiver:
    """An async context manager, and an async iterable of events.

    `feeds` are one or two groups that carry the same stream; the first copy of a number counts.
    `codec` is the feed's, or its name; netstring by default. `fill` is the server to request
    missing messages from: nats://HOST:PORT (the broker) or mold://HOST:PORT (its re-request
    server). Without one, a missing number is lost after `patience`. `start` is the first number
    wanted, which may be long past if there is a `fill`; or "live": only newly published ones.

    `subject` is the feed's filter, if it has one. A number that is `patience` seconds late is
    requested. If there is no answer within `answer` seconds it is requested again, with twice the
    time, `tries` times in all. While the server cannot be reached, the receiver waits, but at most
    `away` seconds if that is given; then missing numbers are lost. After `idle` seconds without a
    datagram it asks the broker whether there was one, and joins the group again if its interface
    was recreated.

    Entering it raises `GroupError` and `FillError`; invalid arguments raise `ReceiverError`.
    """

    def __init__(
        self,
        feeds: Sequence[Group],
        *,
        codec: Codec | str | None = None,
        fill: str | Filler | None = None,
        start: int | str = "live",
        subject: str = ">",
        patience: float = 0.005,
        answer: float = 0.25,
        tries: int = 8,
        away: float = inf,
        held_bytes: int = 64 << 20,
        pending_bytes: int = 16 << 20,
        idle: float = 1.0,
    ) -> None:
        check_feeds(feeds)
        check_fill(fill)
        check_seconds(patience=patience, answer=answer, away=away)
        check_idle(idle)
        check_counts(COUNT_MAX, tries=tries)
        check_counts(BYTES_MAX, held_bytes=held_bytes, pending_bytes=pending_bytes)
        self.feeds = tuple(feeds)
        self.codec = codec_of(codec, subject)
        self.filler = _filler(fill, self.codec, subject)
        self.pending_bytes = pending_bytes
        self.idle = idle
        self.away = away
        self.order = Order(
            first_of(start),
            fills=self.filler is not None,
            filtered=subject != ">",
            patience=patience,
            answer=answer,
            tries=tries,
            piece=self.filler.piece if self.filler else 1,
            bridge=self.filler.bridge if self.filler else 0,
            held_max=held_bytes,
        )
        self._sockets: list[socket.socket] = []
        self._arrivals: list[Arrivals] = []
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = inf
        self._waiter: asyncio.Future[None] | None = None
        self._taken: Iterator[Event] = iter(())
        self._paused = self._closed = False
        self._state_task: asyncio.Task[None] | None = None
        self._head: JournalHead | None = None
        self._stream = 0  # the order's stream when `_head` was learned
        self._trouble = ""  # the codec's error when it was given the stream
        self._sure_until = 0.0  # until then, a stranger is no reason to ask for the journal's state
        self._counted = 0  # datagrams at the last check of the feeds
        self._quiet = [0] * len(feeds)  # the same of each feed, at its last check
        self._rejoins = 0
        self._past = [0, 0, 0]  # datagrams, malformed ones and drops of closed sockets
        self._idle: asyncio.TimerHandle | None = None

    async def __aenter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        try:
            for group in self.feeds:
                made = join(group)
                self._sockets.append(made)
                self._arrivals.append(Arrivals(made))
            if self.filler is not None:
                self.filler.attach(self.order, self._advance, self._request_state)
                await self.filler.open()
                await self._look_once()
            self._idle = self._loop.call_later(self.idle, self._on_idle)
        except BaseException:
            await self.close()
            raise
        self._listen()
        self._advance()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Leave the groups and close the filler. Iterations end after the last event."""
        if self._closed:
            return
        self._closed = True
        for timer in (self._timer, self._idle):
            if timer is not None:
                timer.cancel()
        for made in self._sockets:
            self._loop.remove_reader(made)
            made.close()
        if self._state_task is not None:
            self._state_task.cancel()
        if self.filler is not None:
            await self.filler.close()
        self._wake()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        while True:
            for event in self._taken:
                return event
            self._taken = iter(await self._take())

    async def batches(self) -> AsyncIterator[list[Event]]:
        """Yield lists of events: all that can be delivered, at least one; the fast way."""
        while True:
            events = list(self._taken)  # left by a loop over single events
            if not events:
                try:
                    events = await self._take()
                except StopAsyncIteration:
                    return
            yield events

    async def _take(self) -> list[Event]:
        """Return all events to deliver, at least one. Raises `StopAsyncIteration` when over."""
        while not (events := self.order.drain()):
            if self._closed:
                raise StopAsyncIteration
            self._waiter = self._loop.create_future()
            await self._waiter
        if self._paused:
            self._listen()
            self._advance()
        return events

    @property
    def counters(self) -> Counters:
        """The current counters."""
        order, holes = self.order, self.order.holes
        return Counters(
            datagrams=self._datagrams(),
            messages=holes.messages,
            duplicates=holes.duplicates,
            late=holes.late,
            holes=holes.found,
            requests=order.asked,
            filled=holes.filled,
            lost=holes.lost,
            dropped=holes.dropped,
            malformed=order.malformed
            + sum((one.malformed for one in self._arrivals), self._past[1]),
            strangers=order.strangers,
            heartbeats=order.heartbeats,
            streams=order.stream,
            kernel_drops=sum((one.drops for one in self._arrivals), self._past[2]),
            held=holes.held,
            next=order.next,
            rejoins=self._rejoins,
            away=ceil(self._away()),
            lag=holes.top - order.next,
        )

    @property
    def troubles(self) -> list[str]:
        """The last error of each feed and of the filler, in words."""
        found = [*(one.fault for one in self._arrivals), self._trouble]
        if self.order.strangers:
            found.append(
                f"{self.order.strangers} datagrams were of another stream, and were ignored"
            )
        if self.filler is not None:
            found.append(self.filler.trouble)
        if away := self._away():
            found.append(f"no server reachable for {away:.0f} s: waiting for the missing messages")
        return [text for text in found if text]

    def _datagrams(self) -> int:
        return sum((one.count for one in self._arrivals), self._past[0])

    def _away(self) -> float:
        """Return for how many seconds no server could be reached."""
        return 0.0 if self.filler is None or self._closed else self.filler.away()

    # From the feeds

    def _listen(self) -> None:
        self._paused = False
        for feed, made in enumerate(self._sockets):
            if not self._closed:
                self._loop.add_reader(made, self._on_datagrams, feed)

    def _on_datagrams(self, feed: int) -> None:
        self._arrivals[feed].read(self.order, self.codec, self._loop.time(), feed)
        self._advance()

    def _advance(self) -> None:
        """React to new packets and answers: request, wait, deliver."""
        order = self.order
        now = self._loop.time()
        if order.due <= now:
            self._catch_up()
        if order.ready:
            self._wake()
            if order.pending > self.pending_bytes and not self._paused:
                self._paused = True
                for made in self._sockets:
                    self._loop.remove_reader(made)
        if order.unsure and self._loop.time() >= self._sure_until:
            self._request_state()
        if self._closed or self._paused or order.due == inf:
            return
        if order.due <= now:
            self._ask(now)
        at = max(order.due, now + (CROWDED_SECONDS if order.due <= now else TICK_SECONDS))
        if at < self._timer_at:
            if self._timer is not None:
                self._timer.cancel()
            self._timer_at = at
            self._timer = self._loop.call_at(at, self._on_time)

    def _catch_up(self) -> None:
        """Read the datagrams that wait in the sockets: they are not missing.

        Many may wait if this process was suspended.
        """
        for _ in range(CAUGHT_UP_READS):
            now = self._loop.time()
            if self._closed or self._paused or self.order.pending > self.pending_bytes:
                return
            if not sum(
                one.read(self.order, self.codec, now, feed)
                for feed, one in enumerate(self._arrivals)
            ):
                return

    def _on_time(self) -> None:
        self._timer, self._timer_at = None, inf
        self._advance()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    # From the filler

    def _ask(self, now: float) -> None:
        filler = self.filler
        if filler is None:
            self.order.due_requests(now, 0)
        elif (away := filler.away()) > self.away:
            self.order.give_up(now)
        elif (room := filler.room()) > 0:
            weight = 0 if away else PRESSED_TRY if filler.pressed else TRY
            for wanted in self.order.due_requests(now, room, weight):
                filler.send_request(wanted)
        if self.order.ready:
            self._wake()  # something was given up

    def _learn(self, head: JournalHead | None, stream: int, heard: int) -> None:
        """Use the journal's state; it was requested when the order was at this stream and top."""
        order = self.order
        if head is None or stream != order.stream:
            return
        if head.journal and (self._head is None or self._head.journal != head.journal):
            self._open_codec(head)
            carried, session = probe(self.codec)
            if self.filler is not None:
                self.filler.use(carried)
            if session:
                order.follow(session)
            elif self._head is not None and self._stream == order.stream:
                order.renew()  # otherwise another sender has reported it already
            if order.stream != stream:
                heard = 0
        self._head, self._stream = head, order.stream
        order.expect(head.last + 1, self._loop.time(), heard)
        self._advance()

    def _open_codec(self, head: JournalHead) -> None:
        try:
            self.codec.open(head.journal, head.epoch)
        except Exception as error:  # the codec may be the user's own
            raise ReceiverError(
                f"the codec's open failed: {type(error).__name__}: {error}"
            ) from error

    def _request_state(self) -> None:
        """Ask for the journal's state, unless that is under way."""
        self._sure_until = self._loop.time() + self.idle
        if self.filler is not None and (self._state_task is None or self._state_task.done()):
            self._state_task = self._loop.create_task(self._read_state())

    async def _read_state(self) -> None:
        self._trouble = ""
        try:
            await self._look_once()
        except ReceiverError as error:
            self._trouble = str(error)

    async def _look_once(self) -> None:
        assert self.filler is not None, "only who fills can be asked"
        stream, heard = self.order.stream, self.order.holes.top
        self._learn(await self.filler.head(), stream, heard)

    def _on_idle(self) -> None:
        """Check, after a silence, whether no datagrams were sent or they do not arrive."""
        for feed, one in enumerate(self._arrivals):
            if one.count == self._quiet[feed] and not self._paused:
                self._rejoin(feed)
            self._quiet[feed] = self._arrivals[feed].count
        count = self._datagrams() - self.order.strangers
        if count == self._counted and not self._paused:
            self._request_state()
        self._counted = count
        self._idle = self._loop.call_later(self.idle, self._on_idle)

    def _rejoin(self, feed: int) -> None:
        """Switch to a new socket if that can receive what the old one cannot."""
        old, before = self._sockets[feed], self._arrivals[feed]
        made = rejoined(old, self.feeds[feed])
        if made is None:
            return
        before.read(self.order, self.codec, self._loop.time(), feed)
        for at, count in enumerate((before.count, before.malformed, before.drops)):
            self._past[at] += count
        self._loop.remove_reader(old)
        old.close()
        self._sockets[feed], self._arrivals[feed] = made, Arrivals(made)
        self._rejoins += 1
        self._listen()
        self._advance()


def _filler(fill: str | Filler | None, codec: Codec, subject: str) -> Filler | None:
    """Return the filler that `fill` names."""
    if not isinstance(fill, str):
        return fill
    if not fill.startswith("mold://"):
        return JournalFiller(fill, subject)
    if not isinstance(codec, MoldUDP64Codec):
        raise FillError(f"{fill}: a re-request server needs the codec moldudp64, for its session")
    return MoldFiller(fill, filtered=subject != ">")
