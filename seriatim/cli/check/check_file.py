"""`seriatim check FILE`: the settings that a broker would have, without starting it.

`seriatim doctor` says the same about the settings that it is given.
"""

import os
from collections.abc import Mapping
from pathlib import Path

from broker.settings.errors import WrongSettings
from broker.settings.resolve import Effective, resolve
from broker.settings.security_warnings import insecure
from broker.settings.settings import Settings
from broker.wires.certificate_parts import certificates_of
from seriatim.cli.check.check_results import CheckResults
from seriatim.cli.check.validity import judge


def check_file(
    results: CheckResults, path: str, environment: Mapping[str, str] = os.environ
) -> None:
    """Check a file of settings and the environment, as `serve -c FILE` combines them."""
    try:
        effective = resolve({}, environment, path)
    except WrongSettings as wrong:
        for problem in wrong.problems:
            results.fail("settings", problem)
        return
    judge_settings(results, effective, path)


def judge_settings(results: CheckResults, effective: Effective, name: str) -> None:
    """Say what is ignored or insecure in settings that can be used, and check certificates.

    `name` says where they come from.
    """
    settings = effective.settings
    results.ok("settings", f"{name} can be used")
    for line in effective.sources.warnings:
        results.warn("settings", line)
    for line in insecure(settings):
        results.warn("security", line)
    if settings.tls.is_on:
        _check_tls(results, settings)


def _check_tls(results: CheckResults, settings: Settings) -> None:
    """Check that the certificates and the key can be used, and for how long."""
    from broker.wires.tls_contexts import TlsFault, client_facing_context, key_warning

    tls = settings.tls
    try:
        client_facing_context(tls)
    except TlsFault as fault:
        results.fail("tls", str(fault))
        return
    results.ok("tls", "the certificate and its key can be used")
    if why := key_warning(tls):
        results.warn("tls", why)
    for file in filter(None, (tls.cert_file, tls.ca_file)):
        try:
            found = certificates_of(Path(file).read_text(errors="replace"))
        except (OSError, ValueError) as error:
            results.fail("certificate", f"{file}: {error}")
            continue
        for at, der in enumerate(found, 1):
            name = f"{file}" if len(found) == 1 else f"{file} ({at} of {len(found)})"
            judge(results, f"certificate {name}", der)
