"""What other parts ask of a connection's session, which belongs to a room above this one."""

from typing import Any, Protocol

from broker.dataplane.user import User


class HeldPublisher(Protocol):
    """A publisher that can be held: a session, cquencer's port, or the commits of staging."""

    held_by: int  # how many subscribers it waits for

    def go_on(self) -> None:
        """No subscriber holds it any more."""


class ClientSession(Protocol):
    """Owns the socket of a connection: broker/clients/session.py.

    The gate calls `flush` and `cut_off`, and `backpressure` calls `hold`. The control uses the
    rest; `ip`, `cid` and `label` also serve staging and the log.
    """

    options: dict[str, Any]  # of CONNECT
    user: User | None  # who it is, if that matters
    introduced: bool  # it has said CONNECT
    cut_reason: str  # why it is cut off, unless its own outbox is too large

    @property
    def cid(self) -> int: ...
    @property
    def ip(self) -> str: ...
    @property
    def label(self) -> str: ...  # who it is, for the log
    @property
    def listener_frame(self) -> str: ...  # of a client that does not choose one
    def flush(self) -> None:
        """Write the outbox, as far as the socket takes it."""

    def cut_off(self) -> None:
        """Close on a slow consumer: drop what waits."""

    def close(self) -> None:
        """Close at once; what was not sent is dropped."""

    def finish(self, why: str, reason: str) -> None:
        """Close when what has been said so far is out: `why` for the log, `reason` for others."""

    def depart(self) -> None:
        """Close, after what has been said so far."""

    def warn(self, what: str) -> None:
        """Log that it tried what it has no right to; not each time."""

    def hold(self, publisher: HeldPublisher, seconds: float) -> None:
        """Have a publisher wait for this subscriber, but not for longer than this."""

    def staged(self, rows: int) -> None:
        """It has staged rows, which count as messages."""

    def wait(self) -> None:
        """Serve nothing more of what was read until `proceed`."""

    def proceed(self) -> None:
        """End one `wait`."""

    def connected(self) -> None:
        """CONNECT was accepted."""

    def pinged(self) -> None:
        """The client sent PING."""

    def ponged(self) -> None:
        """The client answered a PING."""
