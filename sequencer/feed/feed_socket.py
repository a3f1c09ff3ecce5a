"""What a feed asks of its socket. The broker opens it, for no socket is opened in this room."""

from typing import Protocol


class FeedSocket(Protocol):
    """A UDP socket that is connected to the feed's group: `socket.socket`."""

    def fileno(self) -> int: ...
    def gettimeout(self) -> float | None: ...
    def send(self, data: memoryview, /) -> int: ...
