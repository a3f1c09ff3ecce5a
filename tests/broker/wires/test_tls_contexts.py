"""The contexts of TLS: made from files that can be used, and refused in one line otherwise."""

import shutil
import ssl
import subprocess
from pathlib import Path
from typing import Any

import pytest

from broker.settings.tls_settings import BrokerTlsSettings
from broker.wires.tls_contexts import TlsFault, client_facing_context, key_warning, member_contexts
from tests.support.authority import Authority


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`own`, `other`, `both` in one file, a key with a passphrase, and a file of neither."""
    folder = tmp_path_factory.mktemp("files")
    authority = Authority(folder)
    authority.issue("own")
    authority.issue("other")
    own = (folder / "own.pem").read_text() + (folder / "own.key").read_text()
    (folder / "both.pem").write_text(own)
    (folder / "neither.pem").write_text("hello\n")
    (folder / "empty.pem").write_text("")
    command = ["openssl", "ec", "-in", "own.key", "-aes256", "-passout", "pass:x", "-out", "en.key"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return folder


def settings(folder: Path, **given: object) -> BrokerTlsSettings:
    """With the names of files in this folder."""
    found: dict[str, Any] = {
        name: str(folder / value) if name.endswith("_file") and isinstance(value, str) else value
        for name, value in given.items()
    }
    return BrokerTlsSettings(**found)


def shake_hands(server: ssl.SSLContext, client: ssl.SSLContext, name: str) -> tuple[str, str]:
    """The versions that both sides agree on."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    one = server.wrap_bio(to_server, to_client, server_side=True)
    other = client.wrap_bio(to_client, to_server, server_hostname=name)
    waiting = [other, one]
    for _ in range(10):
        for side in list(waiting):
            try:
                side.do_handshake()
                waiting.remove(side)
            except ssl.SSLWantReadError:
                pass
    assert not waiting
    return one.version() or "", other.version() or ""


@pytest.mark.parametrize(
    "given", [{"cert_file": "own.pem", "key_file": "own.key"}, {"cert_file": "both.pem"}]
)
def test_given_a_certificate_and_its_key_then_clients_are_served(
    files: Path, given: dict[str, str]
) -> None:
    made = client_facing_context(settings(files, **given))
    assert made.verify_mode is ssl.CERT_NONE
    assert shake_hands(made, ssl.create_default_context(cafile=files / "ca.pem"), "localhost") == (
        "TLSv1.3",
        "TLSv1.3",
    )


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "TLS needs a certificate: give tls.cert_file (--tlscert)"),
        ({"cert_file": "missing"}, "tls.cert_file {}/missing: cannot be read: No such file"),
        ({"cert_file": "."}, "tls.cert_file {}: cannot be read: Is a directory"),
        ({"cert_file": "neither.pem"}, "tls.cert_file {}/neither.pem: holds no PEM certificate"),
        ({"cert_file": "empty.pem"}, "tls.cert_file {}/empty.pem: holds no PEM certificate"),
        ({"cert_file": "own.pem"}, "tls.cert_file {}/own.pem: holds no PEM private key"),
        (
            {"cert_file": "own.pem", "key_file": "neither.pem"},
            "tls.key_file {}/neither.pem: holds no PEM private key",
        ),
        (
            {"cert_file": "own.pem", "key_file": "en.key"},
            "tls.key_file {}/en.key: holds no PEM private key that can be used without a pass",
        ),
        (
            {"cert_file": "own.pem", "key_file": "other.key"},
            "tls.key_file {0}/other.key: is not the key of the certificate in {0}/own.pem",
        ),
        ({"cert_file": "both.pem", "verify": True}, "tls.verify needs the certificates that peers"),
        (
            {"cert_file": "both.pem", "verify": True, "ca_file": "missing"},
            "tls.ca_file {}/missing: cannot be read",
        ),
        (
            {"cert_file": "both.pem", "verify_and_map": True, "ca_file": "neither.pem"},
            "tls.ca_file {}/neither.pem: holds no PEM certificate",
        ),
    ],
)
def test_given_files_that_cannot_be_used_then_one_line_says_which(
    files: Path, given: dict[str, object], said: str
) -> None:
    with pytest.raises(TlsFault) as caught:
        client_facing_context(settings(files, **given))
    text = str(caught.value)
    assert text.startswith(said.format(files)), text
    assert "\n" not in text


def test_given_an_old_version_of_tls_then_it_is_refused(files: Path) -> None:
    context = client_facing_context(settings(files, cert_file="both.pem"))
    assert context.minimum_version is ssl.TLSVersion.TLSv1_2
    newest = client_facing_context(settings(files, cert_file="both.pem", min_version="1.3"))
    client = ssl.create_default_context(cafile=files / "ca.pem")
    client.maximum_version = ssl.TLSVersion.TLSv1_2
    assert shake_hands(context, client, "localhost") == ("TLSv1.2", "TLSv1.2")
    with pytest.raises(ssl.SSLError):
        shake_hands(newest, client, "localhost")


def test_given_a_client_then_it_cannot_ask_for_handshakes_again(files: Path) -> None:
    context = client_facing_context(settings(files, cert_file="both.pem"))
    assert context.options & ssl.OP_NO_RENEGOTIATION


def test_given_members_then_each_side_verifies_the_other(files: Path) -> None:
    accepting, connecting = member_contexts(settings(files, cert_file="both.pem", ca_file="ca.pem"))
    assert shake_hands(accepting, connecting, "localhost") == ("TLSv1.3", "TLSv1.3")
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(accepting, connecting, "elsewhere.example")
    without = ssl.create_default_context(cafile=files / "ca.pem")
    without.maximum_version = ssl.TLSVersion.TLSv1_2  # 1.3 tells the client later
    with pytest.raises(ssl.SSLError):
        shake_hands(accepting, without, "localhost")
    with pytest.raises(TlsFault, match="a cluster with TLS needs the certificates"):
        member_contexts(settings(files, cert_file="both.pem"))


def test_given_a_key_that_everybody_may_read_then_there_is_a_warning(
    files: Path, tmp_path: Path
) -> None:
    key = tmp_path / "key.pem"
    shutil.copy(files / "own.key", key)
    given = BrokerTlsSettings(cert_file=str(files / "own.pem"), key_file=str(key))
    key.chmod(0o640)
    assert key_warning(given) == ""
    key.chmod(0o644)
    assert key_warning(given).startswith(f"{key}: every user of this machine can read")
    key.unlink()
    assert key_warning(given) == "", "the context says so"
