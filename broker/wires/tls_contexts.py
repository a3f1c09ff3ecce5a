"""Makes the contexts of TLS from the settings: for clients, and for the members of a cluster.

Importing this loads `ssl`, which takes four megabytes: import it only where TLS is on.
"""

import hashlib
import os
import ssl
import stat
from datetime import UTC, datetime
from itertools import chain
from typing import Final

from broker.settings.tls_settings import BrokerTlsSettings
from broker.wires.certificate_parts import certificates_of, name_parts, parts_of, validity
from broker.wires.certificate_subject import subject_text

SUBJECT_MAX: Final = 200  # characters of a subject that the log shows
VERSIONS: Final = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}


class TlsFault(OSError):
    """The settings of TLS cannot be used; the text is one line that says what to change."""


class ClientFacingContext(ssl.SSLContext):
    """A context for the side of clients, and which of their certificates it accepts."""

    pins: frozenset[str] = frozenset()  # hashes of their keys; empty: all


def client_facing_context(tls: BrokerTlsSettings) -> ClientFacingContext:
    """Make the context for clients, WebSocket and monitoring. Raises `TlsFault`."""
    context = ClientFacingContext(ssl.PROTOCOL_TLS_SERVER)
    _equip_server_side(context, tls)
    if tls.is_verifying:
        _demand_certificates(context, tls, "tls.verify")
    context.pins = frozenset(tls.pinned_certs)
    return context


def unpinned(pins: frozenset[str], certificate: bytes | None) -> str:
    """Return why a signed certificate of a client is refused all the same; empty if it is not."""
    if certificate is None:
        return "it sent no certificate"
    try:
        parts = parts_of(certificate)
        subject = subject_text(chain.from_iterable(name_parts(parts.subject)))
    except ValueError as error:
        return f"its certificate cannot be read: {error}"
    key = hashlib.sha256(parts.public_key).hexdigest()
    if key in pins:
        return ""
    return (
        f"its certificate is not pinned (tls.pinned_certs): {subject[:SUBJECT_MAX]!r}, with the"
        f" key {key}"
    )


def member_contexts(tls: BrokerTlsSettings) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Make a member's contexts: to accept others, and to connect to them. Raises `TlsFault`.

    Both sides present the certificate, and require one that `ca_file` has signed. The connecting
    side also checks the name of the other, which the caller gives as `server_hostname`.
    """
    accepting = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _equip_server_side(accepting, tls)
    _demand_certificates(accepting, tls, "a cluster with TLS")
    connecting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    _equip(connecting, tls)
    _demand_certificates(connecting, tls, "a cluster with TLS")
    return accepting, connecting


def key_warning(tls: BrokerTlsSettings) -> str:
    """Return what is wrong with the permissions of the key file; empty if nothing is."""
    path = tls.key_file or tls.cert_file
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return ""  # making a context reports it
    if not mode & (stat.S_IROTH | stat.S_IWOTH):
        return ""
    return f"{path}: every user of this machine can read this private key: chmod o-rwx {path}"


def certificate_line(tls: BrokerTlsSettings) -> str:
    """Describe our certificate for the log: its file, its subject, its last day."""
    try:
        with open(tls.cert_file, encoding="ascii", errors="replace") as file:
            own = certificates_of(file.read())[0]
        subject = subject_text(chain.from_iterable(name_parts(parts_of(own).subject)))
        _, end = validity(own)
    except (OSError, ValueError, IndexError) as error:  # OpenSSL reads more than we do
        return f"{tls.cert_file} (cannot be described: {error})"
    is_over = end < datetime.now(UTC)
    until = f"{'EXPIRED' if is_over else 'valid until'} {end:%Y-%m-%d %H:%M} UTC"
    return f"{tls.cert_file} ({subject or 'no subject'}, {until})"


def _equip_server_side(context: ssl.SSLContext, tls: BrokerTlsSettings) -> None:
    context.options |= ssl.OP_NO_RENEGOTIATION  # or a client makes us do handshakes without end
    context.options |= ssl.OP_CIPHER_SERVER_PREFERENCE
    context.num_tickets = 1  # as nats-server: OpenSSL's two cost 20 us, and a client uses one
    _equip(context, tls)


def _equip(context: ssl.SSLContext, tls: BrokerTlsSettings) -> None:
    """Load the certificate and its key, and set the lowest version."""
    context.minimum_version = VERSIONS[tls.min_version]
    if not tls.cert_file:
        raise TlsFault("TLS needs a certificate: give tls.cert_file (--tlscert)")
    _check_readable("tls.cert_file", tls.cert_file)
    if tls.key_file:
        _check_readable("tls.key_file", tls.key_file)
    try:
        # Without a password OpenSSL would ask the terminal for one.
        context.load_cert_chain(tls.cert_file, tls.key_file or None, password="")
    except (ssl.SSLError, OSError, ValueError) as error:
        raise TlsFault(_why_not_loaded(tls, error)) from error


def _demand_certificates(context: ssl.SSLContext, tls: BrokerTlsSettings, who: str) -> None:
    """Refuse a peer without a certificate that `ca_file` has signed."""
    if not tls.ca_file:
        raise TlsFault(
            f"{who} needs the certificates that peers must be signed by: give tls.ca_file"
            " (--tlscacert)"
        )
    _check_readable("tls.ca_file", tls.ca_file)
    try:
        context.load_verify_locations(tls.ca_file)
    except (ssl.SSLError, OSError, ValueError) as error:
        raise TlsFault(f"tls.ca_file {tls.ca_file}: holds no PEM certificate") from error
    context.verify_mode = ssl.CERT_REQUIRED


def _check_readable(setting: str, path: str) -> None:
    try:
        with open(path, "rb") as file:
            file.read(1)
    except OSError as error:
        raise TlsFault(f"{setting} {path}: cannot be read: {error.strerror}") from error


def _why_not_loaded(tls: BrokerTlsSettings, error: Exception) -> str:
    """Say which of the two files is to blame."""
    certificate, key = tls.cert_file, tls.key_file or tls.cert_file
    if getattr(error, "reason", "") == "KEY_VALUES_MISMATCH":
        return f"tls.key_file {key}: is not the key of the certificate in {certificate}"
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_verify_locations(certificate)
    except (ssl.SSLError, OSError, ValueError):
        return f"tls.cert_file {certificate}: holds no PEM certificate"
    setting = "tls.key_file" if tls.key_file else "tls.cert_file"
    return f"{setting} {key}: holds no PEM private key that can be used without a passphrase"
