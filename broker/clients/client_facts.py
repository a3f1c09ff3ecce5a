"""Who a client is: what its session shows to the log, to monitoring and to the authenticator."""

import time
from typing import Any

from broker.addresses import shown
from broker.clients.bound_listener import BoundListener
from broker.dataplane.connection import Connection
from broker.dataplane.user import User


class ClientFacts:
    """The part of every session that does nothing."""

    __slots__ = (
        "certificate_names",
        "cid",
        "connection",
        "introduced",
        "ip",
        "listener",
        "nonce",
        "options",
        "port",
        "started_at",
        "user",
    )

    def __init__(self, connection: Connection, listener: BoundListener) -> None:
        self.connection = connection
        self.connection.settle(listener.frame)
        self.listener = listener
        self.cid = 0
        self.ip, self.port = "", 0
        self.options: dict[str, Any] = {}
        self.introduced = False  # it has sent CONNECT
        self.user: User | None = None  # once it is known
        self.nonce = ""  # that it signs, if it has an nkey
        self.certificate_names: tuple[str, ...] = ()  # of users that its certificate may stand for
        self.started_at = time.time()

    @property
    def label(self) -> str:
        """How the log names this client."""
        return f"{shown(self.ip, self.port)} - cid:{self.cid}"

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
    def tls(self) -> tuple[str, str]:
        """The version and the cipher suite of TLS; empty without."""
        return "", ""
