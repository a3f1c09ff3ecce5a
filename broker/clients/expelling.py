"""Closes a client for something that it did not ask for just now, with an error that says why."""

from typing import Protocol

from broker.dataplane.connection import Connection
from broker.dataplane.plane import Plane


class Expelled(Protocol):
    """A session, as this sees it."""

    @property
    def connection(self) -> Connection: ...
    def blame(self, why: str) -> None:
        """Log why the broker closes it."""

    def depart(self) -> None:
        """Close it."""


def expel(session: Expelled, plane: Plane, reply: bytes, why: str) -> None:
    """Close a client with the error `reply`, after everything that was meant for it before."""
    session.blame(why)
    plane.say(session.connection, reply)
    plane.release(None)
    session.depart()
