"""One address that clients connect to, and the settings of its clients."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BoundListener:
    """It is bound: a setting may have asked for any free port."""

    host: str
    port: int
    frame: str
    tls: bool = False
    kind: str = "nats"  # or "websocket"

    @property
    def is_wired(self) -> bool:
        """Whether there is something between the socket and the protocol."""
        return self.tls or self.kind != "nats"
