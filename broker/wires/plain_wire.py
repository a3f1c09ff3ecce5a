"""The layer below a WebSocket without TLS: it passes bytes unchanged."""

import os

from broker.wires.distinguished_name import Name


class PlainWire:
    """A wire without a layer. It keeps only bytes from `feed`, until `receive` takes them."""

    __slots__ = ("_kept", "certificate_names", "greets_in_clear", "more", "timeout", "tls")

    def __init__(self) -> None:
        self._kept = b""
        self.more = False
        self.greets_in_clear = True
        self.timeout = 0.0
        self.tls = ("", "")
        self.certificate_names: tuple[Name, ...] = ()

    @property
    def forwarded(self) -> tuple[str, ...]:
        return ()

    def certificates(self) -> list[bytes]:
        return []

    def feed(self, data: memoryview) -> None:
        self._kept += data
        self.more = True

    def open(self) -> bool:
        return True

    def opens_late(self) -> bool:
        return False

    def receive(self, fd: int, target: memoryview) -> int:
        if not self.more:
            return os.readv(fd, (target,))
        taken, self._kept = self._kept[: len(target)], self._kept[len(target) :]
        target[: len(taken)] = taken
        self.more = bool(self._kept)
        return len(taken) or -1

    def wrap(self, view: memoryview) -> list[bytes]:
        return [bytes(view)]

    def to_send(self) -> bytes:
        return b""

    def farewell(self, reason: str) -> bytes:
        return b""

    def closed(self) -> None:
        self._kept = b""
