"""The interface of a connection's session for other parts; sessions belong to a room above."""

from typing import Any, Protocol

from broker.dataplane.user import User


class HeldPublisher(Protocol):
    """A publisher that can be held: a session, cquencer's port, or the commits of staging."""

    held_by: int  # how many subscribers, or other things, it waits for

    def resume(self) -> None:
        """Continue: no subscriber holds the publisher any more."""


class ClientSession(Protocol):
    """The owner of a connection's socket: broker/clients/session.py.

    The gate calls `flush` and `cut_off`, and `backpressure` calls `hold`. The control uses the
    rest; `ip`, `cid` and `label` also serve staging and the log.
    """

    options: dict[str, Any]  # of CONNECT
    user: User | None  # None without authentication
    introduced: bool  # it has sent CONNECT
    cut_reason: str  # why it is cut off, unless its own outbox is too large

    wants_streams: bool  # it has asked for JetStream, which is off

    @property
    def cid(self) -> int: ...
    @property
    def ip(self) -> str: ...
    @property
    def label(self) -> str: ...  # its name in the log
    @property
    def listener_frame(self) -> str: ...  # of a client that does not choose one
    def flush(self) -> None:
        """Write the outbox, as far as the socket takes it."""

    def cut_off(self) -> None:
        """Disconnect a slow consumer, and drop its output."""

    def close(self) -> None:
        """Close at once, and drop unsent output."""

    def finish(self, why: str, reason: str) -> None:
        """Close after the output so far; `why` is for the log, `reason` for the client."""

    def depart(self) -> None:
        """Close, after the output so far."""

    def warn(self, what: str) -> None:
        """Log an operation that the client has no right to; lines are limited."""

    def hold(self, publisher: HeldPublisher, seconds: float) -> None:
        """Make a publisher wait for this subscriber, for `seconds` at most."""

    def staged(self, rows: int) -> None:
        """Count rows that the client has staged as published messages."""

    def wait(self) -> None:
        """Stop serving input until `proceed`."""

    def proceed(self) -> None:
        """End one `wait`."""

    def connected(self) -> None:
        """Note that CONNECT was accepted."""

    def pinged(self) -> None:
        """Note a PING of the client."""

    def ponged(self) -> None:
        """Note that the client answered a PING."""
