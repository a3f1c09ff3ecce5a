"""The command `seriatim doctor`: what it examines, in which order.

Modules are imported when they are needed: another module may hide one of ours, and that must be
said before an import fails.
"""

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from broker.settings.errors import WrongSettings
from broker.settings.resolve import CONFIG_VARIABLE, DEFAULT, Effective, is_service_link, resolve
from broker.settings.settings import Settings
from seriatim.cli.check.check_results import CheckResult, CheckResults, Level
from seriatim.cli.doctor.examination import Patient, Probe, examine, hint, writer_of_store
from seriatim.cli.doctor.name_collisions import collisions
from seriatim.cli.errors import CliError
from seriatim.client.server_address import without_credentials
from seriatim.settings.checked import quoted

WEB_SCHEMES = ("http", "https")


def run_doctor(
    flags: Mapping[str, Any],
    config: str | None,
    compare: Iterable[str],
    as_json: bool,
    problems: Iterable[str],
) -> int:
    """Examine this machine, print the findings, and return the exit status.

    Raises `WrongSettings` for wrong flags: other wrong settings are findings.
    """
    results = CheckResults(config or os.environ.get(CONFIG_VARIABLE) or "this machine")
    examine(results, "names", collisions)
    if results.level is not Level.FAILED:  # else our own modules cannot be imported
        _examine_all(results, flags, config, compare, problems)
    print(results.as_json() if as_json else "\n".join(results.lines()))
    sys.stdout.flush()
    return results.status


def _examine_all(
    results: CheckResults,
    flags: Mapping[str, Any],
    config: str | None,
    compare: Iterable[str],
    problems: Iterable[str],
) -> None:
    from seriatim.cli.check.check_file import judge_settings

    others = [_clock_probe(one) for one in compare]
    effective = None
    try:
        effective = resolve(flags, os.environ, config, problems)
    except WrongSettings as wrong:
        if wrong.of_arguments:
            raise
        for problem in wrong.problems:
            results.fail("settings", problem)
        results.warn("settings", "what depends on them is not examined: limits, store, feeds")
    else:
        judge_settings(results, effective, _name(effective))
    for what, probe in of_any_machine():
        examine(results, what, probe)
    if effective is not None:
        _examine_broker(results, effective.settings)
    for compared in others:
        examine(results, "clock of others", compared)


def _examine_broker(results: CheckResults, settings: Settings) -> None:
    """Examine what depends on settings. A store whose disk does not answer is left alone then."""
    writers: list[int | None] = []

    def look() -> Iterable[CheckResult]:
        writers.append(writer_of_store(settings))
        return ()

    answers = examine(results, "store", look)
    pid = writers[0] if writers else None
    patient = Patient(settings, pid or os.getpid(), bool(pid))
    for what, probe in of_a_broker():
        examine(results, what, partial(probe, patient))
    for what, probe in of_a_store():
        answers = answers and examine(results, what, partial(probe, patient))


def _name(effective: Effective) -> str:
    """Say where the settings come from."""
    config = effective.sources.config or os.environ.get(CONFIG_VARIABLE)
    given = set(effective.origins.values()) - {DEFAULT}
    return config or ("what is given" if given else "the defaults")


def of_any_machine() -> tuple[tuple[str, Callable[[], Iterable[CheckResult]]], ...]:
    """The probes that need no settings, and what each is about."""
    from seriatim.cli.doctor import clock_health, installed_versions, socket_buffers

    return (
        ("seriatim", installed_versions.build),
        ("system", installed_versions.system),
        ("variables", partial(_service_links, os.environ)),
        ("clock", clock_health.synchronised),
        ("clock source", clock_health.clock_source),
        ("accept queue", socket_buffers.accept_queue),
        ("receive queue", socket_buffers.receive_queue),
    )


def of_a_broker() -> tuple[tuple[str, Probe], ...]:
    """The probes that depend on settings, and what each is about."""
    from seriatim.cli.doctor import (
        container_limits,
        installed_versions,
        multicast_trial,
        process_limits,
        socket_buffers,
    )

    return (
        ("packages", installed_versions.packages),
        ("open files", process_limits.open_files),
        ("threads", process_limits.threads),
        ("threads", container_limits.processes),
        ("locked memory", process_limits.locked_memory),
        ("memory", container_limits.memory),
        ("processor", container_limits.processor),
        ("socket buffers", socket_buffers.feed_buffers),
        ("multicast", multicast_trial.multicast),
    )


def of_a_store() -> tuple[tuple[str, Probe], ...]:
    """The probes of the store's disk, and what each is about."""
    from seriatim.cli.doctor import clock_health, store_disk

    return (
        ("store", store_disk.kind),
        ("file system", store_disk.abilities),
        ("disk", store_disk.latency),
        ("room", store_disk.room),
        ("journal time", clock_health.against_journal),
    )


def _clock_probe(address: str) -> Callable[[], Iterable[CheckResult]]:
    """Compare the clock with a broker's. Raises `CliError` for what is no address."""
    from seriatim.cli.check.check_broker import Approach
    from seriatim.cli.check.check_web import web_address
    from seriatim.cli.doctor.clock_health import against_broker

    try:
        parts = urlsplit(address)
    except ValueError:  # brackets without an end
        parts = urlsplit("")
    if parts.scheme not in WEB_SCHEMES:
        shown = quoted(without_credentials(address))
        raise CliError(f"--compare {shown} is not the address of monitoring; give http://HOST:PORT")
    return partial(against_broker, *web_address(parts, Approach()))


def _service_links(environment: Mapping[str, str]) -> Iterator[CheckResult]:
    """Name variables that Kubernetes sets for a service, and that look like settings."""
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
