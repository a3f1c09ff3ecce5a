"""Certificates of members of a cluster, for tests: an authority, and what it signs.

ca = MemberAuthority(folder)
one = ca.issue("one", "DNS:localhost", "IP:127.0.0.1")     one.cert, one.key, ca.pem
"""

import subprocess
from pathlib import Path
from typing import NamedTuple

BOTH = "serverAuth,clientAuth"
CURVE = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]


class Issued(NamedTuple):
    """The files of a certificate and its key."""

    cert: str
    key: str


class MemberAuthority:
    """One that signs certificates; its own is the file `pem`."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        self._folder, self._name = folder, name
        self.pem = str(folder / f"{name}.pem")
        self._key = str(folder / f"{name}.key")
        _openssl(
            *("req", "-x509", *CURVE, "-days", "2", "-keyout", self._key, "-out", self.pem),
            *("-subj", f"/CN={name}", "-addext", "basicConstraints=critical,CA:TRUE"),
        )

    def issue(self, name: str, *names: str, usage: str = BOTH, days: int = 2) -> Issued:
        """A certificate for these names, each as DNS:HOST or IP:ADDRESS; `days` -1: expired."""
        paths = [str(self._folder / f"{self._name}-{name}.{end}") for end in ("pem", "key", "csr")]
        cert, key, request = paths
        extensions = [f"subjectAltName={','.join(names)}"] if names else []
        extensions += [f"extendedKeyUsage={usage}"] if usage else []
        added = [word for extension in extensions for word in ("-addext", extension)]
        _openssl(
            "req", *CURVE, "-keyout", key, "-out", request, "-subj", f"/CN={name}", *added
        )  # fmt: skip
        _openssl(
            *("x509", "-req", "-in", request, "-CA", self.pem, "-CAkey", self._key),
            *("-days", str(days), "-copy_extensions", "copy", "-out", cert),
        )
        return Issued(cert, key)


def _openssl(*arguments: str) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True)
