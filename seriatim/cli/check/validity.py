"""From when until when a certificate is valid: read from its DER, or from a file of PEM.

Python's ssl tells this only of certificates that it has verified, and not of those in files.
"""

import ssl
from datetime import UTC, datetime, timedelta
from typing import Final

from seriatim.cli.check.check_results import CheckResults

SOON: Final = timedelta(days=14)
SEQUENCE, VERSION, UTC_TIME, GENERAL_TIME = 0x30, 0xA0, 0x17, 0x18
BEGIN, END = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"


def validity(der: bytes) -> tuple[datetime, datetime]:
    """From when, and until when. Raises `ValueError` for what is not a certificate (RFC 5280)."""
    try:
        _, certificate, _ = _element(der)
        _, rest, _ = _element(certificate)
        tag, _, after = _element(rest)
        if tag == VERSION:
            rest = after
        for _ in range(3):  # serial number, algorithm of the signature, issuer
            _, _, rest = _element(rest)
        _, times, _ = _element(rest)
        first, begin, times = _element(times)
        second, end, _ = _element(times)
        return _time(first, begin), _time(second, end)
    except IndexError:
        raise ValueError("it ends early") from None


def _element(data: bytes) -> tuple[int, bytes, bytes]:
    """The tag and the content of the first element, and what follows it."""
    tag, size, at = data[0], data[1], 2
    if size & 0x80:
        at += size & 0x7F
        size = int.from_bytes(data[2:at])
    if len(data) < at + size:
        raise IndexError
    return tag, data[at : at + size], data[at + size :]


def _time(tag: int, text: bytes) -> datetime:
    if tag not in (UTC_TIME, GENERAL_TIME):
        raise ValueError("there is no time where it should be")
    form = "%y%m%d%H%M%SZ" if tag == UTC_TIME else "%Y%m%d%H%M%SZ"
    return datetime.strptime(text.decode("ascii"), form).replace(tzinfo=UTC)


def certificates_of(pem: str) -> list[bytes]:
    """The certificates of a PEM file, as DER. Raises `ValueError` if one is not a certificate."""
    blocks = pem.split(BEGIN)[1:]
    return [ssl.PEM_cert_to_DER_cert(f"{BEGIN}{one.partition(END)[0]}{END}") for one in blocks]


def judge(results: CheckResults, what: str, der: bytes, now: datetime | None = None) -> None:
    """Say whether a certificate is valid now, and for how long."""
    now = now or datetime.now(UTC)
    try:
        begin, end = validity(der)
    except ValueError as error:
        results.fail(what, f"is not a certificate: {error}")
        return
    if now < begin:
        results.fail(what, f"is not valid before {begin:%Y-%m-%d %H:%M} UTC")
    elif now > end:
        results.fail(what, f"has expired, on {end:%Y-%m-%d %H:%M} UTC")
    elif end - now < SOON:
        results.warn(what, f"expires soon, on {end:%Y-%m-%d %H:%M} UTC: renew it")
    else:
        results.ok(what, f"is valid until {end:%Y-%m-%d}")
