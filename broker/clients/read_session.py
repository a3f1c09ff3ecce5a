"""What the gatherer asks of a session, which is plain Python: broker/clients/session.py."""

from typing import Protocol

from broker.dataplane.client_session import HeldPublisher
from broker.dataplane.user import User


class ReadSession(HeldPublisher, Protocol):
    """One client, whose socket the gatherer reads."""

    def set_aside(self, rest: bytearray) -> None:
        """The turn is over, and this is left of what was read: `go_on` serves it later."""

    def outran(self) -> None:
        """It has outrun subscribers, which may hold it."""

    def hung_up(self) -> None:
        """The client has closed its side."""

    def was_reset(self, error: OSError) -> None:
        """The connection has failed."""

    def failed(self, error: Exception) -> None:
        """Serving it has raised an error."""

    def depart(self) -> None:
        """Close the connection: `finish` was called, and what it was told is out."""

    @property
    def user(self) -> User | None: ...
    def hold_back(self) -> None:
        """Read nothing more until `proceed`."""

    def proceed(self) -> None:
        """Read again."""

    def log_read(self, read: bytes) -> None:
        """For the log: this was read."""


class WiredClient(Protocol):
    """A session that reads by itself, because there is a wire: broker/clients/wired_session.py."""

    def receive(self, buffer: bytearray, at: int, most: int) -> int:
        """Read up to `most` bytes behind `at`; return how many, 0 at the end, -1 for none.

        It sees to every error.
        """
