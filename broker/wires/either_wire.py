"""TLS or plain bytes, chosen by the client's first byte (`tls.allow_non_tls`).

A client that is silent until the handshake timeout gets no TLS, as in nats-server.
"""

from collections.abc import Callable
from typing import Final

from broker.wires.distinguished_name import Name
from broker.wires.plain_wire import PlainWire
from broker.wires.wire import ClientWire

HANDSHAKE: Final = 0x16  # the type of a record of TLS; no line of the protocol begins with it


class EitherWire:
    """The wire of one client. TLS, which takes memory, is made when the first byte has come."""

    __slots__ = ("_chosen", "_make_tls", "greets_in_clear", "timeout")

    def __init__(self, make_tls: Callable[[], ClientWire], timeout: float) -> None:
        self._make_tls = make_tls
        self._chosen: ClientWire | None = None
        self.greets_in_clear = True
        self.timeout = timeout

    @property
    def forwarded(self) -> tuple[str, ...]:
        return ()

    @property
    def _wire(self) -> ClientWire:
        assert self._chosen is not None, "it is used once it is open"
        return self._chosen

    @property
    def more(self) -> bool:
        return self._chosen is not None and self._chosen.more

    @more.setter
    def more(self, more: bool) -> None:
        self._wire.more = more

    @property
    def tls(self) -> tuple[str, str]:
        return self._wire.tls

    def certificates(self) -> list[bytes]:
        return self._wire.certificates()

    @property
    def certificate_names(self) -> tuple[Name, ...]:
        return self._wire.certificate_names

    def feed(self, data: memoryview) -> None:
        if self._chosen is None:
            self._chosen = self._make_tls() if data[0] == HANDSHAKE else PlainWire()
        self._chosen.feed(data)

    def open(self) -> bool:
        return self._chosen is not None and self._chosen.open()

    def opens_late(self) -> bool:
        if self._chosen is None:
            self._chosen = PlainWire()
            return True
        return False

    def receive(self, fd: int, target: memoryview) -> int:
        return self._wire.receive(fd, target)

    def wrap(self, view: memoryview) -> list[bytes]:
        return self._wire.wrap(view)

    def to_send(self) -> bytes:
        return b"" if self._chosen is None else self._chosen.to_send()

    def farewell(self, reason: str) -> bytes:
        return b"" if self._chosen is None else self._chosen.farewell(reason)

    def closed(self) -> None:
        if self._chosen is not None:
            self._chosen.closed()
