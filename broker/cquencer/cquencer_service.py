"""The cquencer port within the broker: listening, admission, time-outs and shutdown.

The conversation with its clients is in cquencer_port.py. This module does everything else, none of
it per message. The event loop watches one descriptor for all clients, that of their epoll, and the
listening sockets.

The kernel takes care of dead and slow clients: one that is silent for `ping_interval` is probed,
and one that takes nothing, or answers no probe, for `write_deadline` is disconnected.
"""

import fcntl
import logging
import select
import socket
import sys
import termios
from contextlib import suppress
from typing import Any, Protocol

from broker import addresses
from broker.clients.roster import Roster
from broker.core import Core
from broker.cquencer.cquencer_client import CquencerClient
from broker.cquencer.cquencer_port import CquencerPort
from broker.limits.meter import SHORTEST, Meter
from broker.rehearsal import CQUENCER_FLAGS
from broker.runtime.loop_latency import LOOP_LATENCY
from broker.settings.limits_settings import Limits
from parser import errors

log = logging.getLogger("seriatim")


# For messages that no feed can carry: as PayloadTooLarge, with the reason.
TOO_LONG = b"-ERR 'Maximum Payload Violation: %d bytes, and a datagram of the feed takes %d'"
SHORTEST_NETSTRING = 4  # `1:x,`


# Limits how fast clients of cquencer's port publish: `limits.publish_rate`, `publish_bytes`.
#
# The port asks before each read, and messages published since the last one are counted then. A
# client that must wait is not read: `proceed` lets the port watch it again.


class PortPublisher:
    """A client of the port as a publisher."""

    def __init__(self, port: CquencerPort, client: CquencerClient) -> None:
        self._port = port
        self._client = client

    def published(self) -> tuple[int, int]:
        return self._client.messages, self._client.bytes

    def need(self) -> int:
        return 0

    def hold_back(self) -> None:
        """Do nothing: the port holds back itself, when `readable` returns 0."""

    def proceed(self) -> None:
        client = self._client
        if client.fd >= 0 and client.pending_bytes == 0:
            self._port.watch(client, select.EPOLLIN)


