"""Runs the probes of `seriatim doctor`: each is a function that yields findings about a machine.

A probe that raises, or does not end in time, is a finding itself: a disk or a server of files may
not answer at all. Each runs in a thread of its own, which the end of the process ends.

Rules for probes.
1. A running broker does not notice them: they take no lock on its store and bind no port of its.
2. They need no privilege, and leave nothing behind.
"""

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from broker.settings.settings import Settings
from seriatim.cli.check.check_results import CheckResult, CheckResults, Level
from seriatim.client.errors import describe

BOUND_S: Final = 10.0  # for one probe; the longest that measures takes 2 s


@dataclass(frozen=True, slots=True)
class Patient:
    """A broker to be, or one that runs: its settings, and the process whose limits count."""

    settings: Settings
    pid: int
    runs: bool  # if not, this process stands for it

    @property
    def whose(self) -> str:
        """Words that say whose limits these are, after a limit."""
        return f" (of the running broker, process {self.pid})" if self.runs else ""


Probe = Callable[[Patient], Iterable[CheckResult]]


def writer_of_store(settings: Settings) -> int | None:
    """Find the process of the broker that writes the store, if there is one."""
    from seriatim.cli.journal.journal_info import writer_of

    return writer_of(settings.store_dir) if settings.journal.enabled else None


def examine(
    results: CheckResults,
    what: str,
    probe: Callable[[], Iterable[CheckResult]],
    bound: float = BOUND_S,
) -> bool:
    """Add the findings of one probe; False if it did not end within `bound` seconds."""
    found: list[CheckResult] = []
    failures: list[Exception] = []

    def run() -> None:
        try:
            for one in probe():
                found.append(one)
        except Exception as error:  # whatever it is, the other probes go on
            failures.append(error)

    thread = threading.Thread(target=run, name=what, daemon=True)
    try:
        thread.start()
    except RuntimeError:  # the limit of processes is reached: a probe is about that
        run()
    else:
        thread.join(bound)
    results.found.extend(found[:])
    if thread.is_alive():
        text = f"could not be examined: no answer within {bound:g} s"
        why = "a disk, or a server of files, is slow or does not answer"
        do = "look for what hangs (`dmesg`, `mount`), and run this again"
        results.found.append(CheckResult(Level.WARNING, what, text, why, do))
        return False
    for error in failures:
        text = f"could not be examined: {_reason(error)}"
        results.found.append(CheckResult(Level.HINT, what, text))
    return True


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename:
        return f"{error.filename}: {describe(error)}"
    return describe(error) if isinstance(error, OSError) else f"{type(error).__name__}: {error}"


def ok(what: str, text: str) -> CheckResult:
    """Return a finding without a problem."""
    return CheckResult(Level.OK, what, text)


def hint(what: str, text: str, why: str, do: str) -> CheckResult:
    """Return a finding about what works and could be better."""
    return CheckResult(Level.HINT, what, text, why, do)


def warning(what: str, text: str, why: str, do: str) -> CheckResult:
    """Return a finding about what works now, and may not at another time."""
    return CheckResult(Level.WARNING, what, text, why, do)


def failed(what: str, text: str, why: str, do: str) -> CheckResult:
    """Return a finding about what does not work."""
    return CheckResult(Level.FAILED, what, text, why, do)
