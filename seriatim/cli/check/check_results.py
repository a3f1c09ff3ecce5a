"""The findings of a check: a line for each, the exit status, and the same as JSON.

0   all is well
1   something failed
2   nothing failed, and there are warnings
"""

import json
from dataclasses import dataclass, field
from enum import StrEnum


class Level(StrEnum):
    """The severity of a finding."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One thing that was checked."""

    level: Level
    what: str  # a word or two
    text: str


@dataclass(slots=True)
class CheckResults:
    """All findings about one target."""

    target: str
    found: list[CheckResult] = field(default_factory=list)

    def ok(self, what: str, text: str) -> None:
        """Add a finding without a problem."""
        self.found.append(CheckResult(Level.OK, what, text))

    def warn(self, what: str, text: str) -> None:
        """Add a warning: it works, but deserves attention."""
        self.found.append(CheckResult(Level.WARNING, what, text))

    def fail(self, what: str, text: str) -> None:
        """Add a failure."""
        self.found.append(CheckResult(Level.FAILED, what, text))

    @property
    def level(self) -> Level:
        """The worst level of all findings."""
        levels = {one.level for one in self.found}
        return next((one for one in (Level.FAILED, Level.WARNING) if one in levels), Level.OK)

    @property
    def status(self) -> int:
        """The exit status."""
        return {Level.OK: 0, Level.FAILED: 1, Level.WARNING: 2}[self.level]

    def lines(self) -> list[str]:
        """One line for each finding. Text from a broker is escaped for the terminal."""
        width = max((len(one.what) for one in self.found), default=0)
        return [f"{one.level:<8} {one.what:<{width}}  {_line(one.text)}" for one in self.found]

    def as_json(self) -> str:
        """Return all findings as one JSON object."""
        checks = [{"level": one.level, "what": one.what, "text": one.text} for one in self.found]
        return json.dumps({"target": self.target, "status": self.level, "checks": checks})


def _line(text: str) -> str:
    return "".join(one if one.isprintable() else repr(one)[1:-1] for one in text)
