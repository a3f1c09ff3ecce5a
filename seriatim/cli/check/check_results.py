"""The findings of `check` and `doctor`: lines for a person, JSON, and the exit status.

0   all is well; perhaps there are hints
1   something failed
2   nothing failed, and there are warnings
"""

import json
import shutil
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from enum import StrEnum


class Level(StrEnum):
    """The severity of a finding."""

    OK = "ok"
    HINT = "hint"  # it works, and could be better
    WARNING = "warning"
    FAILED = "failed"


MARGIN = 11  # cells before the text, beside those of the widest `what`
TEXT_MIN = 30  # cells of text, below which a narrow terminal had better wrap by itself
WORST_FIRST = (Level.FAILED, Level.WARNING, Level.HINT)
STATUS = {Level.OK: 0, Level.HINT: 0, Level.FAILED: 1, Level.WARNING: 2}


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One thing that was checked. `why` it matters and what to `do` may be left out."""

    level: Level
    what: str  # a word or two
    text: str
    why: str = ""
    do: str = ""


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
        return next((one for one in WORST_FIRST if one in levels), Level.OK)

    @property
    def status(self) -> int:
        """The exit status."""
        return STATUS[self.level]

    def lines(self) -> list[str]:
        """A line for each finding, and below it why it matters and what to do, if it says so.

        On a terminal they are wrapped below their own column. Text from a broker is escaped.
        """
        width = max((len(one.what) for one in self.found), default=0)
        lines = [line for one in self.found for line in _lines_of(one, width)]
        if not sys.stdout.isatty():
            return lines
        columns = shutil.get_terminal_size().columns
        margin = width + MARGIN
        if columns < margin + TEXT_MIN:
            return lines
        return [part for line in lines for part in _wrapped(line, columns, margin)]

    def as_json(self) -> str:
        """Return all findings as one JSON object."""
        checks = [{k: v for k, v in asdict(one).items() if v} for one in self.found]
        return json.dumps({"target": self.target, "status": self.level, "checks": checks})


def _lines_of(one: CheckResult, width: int) -> Iterator[str]:
    yield f"{one.level:<8} {one.what:<{width}}  {_line(one.text)}"
    margin = " " * (width + MARGIN)
    if one.why:
        yield f"{margin}why: {_line(one.why)}"
    if one.do:
        yield f"{margin}do:  {_line(one.do)}"


def _wrapped(line: str, columns: int, margin: int) -> list[str]:
    """Return the lines of a terminal that one line takes."""
    hanging = margin + len("why: ") * line.startswith(" ")
    return textwrap.wrap(
        line,
        columns,
        subsequent_indent=" " * hanging,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _line(text: str) -> str:
    return "".join(one if one.isprintable() else repr(one)[1:-1] for one in text)
