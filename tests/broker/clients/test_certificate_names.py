"""The names that a certificate stands for, as OpenSSL reads a real one."""

import ssl
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from broker.clients.certificate_names import names_in
from tests.support.authority import Authority


def read(authority: Authority, certificate: Path) -> dict[str, Any]:
    """A client's certificate, as the server sees it after a handshake."""
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
    return one.getpeercert() or {}


def test_given_a_real_certificate_then_all_its_names_are_found_in_order(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    certificate = authority.issue(
        "alice",
        "/C=CH/O=Acme, Inc./OU=Trading/CN=alice",
        "DNS:alice.example,email:alice@example.com,URI:spiffe://example/alice,IP:10.0.0.1",
    )
    assert names_in(read(authority, certificate)) == (
        "alice@example.com",
        "alice.example",
        "spiffe://example/alice",
        "CN=alice,OU=Trading,O=Acme\\, Inc.,C=CH",
        "C=CH,O=Acme\\, Inc.,OU=Trading,CN=alice",
    )


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("a,b", "a\\,b"),
        ("a+b=c", "a\\+b=c"),
        ('"a"', '\\"a\\"'),
        ("a\\b", "a\\\\b"),
        ("#a", "\\#a"),
        (" a ", "\\ a\\ "),
        ("<a;>", "\\<a\\;\\>"),
    ],
)
def test_given_a_value_with_special_characters_then_it_is_escaped(value: str, written: str) -> None:
    assert names_in({"subject": ((("commonName", value),),)}) == (f"CN={written}",)


def test_given_a_part_with_two_values_then_both_are_in_it() -> None:
    subject = ((("userId", "7"), ("commonName", "x")), (("domainComponent", "example"),))
    assert names_in({"subject": subject}) == ("DC=example,UID=7+CN=x", "UID=7+CN=x,DC=example")


def test_given_a_certificate_without_names_then_there_are_none() -> None:
    assert names_in({}) == ()
