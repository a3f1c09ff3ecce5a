"""TLS, WebSocket and monitoring over TLS: which settings need which, and what to do."""

from typing import Any

import pytest

from broker.settings.errors import WrongSettings
from broker.settings.resolve import resolve

CERTIFICATE = {"tls.cert_file": "c.pem"}
HTTPS, WEBSOCKET = {"https_port": "8443"}, {"websocket.port": "8080"}


def problems(*tables: dict[str, Any]) -> list[str]:
    flags: dict[str, Any] = {}
    for table in tables:
        flags |= table
    try:
        resolve(flags, {})
    except WrongSettings as wrong:
        return wrong.problems
    return []


@pytest.mark.parametrize(
    "tables",
    [
        [CERTIFICATE],
        [CERTIFICATE, {"tls.verify": True, "tls.ca_file": "ca.pem"}],
        [CERTIFICATE, {"tls.verify_and_map": True, "tls.ca_file": "ca.pem"}],
        [CERTIFICATE, HTTPS],
        [CERTIFICATE, WEBSOCKET],
        [WEBSOCKET, {"websocket.no_tls": True}],
        [WEBSOCKET, {"websocket.host": "127.0.0.1"}],
        [WEBSOCKET, {"host": "::1"}],
    ],
)
def test_given_settings_that_fit_when_checked_then_nothing_is_wrong(
    tables: list[dict[str, Any]],
) -> None:
    assert problems(*tables) == []


@pytest.mark.parametrize(
    ("tables", "why"),
    [
        ([{"tls.enabled": True}], "--tls: TLS needs a certificate; give --tlscert and --tlskey"),
        *(
            (
                [{path: value}],
                f"{flag}: does nothing without a certificate; give --tlscert, or leave it out",
            )
            for path, value, flag in (
                ("tls.key_file", "k.pem", "--tlskey"),
                ("tls.verify", True, "--tlsverify"),
                ("tls.verify_and_map", True, "--tls_map"),
                ("tls.handshake_first", True, "--tls_first"),
                ("tls.allow_non_tls", True, "--allow_non_tls"),
                ("tls.pinned_certs", "ab" * 32, "--tls_pinned_certs"),
            )
        ),
        *(
            (
                [CERTIFICATE, {path: True}],
                f"{flag}: needs the certificates that sign those of clients; give --tlscacert",
            )
            for path, flag in (("tls.verify", "--tlsverify"), ("tls.verify_and_map", "--tls_map"))
        ),
        (
            [CERTIFICATE, {"tls.pinned_certs": "ab" * 32}],
            "--tls_pinned_certs: clients are not asked for certificates; give --tlsverify",
        ),
        (
            [CERTIFICATE, {"tls.allow_non_tls": True, "tls.handshake_first": True}],
            "--allow_non_tls: clients without TLS wait for INFO, and with tls.handshake_first the"
            " broker waits for them; leave one of the two out",
        ),
        ([HTTPS], "--https_port: needs a certificate; give --tlscert and --tlskey"),
        (
            [CERTIFICATE, HTTPS, {"http_port": "8222"}],
            "--https_port: there is http_port as well; give one of them, as in nats-server",
        ),
        (
            [WEBSOCKET],
            "--websocket_port: without TLS everybody on the way reads along; give --tlscert and"
            " --tlskey, or --websocket_no_tls behind a proxy that has TLS, or --websocket_host"
            " 127.0.0.1",
        ),
        (
            [CERTIFICATE, WEBSOCKET, {"limits.max_payload": "8MiB", "websocket.max_frame": "1MiB"}],
            "--websocket_max_frame: is too small for limits.max_payload, which is 8388608: clients"
            " put up to 64 KiB of other messages into the same frame; raise websocket.max_frame or"
            " lower limits.max_payload",
        ),
    ],
)
def test_given_settings_that_do_not_fit_when_checked_then_it_says_what_to_do(
    tables: list[dict[str, Any]], why: str
) -> None:
    assert problems(*tables) == [why]
