"""Reports a verdict: the findings, as a table and as JSON."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from pyspark_seriatim.jobs.audit.auditing import Verdict
from pyspark_seriatim.jobs.audit.census import SPAN
from pyspark_seriatim.jobs.audit.findings import Fall, Falls, Lines, Ranges, Tally
from pyspark_seriatim.jobs.audit.scope import NONE

SIDES: Final = ("archive", "journal")


@dataclass(frozen=True, slots=True)
class AuditFinding:
    """A problem of one kind, on one side or between the two."""

    side: str  # archive, journal, or both
    fault: str
    count: int
    shown: tuple[str, ...]


def findings_of(verdict: Verdict) -> list[AuditFinding]:
    """All problems; empty if everything that can be checked is right."""
    found = [AuditFinding("both", "other journal", 1, (words,)) for words in verdict.scope.wrong]
    for side in SIDES:
        if side in verdict.summary.sides:
            found += _of_side(side, verdict.summary.sides[side], verdict.scope.whole)
    found += _of_list(verdict)
    summary = verdict.summary
    if verdict.scope.compare is not None:
        found += _ranges("both", "missing in the archive", summary.missing)
        found += _ranges("both", "not in the journal", summary.extra)
        found += _content(verdict)
    return found


def _of_side(side: str, tally: Tally, whole: bool) -> Iterable[AuditFinding]:
    if tally.unreadable.count:
        yield _lines(side, "unreadable files", tally.unreadable)
    if tally.without:
        yield AuditFinding(side, "rows without a number", tally.without, ())
    if whole:
        yield from _ranges(side, "missing numbers", tally.gaps)
    yield from _ranges(side, "doubled numbers", tally.doubled)
    if tally.order.count:
        shown = tuple(f"{f.value:,} after {f.before:,}{_in(f)}" for f in tally.order.shown)
        yield AuditFinding(side, "out of order", tally.order.count, shown)
    falls = tally.times if tally.times.count else tally.overlaps
    if falls.count:
        yield AuditFinding(side, "falling times", falls.count, tuple(_times(falls)))


def _of_list(verdict: Verdict) -> Iterable[AuditFinding]:
    """Yield a finding if the list has another count of rows, and all rows were examined."""
    archive = verdict.archive
    tally = verdict.summary.sides.get("archive")
    if archive is None or tally is None or tally.unreadable.count:
        return
    whole = (archive.first or 1, archive.last) == verdict.scope.archive
    all_rows = tally.rows + tally.without
    if whole and archive.subject == verdict.scope.subject and all_rows != archive.rows:
        words = f"{all_rows:,} rows in the files, {archive.rows:,} in the archive's list"
        yield AuditFinding("archive", "other count of rows", abs(all_rows - archive.rows), (words,))


def _content(verdict: Verdict) -> Iterable[AuditFinding]:
    summary = verdict.summary
    left = summary.spans - len(summary.spans_shown)
    shown = [f"{one.number:,} ({', '.join(one.columns)})" for one in verdict.differences]
    if left:
        shown.append(f"and in {left} more spans of {SPAN:,} numbers, not examined one by one")
    if verdict.differing or left:
        yield AuditFinding("both", "different content", verdict.differing + left, tuple(shown))


def _ranges(side: str, fault: str, ranges: Ranges) -> Iterable[AuditFinding]:
    if ranges.numbers:
        yield AuditFinding(side, fault, ranges.numbers, tuple(_spans(ranges)))


def _spans(ranges: Ranges) -> Iterable[str]:
    for first, last in ranges.shown:
        yield f"{first:,}" if first == last else f"{first:,} to {last:,}"
    if ranges.ranges > len(ranges.shown):
        yield f"and {ranges.ranges - len(ranges.shown):,} more ranges"


def _lines(side: str, fault: str, lines: Lines) -> AuditFinding:
    return AuditFinding(side, fault, lines.count, tuple(lines.shown))


def _times(falls: Falls) -> Iterable[str]:
    for fall in falls.shown:
        what = (
            f"{fall.number:,}" if fall.where else f"{fall.number:,} to {fall.number + SPAN - 1:,}"
        )
        yield f"{what}: {_time(fall.value)} after {_time(fall.before)}{_in(fall)}"


def _in(fall: Fall) -> str:
    return f" in {fall.where}" if fall.where else ""


def _time(us: int) -> str:
    return datetime.fromtimestamp(us / 1_000_000, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")


def as_json(verdict: Verdict, findings: Sequence[AuditFinding]) -> dict[str, Any]:
    """The whole report, for programs."""
    scope = verdict.scope
    sides = {}
    for side in SIDES:
        span = getattr(scope, side)
        if span != NONE or side in verdict.summary.sides:
            tally = verdict.summary.side(side)
            sides[side] = {
                "from": span[0],
                "to": span[1],
                "rows": tally.rows,
                "numbers": tally.numbers,
                "first": tally.first,
                "last": tally.last,
            }
    compare = None if scope.compare is None else {"from": scope.compare[0], "to": scope.compare[1]}
    return {
        "clean": not findings,
        "subject": scope.subject,
        **sides,
        "compared": compare and {**compare, "columns": list(verdict.compared)},
        "findings": [
            {"side": one.side, "fault": one.fault, "count": one.count, "shown": list(one.shown)}
            for one in findings
        ],
        "notes": scope.notes,
    }


def print_report(verdict: Verdict, findings: Sequence[AuditFinding], console: Console) -> None:
    """Print the checked ranges, the findings, and the parts that could not be checked."""
    counts = Table(box=None, pad_edge=False, header_style="bold")
    for head in ("", "rows", "numbers", "first", "last", "from", "to"):
        counts.add_column(head, justify="right" if head else "left", no_wrap=True)
    for side in SIDES:
        span = getattr(verdict.scope, side)
        if span != NONE or side in verdict.summary.sides:
            tally = verdict.summary.side(side)
            ends = (tally.first, tally.last) if tally.numbers else ("-", "-")
            each = (tally.rows, tally.numbers, *ends, *span)
            counts.add_row(side, *(n if isinstance(n, str) else f"{n:,}" for n in each))
    console.print(counts)
    if findings:
        table = Table(box=None, pad_edge=False, header_style="bold red")
        table.add_column("found", no_wrap=True)
        table.add_column("in", no_wrap=True)
        table.add_column("count", justify="right", no_wrap=True)
        table.add_column("first of them", overflow="fold")
        for one in findings:
            table.add_row(one.fault, one.side, f"{one.count:,}", "\n".join(one.shown))
        console.print()
        console.print(table)
    console.print()
    for note in verdict.scope.notes:
        console.print(f"note: {note}", highlight=False)
    console.print(_closing(verdict, findings), highlight=False)


def _closing(verdict: Verdict, findings: Sequence[AuditFinding]) -> str:
    if findings:
        kinds = f"{len(findings)} kind{'s' * (len(findings) > 1)} of fault"
        return f"[red]not clean[/red]: {kinds}"
    proved = ["gap-free"] if verdict.scope.whole else []
    proved += ["without doubles", "in order"]
    if verdict.scope.compare is not None:
        proved.append(f"equal to the journal{_compared(verdict)}")
    return f"[green]clean[/green]: {', '.join(proved)}"


def _compared(verdict: Verdict) -> str:
    """Name the columns in which the sides are equal; text and headers as Spark reads the bytes."""
    if not verdict.compared:
        return " in numbers"
    return f", as Spark reads it, in {', '.join(verdict.compared)}"
