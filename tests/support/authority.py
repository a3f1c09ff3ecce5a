"""Certificates for tests: an authority of our own, and whom it vouches for."""

import ssl
import subprocess
from pathlib import Path

CURVE = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
HERE = "DNS:localhost,IP:127.0.0.1,IP:::1"


class Authority:
    """Signs certificates; its own is `ca.pem`."""

    def __init__(self, folder: Path, name: str = "ca") -> None:
        self.folder = folder
        self.name = name
        folder.mkdir(parents=True, exist_ok=True)
        _openssl(folder, "req", "-x509", *CURVE, *_written(name), "-subj", f"/CN={name}")
        self.certificate = folder / f"{name}.pem"

    def issue(self, name: str, subject: str = "/CN=localhost", names: str = HERE) -> Path:
        """`name.pem` and `name.key`, signed; the path of the first. A name again: new files."""
        extra = ["-addext", f"subjectAltName={names}"] if names else []
        own = [str(self.certificate), "-CAkey", str(self.folder / f"{self.name}.key")]
        request = ["-x509", *CURVE, *_written(name), "-subj", subject, *extra]
        plain = ["-addext", "basicConstraints=critical,CA:FALSE"]
        _openssl(self.folder, "req", *request, *plain, "-CA", *own)
        return self.folder / f"{name}.pem"

    def flags(self, name: str = "server") -> list[str]:
        """The flags of a broker with this certificate, which is issued if it is missing."""
        certificate = self.folder / f"{name}.pem"
        if not certificate.exists():
            self.issue(name)
        own = ["--tlscert", str(certificate), "--tlskey", str(certificate.with_suffix(".key"))]
        return [*own, "--tls_timeout", "1m"]  # 2 s, the default, may be over on a busy machine

    def verifying(self) -> list[str]:
        """The flags of a broker that asks clients for a certificate."""
        return ["--tlsverify", "--tlscacert", str(self.certificate)]

    def context(self, own: str = "") -> ssl.SSLContext:
        """A client's, which trusts this authority; it shows its `own` certificate if it has one."""
        context = ssl.create_default_context(cafile=self.certificate)
        if own:
            certificate = self.folder / f"{own}.pem"
            context.load_cert_chain(certificate, certificate.with_suffix(".key"))
        return context


def _written(name: str) -> list[str]:
    return ["-keyout", f"{name}.key", "-out", f"{name}.pem"]


def _openssl(folder: Path, *arguments: str) -> None:
    subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)
