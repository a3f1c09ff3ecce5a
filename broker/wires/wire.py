"""What is between a client's socket and the protocol: TLS, WebSocket, or one within the other.

    socket -> feed, open        until the handshakes are over
    socket -> receive -> buffer from then on
    outbox -> wrap   -> socket
              to_send, farewell -> what the layer says by itself

A client without them has no wire, and pays nothing for it.
"""

from collections.abc import Sequence
from typing import Final, Protocol

from broker.wires.distinguished_name import Name

PROTOCOL_VIOLATION: Final = "Protocol Violation"


class WireFault(OSError):
    """The peer broke the rules of a layer; the text is one line that says how."""

    reason = PROTOCOL_VIOLATION  # why the connection ends, as /connz shows it


class HandshakeFault(WireFault):
    """The same before the layer was open."""

    def __init__(self, text: str, reason: str) -> None:
        super().__init__(text)
        self.reason = reason


class FrameFault(WireFault):
    """The same, but what was meant for the peer before still reaches it."""


class ClientWire(Protocol):
    """The layers of one client. It does no I/O of its own but reading in `receive`."""

    more: bool  # `receive` has more than fitted, whether or not the socket is readable
    greets_in_clear: bool  # INFO is sent before it is open
    timeout: float  # seconds that opening may take

    @property
    def tls(self) -> tuple[str, str]:
        """The version and the cipher suite of TLS, as nats-server shows them; empty without."""

    def certificates(self) -> list[bytes]:
        """The certificates that the client has sent (DER), its own first; it was verified."""

    @property
    def certificate_names(self) -> tuple[Name, ...]:
        """The names of users that the client's certificate may stand for."""

    @property
    def forwarded(self) -> Sequence[str]:
        """The values of `proxy_header` in the request that opened it."""

    def feed(self, data: memoryview) -> None:
        """Take bytes that were read from the socket before it is open."""

    def open(self) -> bool:
        """Go on with the handshakes; return whether they are over. Raises `WireFault`."""

    def opens_late(self) -> bool:
        """The time for the handshakes is over: whether it can be open without them."""

    def receive(self, fd: int, target: memoryview) -> int:
        """Read from the socket, and put what the protocol gets into `target`.

        Return how many bytes: 0 at the end of the input, -1 for none now. Raises `WireFault`, and
        the `OSError` of the socket, which may be `BlockingIOError`.
        """

    def wrap(self, view: memoryview) -> list[bytes]:
        """Turn output of the protocol into what the socket gets, in order. Raises `WireFault`."""

    def to_send(self) -> bytes:
        """Take what the layer itself has to say."""

    def farewell(self, reason: str) -> bytes:
        """The last words of the layer, before the socket is closed for this reason."""

    def closed(self) -> None:
        """The socket is closed: release what is counted for this client."""
