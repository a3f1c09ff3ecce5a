"""A user: the authenticated identity of clients, with its rights and limits."""

from dataclasses import dataclass

from broker.dataplane.guard import Guard


@dataclass(frozen=True, slots=True)
class User:
    """One user of the settings, shared by all its connections."""

    name: str  # or the public key; empty for the token's
    proof: bytes  # a digest of its credentials: while it is equal, clients need not log in again
    guard: Guard | None  # its permissions; None: all
    applications: tuple[bytes, ...] = ()  # patterns of its exactly-once applications
    publish_rate: int = 0  # messages a second; 0: as the limits say
    publish_bytes: int = 0  # bytes a second
