"""The names of users that a client's certificate may stand for, in nats-server's order."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from broker.subject_text import escaped

# Short names of RFC 2253 and RFC 4514, and those that Go knows.
SHORT: Final = {
    "commonName": "CN",
    "countryName": "C",
    "domainComponent": "DC",
    "localityName": "L",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "postalCode": "POSTALCODE",
    "serialNumber": "SERIALNUMBER",
    "stateOrProvinceName": "ST",
    "streetAddress": "STREET",
    "userId": "UID",
}
KINDS: Final = ("email", "DNS", "URI")  # of the alternative names, in this order


def names_in(certificate: Mapping[str, Any]) -> tuple[str, ...]:
    """Names of a certificate as `SSLSocket.getpeercert` returns it, each once.

    First the e-mail addresses, then DNS names and URIs, then the subject: as RFC 2253 writes it,
    which is from the last part to the first, and in the certificate's own order.
    """
    alternative = certificate.get("subjectAltName", ())
    names = [name for kind in KINDS for which, name in alternative if which == kind]
    parts = [_part(part) for part in certificate.get("subject", ())]
    if parts:
        names += [",".join(reversed(parts)), ",".join(parts)]
    return tuple(dict.fromkeys(names))


def _part(part: Iterable[tuple[str, str]]) -> str:
    """One part of a subject, which may have several values."""
    return "+".join(f"{SHORT.get(key, key)}={escaped(value)}" for key, value in part)
