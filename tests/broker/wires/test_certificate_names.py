"""The names that a certificate stands for, as OpenSSL reads a real one, and whom they lead to."""

import ssl
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from broker.auth.users import Users
from broker.settings.authorization_settings import AuthorizationSettings, UserSettings
from broker.wires.certificate_names import names_in
from tests.support.authority import Authority

# The subjects of the certificates of nats-server's test TestTLSClientAuthWithRDNSequence.
A = "/C=US/ST=CA/L=Los Angeles/O=NATS/OU=NATS/CN=localhost/DC=foo1/DC=foo2"
B = "/C=US/ST=CA/L=Los Angeles/O=NATS/OU=NATS/CN=localhost"
C = "/C=US/ST=CA/L=Los Angeles/O=NATS/OU=NATS/CN=localhost/DC=foo3/DC=foo4"
D = "/C=US/ST=CA/L=Los Angeles/OU=NATS/O=NATS/CN=*.example.com/DC=example/DC=com"
E = "/CN=John Doe/CN=123456/CN=jdoe/OU=Users/OU=Organic Units/DC=acme/DC=com"
F = "/DC=org/DC=OpenSSL/DC=DEV+O=users/CN=John Doe"

BASE = "OU=NATS,O=NATS,L=Los Angeles,ST=CA,C=US"
BEHIND = f"CN=localhost,{BASE},DC=foo1,DC=foo2"
BEFORE = f"DC=foo2,DC=foo1,CN=localhost,{BASE}"
SWAPPED = "O=NATS,OU=NATS,L=Los Angeles,ST=CA,C=US"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


def read(authority: Authority, certificate: Path) -> tuple[dict[str, Any], bytes]:
    """A client's certificate, as the server sees it after a handshake, and its DER."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(certificate, certificate.with_suffix(".key"))
    server.load_verify_locations(authority.certificate)
    server.verify_mode = ssl.CERT_REQUIRED
    client = authority.context(certificate.stem)
    client.check_hostname = False
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    one = server.wrap_bio(to_server, to_client, server_side=True)
    other = client.wrap_bio(to_client, to_server)
    for _ in range(5):
        for side in (other, one):
            with suppress(ssl.SSLWantReadError):
                side.do_handshake()
    return one.getpeercert() or {}, one.getpeercert(binary_form=True) or b""


def test_given_a_real_certificate_then_all_its_names_are_found_in_order(
    authority: Authority,
) -> None:
    certificate = authority.issue(
        "alice",
        "/C=CH/O=Acme, Inc./OU=Trading/CN=alice/DC=example/DC=com",
        "DNS:alice.example,email:alice@example.com,URI:spiffe://example/alice,IP:10.0.0.1",
    )
    assert [str(name) for name in names_in(*read(authority, certificate))] == [
        "alice@example.com",
        "alice.example",
        "spiffe://example/alice",
        "DC=com,DC=example,CN=alice,OU=Trading,O=Acme\\, Inc.,C=CH",
        "CN=alice,OU=Trading,O=Acme\\, Inc.,C=CH,DC=example,DC=com",
        "CN=alice,OU=Trading,O=Acme\\, Inc.,C=CH",
    ]


@pytest.mark.parametrize(
    ("subject", "users", "found"),
    [
        # those of nats-server's tests, with its results
        (A, [BEHIND], BEHIND),
        (A, [BEFORE], BEFORE),
        (B, [BEFORE, BEHIND, f"CN=localhost,{BASE}"], f"CN=localhost,{BASE}"),
        (C, [BEFORE, BEHIND, f"CN=localhost,{BASE}"], f"CN=localhost,{BASE}"),
        (C, [BEHIND, BEFORE], None),
        (A, [BEFORE.replace(",", ", ")], BEFORE.replace(",", ", ")),
        (D, [f"DC=com, DC=example, CN=*.example.com, {SWAPPED}"], "first"),
        (D, [f"CN=*.example.com,{BASE},DC=example,DC=com"], "first"),
        (
            D,
            [
                f"CN=*.example.com,{BASE},DC=example,DC=com",
                f"DC=com,DC=example,CN=*.example.com,{SWAPPED}",
                f"CN=*.example.com,{BASE}",
            ],
            f"DC=com,DC=example,CN=*.example.com,{SWAPPED}",
        ),
        (E, ["DC=com,DC=acme,OU=Organic Units,OU=Users,CN=jdoe,CN=123456,CN=John Doe"], "first"),
        (F, ["CN=John Doe,DC=DEV+O=users,DC=OpenSSL,DC=org"], "first"),
        (F, ["CN=John Doe,DC=DEV,DC=OpenSSL,DC=org"], None),
        (F, ["CN=John Doe,O=users+DC=DEV,DC=OpenSSL,DC=org"], "first"),
        (F, ["DC=org,DC=OpenSSL,O=users+DC=DEV,CN=John Doe"], "first"),
        (F, ["DC=org,DC=OpenSSL,O=users,CN=John Doe"], None),
        (F, ["DC=OpenSSL, DC=org, O=users, CN=John Doe"], None),
        # and others
        ("/CN=a\\+b/UID=7", ["uid=7, cn=a\\+b"], "first"),
        ("/CN=alice", ["alice"], None),
        ("/CN=alice", ["CN=Alice", "cn=alice"], "cn=alice"),
    ],
)
def test_given_users_with_distinguished_names_then_the_certificate_is_the_user_as_in_nats_server(
    authority: Authority, subject: str, users: list[str], found: str | None
) -> None:
    names = names_in(*read(authority, authority.issue("client", subject, "DNS:example.com")))
    known = Users(AuthorizationSettings(users=tuple(UserSettings(user=one) for one in users)))
    user = known.of_certificate(names)
    assert (None if user is None else user.name) == (users[0] if found == "first" else found)


def test_given_no_certificate_then_there_are_no_names() -> None:
    assert names_in({}, b"") == ()
