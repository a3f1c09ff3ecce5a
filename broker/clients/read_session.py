"""The interface of a session for the gatherer. Sessions are plain Python, see session.py."""

from typing import Protocol

from broker.dataplane.client_session import HeldPublisher
from broker.dataplane.user import User


class ReadSession(HeldPublisher, Protocol):
    """One client, whose socket the gatherer reads."""

    def set_aside(self, rest: bytearray) -> None:
        """Keep the rest of the input at the end of the turn: `resume` serves it later."""

    def outran(self) -> None:
        """Let crowded subscribers hold this publisher: it has outrun them."""

    def hung_up(self) -> None:
        """Send the remaining output and close: the client has closed its side."""

    def was_reset(self, error: OSError) -> None:
        """Close: the connection has failed."""

    def failed(self, error: Exception) -> None:
        """Close: serving the client has raised an error."""

    def depart(self) -> None:
        """Close the connection: `finish` was called, and the output before it was released."""

    @property
    def user(self) -> User | None: ...
    def hold_back(self) -> None:
        """Stop reading until `proceed`."""

    def proceed(self) -> None:
        """Read again."""

    def log_read(self, read: bytes) -> None:
        """Log this input, redacted."""


class WiredClient(Protocol):
    """A session that reads by itself, through a wire: broker/clients/wired_session.py."""

    def receive(self, buffer: bytearray, at: int, most: int) -> int:
        """Read up to `most` bytes, put them at `at`; return the count, 0 at the end, -1 if none.

        The session handles all errors.
        """
