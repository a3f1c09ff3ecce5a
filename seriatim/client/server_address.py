"""Addresses of brokers: parsed, and shown without the credentials they may contain."""

import re
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote, urlsplit

from seriatim.client.errors import InvalidArgument

PORT: Final = 4222
SCHEMES: Final = ("nats", "tls")


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """One address of a broker, with the credentials it contains, if any."""

    host: str
    port: int = PORT
    user: str = field(default="", repr=False)
    password: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    tls: bool = False

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def read_address(text: str) -> ServerAddress:
    """`host:port`, or `nats://user:password@host:port`, or `tls://...`. Raises `ValueError`.

    The error has no text: the address may hold a password.
    """
    try:
        parts = urlsplit(text if "://" in text else f"nats://{text}")
        host, port = parts.hostname, parts.port
    except ValueError:  # the port is not a number, or too large for one
        raise ValueError from None
    named = host and not re.search(r"[\s\0]", host) and not parts.path.strip("/")
    if parts.scheme not in SCHEMES or not named or parts.query or parts.fragment or port == 0:
        raise ValueError
    assert host
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    tls = parts.scheme == "tls"
    if user and parts.password is None:  # as NATS clients interpret nats://token@host
        return ServerAddress(host, port or PORT, token=user, tls=tls)
    return ServerAddress(host, port or PORT, user, password, tls=tls)


def read_addresses(text: str) -> tuple[ServerAddress, ...]:
    """Addresses separated by commas. Raises `InvalidArgument`."""
    try:
        return tuple(read_address(word.strip()) for word in text.split(","))
    except ValueError:
        shown = ",".join(map(without_credentials, text.split(",")))
        raise InvalidArgument(
            f'"{shown}" is not the address of a broker; give nats://HOST:PORT or HOST:PORT'
        ) from None


def without_credentials(url: str) -> str:
    """The address without the user and password before its last @, if any."""
    scheme, mark, rest = url.rpartition("://")
    return scheme + mark + rest.rpartition("@")[2]
