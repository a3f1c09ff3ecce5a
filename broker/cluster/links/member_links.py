"""The connections between members: one listener, and those that this member dials."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Protocol

from broker.addresses import is_loopback
from broker.cluster.links.cluster_secret import SecretHandshake
from broker.cluster.links.member_connection import ConnectionOwner, MemberConnection
from broker.cluster.links.member_tls import MemberTls, TlsSide, is_for, shown
from sequencer.replica.member_messages import (
    DirectHello,
    DirectMessages,
    Hello,
    Message,
    ToCoordinator,
)

log = logging.getLogger("seriatim")

DIAL_SECONDS = 1.0  # a member that does not answer for so long counts as silent
STRANGERS_MAX = 64  # connections that have not proven the secret; the oldest is closed
ACCEPTED_MAX = 1024  # connections of other members, and of strangers
QUIET_SECONDS = 60.0  # between two lines in the log about strangers on the same machine
HOSTS_MAX = 256  # machines of strangers that are remembered for that
UNLISTED_SECONDS = 0.1  # before a member that is not in etcd's list yet may dial again


class LinkOwner(Protocol):
    """The receiver of connections' events: broker/cluster/driver.py."""

    def joined(self, connection: MemberConnection) -> None: ...
    def received(self, connection: MemberConnection, messages: Sequence[Message]) -> None: ...
    def gone(self, connection: MemberConnection) -> None: ...
    def dial_failed(self, member: str, refused: bool) -> None:
        """Called when a dial failed; `refused`: that machine answers, but nothing listens."""


class DirectOwner(Protocol):
    """The receiver of what comes on connections for messages without a number: `DirectLinks`."""

    def received(self, connection: MemberConnection, messages: Sequence[Message]) -> None: ...
    def gone(self, connection: MemberConnection) -> None: ...


