"""Addresses of brokers: parsed, and shown without the credentials they may contain."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from seriatim.client.errors import InvalidArgument

PORT: Final = 4222
SCHEMES: Final = ("nats", "tls")
WEB_PORTS: Final = {"ws": 80, "wss": 443}


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """One address of a broker, with the credentials it contains, if any."""

    host: str
    port: int = PORT
    user: str = field(default="", repr=False)
    password: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    tls: bool = False
    web_path: str = ""  # what a WebSocket requests; empty: no WebSocket

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def read_address(text: str, schemes: Sequence[str] = SCHEMES) -> ServerAddress:
    """Parse `host:port`, or `nats://user:password@host:port`, or `tls://...`. Raises `ValueError`.

    With other `schemes` also `ws://host:port/path` and `wss://...`, whose ports are 80 and 443 if
    none is given. The error has no text: the address may hold a password.
    """
    try:
        parts = urlsplit(text if "://" in text else f"nats://{text}")
        host, port = parts.hostname, parts.port
    except ValueError:  # the port is not a number, or too large for one
        raise ValueError from None
    is_web = parts.scheme in WEB_PORTS
    named = host and not re.search(r"[\s\0]", host + parts.path)
    placed = named and (is_web or not parts.path.strip("/"))
    if parts.scheme not in schemes or not placed or parts.query or parts.fragment or port == 0:
        raise ValueError
    assert host
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    made = ServerAddress(
        host,
        port or WEB_PORTS.get(parts.scheme, PORT),
        tls=parts.scheme in ("tls", "wss"),
        web_path=(parts.path or "/") if is_web else "",
    )
    if user and parts.password is None:  # as NATS clients interpret nats://token@host
        return replace(made, token=user)
    return replace(made, user=user, password=password)


def read_addresses(text: str) -> tuple[ServerAddress, ...]:
    """Parse addresses separated by commas. Raises `InvalidArgument`."""
    try:
        return tuple(read_address(word.strip()) for word in text.split(","))
    except ValueError:
        shown = ",".join(map(without_credentials, text.split(",")))
        raise InvalidArgument(
            f'"{shown}" is not the address of a broker; give nats://HOST:PORT or HOST:PORT'
        ) from None


def with_announced(
    given: Sequence[ServerAddress], current: ServerAddress | None, info: Mapping[str, Any]
) -> list[ServerAddress]:
    """Return the brokers to try: `given`, and then the others that INFO has announced.

    These get the credentials of the first one given. A broker that sends its clients away
    (`ldm`) comes last.
    """
    found = {(one.host, one.port): one for one in given}
    urls = info.get("connect_urls")
    for text in urls if isinstance(urls, list) else ():
        try:
            address = read_address(text)
        except (ValueError, AttributeError, TypeError):
            continue  # not ours to repair
        key = address.host, address.port
        found.setdefault(key, replace(given[0], host=address.host, port=address.port))
    if current is not None and info.get("ldm"):
        key = current.host, current.port
        found[key] = found.pop(key, current)
    return list(found.values())


def without_credentials(url: str) -> str:
    """Return the address without the user and password before its last @, if any."""
    scheme, mark, rest = url.rpartition("://")
    return scheme + mark + rest.rpartition("@")[2]
