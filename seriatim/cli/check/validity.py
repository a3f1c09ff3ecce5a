"""From when until when a certificate is valid: read from its DER, or from a file of PEM.

Python's ssl tells this only of certificates that it has verified, and not of those in files.
"""

import ssl
from datetime import UTC, datetime, timedelta
from typing import Final

from broker.certificate_parts import GENERAL_TIME, UTC_TIME, element, parts_of
from seriatim.cli.check.check_results import CheckResults

SOON: Final = timedelta(days=14)
BEGIN, END = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"


def validity(der: bytes) -> tuple[datetime, datetime]:
    """From when, and until when. Raises `ValueError` for what is not a certificate (RFC 5280)."""
    first, begin, times = element(parts_of(der).validity)
    second, end, _ = element(times)
    return _time(first, begin), _time(second, end)


def _time(tag: int, text: memoryview) -> datetime:
    if tag not in (UTC_TIME, GENERAL_TIME):
        raise ValueError("there is no time where it should be")
    form = "%y%m%d%H%M%SZ" if tag == UTC_TIME else "%Y%m%d%H%M%SZ"
    return datetime.strptime(str(text, "ascii"), form).replace(tzinfo=UTC)


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