class MemberLinks:
    """The connections of one member with the others, for its one thread."""

    def __init__(
        self,
        secret: bytes,
        cluster: str,
        address_of: Callable[[str], tuple[str, int] | None],
        loop: asyncio.AbstractEventLoop,
        tls: MemberTls | None = None,
    ) -> None:
        """`address_of` returns a member's address in the engine's list of members."""
        self._owner: LinkOwner
        self._direct: DirectOwner
        self._secret = secret
        self._cluster = cluster
        self._address_of = address_of
        self._loop = loop
        self.tls = tls
        self._numbers = 0
        self._connections: dict[int, MemberConnection] = {}
        self._dials: dict[str, asyncio.Task[None]] = {}
        self._server: asyncio.Server | None = None
        self._shunned: set[str] = set()  # hosts that were logged
        self._reported: dict[tuple[str, str], float] = {}  # strangers' host and why: when logged

    def report_to(self, owner: LinkOwner, direct: DirectOwner) -> None:
        """Say who gets what comes on these connections: before the first one."""
        self._owner = owner
        self._direct = direct

    async def listen(self, host: str, port: int) -> int:
        """Accept other members; return the port. Raises `OSError`."""
        self._server = await self._loop.create_server(self._accept, host, port)
        bound: int = self._server.sockets[0].getsockname()[1]
        return bound

    def stop(self) -> None:
        """Close everything."""
        if self._server is not None:
            self._server.close()
        for dial in self._dials.values():
            dial.cancel()
        for connection in list(self._connections.values()):
            connection.close()

    def dial(self, member: str, plain: bool = False) -> None:
        """Connect to a member, unless that is under way; `plain`: without TLS."""
        joining = any(
            one.member == member and not one.is_joined for one in self._connections.values()
        )
        if member not in self._dials and not joining:
            self._dials[member] = self._loop.create_task(self._dial(member, plain))

    @property
    def tls_use(self) -> str:
        """The use of TLS between members: on, optional or off."""
        if self.tls is None:
            return "off"
        return "optional" if self.tls.optional else "on"

    def with_member(self, member: str) -> MemberConnection | None:
        """Return the newest connection with a member, whichever side has dialled."""
        for connection in reversed(self._connections.values()):
            is_open = connection.is_joined and not connection.closed
            if connection.peer == member and is_open and not connection.is_direct:
                return connection
        return None

    def send(self, number: int, message: Message) -> None:
        connection = self._connections.get(number)
        if connection is not None:
            connection.send(message)

    def close(self, number: int) -> None:
        connection = self._connections.get(number)
        if connection is not None:
            connection.close()

    # Reports of connections

    def opened(self, connection: MemberConnection) -> None:
        self._connections[connection.number] = connection
        if connection.member:
            return
        accepted = [one for one in self._connections.values() if not one.member]
        strangers = [one for one in accepted if not one.is_joined]
        if len(strangers) > STRANGERS_MAX:  # they must not keep members out, nor take all files
            strangers[0].abort()
        elif len(accepted) > ACCEPTED_MAX:
            connection.abort()

    def stranger(self, connection: MemberConnection, why: str) -> None:
        """Log a stranger, but not each of its many connections."""
        now, key = self._loop.time(), (connection.host, why)
        before = self._reported.pop(key, None)
        if before is not None and now - before < QUIET_SECONDS:
            self._reported[key] = before
            log.debug("Cluster: no connection with %s: %s", connection.name, why)
            return
        if len(self._reported) >= HOSTS_MAX:
            self._reported.clear()
        self._reported[key] = now
        log.error("Cluster: no connection with %s: %s", connection.name, why)

    def joined(self, connection: MemberConnection) -> None:
        self._owner.joined(connection)

    def received(self, connection: MemberConnection, messages: Sequence[Message]) -> None:
        if connection.member or all(self._may_say(connection, one) for one in messages):
            owner = self._direct if connection.is_direct else self._owner
            owner.received(connection, messages)

    def gone(self, connection: MemberConnection) -> None:
        self._connections.pop(connection.number, None)
        (self._direct if connection.is_direct else self._owner).gone(connection)
        optional = self.tls is not None and self.tls.optional
        if optional and connection.member and connection.is_plain:
            log.info("Cluster: member %s does not speak TLS", connection.member)
            self.dial(connection.member, plain=True)

    def _may_say(self, connection: MemberConnection, message: Message) -> bool:
        """True if the other side of an accepted connection may send this; HELLO must come first.

        A coordinator's messages are accepted only from members that this one has dialled.
        """
        if isinstance(message, Hello) and not connection.is_direct:
            return self._is_who_it_says(connection, message.member)
        if isinstance(message, DirectHello) and not connection.peer:
            connection.is_direct = True
            return self._is_who_it_says(connection, message.member)
        if not connection.peer and not connection.closed:
            self.stranger(connection, "it did not say who it is")
        elif not isinstance(message, DirectMessages if connection.is_direct else ToCoordinator):
            self.stranger(connection, f"it must not send {type(message).__name__}")
        else:
            return True
        connection.close()
        return False

    def _is_who_it_says(self, connection: MemberConnection, member: str) -> bool:
        """True if the certificate is for the host of that member."""
        if connection.tls is not None:
            address = self._address_of(member)
            if address is None:  # it has just started: etcd will list it soon
                log.debug("Cluster: member %s is not in the list yet", member)
                self._loop.call_later(UNLISTED_SECONDS, connection.close)
                connection.closed = True
                return False
            names = connection.tls.names
            if not is_for(names, address[0]):
                self.stranger(
                    connection,
                    f"it says that it is member {member}, which is at {address[0]}; its certificate"
                    f" is for {shown(names)}: the certificate needs that name, or the member's"
                    " cluster.member_advertise one that the certificate has",
                )
                connection.close()
                return False
        connection.peer = member
        return True

    def _accept(self) -> MemberConnection:
        return self._make("", None if self.tls is None else self.tls.accept())

    def _make(
        self, member: str, tls: TlsSide | None, owner: ConnectionOwner | None = None
    ) -> MemberConnection:
        self._numbers += 1
        handshake = SecretHandshake(self._secret, self._cluster, bool(member))
        return MemberConnection(owner or self, self._numbers, member, handshake, tls)

    def _may_dial(self, member: str, host: str) -> bool:
        """True if `host` may be dialled: without a secret only this machine, whatever is listed."""
        if self._secret or is_loopback(host):
            return True
        if host not in self._shunned:
            self._shunned.add(host)
            log.error(
                "Cluster: member %s is at %s; members of other machines need cluster.secret_file",
                *(member, host),
            )
        return False

    async def _dial(self, member: str, plain: bool) -> None:
        refused = False
        try:
            if await self.connect(member, self, plain):
                return
        except ConnectionRefusedError:
            refused = True
        finally:
            del self._dials[member]
        self._owner.dial_failed(member, refused)

    async def connect(self, member: str, owner: ConnectionOwner, plain: bool) -> bool:
        """Connect to a member for `owner`. Raises `ConnectionRefusedError`."""
        try:
            address = self._address_of(member)
            if address is not None and self._may_dial(member, address[0]):
                tls = None if plain or self.tls is None else self.tls.connect(address[0])
                made = self._make(member, tls, owner)
                async with asyncio.timeout(DIAL_SECONDS):
                    await self._loop.create_connection(lambda: made, *address)
                return True
        except ConnectionRefusedError:
            raise
        except (OSError, TimeoutError, ValueError) as error:  # the list may contain any host
            log.debug("Cluster: member %s cannot be reached: %s", member, error)
        return False
