"""The HTTP request that opens a WebSocket, and the answer to it.

In: a client's input so far. Out: nothing yet, or an answer that accepts or refuses it. Input that
is certainly no HTTP request is answered, too: the answer tells a user of a browser or a probe that
this is a port for WebSocket. The rules are RFC 6455's and nats-server's.

Only the length of the whole request is limited, by `HEADER_MAX`: a cookie may be most of it.
"""

import base64
import binascii
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from email.utils import formatdate
from http import HTTPStatus
from typing import Final
from urllib.parse import SplitResult, urlsplit

from websockets.datastructures import Headers

from broker.settings.websocket_settings import WebSocketSettings

# The beginning of a request line, and a whole one. Methods are words in capitals.
BEGINNING: Final = re.compile(rb"[A-Z]{0,20}(?: [!-~]*(?: [HTP/.0-9]{0,8})?)?\r?")
REQUEST_LINE: Final = re.compile(rb"([A-Z]{1,20}) [!-~]+ HTTP/(\d\.\d)")
FIELD: Final = re.compile(rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]+):[ \t]*([\t -~\x80-\xff]*)")
KEY_BYTES: Final = 16
# Of a request. Browsers send one or two KiB, and cookies; most servers accept 8 or 16 KiB.
HEADER_MAX: Final = 1 << 14
MAGIC: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # RFC 6455 names it
VERSION: Final = {"Sec-WebSocket-Version": "13"}  # the only one
PORTS: Final = {"http": 80, "https": 443, "ws": 80, "wss": 443}


# Checks the `Origin` of a page that opens a WebSocket, as nats-server does.
#
# Browsers send it, other clients need not. So this protects the users of browsers from foreign
# pages; it does not protect the broker.


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
        if asked is None or _host_and_port(origin) != _host_and_port(asked):
            return "origin not allowed: it is not the host that was asked for"
    if settings.allowed_origins:
        allowed = [_split(one) for one in settings.allowed_origins]
        known = {(one.scheme, *_host_and_port(one)) for one in allowed if one is not None}
        if (origin.scheme, *_host_and_port(origin)) not in known:
            return "origin not allowed: it is not in websocket.allowed_origins"
    return ""


def _split(text: str) -> SplitResult | None:
    try:
        parts = urlsplit(text)
        _ = parts.port  # checks it
    except ValueError:
        return None
    return parts


def _host_and_port(parts: SplitResult) -> tuple[str, int]:
    return parts.hostname or "", parts.port or PORTS.get(parts.scheme, 0)


@dataclass(frozen=True, slots=True)
class HandshakeAnswer:
    """The answer to send. `why`: the reason of a refusal; it quotes no text of the client.

    `size`: of the request; frames follow after it. `headers`: of an accepted request.
    """

    data: bytes
    why: str = ""
    size: int = 0
    headers: Headers = field(default_factory=Headers)


