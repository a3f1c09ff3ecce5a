"""A user: who a client has proved to be, and what follows from it."""

from dataclasses import dataclass

from broker.dataplane.guard import Guard


@dataclass(frozen=True, slots=True)
class User:
    """One of the settings' users, for all connections of it. Compared by identity of its proof."""

    name: str  # or the public key; empty for the token's
    proof: bytes  # a digest of its credentials: whoever has proved them need not prove them again
    guard: Guard | None  # None: it may do everything
    applications: tuple[bytes, ...] = ()  # of exactly-once publishing that belong to it; patterns
    publish_rate: int = 0  # messages a second; 0: as the limits say
    publish_bytes: int = 0  # bytes a second