class PortMeter:
    """The meter of one client. It charges before each read: the port does not report."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter

    def readable(self) -> int:
        """Return how many bytes may be read now; 0: none yet."""
        self._meter.charge()
        room = self._meter.readable(self._meter.allowance.loop.time())
        return room * SHORTEST_NETSTRING // SHORTEST

    def detach(self) -> None:
        """Charge the rest of a client that has gone, and stop metering."""
        self._meter.charge()
        self._meter.detach()


class PayloadBound(Protocol):
    """The longest message that a feed can carry."""

    @property
    def always(self) -> int: ...
    def most(self, number: int) -> int: ...


class Cquencer:
    """The owner of the port, and a publisher that can be held. One per broker with the port.

    It reads into the gatherer's buffer, which is free between two turns. `fitting` is None if
    messages may be of any length.
    """

    def __init__(self, core: Core, roster: Roster, fitting: PayloadBound | None) -> None:
        settings = core.settings
        self._core = core
        self._roster = roster
        self._loop = core.loop
        subject = settings.sequencer.subject.encode()
        self._fitting = fitting
        self._poller = select.epoll()
        self.port = CquencerPort(
            core.plane,
            roster.inbox.buffer,
            subject,
            self._most,
            settings.sequencer.framing == "netstring",
            self._poller,
            self,
        )
        core.plane.gate.port = self.port
        self.clients: dict[int, CquencerClient] = {}  # by cid
        self.accepted = 0
        self.addresses: list[tuple[str, int]] = []
        self.held_by = 0  # subscribers that the port's clients wait for
        self._listeners: list[socket.socket] = []
        self._awake = False
        self._draining = False

    @property
    def _limits(self) -> Limits:
        return self._core.settings.limits

    @property
    def _most(self) -> int:
        """The longest message that surely can be taken."""
        fits = self._fitting.always if self._fitting is not None else self._limits.max_payload
        return min(fits, self._limits.max_payload)

    def limit_payload(self) -> None:
        """Apply a changed `limits.max_payload`."""
        self.port.max_payload = self._most

    def start(self) -> None:
        """Listen on every address of the host. Raises `OSError` with a readable message."""
        settings = self._core.settings
        host = settings.sequencer.host or settings.host
        port = max(settings.sequencer.port, 0)
        try:
            self._listeners = addresses.open_listeners(host, port)
            for listener in self._listeners:
                addresses.listen_at(listener)
        except OSError as error:
            self.stop_listening()
            raise addresses.cannot_listen(
                host, port, error, CQUENCER_FLAGS, "cquencer's clients"
            ) from error
        self.addresses = [addresses.bound_to(host, listener) for listener in self._listeners]
        self._loop.add_reader(self._poller.fileno(), self._turn)
        for listener in self._listeners:
            self._roster.acceptor.watch(listener, self._admit)
        port = self.addresses[0][1]
        log.info("Listening for cquencer's clients on %s", addresses.shown(host, port))

    # New clients

    def _admit(self, connection: socket.socket, place: tuple[Any, ...]) -> None:
        """Serve a new connection, if there is room for it."""
        roster, limits = self._roster, self._limits
        self.accepted += 1
        peer = (addresses.peer_ip(str(place[0])), int(place[1]))
        client = CquencerClient(connection, peer, *roster.new_client())
        if not roster.admission.may_ask_port(self._core.settings):
            self._turn_away(client, errors.AuthorizationViolation.reply)
            text = "%s - Authentication Failure: no user of cquencer's port (sequencer.user)"
            roster.closings.tell(logging.WARNING, client.ip, text, client.label)
            return
        if not roster.reserve_slot(client.ip, client):
            self._turn_away(client, errors.ConnectionsExceeded.reply)
            return
        probes = limits.ping_max + 1
        for level, option, value in (
            (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
            (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
            (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, max(int(limits.ping_interval), 1)),
            (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, max(int(limits.write_deadline / probes), 1)),
            (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, min(probes, 127)),
            (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(limits.write_deadline * 1000)),
        ):
            with suppress(OSError):  # options that the system does not have, or not in this range
                connection.setsockopt(level, option, value)
        client.meter = self._meter_of(client)
        self.clients[client.cid] = client
        self.port.admit(client)
        log.debug("%s - cquencer's client connected", client.label)

    def _turn_away(self, client: CquencerClient, reply: bytes) -> None:
        """Close a new connection with an error."""
        words = reply.rstrip()
        with suppress(OSError):
            client.connection.send(b"%d:%b," % (len(words), words), socket.MSG_NOSIGNAL)
        client.connection.close()

    def dismiss(self) -> None:
        """Close the connections of the port's clients: they have no rights any more."""
        for client in list(self.clients.values()):
            self.port.close(client)

    def _meter_of(self, client: CquencerClient) -> PortMeter | None:
        publisher = PortPublisher(self.port, client)
        user = self._roster.admission.port_user(self._core.settings)  # whose limits they share
        meter = self._roster.metering.meter(publisher, user, None)
        return None if meter is None else PortMeter(meter)

    # Called by the port

    def closed(self, client: CquencerClient) -> None:
        """Forget a client whose connection has ended."""
        del self.clients[client.cid]
        if client.meter is not None:
            client.meter.detach()
            client.meter = None
        self._roster.release_slot(client.ip)
        log.debug("%s - cquencer's client closed", client.label)

    def ending(self, client: CquencerClient) -> None:
        """Shut down a client that has all its answers; it has some time to close the connection."""
        if client.fault:
            text = "%s - cquencer's client closed: %s"
            why = client.fault.decode()
            self._roster.closings.tell(logging.INFO, client.ip, text, client.label, why)
        with suppress(OSError):
            client.connection.shutdown(socket.SHUT_WR)
        deadline = self._limits.write_deadline
        self._loop.call_later(deadline, self.port.close, client)

    def refusal(self, size: int) -> bytes:
        """Return why a message of this size cannot be taken now; empty if it can."""
        if size > self._limits.max_payload:
            return errors.PayloadTooLarge.reply.rstrip()
        if self._fitting is not None:
            most = self._fitting.most(self._core.plane.sequencer.number + 1)
            if size > most:
                return TOO_LONG % (size, most)
        return b""

    def wake(self) -> None:
        """Schedule another turn: there is more to do at once."""
        if not self._awake:
            self._awake = True
            self._loop.call_soon(self._turn)

    # A turn of the event loop

    def _turn(self) -> None:
        self._awake = False
        if self.held_by and not self._draining:
            return
        begun = LOOP_LATENCY.start_timing()
        self.port.turn()
        if self._core.plane.gate.crowded and not self._draining:
            self._core.hold(self)
            if self.held_by:
                self._loop.remove_reader(self._poller.fileno())
        self._core.advance()
        LOOP_LATENCY.end(begun)

    def resume(self) -> None:
        """Continue: the subscribers that the clients outran have drained, or held them enough."""
        if self.held_by == 0 and not self._poller.closed:
            self._loop.add_reader(self._poller.fileno(), self._turn)
            self.wake()

    # Shutdown

    def stop_listening(self) -> None:
        """Accept no more clients."""
        for listener in self._listeners:
            self._roster.acceptor.close_listener(listener)
        self._listeners.clear()

    def abandon(self, cid: int) -> None:
        """Close a connection: the outcome of its last messages is unknown."""
        client = self.clients.get(cid)
        if client is not None:
            log.warning("%s - closing: the outcome of its last messages is unknown", client.label)
            self.port.close(client)

    def expel(self, cid: int, words: bytes) -> None:
        """Close a connection with an error, if it has all its answers."""
        client = self.clients[cid]
        if not client.pending_bytes:
            with suppress(OSError):
                client.connection.send(b"%d:%b," % (len(words), words), socket.MSG_NOSIGNAL)
        self.port.close(client)

    def start_draining(self) -> None:
        """Take no more input: it is read and discarded. Accepted messages are answered."""
        self.stop_listening()
        self._draining = True
        self._loop.add_reader(self._poller.fileno(), self._turn)  # even if a subscriber holds us
        self.port.drain()

    def undrained(self) -> int:
        """Count the clients that have not acknowledged all their answers."""
        return sum(not _is_drained(client) for client in self.clients.values())

    def close(self) -> None:
        """Close every connection; unsent answers are dropped."""
        for client in list(self.clients.values()):
            self.port.close(client)
        self._loop.remove_reader(self._poller.fileno())
        self._core.plane.gate.port = None
        self._poller.close()


def _is_drained(client: CquencerClient) -> bool:
    if client.pending_bytes:
        return False
    unacknowledged = fcntl.ioctl(client.fd, termios.TIOCOUTQ, b"\0\0\0\0")
    return int.from_bytes(unacknowledged, sys.byteorder) == 0
