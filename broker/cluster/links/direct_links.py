"""The connections for messages without a number: one from each member to each other one.

They are apart from those of the core, so that a flood on them delays no pulse. A member sends on
the one that it has dialled, and reads those that it has accepted (`MemberLinks` passes them on).
"""

import asyncio
import logging
from collections.abc import Iterable, Sequence
from typing import Final, Protocol

from broker.cluster.links.member_connection import MemberConnection
from broker.cluster.links.member_links import MemberLinks
from sequencer.replica.member_messages import DirectHeard, DirectHello, DirectMessages, Message

log = logging.getLogger("seriatim")

DIAL_S: Final = 0.2  # between two attempts
FULL_BYTES: Final = 4 << 20  # unsent to one member: publishers wait
FULL_S: Final = 1.0  # then the connection is closed, with what waits: that member reads too slowly


class DirectUser(Protocol):
    """The receiver of what the other members send: `DirectExchange`."""

    def changed(self, hearing: Iterable[str]) -> None:
        """Called when other members are connected than before."""

    def take(self, connection: MemberConnection, data: bytes) -> None:
        """Take messages of another member."""

    def heard(self, number: int, counts: Iterable[tuple[int, int]]) -> None:
        """Take the answers of the member on connection `number`."""

    def lost(self, number: int) -> None:
        """Called when a connection has ended: no more answers come on it, or messages."""


class DirectLinks:
    """The direct connections of one member, for its one thread."""

    def __init__(
        self,
        links: MemberLinks,
        hello: DirectHello,
        loop: asyncio.AbstractEventLoop,
        user: DirectUser,
    ) -> None:
        self.lost = 0  # connections that were closed with messages in them
        self._links = links
        self._hello = hello
        self._user = user
        self._loop = loop
        self._dialled: dict[str, MemberConnection] = {}  # those that are joined, by member
        self._opening: dict[str, float] = {}  # until when no other attempt is made
        self._all: set[MemberConnection] = set()
        self._jobs: set[asyncio.Task[None]] = set()
        self._accepted: dict[str, MemberConnection] = {}
        self._full_since: dict[int, float] = {}
        self._stopped = False

    @property
    def numbers(self) -> set[int]:
        """The connections on which messages are sent now."""
        return {connection.number for connection in self._dialled.values()}

    @property
    def is_full(self) -> bool:
        """True if a member takes less than what is sent to it."""
        return any(one.unsent > FULL_BYTES for one in self._dialled.values())

    def send(self, data: bytearray) -> None:
        """Send messages to all members that are connected."""
        for connection in list(self._dialled.values()):
            connection.send(DirectMessages(data))

    def answer(self, connection: MemberConnection, counts: Sequence[tuple[int, int]]) -> None:
        """Send how many clients here got the messages that asked for it."""
        connection.send(DirectHeard(tuple(counts)))

    def tick(self, members: Iterable[str]) -> None:
        """Dial these members, if they are not connected; close connections that are full."""
        now = self._loop.time()
        for connection in list(self._dialled.values()):
            if connection.unsent <= FULL_BYTES:
                self._full_since.pop(connection.number, None)
            elif now - self._full_since.setdefault(connection.number, now) > FULL_S:
                self.lost += 1
                log.warning(
                    "Cluster: member %s reads too slowly: %d bytes of messages without a number are"
                    " lost to its clients",
                    *(connection.member, connection.unsent),
                )
                connection.abort()
                self.gone(connection)
        for member in members:
            if member not in self._dialled and self._opening.get(member, now) <= now:
                self._dial(member, False)

    def _dial(self, member: str, plain: bool) -> None:
        self._opening[member] = self._loop.time() + DIAL_S
        if not self._stopped and not any(one.member == member for one in self._all):
            job = self._loop.create_task(self._connect(member, plain))
            self._jobs.add(job)
            job.add_done_callback(self._jobs.discard)

    async def _connect(self, member: str, plain: bool) -> None:
        try:
            await self._links.connect(member, self, plain)
        except ConnectionRefusedError:
            log.debug("Cluster: member %s refuses a direct connection", member)

    def stop(self) -> None:
        """Close everything; accepted connections are closed by `MemberLinks`."""
        self._stopped = True
        for job in self._jobs:
            job.cancel()
        for connection in self._all:
            connection.close()

    # Events of a connection that this member has dialled

    def opened(self, connection: MemberConnection) -> None:
        self._all.add(connection)
        if self._stopped:
            connection.abort()

    def stranger(self, connection: MemberConnection, why: str) -> None:
        self._links.stranger(connection, why)

    def joined(self, connection: MemberConnection) -> None:
        connection.send(self._hello)
        self._dialled[connection.member] = connection
        self._user.changed(self._dialled)

    # Events of any

    def received(self, connection: MemberConnection, messages: Sequence[Message]) -> None:
        for message in messages:
            match message:
                case DirectHello() if not connection.member:
                    older = self._accepted.get(connection.peer)
                    if older is not None:  # what comes on it would be out of order
                        older.abort()
                    self._accepted[connection.peer] = connection
                case DirectMessages(data) if not connection.member:
                    self._user.take(connection, bytes(data))
                case DirectHeard(counts) if connection.member:
                    self._user.heard(connection.number, counts)
                case _:
                    self.stranger(connection, f"it must not send {type(message).__name__}")
                    connection.close()
                    return

    def gone(self, connection: MemberConnection) -> None:
        self._all.discard(connection)
        self._full_since.pop(connection.number, None)
        if self._accepted.get(connection.peer) is connection:
            del self._accepted[connection.peer]
        if self._dialled.get(connection.member) is connection:
            del self._dialled[connection.member]
            self._user.changed(self._dialled)
        self._user.lost(connection.number)
        tls = self._links.tls
        if tls is not None and tls.optional and connection.member and connection.is_plain:
            self._dial(connection.member, True)
