"""One address that clients connect to, and the settings of its clients."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BoundListener:
    """The address of a bound listener. The port is the real one, even if the setting said -1."""

    host: str
    port: int
    frame: str
    tls: bool = False
    kind: str = "nats"  # or "websocket"

    @property
    def is_wired(self) -> bool:
        """True if TLS or WebSocket is between the socket and the protocol."""
        return self.tls or self.kind != "nats"
