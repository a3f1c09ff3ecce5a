"""Judges whether a certificate is valid now, and for how long."""

from datetime import UTC, datetime, timedelta
from typing import Final

from broker.wires.certificate_parts import validity
from seriatim.cli.check.check_results import CheckResults

SOON: Final = timedelta(days=14)


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
