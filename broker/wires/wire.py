"""The layers between a client's socket and the protocol: TLS, WebSocket, or WebSocket over TLS.

    socket -> feed, open        until the handshakes are over
    socket -> receive -> buffer from then on
    outbox -> wrap   -> socket
              to_send, farewell -> the layer's own output

A client without layers has no wire, and no cost.
"""

from collections.abc import Sequence
from typing import Final, Protocol

from broker.wires.distinguished_name import Name

PROTOCOL_VIOLATION: Final = "Protocol Violation"


class WireFault(OSError):
    """The peer broke the rules of a layer; the text says how, in one line."""

    reason = PROTOCOL_VIOLATION  # why the connection ends, as /connz shows it


class HandshakeFault(WireFault):
    """A fault of the peer before the layer was open."""

    def __init__(self, text: str, reason: str) -> None:
        super().__init__(text)
        self.reason = reason


class FrameFault(WireFault):
    """A fault of the peer after which its earlier output is still sent."""


class ClientWire(Protocol):
    """The layers of one client. They do no I/O, except that `receive` reads the socket."""

    more: bool  # `receive` has more than fitted, even if the socket is not readable
    greets_in_clear: bool  # INFO is sent before the wire is open
    timeout: float  # seconds that opening may take

    @property
    def tls(self) -> tuple[str, str]:
        """The version and the cipher suite of TLS, as nats-server shows them; empty without."""

    def certificates(self) -> list[bytes]:
        """Return the certificates that the client has sent (DER), its own, verified one first."""

    @property
    def certificate_names(self) -> tuple[Name, ...]:
        """The user names that the client's certificate can match."""

    @property
    def forwarded(self) -> Sequence[str]:
        """The values of `proxy_header` in the request that opened the WebSocket."""

    def feed(self, data: memoryview) -> None:
        """Take bytes that were read from the socket before the wire is open."""

    def open(self) -> bool:
        """Continue the handshakes; return True if they are over. Raises `WireFault`."""

    def opens_late(self) -> bool:
        """Return True if the wire can open without handshakes, at the timeout of these."""

    def receive(self, fd: int, target: memoryview) -> int:
        """Read from the socket, and put the bytes for the protocol into `target`.

        Return how many bytes: 0 at the end of the input, -1 for none now. Raises `WireFault`, and
        the `OSError` of the socket, which may be `BlockingIOError`.
        """

    def wrap(self, view: memoryview) -> list[bytes]:
        """Turn output of the protocol into bytes for the socket, in order. Raises `WireFault`."""

    def to_send(self) -> bytes:
        """Take the layer's own output."""

    def farewell(self, reason: str) -> bytes:
        """Return the layer's last output, before the socket is closed for this reason."""

    def closed(self) -> None:
        """Release the resources counted for this client: the socket is closed."""
