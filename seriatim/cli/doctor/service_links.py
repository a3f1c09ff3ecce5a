"""Finds variables that Kubernetes sets for a service, and that look like settings of a broker."""

from collections.abc import Iterator, Mapping

from broker.settings.resolve import is_service_link
from seriatim.cli.check.check_results import CheckResult
from seriatim.cli.doctor.examination import hint


def service_links(environment: Mapping[str, str]) -> Iterator[CheckResult]:
    """Name these variables: the broker ignores them."""
    found = sorted(name for name, text in environment.items() if is_service_link(name, text))
    if not found:
        return
    shown = f"{found[0]}={environment[found[0]]}"
    more = f" and {len(found) - 1} more" if len(found) > 1 else ""
    yield hint(
        "variables",
        f"{shown}{more}: Kubernetes sets this for a Service; the broker ignores it",
        "it looks like a setting, and is none",
        "enableServiceLinks: false in the pod's spec, or another name for the Service",
    )
