"""What others read of a client's session: the log, monitoring, authentication."""

import asyncio
import time
from typing import Any

from broker.addresses import shown
from broker.clients.gatherer import ClientInput
from broker.core import Core
from broker.dataplane.connection import Connection
from broker.dataplane.user import User
from broker.runtime.log_formats import ClientLabel
from broker.wires.bound_listener import BoundListener
from broker.wires.distinguished_name import Name


class SessionFacts:
    """The part of a session that changes nothing."""

    __slots__ = ()

    cid: int
    connection: Connection
    ip: str
    listener: BoundListener
    options: dict[str, Any]  # of CONNECT
    port: int
    user: User | None
    _core: Core
    _reader: ClientInput
    _transport: asyncio.Transport

    @property
    def label(self) -> ClientLabel:
        """How the log names this client."""
        return ClientLabel(shown(self.ip, self.port), self.cid)

    @property
    def listener_frame(self) -> str:
        """The frame of a client that does not choose one."""
        return self.listener.frame

    @property
    def frame(self) -> str:
        """The frame that this client gets."""
        return self.connection.frame

    @property
    def name(self) -> str:
        """The name that the client gave in CONNECT; `lang` and `version` are similar."""
        return str(self.options.get("name", ""))

    @property
    def user_name(self) -> str:
        """The user that it is; empty if nobody has asked, or it gave a token."""
        return "" if self.user is None else self.user.name

    @property
    def lang(self) -> str:
        return str(self.options.get("lang", ""))

    @property
    def version(self) -> str:
        return str(self.options.get("version", ""))

    @property
    def kind(self) -> str:
        """`nats` or `websocket`."""
        return self.listener.kind

    @property
    def tls(self) -> tuple[str, str]:
        """The version and the cipher suite of TLS; empty without."""
        return "", ""

    @property
    def tls_first(self) -> bool:
        """Whether TLS came before INFO, which a WebSocket does not count as."""
        return False

    def certificates(self) -> list[bytes]:
        """The certificates that the client has sent (DER), its own first."""
        return []

    @property
    def certificate_names(self) -> tuple[Name, ...]:
        """The names of users that its certificate may stand for."""
        return ()

    @property
    def opening_timeout(self) -> float:
        """Seconds that its handshakes may take; 0 if it has none."""
        return 0.0

    @property
    def pending_bytes(self) -> int:
        """Bytes for this client that its socket has not taken."""
        return self.connection.held() + self._transport.get_write_buffer_size()

    @property
    def last_activity(self) -> float:
        """When the client last sent something, in Unix time."""
        return time.time() - (self._core.loop.time() - self.heard)

    @property
    def heard(self) -> float:
        """The same on the loop's clock, which is precise enough to sort clients."""
        return self._reader.heard
