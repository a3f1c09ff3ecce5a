"""Brokers with authentication: nats-server with users, certificates and credentials."""

import base64
import json
import os
import subprocess
from pathlib import Path
from typing import Any

from tests.support.processes import BIN, ServerProcess

SUBJECT = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
CURVE = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]


def nats_server(folder: Path, config: str) -> ServerProcess:
    """A nats-server with this configuration."""
    path = folder / "nats.conf"
    path.write_text(config)
    return ServerProcess([str(BIN / "nats-server"), "-c", str(path)])


def make_certificates(folder: Path) -> Path:
    """`server.pem` and `client.pem`, each with its `.key`, and vouched for by itself alone."""
    for name in ("server", "client"):
        command = ["openssl", "req", "-x509", *CURVE, "-nodes", "-days", "2"]
        command += ["-keyout", f"{name}.key", "-out", f"{name}.pem", *SUBJECT]
        subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return folder


AUTHORITY = """[ca]
default_ca = own
[own]
database = index.txt
serial = serial.txt
new_certs_dir = .
default_md = sha256
policy = any
[any]
commonName = supplied
"""


def make_past_certificate(folder: Path) -> tuple[Path, Path]:
    """A certificate that was valid in January 2020, and its key."""
    (folder / "ca.conf").write_text(AUTHORITY)
    (folder / "index.txt").touch()
    (folder / "serial.txt").write_text("01\n")
    asked = ["openssl", "req", "-new", *CURVE, "-nodes", "-keyout", "past.key", "-out", "past.csr"]
    signed = ["openssl", "ca", "-batch", "-selfsign", "-config", "ca.conf", "-notext"]
    signed += ["-in", "past.csr", "-keyfile", "past.key", "-out", "past.pem"]
    signed += ["-startdate", "20200101000000Z", "-enddate", "20200201000000Z"]
    for command in ([*asked, "-subj", "/CN=localhost"], signed):
        subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return folder / "past.pem", folder / "past.key"


def tls(certificates: Path, more: str = "") -> str:
    """What a configuration says to speak TLS."""
    own = f'cert_file: "{certificates}/server.pem", key_file: "{certificates}/server.key"'
    return f"tls {{ {own} {more} }}\n"


class Vouching:
    """An operator, its account and a user of that: who signs whom, as NATS' servers read it."""

    def __init__(self, nkeys: Any) -> None:
        prefixes = (
            nkeys.PREFIX_BYTE_OPERATOR,
            nkeys.PREFIX_BYTE_ACCOUNT,
            nkeys.PREFIX_BYTE_USER,
        )
        self.operator, self.account, self.user = (
            nkeys.from_seed(nkeys.encode_seed(os.urandom(32), prefix)) for prefix in prefixes
        )

    @property
    def config(self) -> str:
        """Of a server that trusts the operator."""
        account = self.account.public_key.decode()
        known = f"{account}: {_signed(self.operator, self.account, 'account')}"
        vouching = _signed(self.operator, self.operator, "operator")
        return f"operator: {vouching}\nresolver: MEMORY\nresolver_preload: {{ {known} }}"

    def credentials(self, path: Path, by: Any) -> Path:
        """The user's credentials file, as `by` signs it."""
        path.write_text(
            f"-----BEGIN NATS USER JWT-----\n{_signed(by, self.user, 'user')}\n"
            "------END NATS USER JWT------\n\nKeep it.\n\n"
            f"-----BEGIN USER NKEY SEED-----\n{self.user.seed.decode()}\n"
            "------END USER NKEY SEED------\n"
        )
        return path


def _signed(by: Any, whose: Any, kind: str) -> str:
    """A JWT: what `by` says that `whose` is."""
    subject = whose.public_key.decode()
    claims: dict[str, Any] = {
        "sub": subject,
        "iss": by.public_key.decode(),
        "iat": 1,
        "jti": subject,
        "name": kind,
    }
    claims["nats"] = {"type": kind, "version": 2}
    if kind == "account":
        claims["nats"]["limits"] = dict.fromkeys(("conn", "subs", "data", "payload"), -1)
    if kind == "user":
        claims["nats"] |= dict.fromkeys(("subs", "data", "payload"), -1)
    parts = ({"typ": "JWT", "alg": "ed25519-nkey"}, claims)
    text = ".".join(_encoded(json.dumps(part).encode()) for part in parts)
    return f"{text}.{_encoded(by.sign(text.encode()))}"


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")
