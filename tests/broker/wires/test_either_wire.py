"""Settings of TLS that let clients do without it, or refuse those that an authority has signed.

What the broker says in each case was compared with nats-server 2.15.1.
"""

import hashlib
import ssl
from pathlib import Path

import pytest

from broker.wires.certificate_parts import parts_of
from tests.support.authority import Authority
from tests.support.processes import SeriatimServer
from tests.support.raw import QUIET, RawClient
from tests.support.raw_secured import WiredClient, way

LATE = "300ms"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    made = Authority(tmp_path_factory.mktemp("authority"))
    made.issue("server")
    made.issue("alice", "/CN=alice")
    made.issue("bob", "/CN=bob")
    return made


def pin(authority: Authority, name: str) -> str:
    der = ssl.PEM_cert_to_DER_cert((authority.folder / f"{name}.pem").read_text())
    return hashlib.sha256(parts_of(der).public_key).hexdigest()


class SecuredClient(RawClient):
    """It shakes hands though INFO does not say that it must."""

    def __init__(self, broker: SeriatimServer, context: ssl.SSLContext) -> None:
        self._context = context
        super().__init__(broker.port)

    def _first_info(self) -> dict[str, object]:
        info = super()._first_info()
        self.socket = self._context.wrap_socket(self.socket, server_hostname="localhost")
        return info


def test_given_clients_with_and_without_tls_on_one_port_then_both_are_served(
    authority: Authority,
) -> None:
    flags = [*authority.flags(), "--allow_non_tls", "--tls_timeout", "300s"]
    with SeriatimServer("none", arguments=flags) as broker:
        with RawClient(broker.port) as plain, SecuredClient(broker, authority.context()) as secure:
            for client in (plain, secure):
                assert client.info["tls_available"] is True
                assert "tls_required" not in client.info
            plain.socket.sendall(b"C")  # one byte decides
            assert plain.ask(QUIET[1:] + b"SUB a 1\r\n") == []
            assert secure.ask(QUIET + b"PUB a 6\r\nsecret\r\n") == []
            assert plain.operation().payload == b"secret"
        with RawClient(broker.port) as late:  # it leaves without a word
            assert late.info


def test_given_a_client_that_says_nothing_for_long_then_it_is_one_without_tls(
    authority: Authority,
) -> None:
    flags = [*authority.flags(), "--allow_non_tls", "--tls_timeout", LATE]
    limits = {"ping_interval": "500ms"}
    with SeriatimServer("none", limits, flags) as broker, RawClient(broker.port) as client:
        client.pings = True
        assert client.operation().verb == "PING", "it is served, so it is asked whether it lives"
        assert client.ask(b"PONG\r\n" + QUIET) == []


def test_given_pinned_keys_then_other_certificates_are_refused_and_the_log_names_them(
    authority: Authority,
) -> None:
    pins = ["--tls_pinned_certs", pin(authority, "alice").upper()]
    flags = [*authority.flags(), *authority.verifying(), *pins]
    with SeriatimServer("none", arguments=flags) as broker:
        alice = way("tls", authority, "alice")
        with WiredClient(broker.port, QUIET, way=alice) as client:
            assert client.ask(b"") == []
        bob = way("tls", authority, "bob")
        with (
            pytest.raises((ssl.SSLError, ConnectionError, AssertionError)),
            WiredClient(broker.port, QUIET, way=bob) as client,
        ):
            client.ask(b"")
        assert broker.await_line(
            "TLS handshake error: its certificate is not pinned (tls.pinned_certs): 'CN=bob',"
            f" with the key {pin(authority, 'bob')}"
        )


def test_given_a_certificate_that_no_user_is_named_in_then_the_log_has_its_names(
    authority: Authority, tmp_path: Path
) -> None:
    config = tmp_path / "broker.toml"
    config.write_text('[[authorization.users]]\nuser = "CN=bob"\n')
    authorities = ["--tlscacert", str(authority.certificate), "--tls_map", "-c", str(config)]
    with SeriatimServer("none", arguments=[*authority.flags(), *authorities]) as broker:
        with WiredClient(broker.port, way=way("tls", authority, "bob")) as client:
            assert client.ask(QUIET) == []
        with WiredClient(broker.port, way=way("tls", authority, "alice")) as client:
            said, closed = client.answer(QUIET, 1)
            assert (said, closed) == (b"-ERR 'Authorization Violation'\r\n", True)
        assert broker.await_line(
            "Authentication Failure: no user has a name of its certificate: 'localhost', 'CN=alice'"
        )


def test_given_no_header_support_then_info_says_so_and_hpub_closes_the_connection() -> None:
    connect = b'CONNECT {"verbose":false,"headers":true}\r\n'
    with SeriatimServer("none", arguments=["--no_header_support"]) as broker:
        with RawClient(broker.port, connect) as client:
            assert client.info["headers"] is False
            assert client.ask(b"SUB a 1\r\nPUB a 2\r\nhi\r\n")[0].payload == b"hi"
            said, closed = client.answer(b"HPUB a 12 14\r\nNATS/1.0\r\n\r\nhi\r\n", 1)
            assert (said, closed) == (b"", True)
        asks = b'CONNECT {"headers":true,"no_responders":true}\r\n'
        with RawClient(broker.port) as client:
            said, closed = client.answer(asks, 1)
            assert (said, closed) == (
                b"-ERR 'no responders requires headers support'\r\n",
                True,
            )
