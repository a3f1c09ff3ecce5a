"""The settings of TLS: the broker's certificate, and what it requires of clients."""

from seriatim.settings.frozen_fields import FrozenFields
from seriatim.settings.setting import setting

VERSIONS = ("1.2", "1.3")


class BrokerTlsSettings(FrozenFields):
    """TLS for clients, WebSocket, monitoring and members. Off without a certificate."""

    @property
    def is_on(self) -> bool:
        """True if there is TLS."""
        return self.enabled or bool(self.cert_file)

    @property
    def is_verifying(self) -> bool:
        """True if clients need a certificate."""
        return self.verify or self.verify_and_map

    enabled: bool = setting(
        False,
        "flag",
        "Require TLS. A `tls.cert_file` turns it on as well; this flag makes its absence an error.",
        flags=("--tls",),
    )
    cert_file: str = setting(
        "",
        "text",
        "The broker's certificate, a PEM file, with the intermediate certificates after it.",
        flags=("--tlscert",),
        zero="empty: no TLS",
        reload=True,
        common=True,
    )
    key_file: str = setting(
        "",
        "text",
        "The private key of the certificate, a PEM file without a passphrase. Only the broker's"
        " user should be able to read it.",
        flags=("--tlskey",),
        zero="empty: it is in `tls.cert_file`",
        reload=True,
        common=True,
    )
    ca_file: str = setting(
        "",
        "text",
        "The certificates, a PEM file, that sign those of clients and of other members.",
        flags=("--tlscacert",),
        zero="empty: none",
        reload=True,
        common=True,
    )
    verify: bool = setting(
        False,
        "flag",
        "Refuse clients without a certificate that `tls.ca_file` has signed.",
        flags=("--tlsverify",),
        reload=True,
        common=True,
    )
    verify_and_map: bool = setting(
        False,
        "flag",
        "The same, and the certificate says which user a client is: a user named like one of its"
        " e-mail addresses, DNS names or URIs, or like its subject: a distinguished name"
        " (RFC 4514), whose parts may be in another order.",
        flags=("--tls_map",),
        reload=True,
    )
    pinned_certs: tuple[str, ...] = setting(
        (),
        "pins",
        "Refuse clients whose certificate has none of these keys: the SHA-256 of its DER-encoded"
        " SubjectPublicKeyInfo, in hexadecimal. `openssl x509 -in client.pem -pubkey -noout |"
        " openssl pkey -pubin -outform DER | sha256sum` prints it. nats-server's name.",
        flags=("--tls_pinned_certs",),
        zero="empty: all that `tls.ca_file` has signed",
        reload=True,
    )
    allow_non_tls: bool = setting(
        False,
        "flag",
        "Serve clients without TLS, too, on the same port: while a fleet changes to TLS. INFO says"
        " `tls_available` instead of `tls_required`. An attacker in between can then keep a"
        " client from using TLS. WebSocket and monitoring are not affected. nats-server's name.",
        flags=("--allow_non_tls",),
        reload=True,
    )
    handshake_first: bool = setting(
        False,
        "flag",
        "Begin with the TLS handshake, and send INFO after it. Clients must be told so"
        " (`tls_first` in most libraries). Off by default: NATS clients expect INFO in plain text"
        " before the handshake.",
        flags=("--tls_first",),
        reload=True,
    )
    timeout: float = setting(
        2.0,
        "duration",
        "How long a TLS handshake may take before the connection is closed. NATS' default.",
        flags=("--tls_timeout",),
        bounds=(0.01, 300.0),
        reload=True,
    )
    min_version: str = setting(
        "1.2",
        "choice",
        "The lowest version of TLS that is accepted. Older ones are broken (RFC 8996).",
        flags=("--tls_min_version",),
        choices=VERSIONS,
        reload=True,
    )
