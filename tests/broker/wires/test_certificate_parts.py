"""Parts of certificates, as OpenSSL writes and reads them, and of what is not one."""

import hashlib
import ssl
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.wires.certificate_parts import element, name_parts, parts_of
from tests.support.authority import Authority

SUBJECT = "/C=CH/O=Acme, Inc./OU=a+UID=7/CN=alice/emailAddress=a@example.com"


@pytest.fixture(scope="module")
def pem(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Authority(tmp_path_factory.mktemp("authority")).issue("alice", SUBJECT)


@pytest.fixture(scope="module")
def der(pem: Path) -> bytes:
    return ssl.PEM_cert_to_DER_cert(pem.read_text())


def openssl(*arguments: str, data: bytes = b"") -> bytes:
    return subprocess.run(
        ["openssl", *arguments], input=data, check=True, capture_output=True
    ).stdout


def test_given_a_certificate_then_its_key_is_the_one_that_openssl_finds(
    pem: Path, der: bytes
) -> None:
    public = openssl("x509", "-in", str(pem), "-noout", "-pubkey")
    wanted = openssl("pkey", "-pubin", "-outform", "DER", data=public)
    assert hashlib.sha256(parts_of(der).public_key).digest() == hashlib.sha256(wanted).digest()


def test_given_a_certificate_then_its_subject_has_all_types_and_values_in_order(der: bytes) -> None:
    found = [pair for part in name_parts(parts_of(der).subject) for pair in part]
    assert found[:2] == [("2.5.4.6", "CH"), ("2.5.4.10", "Acme, Inc.")]
    assert sorted(found[2:4]) == [("0.9.2342.19200300.100.1.1", "7"), ("2.5.4.11", "a")]
    assert found[4:] == [("2.5.4.3", "alice"), ("1.2.840.113549.1.9.1", "a@example.com")]


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        (0x0C, "Zürich".encode(), "Zürich"),
        (0x0C, b"Z\xff", "Z\N{REPLACEMENT CHARACTER}"),
        (0x13, b"Z", "Z"),
        (0x14, b"Z\xfc", "Zü"),
        (0x1C, "ü€".encode("utf-32-be"), "ü€"),
        (0x1E, "ü€".encode("utf-16-be"), "ü€"),
    ],
)
def test_given_a_type_of_text_then_the_value_is_decoded(kind: int, value: bytes, text: str) -> None:
    pair = b"\x06\x03\x55\x04\x03" + bytes([kind, len(value)]) + value
    part = bytes([0x30, len(pair)]) + pair
    name = bytes([0x31, len(part)]) + part
    assert list(name_parts(memoryview(name))) == [[("2.5.4.3", text)]]


@pytest.mark.parametrize("kind", [b"", b"\x55\x84", b"\x81" * 64 + b"\x01"])
def test_given_a_type_that_is_wrong_or_endless_then_it_is_refused(kind: bytes) -> None:
    pair = bytes([0x06, len(kind)]) + kind + b"\x13\x01x"
    part = bytes([0x30, len(pair)]) + pair
    with pytest.raises(ValueError, match="a type in a name is wrong"):
        list(name_parts(memoryview(bytes([0x31, len(part)]) + part)))


def test_given_a_long_element_then_its_length_is_read() -> None:
    content = b"x" * 300
    tag, found, rest = element(memoryview(b"\x04\x82\x01\x2c" + content + b"after"))
    assert (tag, found, rest) == (4, content, b"after")


@given(st.data())
def test_given_a_damaged_certificate_then_it_is_read_or_refused(
    der: bytes, data: st.DataObject
) -> None:
    at = data.draw(st.integers(0, len(der) - 1))
    damaged = der[:at] + bytes([data.draw(st.integers(0, 255))]) + der[at + 1 :]
    damaged = damaged[: data.draw(st.integers(0, len(damaged)))]
    try:
        parts = parts_of(damaged)
        found = list(name_parts(parts.subject))
    except ValueError:
        return
    assert len(parts.public_key) <= len(damaged)
    assert all(kind.replace(".", "").isdecimal() for group in found for kind, _ in group)
