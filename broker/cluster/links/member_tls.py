"""TLS between two members: bytes in, bytes out, and the check that a certificate fits a member.

Both sides show their certificate, and require one that `tls.ca_file` has signed. A member is named
by the host of the address at which the others reach it (`cluster.member_advertise`), which is in
etcd's list of members. Its certificate must contain that name, as a DNS name or an IP address:

    dialler     checks it for the host that it dials, in the handshake
    listener    checks it for the host of the member that the other says it is, at its HELLO

So a client cannot become a member with its certificate, nor can one member pose as another. The
secret of the cluster (cluster_secret.py) is proven afterwards, inside TLS.
"""

import ipaddress
import ssl
from contextlib import suppress
from typing import Final, cast

from broker.settings.tls_settings import BrokerTlsSettings
from broker.wires.tls_contexts import TlsFault, member_contexts

NAMES_SHOWN: Final = 4  # of a certificate, in a line of the log
ROUND_TRIPS_MAX: Final = 10  # of a handshake; it takes two

# Codes of OpenSSL (x509_vfy.h), and what the log says when a certificate is refused.
REFUSALS: Final = {
    9: "its certificate is not valid yet: compare the clocks, or wait",
    10: "its certificate has expired: give that member a new one",
    26: "its certificate may not be used for this: a member connects and is connected to, so it"
    " needs both serverAuth and clientAuth as extendedKeyUsage, or none",
}
UNTRUSTED: Final = (18, 19, 20, 21)  # self-signed, or by an unknown authority
OTHER_NAME: Final = (62, 64)  # not for this DNS name, not for this IP address
NO_TLS: Final = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "UNKNOWN_PROTOCOL", "BAD_RECORD_TYPE")
ALERTS: Final = {  # the other side's reasons against this member's certificate
    "UNKNOWN_CA": "its tls.ca_file has not signed it",
    "CERTIFICATE_EXPIRED": "it has expired",
    "CERTIFICATE_REQUIRED": "none was shown",
    "UNSUPPORTED_CERTIFICATE": "its extendedKeyUsage does not allow both serverAuth and clientAuth",
    "BAD_CERTIFICATE": "it is not for the address at which this member was reached",
}


class TlsFailed(Exception):
    """TLS with the other side has failed; `str()` says why, and what to do."""


class NoTls(TlsFailed):
    """The other side does not speak TLS."""


class TlsSide:
    """One side of TLS on one connection. Send `take_output()` after each call."""

    def __init__(self, context: ssl.SSLContext, host: str = "", may_be_plain: bool = False) -> None:
        """`host` was dialled; empty: the connection was accepted."""
        self.done = False  # this side's handshake
        self.may_be_plain = may_be_plain  # the other side may speak no TLS
        self._host = host
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._ssl = context.wrap_bio(
            self._in, self._out, server_side=not host, server_hostname=host or None
        )

    @property
    def version(self) -> str:
        return self._ssl.version() or ""

    @property
    def cipher(self) -> str:
        cipher = self._ssl.cipher()
        return cipher[0] if cipher else ""

    @property
    def names(self) -> list[str]:
        """The DNS names and IP addresses in the other side's certificate."""
        certificate = self._ssl.getpeercert() or {}
        known = ("DNS", "IP Address")
        pairs: tuple[tuple[str, str], ...] = certificate.get("subjectAltName", ())  # type: ignore
        return [name for kind, name in pairs if kind in known]

    def take_output(self) -> bytes:
        """Return the bytes to send now, also after `TlsFailed`: they give the reason."""
        return self._out.read() if self._out.pending else b""

    def receive(self, data: memoryview) -> None:
        """Take bytes from the network; they are copied."""
        self._in.write(data)

    def shake(self) -> bool:
        """Begin or continue the handshake; True: it is done. Raises `TlsFailed`."""
        try:
            self._ssl.do_handshake()
        except ssl.SSLWantReadError:
            return False
        except ssl.SSLError as error:
            raise self._failure(error) from error
        self.done = True
        return True

    def read(self, into: memoryview) -> int:
        """Read decrypted bytes into `into`; 0: no more have come. Raises `TlsFailed`."""
        try:
            return cast(int, self._ssl.read(len(into), into))
        except ssl.SSLWantReadError:
            return 0
        except ssl.SSLZeroReturnError as error:
            raise TlsFailed("") from error  # it closed TLS
        except ssl.SSLError as error:
            raise self._failure(error) from error

    def seal(self, pieces: list[bytes | bytearray | memoryview]) -> bytes:
        """Encrypt for the other side. Raises `TlsFailed`."""
        try:
            for piece in pieces:
                rest = memoryview(piece)
                while rest:
                    rest = rest[self._ssl.write(rest) :]
        except ssl.SSLError as error:
            raise self._failure(error) from error
        return self.take_output()

    def farewell(self) -> bytes:
        """Return the bytes that close TLS: nothing more is sent."""
        with suppress(ssl.SSLError):  # the other side has not closed TLS yet, or TLS has failed
            self._ssl.unwrap()
        return self.take_output()

    def _failure(self, error: ssl.SSLError) -> TlsFailed:
        reason = error.reason or ""
        if isinstance(error, ssl.SSLCertVerificationError):
            return TlsFailed(self._refusal(error))
        if reason in NO_TLS and not self.done:
            return NoTls(
                "it does not speak TLS, and this member does: give it [tls] and the same"
                " cluster.tls, or change a running cluster by way of cluster.tls = optional"
            )
        if reason == "PEER_DID_NOT_RETURN_A_CERTIFICATE":
            return TlsFailed("it shows no certificate: a member needs tls.cert_file")
        if reason in ("UNSUPPORTED_PROTOCOL", "TLSV1_ALERT_PROTOCOL_VERSION"):
            return TlsFailed("no version of TLS is allowed on both sides: compare tls.min_version")
        for alert, why in ALERTS.items():
            if reason.endswith("ALERT_" + alert):
                return TlsFailed(f"it refuses this member's certificate: {why}; its log says more")
        return TlsFailed(f"TLS has failed: {reason or error}")

    def _refusal(self, error: ssl.SSLCertVerificationError) -> str:
        if error.verify_code in OTHER_NAME:
            return (
                f"its certificate is not for {self._host}, where it was reached: the certificate"
                " needs that name (subjectAltName), or its cluster.member_advertise one that the"
                " certificate has"
            )
        if error.verify_code in UNTRUSTED:
            return (
                "no authority in tls.ca_file signed its certificate: give all members"
                " the same tls.ca_file, or one with all authorities"
            )
        said = f"its certificate is refused: {error.verify_message}"
        return REFUSALS.get(error.verify_code, said)