class _Refused(Exception):
    """The reason why a request is refused, with the answer's status and headers."""

    def __init__(
        self, status: HTTPStatus, why: str, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(why)
        self.status = status
        self.headers = headers or {}


def answer(head: bytes, settings: WebSocketSettings, *, has_tls: bool) -> HandshakeAnswer | None:
    """Return the answer to a client's input so far; None: the request is not complete yet."""
    is_head = head.startswith(b"HEAD ")
    try:
        size = _size(head)
        if size < 0:
            return None
        lines = head[:size].replace(b"\r\n", b"\n").split(b"\n")
        fields = _accepted(lines, settings, has_tls)
    except _Refused as refused:
        return HandshakeAnswer(_refusal(refused, with_body=not is_head), str(refused))
    key = fields["Sec-WebSocket-Key"].encode()
    digest = base64.b64encode(hashlib.sha1(key + MAGIC).digest()).decode()
    headers = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Accept": digest}
    said = _message(HTTPStatus.SWITCHING_PROTOCOLS, headers)
    return HandshakeAnswer(said, size=size, headers=fields)


def _size(head: bytes) -> int:
    """Return the size of the request, -1 if it is not complete. Raises `_Refused`."""
    line, newline, _ = head.partition(b"\n")
    if (REQUEST_LINE if newline else BEGINNING).fullmatch(line.removesuffix(b"\r")) is None:
        raise _Refused(HTTPStatus.BAD_REQUEST, "this is not an HTTP request")
    ends = [
        at + len(end) for end in (b"\n\r\n", b"\n\n") if (at := head.find(end, 0, HEADER_MAX)) >= 0
    ]
    if not ends and len(head) >= HEADER_MAX:
        raise _Refused(
            HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
            f"the request is longer than {HEADER_MAX} bytes",
        )
    return min(ends, default=-1)


def _accepted(lines: list[bytes], settings: WebSocketSettings, has_tls: bool) -> Headers:
    """Return the headers of a request for a WebSocket. Raises `_Refused`."""
    wanted = REQUEST_LINE.fullmatch(lines[0])
    assert wanted is not None, "it was found before"
    method, version = wanted.groups()
    if version != b"1.1":
        raise _Refused(HTTPStatus.HTTP_VERSION_NOT_SUPPORTED, "only HTTP/1.1 is supported")
    if method != b"GET":
        raise _Refused(HTTPStatus.METHOD_NOT_ALLOWED, "the method must be GET", {"Allow": "GET"})
    headers = _fields(lines[1:])
    hosts = headers.get_all("Host")
    if len(hosts) != 1 or not hosts[0]:
        raise _bad("the request must have one header Host")
    if not (_has(headers, "Upgrade", "websocket") and _has(headers, "Connection", "upgrade")):
        raise _Refused(
            HTTPStatus.UPGRADE_REQUIRED,
            "the request does not say 'Upgrade: websocket'; only WebSocket clients of the NATS"
            " protocol are served here",
            {"Upgrade": "websocket"},
        )
    if headers.get_all("Sec-WebSocket-Version") != ["13"]:
        raise _bad("Sec-WebSocket-Version must be 13")
    keys = headers.get_all("Sec-WebSocket-Key")
    if len(keys) != 1 or not _is_key(keys[0]):
        raise _bad("the request must have one Sec-WebSocket-Key, 16 bytes in base64")
    if why := refusal(headers, settings, has_tls=has_tls):
        raise _Refused(HTTPStatus.FORBIDDEN, why)
    return headers


def _fields(lines: list[bytes]) -> Headers:
    headers = Headers()
    for line in lines:
        if not line:
            break
        found = FIELD.fullmatch(line)
        if found is None:
            raise _bad("a header is malformed")
        headers[found[1].decode()] = found[2].rstrip(b" \t").decode("latin-1")
    return headers


def _has(headers: Headers, name: str, token: str) -> bool:
    """True if a header, which is a list, contains a token."""
    words = ",".join(headers.get_all(name)).split(",")
    return token in (word.strip(" \t").lower() for word in words)


def _is_key(key: str) -> bool:
    try:
        return len(base64.b64decode(key.encode("latin-1"), validate=True)) == KEY_BYTES
    except binascii.Error:
        return False


def _bad(why: str) -> _Refused:
    return _Refused(HTTPStatus.BAD_REQUEST, why)


def _refusal(refused: _Refused, with_body: bool) -> bytes:
    body = f"{refused}\n".encode()
    headers = {
        "Date": formatdate(usegmt=True),
        "Connection": "close",
        "Content-Type": "text/plain; charset=utf-8",
        "Content-Length": str(len(body)),
        "X-Content-Type-Options": "nosniff",
        **VERSION,
        **refused.headers,
    }
    return _message(refused.status, headers) + (body if with_body else b"")


def _message(status: HTTPStatus, headers: Mapping[str, str]) -> bytes:
    fields = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {status.value} {status.phrase}\r\n{fields}\r\n".encode()
