"""cquencer's port as the broker has it: who listens, who is let in, how long, and the end.

What its clients say and hear is broker/port.py's business; here is everything else, none of
which happens for a message. The event loop looks at one descriptor for all clients, that of
their epoll, and at the listening sockets.

Dead and slow clients are the kernel's business: a peer that is silent for `ping_interval` is
probed, and one that takes nothing, or answers no probe, for `write_deadline` is hung up on.
"""

import errno
import fcntl
import logging
import select
import socket
import sys
import termios
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from broker.caller import Caller
from broker.port import Port
from broker.session import hold
from broker.turns import TURNS
from parser import errors

if TYPE_CHECKING:
    from broker.server import Server

log = logging.getLogger("seriatim")

BACKLOG = 1024  # connections that wait to be accepted
FREE_PORT_TRIES = 16  # of a host with several addresses


class Cquencer:
    """One per broker that has the port. The port tells it who goes; it is a publisher to hold."""

    def __init__(self, server: "Server") -> None:
        settings = server.settings
        self._server = server
        self._loop = server.loop
        self._poller = select.epoll()
        self.port = Port(
            server.plane,
            server.inbox.store,
            settings.sequencer.subject.encode(),
            settings.limits.max_payload,
            errors.PayloadTooLarge.reply.rstrip(),
            settings.sequencer.framing == "netstring",
            self._poller,
            self,
        )
        server.plane.gate.port = self.port
        self.callers: dict[int, Caller] = {}  # by cid
        self.accepted = 0
        self.addresses: list[tuple[str, int]] = []
        self.held_by = 0  # subscribers that the port's clients wait for
        self._listeners: list[socket.socket] = []
        self._awake = False
        self._draining = False

    def start(self) -> None:
        """Listen on every address of the host. Raises `OSError`, in plain words."""
        settings = self._server.settings
        host = settings.sequencer.host or settings.host
        port = max(settings.sequencer.port, 0)
        try:
            port = self._listen_on(host, port)
        except OSError as error:
            self.stop_listening()
            reason = error.strerror or str(error)
            where = f"{host}:{port}" if port else f"any free port of {host}"
            raise OSError(
                f"cannot listen on {where} for cquencer's clients: {reason}; another process may"
                " have the port, or the address is not this machine's: choose others with"
                " --sequencer_port and --sequencer_host (of seriatim cq: TCP_PORT and --host)"
            ) from error
        self._loop.add_reader(self._poller.fileno(), self._turn)
        for listener in self._listeners:
            self._server.doorkeeper.watch(listener, self._admit)
        log.info("Listening for cquencer's clients on %s:%d", host, port)

    def _listen_on(self, host: str, port: int) -> int:
        """Listen on every address of the host, on one port; which one. 0: on any free one."""
        places = socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        for left in reversed(range(FREE_PORT_TRIES)):
            chosen = port
            try:
                for family, kind, _, _, place in places:
                    listener = socket.socket(family, kind)
                    self._listeners.append(listener)
                    self._listen(listener, (place[0], chosen, *place[2:]))
                    chosen = listener.getsockname()[1]
                break
            except OSError as error:
                # What is free on one address may be taken on another: then it is another port.
                if port or error.errno != errno.EADDRINUSE or not left:
                    raise
                self.stop_listening()
                self.addresses.clear()
        return chosen

    def _listen(self, listener: socket.socket, place: tuple[Any, ...]) -> None:
        listener.setblocking(False)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if listener.family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listener.bind(place)
        listener.listen(BACKLOG)
        bound = listener.getsockname()
        self.addresses.append((bound[0], bound[1]))

    # Who comes

    def _admit(self, connection: socket.socket, place: tuple[Any, ...]) -> None:
        """Serve a new connection, if there is a place for it."""
        server, limits = self._server, self._server.settings.limits
        self.accepted += 1
        peer = (str(place[0]), int(place[1]))
        admitted = server.has_room()
        caller = Caller(connection, peer, *server.new_client())
        if not admitted:
            log.warning("%s - maximum connections exceeded", caller.label)
            words = errors.ConnectionsExceeded.reply.rstrip()
            with suppress(OSError):
                connection.send(b"%d:%b," % (len(words), words), socket.MSG_NOSIGNAL)
            connection.close()
            return
        connection.setblocking(False)
        probes = limits.ping_max + 1
        for level, option, value in (
            (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
            (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
            (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, max(int(limits.ping_interval), 1)),
            (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, max(int(limits.write_deadline / probes), 1)),
            (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, min(probes, 127)),
            (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(limits.write_deadline * 1000)),
        ):
            with suppress(OSError):  # what the system does not have, or not in these bounds
                connection.setsockopt(level, option, value)
        self.callers[caller.cid] = caller
        self.port.admit(caller)
        log.debug("%s - cquencer's client connected", caller.label)

    # What the port tells

    def closed(self, caller: Caller) -> None:
        """A connection has ended."""
        del self.callers[caller.cid]
        self._server.doorkeeper.freed()
        log.debug("%s - cquencer's client closed", caller.label)

    def ending(self, caller: Caller) -> None:
        """A client has heard all that there is for it; it has a while to end the connection."""
        with suppress(OSError):
            caller.connection.shutdown(socket.SHUT_WR)
        deadline = self._server.settings.limits.write_deadline
        self._loop.call_later(deadline, self.port.close, caller)

    def wake(self) -> None:
        """There is a turn to be had at once."""
        if not self._awake:
            self._awake = True
            self._loop.call_soon(self._turn)

    # What happens in a turn of the loop

    def _turn(self) -> None:
        self._awake = False
        if self.held_by and not self._draining:
            return
        begun = TURNS.begin()
        self.port.turn()
        server = self._server
        if server.plane.gate.crowded and not self._draining:
            hold(self, server)
            if self.held_by:
                self._loop.remove_reader(self._poller.fileno())
        if (replays := server.replays) is not None and replays.waits:
            replays.advance()
        TURNS.end(begun)

    def go_on(self) -> None:
        """The subscribers that the clients have outrun have drained, or held them long enough."""
        if self.held_by == 0 and not self._poller.closed:
            self._loop.add_reader(self._poller.fileno(), self._turn)
            self.wake()

    # The end

    def stop_listening(self) -> None:
        """Let nobody in any more."""
        for listener in self._listeners:
            self._server.doorkeeper.leave(listener)
        self._listeners.clear()

    def start_draining(self) -> None:
        """Take in nothing more. What was taken is answered; input is read, and thrown away."""
        self.stop_listening()
        self._draining = True
        self._loop.add_reader(self._poller.fileno(), self._turn)  # whoever held us
        self.port.drain()

    def undrained(self) -> int:
        """How many clients have not acknowledged all their answers."""
        return sum(not _is_drained(caller) for caller in self.callers.values())

    def close(self) -> None:
        """End every connection; what is not out is dropped."""
        for caller in list(self.callers.values()):
            self.port.close(caller)
        self._loop.remove_reader(self._poller.fileno())
        self._server.plane.gate.port = None
        self._poller.close()


def _is_drained(caller: Caller) -> bool:
    if caller.pending_bytes:
        return False
    unacknowledged = fcntl.ioctl(caller.fd, termios.TIOCOUTQ, b"\0\0\0\0")
    return int.from_bytes(unacknowledged, sys.byteorder) == 0
