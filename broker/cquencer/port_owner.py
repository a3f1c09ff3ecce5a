"""The interface of the part that accepts and ends the cquencer port's clients."""

from typing import Protocol

from broker.cquencer.cquencer_client import CquencerClient


class PortOwner(Protocol):
    """Accepts the port's clients, and ends them: broker/cquencer/cquencer_service.py."""

    def closed(self, client: CquencerClient) -> None:
        """Called when a connection has ended."""

    def ending(self, client: CquencerClient) -> None:
        """Called when a client has all its answers, and some time to close the connection."""

    def refusal(self, size: int) -> bytes:
        """Return why a message longer than `max_payload` is refused; empty if it is not."""

    def wake(self) -> None:
        """Schedule another turn: there is more to do at once."""
