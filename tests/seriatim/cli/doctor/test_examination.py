"""The runner of probes: one that fails or hangs is a finding, and the others go on."""

import os
from collections.abc import Iterator

from seriatim.cli.check.check_results import CheckResult, CheckResults, Level
from seriatim.cli.doctor.examination import examine, failed, hint, ok, warning


def test_given_a_probe_that_raises_then_it_is_a_hint_and_what_it_found_stays() -> None:
    def probe() -> Iterator[CheckResult]:
        yield ok("disk", "there")
        with open("/nowhere/at/all"):
            yield ok("disk", "never")

    results = CheckResults("this machine")
    examine(results, "disk", probe)
    assert [(one.level, one.text) for one in results.found] == [
        (Level.OK, "there"),
        (Level.HINT, "could not be examined: /nowhere/at/all: no such file or directory"),
    ]


def test_given_a_probe_with_a_defect_then_its_error_is_named() -> None:
    def probe() -> Iterator[CheckResult]:
        yield ok("disk", os.environ["NO_SUCH_VARIABLE"])

    results = CheckResults("this machine")
    examine(results, "disk", probe)
    assert [one.text for one in results.found] == [
        "could not be examined: KeyError: 'NO_SUCH_VARIABLE'"
    ]


def test_given_a_probe_that_does_not_end_then_it_is_a_warning_after_its_time() -> None:
    readable, writable = os.pipe()

    def probe() -> Iterator[CheckResult]:
        os.read(readable, 1)  # as from a disk that does not answer
        yield ok("disk", "at last")

    results = CheckResults("this machine")
    examine(results, "disk", probe, bound=0.05)
    examine(results, "next", lambda: [ok("next", "goes on")])
    os.write(writable, b"x")
    assert [(one.level, one.what, one.text) for one in results.found] == [
        (Level.WARNING, "disk", "could not be examined: no answer within 0.05 s"),
        (Level.OK, "next", "goes on"),
    ]
    os.close(writable)
    os.close(readable)


def test_given_findings_then_the_worst_is_the_status_and_hints_do_not_count() -> None:
    results = CheckResults("this machine")
    statuses = []
    for say in (hint, warning, failed):
        results.found.append(say("disk", "slow", "why", "do"))
        statuses.append((results.level, results.status))
    assert statuses == [(Level.HINT, 0), (Level.WARNING, 2), (Level.FAILED, 1)]
    assert results.lines()[:3] == [
        "hint     disk  slow",
        "               why: why",
        "               do:  do",
    ]
