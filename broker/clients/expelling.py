"""Closes a client outside of an operation of its own, with an error that says why."""

from typing import Protocol

from broker.dataplane.connection import Connection
from broker.dataplane.plane import Plane
from parser.errors import Fatal


class Expelled(Protocol):
    """A session that can be closed with an error."""

    @property
    def connection(self) -> Connection: ...
    def blame(self, why: str, reason: str) -> None:
        """Log why the broker closes the session; `reason` is for /connz and the client."""

    def depart(self) -> None:
        """Close the session."""


def expel(session: Expelled, plane: Plane, error: type[Fatal], why: str) -> None:
    """Close a client with this error, after its earlier output."""
    session.blame(why, error.reason)
    plane.send_control(session.connection, error.reply)
    plane.release(None)
    session.depart()
