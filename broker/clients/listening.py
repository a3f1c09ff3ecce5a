"""All addresses that clients connect to, each with its layers: TLS, WebSocket, or none."""

import asyncio
import logging
import socket
from typing import TYPE_CHECKING, Any, Final

from broker import addresses
from broker.clients.roster import Roster
from broker.clients.session import Session
from broker.core import Core
from broker.rehearsal import CLIENT_FLAGS, WEBSOCKET_FLAGS
from broker.runtime.client_transport import ClientTransport
from broker.runtime.event_loop import BrokerLoop
from broker.settings.tls_settings import BrokerTlsSettings
from broker.wires.bound_listener import BoundListener

if TYPE_CHECKING:
    from broker.clients.wiring import Wiring
    from broker.wires.tls_contexts import ClientFacingContext

# For the log: a user who sees netstrings in a NATS application finds the reason and remedy here.
FRAMES: Final = {
    "netstring": "netstring frames that hold the number (--frame header leaves payloads unchanged)",
    "header": "unchanged, the number is in the header Nats-Sequence",
    "stamp": "unchanged, number and time are in the headers Nats-Sequence and Nats-Time-Stamp",
    "none": "unchanged, without the number",
}

log = logging.getLogger("seriatim")


class Listening:
    """The listeners of the broker, for its one thread."""

    def __init__(self, core: Core, roster: Roster) -> None:
        """Load the files of TLS. Raises `TlsFault` if they cannot be used."""
        settings = core.settings
        self._core = core
        self._roster = roster
        self._acceptor = roster.acceptor
        self._joining: set[asyncio.Task[object]] = set()  # connections without a session yet
        self.addresses: list[tuple[str, int]] = []  # those for NATS clients first
        self.websocket: tuple[str, int] | None = None  # the one for WebSocket clients among them
        self.wiring = _wiring(core) if settings.tls.is_on or settings.websocket.port else None

    def start(self) -> None:
        """Listen on all addresses. Raises `OSError` with the address if one of them fails.

        All addresses are bound before any of them listens, so no client gets in if one fails. The
        main port listens last: once a client is accepted there, the others are open.
        """
        settings = self._core.settings
        tls = settings.tls.is_on
        doors: list[tuple[BoundListener, list[socket.socket]]] = []
        try:
            if settings.port:
                doors.append(_bind(settings.host, settings.port, settings.frame, tls))
            for one in settings.listeners:
                doors.append(_bind(one.host, one.port, one.frame, tls and one.tls))
            web = settings.websocket
            if web.port:
                frame = settings.frame if web.frame == "same" else web.frame
                host = web.host or settings.host
                doors.append(_bind(host, web.port, frame, tls and not web.no_tls, "websocket"))
            for listener, sockets in reversed(doors):
                _listen(listener, sockets)
        except OSError:
            for bound in (each for _, sockets in doors for each in sockets):
                bound.close()
            raise
        for listener, sockets in doors:
            self._watch(listener, sockets)

    def join_inside(self, accepted: socket.socket, ip: str) -> None:
        """Begin a session for one end of a socket pair; `ip` is the address of who asks for it.

        It is a client like any other: it is judged, counted and limited. TLS is not asked of it.
        The socket is ours from here on: it is closed here, also if this fails.
        """
        try:
            accepted.setblocking(False)
            host, port = self.addresses[0] if self.addresses else ("", 0)
            frame = self._core.settings.frame
            self._join(accepted, (ip, 0), BoundListener(host, port, frame))
        except BaseException:
            accepted.close()
            raise

    def context(self) -> "ClientFacingContext":
        """Return the TLS context for a new connection."""
        assert self.wiring is not None, "https needs TLS, says the check of the settings"
        assert self.wiring.context is not None
        return self.wiring.context

    def renew_tls(self, tls: BrokerTlsSettings) -> None:
        """Read the files of TLS again, for new clients. If it raises `OSError`, nothing changed."""
        wiring = self.wiring
        if tls.is_on != (wiring is not None and wiring.context is not None):
            raise OSError("TLS cannot be turned on or off while the broker runs: restart it")
        if wiring is not None and tls.is_on:
            wiring.renew(tls)

    def _watch(self, listener: BoundListener, sockets: list[socket.socket]) -> None:
        """Accept the clients of these sockets."""
        host, tls = listener.host, listener.tls
        for bound in sockets:  # a name may resolve to several addresses
            self.addresses.append(addresses.bound_to(host, bound))
            self._acceptor.watch(bound, lambda accepted, peer: self._join(accepted, peer, listener))
        where = addresses.shown(host, listener.port)
        is_nats = listener.kind == "nats"
        if not is_nats:
            self.websocket = host, listener.port
        clients = "client connections" if is_nats else "websocket clients"
        secured = "wss://" if tls else "ws://"
        log.info("Listening for %s on %s", clients, where if is_nats else secured + where)
        log.info("Payloads to clients on %s: %s", where, FRAMES[listener.frame])

    def _join(self, accepted: socket.socket, peer: Any, listener: BoundListener) -> None:
        """Begin a session for an accepted connection."""
        loop = self._core.loop
        if isinstance(loop, BrokerLoop):
            reuse = self._core.plane.gate.spare.keep
            ClientTransport(loop, self._session(listener), accepted, peer, reuse)
            return

        def make() -> Session:
            session = self._session(listener)
            session.ip = str(peer[0])  # the transport of a socket pair does not know it
            return session

        joining = loop.connect_accepted_socket(make, accepted)
        task = loop.create_task(joining)
        self._joining.add(task)
        task.add_done_callback(self._joined)

    def _session(self, listener: BoundListener) -> Session:
        if self.wiring is not None and listener.is_wired:
            return self.wiring.session(self._roster, listener)
        return Session(self._core, self._roster, listener)

    def _joined(self, task: "asyncio.Task[object]") -> None:
        self._joining.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.debug("A connection was closed before it was accepted: %s", error)
            self._acceptor.freed()


def _bind(
    host: str, port: int, frame: str, tls: bool, kind: str = "nats"
) -> tuple[BoundListener, list[socket.socket]]:
    """Bind one address; port -1 means any free port. Raises `OSError` with the address."""
    try:
        sockets = addresses.open_listeners(host, max(port, 0))
    except OSError as error:
        raise _unusable(host, port, kind, error) from error
    return BoundListener(host, sockets[0].getsockname()[1], frame, tls, kind), sockets


def _listen(listener: BoundListener, sockets: list[socket.socket]) -> None:
    try:
        for bound in sockets:
            addresses.listen_at(bound)
    except OSError as error:
        raise _unusable(listener.host, listener.port, listener.kind, error) from error


def _unusable(host: str, port: int, kind: str, error: OSError) -> OSError:
    flags = CLIENT_FLAGS if kind == "nats" else WEBSOCKET_FLAGS
    return addresses.cannot_listen(host, port, error, flags)


def _wiring(core: Core) -> "Wiring":
    from broker.clients.wiring import Wiring  # only if needed

    return Wiring(core)
