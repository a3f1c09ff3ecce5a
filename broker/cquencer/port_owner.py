"""What cquencer's port asks of whoever listens for its clients."""

from typing import Protocol

from broker.cquencer.cquencer_client import CquencerClient


class PortOwner(Protocol):
    """Who admits the port's clients and ends them: broker/cquencer/cquencer_service.py."""

    def closed(self, client: CquencerClient) -> None:
        """A connection has ended."""

    def ending(self, client: CquencerClient) -> None:
        """A client has heard all that there is for it; it has a while to end the connection."""

    def refusal(self, size: int) -> bytes:
        """Why a message longer than `max_payload` cannot be taken now; nothing if it can."""

    def wake(self) -> None:
        """There is a turn to be had at once."""
