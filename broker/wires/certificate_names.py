"""The user names that a client's certificate can match, in nats-server's order.

First its e-mail addresses, DNS names and URIs. Then its subject: as a distinguished name, which may
be written in several ways; then as the two texts that nats-server makes of it, both in Go's order,
with domain components at the end and without them.
"""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from broker.wires.certificate_parts import name_parts, parts_of
from broker.wires.certificate_subject import KNOWN, subject_text
from broker.wires.distinguished_name import Name, of_subject

KINDS: Final = ("email", "DNS", "URI")  # of the alternative names, in this order
DOMAIN_COMPONENT: Final = "0.9.2342.19200300.100.1.25"


def names_in(certificate: Mapping[str, Any], der: bytes) -> tuple[Name, ...]:
    """Return the names in a certificate, each once.

    `certificate` is what `SSLSocket.getpeercert` returns, `der` the same certificate in DER.
    """
    alternative = certificate.get("subjectAltName", ())
    names: list[Name] = [name for kind in KINDS for which, name in alternative if which == kind]
    with suppress(ValueError):  # OpenSSL has read it, so it is a certificate
        subject = [list(part) for part in name_parts(parts_of(der).subject)]
        if subject:
            pairs = [pair for part in subject for pair in part]
            text = subject_text(pair for pair in pairs if pair[0] in KNOWN)
            domain = [f"DC={value}" for kind, value in pairs if kind == DOMAIN_COMPONENT]
            names += [of_subject(subject), *([",".join((text, *domain))] if domain else ()), text]
    return tuple(dict.fromkeys(name for name in names if name))
