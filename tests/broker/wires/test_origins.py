"""Which pages may connect: the rules of nats-server."""

from typing import Any

import pytest
from websockets.datastructures import Headers

from broker.settings.websocket_settings import WebSocketSettings
from broker.wires.websocket_handshake import refusal


def refused(origins: list[str], host: str, *, has_tls: bool = False, **given: Any) -> str:
    headers = Headers([("Host", host), *(("Origin", origin) for origin in origins)])
    return refusal(headers, WebSocketSettings(**given), has_tls=has_tls)


@pytest.mark.parametrize(
    ("origin", "host", "has_tls"),
    [
        ("http://broker.example:8080", "broker.example:8080", False),
        ("http://Broker.Example", "broker.example", False),
        ("https://broker.example", "broker.example:443", True),
        ("https://broker.example:443", "broker.example", True),
        ("http://[::1]:8080", "[::1]:8080", False),
    ],
)
def test_given_the_same_origin_then_the_page_may_connect(
    origin: str, host: str, has_tls: bool
) -> None:
    assert refused([origin], host, has_tls=has_tls, same_origin=True) == ""


@pytest.mark.parametrize(
    ("origin", "host", "has_tls"),
    [
        ("http://evil.example:8080", "broker.example:8080", False),
        ("http://broker.example:8081", "broker.example:8080", False),
        ("http://broker.example", "broker.example", True),
        ("null", "broker.example", False),
        ("", "broker.example", False),
        ("http://broker.example:x", "broker.example", False),
        ("http://[broker.example", "broker.example", False),
        ("http://broker.example.evil.example", "broker.example", False),
        ("http://broker.example@evil.example", "broker.example", False),
    ],
)
def test_given_another_origin_then_the_page_is_refused(
    origin: str, host: str, has_tls: bool
) -> None:
    assert refused([origin], host, has_tls=has_tls, same_origin=True).startswith("origin not")


def test_given_two_origins_then_the_page_is_refused() -> None:
    same = "http://broker.example"
    assert "several" in refused([same, same], "broker.example", same_origin=True)


def test_given_a_list_then_pages_of_these_origins_alone_may_connect() -> None:
    allowed = ("https://app.example", "http://localhost:3000")
    for origin in ("https://app.example", "https://APP.example:443", "http://localhost:3000"):
        assert refused([origin], "broker.example", allowed_origins=allowed) == ""
    for origin in ("http://app.example", "https://app.example:444", "https://x.app.example"):
        assert "allowed_origins" in refused([origin], "b.example", allowed_origins=allowed)


def test_given_both_rules_then_both_must_hold() -> None:
    rules: dict[str, Any] = {"same_origin": True, "allowed_origins": ("http://one.example",)}
    assert refused(["http://one.example"], "one.example", **rules) == ""
    assert refused(["http://one.example"], "two.example", **rules)
    assert refused(["http://two.example"], "two.example", **rules)


def test_given_no_origin_then_it_is_no_browser_and_may_connect() -> None:
    assert refused([], "x", same_origin=True, allowed_origins=("http://one.example",)) == ""


def test_given_no_rules_then_every_page_may_connect() -> None:
    assert refused(["null"], "x") == ""
