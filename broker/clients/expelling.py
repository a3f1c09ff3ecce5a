"""Closes a client for something that it did not ask for just now, with an error that says why."""

from typing import Protocol

from broker.dataplane.connection import Connection
from broker.dataplane.plane import Plane
from parser.errors import Fatal


class Expelled(Protocol):
    """A session, as this sees it."""

    @property
    def connection(self) -> Connection: ...
    def blame(self, why: str, reason: str) -> None:
        """Log why the broker closes it; `reason` is for /connz and the client."""

    def depart(self) -> None:
        """Close it."""


def expel(session: Expelled, plane: Plane, error: type[Fatal], why: str) -> None:
    """Close a client with this error, after everything that was meant for it before."""
    session.blame(why, error.reason)
    plane.say(session.connection, error.reply)
    plane.release(None)
    session.depart()
