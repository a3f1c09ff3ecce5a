"""Checks that the settings of TLS, WebSocket and monitoring over TLS fit together.

The files themselves are read when the broker starts: broker/wires/tls_contexts.py.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from broker.addresses import is_loopback

Place = Callable[[str], str]  # how a setting is named where it was set
NEEDING_CERTIFICATE: Final = (
    *("tls.key_file", "tls.verify", "tls.verify_and_map", "tls.pinned_certs"),
    *("tls.allow_non_tls", "tls.handshake_first"),
)
FLUSHED: Final = 65536  # bytes that a client may put into a frame before its last message


def secured_relations(values: Mapping[str, Any], place: Place) -> list[str]:
    """Return every problem of a broker with these settings."""
    return [*_of_tls(values, place), *_of_https(values, place), *_of_websocket(values, place)]


def _has_tls(values: Mapping[str, Any]) -> bool:
    return bool(values["tls.enabled"] or values["tls.cert_file"])


def _of_tls(values: Mapping[str, Any], place: Place) -> list[str]:
    if values["tls.enabled"] and not values["tls.cert_file"]:
        return [f"{place('tls.enabled')}: TLS needs a certificate; give --tlscert and --tlskey"]
    if not values["tls.cert_file"]:
        return [
            f"{place(path)}: does nothing without a certificate; give --tlscert, or leave it out"
            for path in NEEDING_CERTIFICATE
            if values[path]
        ]
    verifying = [path for path in ("tls.verify", "tls.verify_and_map") if values[path]]
    if verifying and not values["tls.ca_file"]:
        return [
            f"{place(verifying[0])}: needs the certificates that sign those of clients; give"
            " --tlscacert"
        ]
    problems = []
    if values["tls.pinned_certs"] and not verifying:
        problems.append(
            f"{place('tls.pinned_certs')}: clients are not asked for certificates; give --tlsverify"
        )
    if values["tls.allow_non_tls"] and values["tls.handshake_first"]:
        problems.append(
            f"{place('tls.allow_non_tls')}: clients without TLS wait for INFO, and with"
            " tls.handshake_first the broker waits for them; leave one of the two out"
        )
    return problems


def _of_https(values: Mapping[str, Any], place: Place) -> list[str]:
    if not values["https_port"]:
        return []
    problems = []
    if values["http_port"]:
        problems.append(
            f"{place('https_port')}: there is http_port as well; give one of them, as in"
            " nats-server"
        )
    if not _has_tls(values):
        problems.append(f"{place('https_port')}: needs a certificate; give --tlscert and --tlskey")
    return problems


def _of_websocket(values: Mapping[str, Any], place: Place) -> list[str]:
    if not values["websocket.port"]:
        return []
    problems = []
    host = values["websocket.host"] or values["host"]
    if not (_has_tls(values) or values["websocket.no_tls"] or is_loopback(host)):
        problems.append(
            f"{place('websocket.port')}: without TLS everybody on the way reads along; give"
            " --tlscert and --tlskey, or --websocket_no_tls behind a proxy that has TLS, or"
            " --websocket_host 127.0.0.1"
        )
    if values["websocket.max_frame"] < values["limits.max_payload"] + FLUSHED:
        problems.append(
            f"{place('websocket.max_frame')}: is too small for limits.max_payload, which is"
            f" {values['limits.max_payload']}: clients put up to 64 KiB of other messages into the"
            " same frame; raise websocket.max_frame or lower limits.max_payload"
        )
    return problems