class MemberTls:
    """The TLS of one member with others. Raises `TlsFault`, which says what to change."""

    def __init__(self, tls: BrokerTlsSettings, optional: bool = False) -> None:
        """`optional`: accept both, while a cluster changes from plain connections to TLS."""
        self.optional = optional
        self._contexts = _contexts(tls)

    def accept(self) -> TlsSide:
        """Begin TLS on an accepted connection."""
        return TlsSide(self._contexts[0], may_be_plain=self.optional)

    def connect(self, host: str) -> TlsSide:
        """Begin TLS on a connection to that host."""
        return TlsSide(self._contexts[1], host, self.optional)

    def reload(self, tls: BrokerTlsSettings, host: str) -> None:
        """Read the files again, for new connections. Raises `TlsFault`, and keeps the old ones."""
        contexts = _contexts(tls)
        _try(contexts, host)
        self._contexts = contexts

    def try_at(self, host: str) -> None:
        """Check that members with this `tls.ca_file` accept one at `host`. Raises `TlsFault`."""
        _try(self._contexts, host)


Contexts = tuple[ssl.SSLContext, ssl.SSLContext]


def _contexts(tls: BrokerTlsSettings) -> Contexts:
    accepting, connecting = member_contexts(tls)
    connecting.options |= ssl.OP_NO_RENEGOTIATION
    return accepting, connecting


def _try(contexts: Contexts, host: str) -> None:
    """Connect this member with itself, in memory, to check both sides."""
    listener, dialler = TlsSide(contexts[0]), TlsSide(contexts[1], host)
    try:
        for _ in range(ROUND_TRIPS_MAX):
            dialler.shake()
            listener.receive(memoryview(dialler.take_output()))
            listener.shake()
            dialler.receive(memoryview(listener.take_output()))
            if dialler.done and listener.done:
                break
    except TlsFailed as error:
        why = str(error).replace("its ", "the ", 1)
        raise TlsFault(f"tls.cert_file: other members would refuse this one: {why}") from error


def is_for(names: list[str], host: str) -> bool:
    """True if a certificate with these names is valid for a host: a DNS name or an IP address."""
    address = _address(host)
    if address is not None:
        return any(_address(name) == address for name in names)
    host = host.lower().rstrip(".")
    rest = host.partition(".")[2]
    wanted = (host, "*." + rest) if "." in rest else (host,)
    return any(name.lower().rstrip(".") in wanted for name in names)


def shown(names: list[str]) -> str:
    """Format a certificate's names for the log, escaped: they may contain any bytes."""
    if not names:
        return "no name (subjectAltName)"
    more = " ..." if len(names) > NAMES_SHOWN else ""
    return ", ".join(ascii(name[:100])[1:-1] for name in names[:NAMES_SHOWN]) + more


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None
