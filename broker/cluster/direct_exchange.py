"""Messages to excluded subjects, between the members: without a number, and without a disk.

    PUB --> ClusterPlane: subscribers here --> a block --> DirectLinks --> each other member
                                                                                  |
    503 if no member has a subscriber <-- counts <-- deliver_direct: subscribers <'

All members get all of them: there is no list of who subscribes to what, which could be late. So
whoever has subscribed before a message comes to its member gets it. What one client publishes comes
in its order, each at most once: a connection that breaks loses what was in it.

Bounds: publishers wait while a member has more than 4 MiB to take, for a second; then its
connection is closed. A member that does not keep up with delivering does not read meanwhile.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from broker.cluster.cluster_plane import ClusterPlane
from broker.cluster.links.direct_links import DirectLinks
from broker.cluster.links.member_connection import MemberConnection
from broker.cluster.links.member_links import MemberLinks
from broker.dataplane.connection import Connection
from sequencer.replica.errors import BadRecords
from sequencer.replica.member_messages import DirectHello

log = logging.getLogger("seriatim")

WAITING_MAX: Final = 1 << 20  # bytes that were received and not delivered; then less is read
ASKED_MAX: Final = 4096  # requests that wait for the counts; for the oldest there is no 503 then


class _Asked(NamedTuple):
    """A request that no client of this member has got."""

    connection: Connection
    subject: bytes
    reply: bytes
    others: set[int]  # connections of members that have not said how many got it


class DirectExchange:
    """The messages without a number that one member sends and gets, for its one thread."""

    def __init__(
        self,
        plane: ClusterPlane,
        links: MemberLinks,
        hello: DirectHello,
        loop: asyncio.AbstractEventLoop,
        members: Callable[[], Iterable[str]],
    ) -> None:
        """`members` returns the other members that take direct messages."""
        self.sent = self.received = 0  # blocks
        self.links = DirectLinks(links, hello, loop, self)
        self._plane = plane
        self._loop = loop
        self._members = members
        self._keys = 0
        self._asked: dict[int, _Asked] = {}
        self._waiting: deque[tuple[MemberConnection, bytes]] = deque()
        self._waiting_bytes = 0
        self._at = 0  # where the first of these is delivered up to
        self._paused: set[MemberConnection] = set()
        self._is_due = False

    def flush(self) -> None:
        """Send what was published in this turn."""
        data = self._plane.passing.take()
        if data:
            self.sent += 1
            self.links.send(data)
            self._plane.is_passing_slowed = self.links.is_full

    def tick(self) -> None:
        """Look after the connections, and after publishers that wait."""
        self.links.tick(self._members())
        self._plane.is_passing_slowed = self.links.is_full
        if self._plane.slowed and not self._plane.is_passing_slowed:
            self._plane.resume_slowed()

    # No responders

    def ask(self, connection: Connection, subject: bytes, reply: bytes) -> int:
        """Return the key of a request that nobody here got; 0: no other member is there to ask.

        It is sent to those that are connected now, in this turn. In both cases the 503 is this
        one's to send.
        """
        others = self.links.numbers
        if not others:
            self._nobody(connection, subject, reply)
            return 0
        if len(self._asked) >= ASKED_MAX:
            del self._asked[next(iter(self._asked))]
        self._keys += 1
        self._asked[self._keys] = _Asked(connection, subject, reply, others)
        return self._keys

    def heard(self, number: int, counts: Iterable[tuple[int, int]]) -> None:
        for key, count in counts:
            asked = self._asked.get(key)
            if asked is None:
                continue
            asked.others.discard(number)
            if count:
                del self._asked[key]
            elif not asked.others:
                del self._asked[key]
                self._nobody(asked.connection, asked.subject, asked.reply)
        self._plane.release(None)

    def _nobody(self, connection: Connection, subject: bytes, reply: bytes) -> None:
        """Answer 503, behind what the client waits for."""
        plane = self._plane
        if not connection.closed:
            plane.in_order(
                connection, lambda: plane.control.no_responders(connection, subject, reply)
            )

    # Delivery

    def take(self, connection: MemberConnection, data: bytes) -> None:
        self.received += 1
        self._waiting.append((connection, data))
        self._waiting_bytes += len(data)
        if self._waiting_bytes > WAITING_MAX and connection not in self._paused:
            self._paused.add(connection)
            connection.pause(True)
        if not self._is_due:
            self._deliver()

    def _deliver(self) -> None:
        """Deliver as much as one turn may take."""
        plane = self._plane
        self._is_due = False
        while self._waiting:
            connection, data = self._waiting[0]
            try:
                self._at = plane.deliver_direct(data, self._at)
            except BadRecords as error:
                log.error("Cluster: %s sent what is not a message: %s", connection.name, error)
                connection.close()
                self._at = len(data)
            if plane.heard:
                counts, plane.heard = plane.heard, []
                self.links.answer(connection, counts)
            plane.release(None)
            if self._at < len(data):
                self._is_due = True
                self._loop.call_soon(self._deliver)
                return
            self._at = 0
            self._waiting.popleft()
            self._waiting_bytes -= len(data)
        for paused in self._paused:
            paused.pause(False)
        self._paused.clear()

    # Connections

    def changed(self, hearing: Iterable[str]) -> None:
        self._plane.hearing = set(hearing)

    def lost(self, number: int) -> None:
        """Forget the requests that a member can no longer answer: they have an unknown outcome."""
        for key in [key for key, asked in self._asked.items() if number in asked.others]:
            del self._asked[key]
