"""The facts about a client's session, for the log, monitoring and authentication."""

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
    """The read-only properties of a session."""

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
        """The name of this client in the log."""
        return ClientLabel(shown(self.ip, self.port), self.cid)

    @property
    def listener_frame(self) -> str:
        """The frame of a client that does not choose one."""
        return self.listener.frame

    @property
    def frame(self) -> str:
        """The frame of this client's messages."""
        return self.connection.frame

    @property
    def name(self) -> str:
        """The name that the client gave in CONNECT; `lang` and `version` are similar."""
        return str(self.options.get("name", ""))

    @property
    def user_name(self) -> str:
        """The name of its user; empty without authentication, or with a token."""
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
        """True if TLS preceded INFO (`tls_first`); always False for WebSocket."""
        return False

    def certificates(self) -> list[bytes]:
        """Return the certificates that the client has sent (DER), its own first."""
        return []

    @property
    def certificate_names(self) -> tuple[Name, ...]:
        """The user names that its certificate can match."""
        return ()

    @property
    def opening_timeout(self) -> float:
        """The seconds that its handshakes may take; 0 if it has none."""
        return 0.0

    @property
    def pending_bytes(self) -> int:
        """Bytes for this client that its socket has not taken."""
        return self.connection.held() + self._transport.get_write_buffer_size()

    @property
    def last_activity(self) -> float:
        """The time of the client's last input, in Unix time."""
        return time.time() - (self._core.loop.time() - self.heard)

    @property
    def heard(self) -> float:
        """The time of its last input on the loop's clock, which is precise enough for sorting."""
        return self._reader.heard
