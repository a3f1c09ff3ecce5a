"""The request for a WebSocket: what is accepted, and what whoever sends something else is told."""

from typing import Any

import pytest

from broker.settings.websocket_settings import WebSocketSettings
from broker.wires.websocket_handshake import answer

MOST = 16384  # bytes of a request, by default
UPGRADE = (
    b"GET /any/path HTTP/1.1\r\nHost: broker:8080\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n%b\r\n"
)
PLAIN = UPGRADE % b""


def answered(sent: bytes, **given: Any) -> tuple[bytes, bytes, bytes, str]:
    """Status, headers and body of the answer, and why it is a refusal."""
    said = answer(sent, WebSocketSettings(**given), has_tls=False)
    assert said is not None, "it is awaited"
    head, _, body = said.data.partition(b"\r\n\r\n")
    status, _, headers = head.partition(b"\r\n")
    return status, headers, body, said.why


@pytest.mark.parametrize(
    "sent",
    [
        PLAIN,
        PLAIN.replace(b"\r\n", b"\n"),
        PLAIN.replace(b"Upgrade: websocket", b"Upgrade: h2c, WebSocket"),
        PLAIN.replace(b"Connection: Upgrade", b"Connection: keep-alive, upgrade"),
        UPGRADE % (b"A: x\r\n" * 2000),
        UPGRADE % b"Cookie: \xff\r\n",
        UPGRADE % (b"Cookie: " + b"x" * (MOST - len(PLAIN) - 10) + b"\r\n"),
    ],
    ids=["usual", "bare LF", "list", "keep-alive", "many headers", "latin-1", "a long cookie"],
)
def test_given_a_request_when_it_is_right_then_it_is_accepted(sent: bytes) -> None:
    status, headers, body, why = answered(sent + b"\x82\x80")
    assert (status, body, why) == (b"HTTP/1.1 101 Switching Protocols", b"", "")
    assert b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" in headers, "RFC 6455's example"
    said = answer(sent + b"\x82\x80", WebSocketSettings(), has_tls=False)
    assert said is not None
    assert said.size == len(sent), "what comes behind it are frames"


@pytest.mark.parametrize(
    ("sent", "status", "said"),
    [
        (b"INFO {}\r\n", 400, "this is not an HTTP request"),
        (b"hello", 400, "this is not an HTTP request"),
        (b"\x16\x03\x01\x02\x00", 400, "this is not an HTTP request"),
        (b"GET /\r\n", 400, "this is not an HTTP request"),
        (b"GET / HTTP/1.1 x\r\n", 400, "this is not an HTTP request"),
        (b"POST / HTTP/1.1\r\nHost: x\r\n\r\n", 405, "the method must be GET"),
        (PLAIN.replace(b"GET", b"OPTIONS"), 405, "the method must be GET"),
        (PLAIN.replace(b"1.1", b"1.0", 1), 505, "only HTTP/1.1"),
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", 426, "only WebSocket clients of the NATS protocol"),
        (PLAIN.replace(b"Connection: Upgrade\r\n", b""), 426, "Upgrade: websocket"),
        (PLAIN.replace(b"Host: broker:8080\r\n", b""), 400, "one header Host"),
        (PLAIN.replace(b"broker:8080", b""), 400, "one header Host"),
        (UPGRADE % b"Host: other\r\n", 400, "one header Host"),
        (PLAIN.replace(b": 13", b": 12"), 400, "Sec-WebSocket-Version must be 13"),
        (UPGRADE % b"Sec-WebSocket-Key: x\r\n", 400, "one Sec-WebSocket-Key"),
        (PLAIN.replace(b"dGhlIHNhbXBsZSBub25jZQ==", b"abc"), 400, "one Sec-WebSocket-Key"),
        (UPGRADE % b"no colon\r\n", 400, "a header is malformed"),
        (UPGRADE % b"A: b\r\n folded\r\n", 400, "a header is malformed"),
        (UPGRADE % b"A: \x1b[2J\r\n", 400, "a header is malformed"),
        (b"GET / HTTP/1.1\r\nA: " + b"x" * MOST, 431, "longer than 16384 bytes"),
        (UPGRADE % (b"A: " + b"x" * MOST + b"\r\n"), 431, "longer than 16384 bytes"),
    ],
)
def test_given_something_else_then_it_gets_an_answer_that_says_why(
    sent: bytes, status: int, said: str
) -> None:
    line, headers, body, why = answered(sent)
    assert line.startswith(b"HTTP/1.1 %d " % status)
    assert said in why
    assert said.encode() in body
    assert b"Connection: close" in headers
    assert b"Content-Length: %d" % len(body) in headers
    assert (b"Allow: GET" in headers) == (status == 405)


def test_given_head_then_the_answer_has_no_body() -> None:
    status, headers, body, _ = answered(b"HEAD / HTTP/1.1\r\nHost: x\r\n\r\n")
    assert status == b"HTTP/1.1 405 Method Not Allowed"
    assert b"Content-Length: " in headers
    assert body == b""


def test_given_a_part_of_a_request_then_the_rest_is_awaited() -> None:
    for size in range(len(PLAIN)):
        assert answer(PLAIN[:size], WebSocketSettings(), has_tls=False) is None


def test_given_another_origin_than_those_allowed_then_the_page_is_refused() -> None:
    sent = UPGRADE % b"Origin: https://evil.example\r\n"
    status, _, _, why = answered(sent, allowed_origins=("https://app.example",))
    assert status == b"HTTP/1.1 403 Forbidden"
    assert why.startswith("origin not allowed")
