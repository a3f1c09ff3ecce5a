"""The interface of a feed's socket. The broker opens it: this room opens no sockets."""

from typing import Protocol


class FeedSocket(Protocol):
    """A UDP socket that is connected to the feed's group: `socket.socket`."""

    def fileno(self) -> int: ...
    def gettimeout(self) -> float | None: ...
    def send(self, data: memoryview, /) -> int: ...
