"""/connz of clients with TLS, ours and nats-server's: the same fields with the same values."""

import ssl
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.authority import Authority
from tests.support.processes import STAND_IN, SeriatimServer, ServerProcess
from tests.support.raw import QUIET
from tests.support.raw_secured import WAYS, Way, way
from tests.support.secured import nats_server
from tests.support.web import get, http_port

pytestmark = pytest.mark.skipif(STAND_IN, reason="of our own process")

SUBJECTS = {
    "plain": "/CN=alice",
    "many": "/C=CH/ST=ZH/L=Zurich/street=Way 1/postalCode=8000/O=Acme, Inc./OU=b/OU=a"
    "/serialNumber=7/DC=example/DC=com/UID=u7/CN=first/CN=last/emailAddress=a@example.com"
    "/title=Dr; x",
    "pair": "/O=#1/OU=T+UID=7/CN= x ",
    "space": "/O= /CN=x",
    "nobody": "/",
}
TLS_FIELDS = ("tls_version", "tls_cipher_suite", "tls_peer_certs", "tls_first")


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    made = Authority(tmp_path_factory.mktemp("authority"))
    made.issue("server")
    for name, subject in SUBJECTS.items():
        made.issue(name, subject)
    return made


def of_nats_server(authority: Authority, folder: Path, name: str) -> ServerProcess:
    """nats-server with such a listener, and with monitoring."""
    files = {"cert_file": "server.pem", "key_file": "server.key", "ca_file": "ca.pem"}
    tls = ", ".join(f'{key}: "{authority.folder}/{file}"' for key, file in files.items())
    tls = f"{tls}, verify: true"
    web = '"127.0.0.1:-1"'
    config = {
        "tls": f"tls {{ {tls} }}",
        "tls first": f"tls {{ {tls}, handshake_first: true }}",
        "ws": f"websocket {{ listen: {web}, no_tls: true }}",
        "wss": f"websocket {{ listen: {web}, tls {{ {tls} }} }}",
    }[name]
    return nats_server(folder, f'http: "127.0.0.1:-1"\n{config}\n')


def of_ours(authority: Authority, name: str) -> SeriatimServer:
    verifying = [] if name == "ws" else authority.verifying()
    return way(name, authority).broker("-m", "-1", *verifying)


class Pair:
    """The same way in to both."""

    def __init__(self, name: str, authority: Authority, both: list[ServerProcess]) -> None:
        self.name = name
        self.authority = authority
        self._both = both

    def shown(self, entry: Way, query: str = "") -> list[dict[str, Any]]:
        """What each shows of one client's TLS, ours first."""
        found = []
        for server in self._both:
            with entry.client(server, QUIET) as client:
                client.ask(b"")
                (one,) = get(http_port(server), f"/connz{query}").json["connections"]
            found.append({key: value for key, value in one.items() if key in TLS_FIELDS})
        return found

    def entry(self, own: str) -> Way:
        return way(self.name, self.authority, own)


@pytest.fixture(params=WAYS, scope="module")
def pair(
    request: pytest.FixtureRequest, authority: Authority, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Pair]:
    folder = tmp_path_factory.mktemp("nats")
    with (
        of_ours(authority, request.param) as ours,
        of_nats_server(authority, folder, request.param) as theirs,
    ):
        yield Pair(request.param, authority, [ours, theirs])


@pytest.mark.parametrize("own", SUBJECTS)
def test_given_a_client_with_a_certificate_then_both_show_the_same_of_its_tls(
    pair: Pair, own: str
) -> None:
    ours, theirs = pair.shown(pair.entry(own), "?auth=1")
    # Each prefers another suite of TLS 1.3.
    assert ours.pop("tls_cipher_suite", "")[:8] == theirs.pop("tls_cipher_suite", "")[:8]
    assert ours == theirs
    assert len(ours.get("tls_peer_certs", ())) == (0 if pair.name == "ws" else 2)
    assert ours.get("tls_first", False) == (pair.name == "tls first")


def test_given_a_client_that_sends_its_certificate_alone_then_both_show_one(pair: Pair) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # it knows no authority to send
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    certificate = pair.authority.folder / "plain.pem"
    context.load_cert_chain(certificate, certificate.with_suffix(".key"))
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    entry = pair.entry("plain")
    ours, theirs = pair.shown(replace(entry, context=entry.context and context), "?auth=1")
    assert ours.get("tls_peer_certs") == theirs.get("tls_peer_certs")
    assert len(ours.get("tls_peer_certs", ())) == (0 if pair.name == "ws" else 1)
    assert ours.get("tls_version") == theirs.get("tls_version")


def test_given_nobody_asks_who_clients_are_then_no_certificate_is_shown(pair: Pair) -> None:
    ours, theirs = pair.shown(pair.entry("plain"))
    assert ours.keys() == theirs.keys()
    assert "tls_peer_certs" not in ours


def test_given_no_certificate_then_none_is_shown(authority: Authority) -> None:
    entry = way("tls", authority)
    with entry.broker("-m", "-1") as broker, entry.client(broker, QUIET) as client:
        client.ask(b"")
        (shown,) = get(http_port(broker), "/connz?auth=1").json["connections"]
        assert shown["tls_version"] == "1.3"
        assert "tls_peer_certs" not in shown
