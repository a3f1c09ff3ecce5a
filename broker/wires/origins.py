"""Checks the `Origin` of a page that opens a WebSocket, as nats-server does.

Browsers send it, other clients need not. So this protects the users of browsers from foreign pages;
it does not protect the broker.
"""

from typing import Final
from urllib.parse import SplitResult, urlsplit

from websockets.datastructures import Headers

from broker.settings.websocket_settings import WebSocketSettings

PORTS: Final = {"http": 80, "https": 443, "ws": 80, "wss": 443}


def refusal(headers: Headers, settings: WebSocketSettings, *, has_tls: bool) -> str:
    """Return why a request with these headers is refused for its origin; empty if it is not."""
    if not (settings.same_origin or settings.allowed_origins):
        return ""
    origins = headers.get_all("Origin")
    if not origins:
        return ""
    if len(origins) > 1:
        return "origin not allowed: there are several"
    origin = _split(origins[0])
    if origin is None or not origin.hostname:
        return "origin not allowed: it is not a URL"
    if settings.same_origin:
        hosts = headers.get_all("Host")
        asked = (
            _split(f"{'https' if has_tls else 'http'}://{hosts[0]}") if len(hosts) == 1 else None
        )
        if asked is None or _place(origin) != _place(asked):
            return "origin not allowed: it is not the host that was asked for"
    if settings.allowed_origins:
        allowed = [_split(one) for one in settings.allowed_origins]
        known = {(one.scheme, *_place(one)) for one in allowed if one is not None}
        if (origin.scheme, *_place(origin)) not in known:
            return "origin not allowed: it is not in websocket.allowed_origins"
    return ""


def _split(text: str) -> SplitResult | None:
    try:
        parts = urlsplit(text)
        _ = parts.port  # checks it
    except ValueError:
        return None
    return parts


def _place(parts: SplitResult) -> tuple[str, int]:
    return parts.hostname or "", parts.port or PORTS.get(parts.scheme, 0)
