"""Parts of a certificate, read from its DER (RFC 5280), that Python's ssl does not give.

Nothing is copied: the results are views of the certificate. Only the way to these parts is
checked, which says nothing about trust. Raises `ValueError` if it is not a certificate.
"""

import binascii
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

SEQUENCE, VERSION, UTC_TIME, GENERAL_TIME = 0x30, 0xA0, 0x17, 0x18
BEFORE_VALIDITY: Final = 3  # serial number, algorithm of the signature, issuer
PEM_BEGIN: Final = "-----BEGIN CERTIFICATE-----"
PEM_END: Final = "-----END CERTIFICATE-----"
OID_MAX: Final = 64  # bytes; those in use have 10
STRINGS: Final = {  # types of text, by their tags, and how they are decoded
    0x0C: "utf-8",
    0x12: "ascii",  # digits
    0x13: "ascii",  # printable
    0x14: "latin-1",  # T.61, as good as
    0x16: "ascii",
    0x1C: "utf-32-be",
    0x1E: "utf-16-be",
}


@dataclass(frozen=True, slots=True)
class CertificateParts:
    """Parts of a certificate: contents of elements; `public_key` is a whole element."""

    validity: memoryview
    subject: memoryview
    public_key: memoryview  # SubjectPublicKeyInfo


def parts_of(der: bytes) -> CertificateParts:
    """Return the parts of a certificate."""
    _, certificate, _ = element(memoryview(der))
    _, rest, _ = element(certificate)
    tag, _, after = element(rest)
    if tag == VERSION:
        rest = after
    for _ in range(BEFORE_VALIDITY):
        _, _, rest = element(rest)
    _, validity, rest = element(rest)
    _, subject, rest = element(rest)
    _, _, after = element(rest)
    return CertificateParts(validity, subject, rest[: len(rest) - len(after)])


def certificates_of(pem: str) -> list[bytes]:
    """The certificates of a PEM file, as DER. Raises `ValueError` if one is not base64."""
    blocks = pem.split(PEM_BEGIN)[1:]
    return [binascii.a2b_base64(one.partition(PEM_END)[0]) for one in blocks]


def validity(der: bytes) -> tuple[datetime, datetime]:
    """Return begin and end. Raises `ValueError` if it is not a certificate (RFC 5280)."""
    first, begin, times = element(parts_of(der).validity)
    second, end, _ = element(times)
    return _time(first, begin), _time(second, end)


def _time(tag: int, text: memoryview) -> datetime:
    if tag not in (UTC_TIME, GENERAL_TIME):
        raise ValueError("there is no time where it should be")
    form = "%y%m%d%H%M%SZ" if tag == UTC_TIME else "%Y%m%d%H%M%SZ"
    return datetime.strptime(str(text, "ascii"), form).replace(tzinfo=UTC)


def element(data: memoryview) -> tuple[int, memoryview, memoryview]:
    """Return the tag and the content of the first element, and what follows it."""
    try:
        tag, size, at = data[0], data[1], 2
    except IndexError:
        raise ValueError("it ends early") from None
    if size & 0x80:
        at += size & 0x7F
        size = int.from_bytes(data[2:at])
    if len(data) < at + size:
        raise ValueError("it ends early")
    return tag, data[at : at + size], data[at + size :]


def name_parts(name: memoryview) -> Iterator[list[tuple[str, str]]]:
    """The parts of a name in order: each has one type, as 2.5.4.3, and its value, or several."""
    while name:
        _, values, name = element(name)
        yield list(_pairs(values))


def _pairs(values: memoryview) -> Iterator[tuple[str, str]]:
    while values:
        _, pair, values = element(values)
        _, kind, rest = element(pair)
        tag, value, _ = element(rest)
        yield _dotted(kind), str(value, STRINGS.get(tag, "latin-1"), "replace")


def _dotted(oid: memoryview) -> str:
    """The numbers of an object identifier."""
    if not 0 < len(oid) <= OID_MAX or oid[-1] & 0x80:
        raise ValueError("a type in a name is wrong")
    numbers, number = [], 0
    for byte in oid:
        number = number << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(number)
            number = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))
