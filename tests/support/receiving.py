"""Datagrams as a feed makes them of some messages, and a network that mistreats them."""

import random
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from heapq import heappop, heappush
from typing import Any

from sequencer.feed.codecs import codec_named
from sequencer.feed.feed import Feed
from sequencer.feed.feed_codec import Codec
from sequencer.feed.feed_message import FeedMessage
from sequencer.journal.record import RecordBatch
from seriatim.receiver.order import Order, WantedRange

JOURNAL = "00c0ffee00c0ffee"
KEPT, LEFT_OUT = b"orders.new", b"trades.new"
ALL = 2**63 - 1


def message_of(number: int, left_out: bool = False, size: int = 9) -> FeedMessage:
    payload = (b"message %d " % number * (1 + size // 9))[:size]
    return FeedMessage(number, payload, LEFT_OUT if left_out else KEPT)


def batch_of(messages: list[FeedMessage]) -> RecordBatch:
    batch = RecordBatch(0, 1, False)
    for one in messages:
        batch.append_message(one.number, 0, one.subject, b"", one.headers, one.payload)
    return batch


def datagrams_of(
    codec: Codec, messages: list[FeedMessage], packing: int = 0, burst: int = 4, previous: int = 0
) -> list[bytes]:
    """What a feed sends of these messages, whose filter lets `KEPT` through, and the end."""
    near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with near, far:
        near.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 << 20)
        far.setblocking(False)
        feed = Feed(
            *(codec, near),
            datagram_max=65_000,
            packing=packing,
            segment=False,
            matches=lambda subject: subject == KEPT,
            previous=previous,
        )
        found: list[bytes] = []

        def collect() -> None:
            try:
                while True:
                    found.append(far.recv(1 << 16))
            except BlockingIOError:
                pass

        last = messages[-1].number
        for start in range(0, len(messages), burst):
            batch = batch_of(messages[start : start + burst])
            feed.add_records(bytearray(batch.view()), batch.end)
            feed.flush(ALL)
            collect()
        feed.heartbeat(last + 1)
        feed.finish(last + 1)
        collect()
        assert feed.sent.errors == 0
        return found


def codec_of(name: str, filtered: bool) -> Codec:
    codec = codec_named(name, filtered=filtered)
    codec.open(JOURNAL, 1)
    return codec


@dataclass
class Fate:
    """What the network and who fills do to one run, all of it drawn from `random`."""

    random: random.Random
    loss: float = 0.0
    duplicated: float = 0.0
    jitter: float = 0.0  # seconds that a datagram may be late
    silent: float = 0.0  # questions that are never answered
    partly: float = 0.0  # answers that end before what was asked for
    twice: float = 0.0
    denied: float = 0.0  # numbers that who fills has not got
    delay: float = 0.05  # of an answer, at most


@dataclass
class Run:
    """An order between feeds and who fills, on a clock that is turned by hand."""

    order: Order
    codec: Codec
    have: dict[int, FeedMessage]  # what who fills has: what the feed's filter let through
    fate: Fate
    room: int = 4
    now: float = 100.0
    events: list[object] = field(default_factory=list)
    questions: list[WantedRange] = field(default_factory=list)
    denied: set[int] = field(default_factory=set)
    arrived: set[int] = field(default_factory=set)
    check: Callable[[Order], None] = lambda order: None
    _coming: list[tuple[float, int, Callable[[], object]]] = field(default_factory=list)
    _serial: int = 0

    def at(self, moment: float, what: Callable[[], object]) -> None:
        self._serial += 1
        heappush(self._coming, (moment, self._serial, what))

    def send(self, feed: int, datagrams: list[bytes], pace: float = 0.001) -> None:
        """Put datagrams on the wire of a feed."""
        fate = self.fate
        for place, datagram in enumerate(datagrams):
            for _ in range(1 + (fate.random.random() < fate.duplicated)):
                if fate.random.random() >= fate.loss:
                    late = fate.random.random() * fate.jitter
                    packet = self.codec.decode(datagram)
                    self.arrived |= {one.number for one in packet.messages}
                    self.at(
                        self.now + place * pace + late,
                        partial(self._offer, packet, feed),
                    )

    def _offer(self, packet: Any, feed: int) -> None:
        self.order.offer(packet, self.now, feed, 7 + feed)

    def run(self, seconds: float) -> None:
        """Let everything happen that is under way, and what it causes."""
        end = self.now + seconds
        while True:
            due = max(self.order.due, self.now + 0.0005)
            coming = self._coming[0][0] if self._coming else end
            self.now = min(due, coming)
            if self.now >= end:
                return
            while self._coming and self._coming[0][0] <= self.now:
                heappop(self._coming)[2]()
            for wanted in self.order.due_requests(self.now, self.room):
                self.questions.append(wanted)
                self._answer(wanted)
            self.check(self.order)
            self.events += self.order.drain()

    def _answer(self, wanted: WantedRange) -> None:
        fate, order = self.fate, self.order
        if fate.random.random() < fate.silent:
            return
        first, last = wanted.first, wanted.last
        if fate.random.random() < fate.partly:
            last = fate.random.randint(first, last)
        moment = self.now + fate.random.random() * fate.delay
        for _ in range(1 + (fate.random.random() < fate.twice)):
            self.at(moment, lambda: self._fill(wanted.stream, first, last))
            self.at(
                moment + 0.001,
                lambda: order.answered(wanted.stream, wanted.first, wanted.last, self.now),
            )
            moment += fate.random.random() * fate.delay

    def _fill(self, stream: int, first: int, last: int) -> None:
        start = first
        for number in range(first, last + 1):
            if number not in self.denied and self.fate.random.random() < self.fate.denied:
                self.denied.add(number)
            if number in self.denied:
                self._give(stream, start, number - 1)
                self.order.lose(stream, number, number)
                start = number + 1
        self._give(stream, start, last)

    def _give(self, stream: int, first: int, last: int) -> None:
        found = [self.have[n] for n in range(first, last + 1) if n in self.have]
        self.order.filled(stream, first, last, found, self.now)
