"""Gives clients their wires, and reloads the TLS context when the files have changed."""

import logging
from typing import TYPE_CHECKING, Final

from broker.clients.roster import Roster
from broker.clients.wired_session import Handshakes, WiredSession
from broker.core import Core
from broker.settings.tls_settings import BrokerTlsSettings
from broker.wires.bound_listener import BoundListener
from broker.wires.wire import ClientWire

if TYPE_CHECKING:
    from broker.wires.tls_contexts import ClientFacingContext
    from broker.wires.websocket_wire import Unfinished

log = logging.getLogger("seriatim")

SCRATCH: Final = 1 << 18  # bytes of ciphertext in one read


class Wiring:
    """The maker of all wires. One per broker with TLS or WebSocket, for its one thread."""

    def __init__(self, core: Core) -> None:
        """Load the files of TLS. Raises `TlsFault` if they cannot be used."""
        settings = core.settings
        self._core = core
        self._tls = settings.tls
        self._handshakes = Handshakes(core.loop)
        self._scratch = memoryview(bytearray(SCRATCH))
        self._websocket = settings.websocket
        self._unfinished: Unfinished | None = None
        self._decrypted = memoryview(b"")  # made with the first WebSocket client
        self.context: ClientFacingContext | None = None
        if settings.tls.is_on:
            self.renew(settings.tls)

    def renew(self, tls: BrokerTlsSettings) -> None:
        """Read the files of TLS again, for new clients.

        Raises `TlsFault`, and changes nothing, if they cannot be used.
        """
        from broker.wires.tls_contexts import certificate_line, client_facing_context, key_warning

        self.context = client_facing_context(tls)
        self._tls = tls
        log.info("TLS: loaded the certificate in %s", certificate_line(tls))
        if warning := key_warning(tls):
            log.warning("Insecure: %s", warning)

    def session(self, roster: Roster, listener: BoundListener) -> WiredSession:
        """Make the session of a new client."""
        return WiredSession(self._core, roster, listener, self._wire(listener), self._handshakes)

    def _wire(self, listener: BoundListener) -> ClientWire:
        if listener.kind == "nats":
            assert listener.tls, "a listener without TLS has no wire"
            if not self._tls.allow_non_tls:
                return self._tls_wire(listener)
            from broker.wires.either_wire import EitherWire

            return EitherWire(lambda: self._tls_wire(listener), self._tls.timeout)
        inner = self._tls_wire(listener) if listener.tls else None
        from broker.wires.plain_wire import PlainWire  # only with WebSocket
        from broker.wires.websocket_wire import UNFINISHED_MAX, Unfinished, WebSocketWire

        if self._unfinished is None:
            self._unfinished = Unfinished(UNFINISHED_MAX)
            self._decrypted = memoryview(bytearray(SCRATCH))
        return WebSocketWire(
            *(inner or PlainWire(), self._websocket, self._decrypted, self._unfinished),
            proxy_header=self._core.settings.proxy_header,
        )

    def _tls_wire(self, listener: BoundListener) -> ClientWire:
        from broker.wires.tls_wire import TlsWire  # only with TLS

        assert self.context is not None, "a listener has TLS only if the broker has"
        tls = self._tls
        in_clear = listener.kind == "nats" and not tls.handshake_first
        return TlsWire(self.context, self._scratch, tls.timeout, in_clear)
