"""One certificate as /connz shows it, and one that cannot be read."""

import hashlib
import ssl
from pathlib import Path

from broker.monitor.views import peer_certificate
from tests.support.authority import Authority


def test_given_a_certificate_then_its_subject_and_two_hashes_are_shown(tmp_path: Path) -> None:
    pem = Authority(tmp_path).issue("alice", "/O=Acme/CN=alice")
    der = ssl.PEM_cert_to_DER_cert(pem.read_text())
    shown = peer_certificate(der)
    assert shown["subject"] == "CN=alice,O=Acme"
    assert shown["cert_sha256"] == hashlib.sha256(der).hexdigest()
    assert len(shown["spki_sha256"]) == 64


def test_given_what_cannot_be_read_then_its_hash_is_shown() -> None:
    assert peer_certificate(b"x") == {"cert_sha256": hashlib.sha256(b"x").hexdigest()}


def test_given_no_subject_then_none_is_shown(tmp_path: Path) -> None:
    pem = Authority(tmp_path).issue("nobody", "/")
    shown = peer_certificate(ssl.PEM_cert_to_DER_cert(pem.read_text()))
    assert sorted(shown) == ["cert_sha256", "spki_sha256"]
