"""What the cquencer port asks of the part that accepts and ends its clients."""

from typing import Protocol

from broker.cquencer.cquencer_client import CquencerClient


class PortOwner(Protocol):
    """Accepts the port's clients, and ends them: broker/cquencer/cquencer_service.py."""

    def closed(self, client: CquencerClient) -> None:
        """A connection has ended."""

    def ending(self, client: CquencerClient) -> None:
        """A client has all its answers, and some time to close the connection."""

    def refusal(self, size: int) -> bytes:
        """Why a message longer than `max_payload` is refused; empty if it is not."""

    def wake(self) -> None:
        """There is more to do at once."""
