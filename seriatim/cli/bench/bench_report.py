"""The report of a benchmark: a table for a person, JSON for programs, and a drawing."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from broker.version import is_compiled
from seriatim.cli.bench.bench_plan import shown_subject
from seriatim.cli.bench.bench_process import WorkerReport
from seriatim.cli.bench.bench_run import BenchResult
from seriatim.cli.bench.latencies import Latencies
from seriatim.cli.printable import print_table
from seriatim.settings.checked import quoted

MIB: Final = 1 << 20
LATE_SECONDS: Final = 0.1  # that a schedule may end late, and this share of it, without a word
LATE_SHARE: Final = 0.01
BAR_CELLS: Final = 50


@dataclass(frozen=True, slots=True)
class GroupFigures:
    """The figures of all workers of one kind."""

    processes: int
    messages: int
    seconds: float
    per_second: float
    mib_per_second: float
    cpu_us_per_message: float

    @classmethod
    def of(cls, reports: Sequence[WorkerReport]) -> "GroupFigures":
        """Return the figures of these workers together."""
        messages = sum(one.messages for one in reports)
        begun = min((one.begin_ns for one in reports if one.begin_ns), default=0)
        seconds = max(0, max((one.end_ns for one in reports), default=0) - begun) / 1e9
        payload = sum(one.payload_bytes for one in reports)
        cpu = sum(one.cpu_seconds for one in reports)
        return cls(
            len(reports),
            messages,
            seconds,
            messages / seconds if seconds else 0.0,
            payload / seconds / MIB if seconds else 0.0,
            cpu / messages * 1e6 if messages else 0.0,
        )

    def as_json(self) -> dict[str, Any]:
        """Return the figures as the fields of JSON."""
        return {
            "processes": self.processes,
            "messages": self.messages,
            "seconds": round(self.seconds, 6),
            "per_second": round(self.per_second, 1),
            "mib_per_second": round(self.mib_per_second, 3),
            "cpu_us_per_message": round(self.cpu_us_per_message, 4),
        }


class BenchReport:
    """The report of one benchmark."""

    def __init__(self, result: BenchResult) -> None:
        self._result = result
        self._receivers = result.subscribers or result.replayers
        self._groups = {
            "published": GroupFigures.of(result.publishers) if result.publishers else None,
            "received": GroupFigures.of(result.subscribers) if result.subscribers else None,
            "read back": GroupFigures.of(result.replayers) if result.replayers else None,
        }
        self._latencies: dict[str, Latencies] = {}
        if result.plan.has_latency:
            for name, reports in (("ack", result.publishers), ("delivery", result.subscribers)):
                if any(one.latencies for one in reports):
                    self._latencies[name] = Latencies(one.latencies for one in reports)

    def problems(self) -> Iterator[str]:
        """Yield what makes the result wrong: messages that are missing, repeated or disordered."""
        result = self._result
        if not result.is_interrupted:
            for at, one in enumerate(self._receivers, 1):
                if one.missing:
                    missing = f"{one.missing:,} of {result.sent:,}"
                    yield f"subscriber {at}: {missing} messages are missing"
        for at, one in enumerate(self._receivers, 1):
            if one.repeated:
                yield f"subscriber {at}: {one.repeated:,} messages came again, or late"
            if one.disordered:
                yield f"subscriber {at}: the numbers of {one.disordered:,} messages do not rise"

    def notes(self) -> Iterator[str]:
        """Yield what a reader of the figures should know."""
        result, published = self._result, self._groups["published"]
        if not is_compiled():
            yield "Seriatim runs uncompiled here: its clients may be slower than the broker"
        foreign = sum(one.foreign for one in self._receivers)
        if foreign:
            yield f"{foreign:,} messages of others came on the same subjects; they are not counted"
        if (
            not result.sent
            and result.replayers
            and not any(one.messages for one in result.replayers)
        ):
            yield f"no message on {quoted(result.plan.subject)} was found"
        lost = max((one.lost for one in self._receivers), default=0)
        if lost:
            yield f"{lost:,} numbers are no longer kept, and could not be read back"
        rate = result.plan.rate
        if rate and published and not result.is_interrupted:
            late = published.seconds - published.messages / rate
            if late > LATE_SECONDS and late > LATE_SHARE * published.seconds:
                yield f"{published.per_second:,.0f} messages/s were published, not {rate:,.0f}"

    def as_json(self) -> str:
        """Return the report as one object of JSON."""
        result, plan = self._result, self._result.plan
        fields: dict[str, Any] = {
            "server": result.server,
            "url": plan.access.shown,
            "subject": plan.pattern,
            "subjects": plan.subjects,
            "size": plan.size if plan.publishes else None,
            "rate": plan.rate,
            "ack": plan.ack,
            "interrupted": result.is_interrupted,
        }
        for name, group in self._groups.items():
            fields[name.replace(" ", "_")] = group and group.as_json()
        if result.numbers is not None and fields["read_back"]:
            fields["read_back"] |= {"first": result.numbers[0], "last": result.numbers[1]}
        for name in ("missing", "repeated", "disordered", "foreign", "lost"):
            fields[name] = sum(getattr(one, name) for one in self._receivers)
        if result.is_interrupted:
            fields["missing"] = None  # nobody waited for them
        fields["latency_us"] = {
            name: {"count": one.count, **one.figures(), "hdr": one.encoded()}
            for name, one in self._latencies.items()
        }
        return json.dumps(fields)

    def print(self, plot: bool) -> None:
        """Print the tables, and with `plot` the distributions of latencies."""
        plan = self._result.plan
        size = f", {plan.size:,} B" if plan.publishes else ""
        print(f"{self._result.server} at {plan.access.shown}: {shown_subject(plan)}{size}\n")
        titles = ("", "processes", "messages", "seconds", "msgs/s", "MiB/s", "CPU us/message")
        rows = [_cells(name, group) for name, group in self._groups.items() if group is not None]
        print_table(titles, rows, numbers=range(1, len(titles)))
        if self._latencies:
            print()
            figures = {name: one.figures() for name, one in self._latencies.items()}
            names = ["latency, us", *next(iter(figures.values()))]
            lines = [[name, *map("{:,}".format, one.values())] for name, one in figures.items()]
            print_table(names, lines, numbers=range(1, len(names)))
        for name, one in self._latencies.items() if plot else ():
            print()
            _print_plot(name, one)
        if self._receivers and not self._result.is_interrupted and not any(self.problems()):
            if self._result.sent:
                print("\nevery message came once, in order")
            elif any(one.messages for one in self._receivers):
                print("\nall in order")


def _cells(name: str, group: GroupFigures) -> list[str]:
    return [
        name,
        f"{group.processes}",
        f"{group.messages:,}",
        f"{group.seconds:.3f}",
        f"{group.per_second:,.0f}",
        f"{group.mib_per_second:,.1f}",
        f"{group.cpu_us_per_message:.3f}",
    ]


def _print_plot(name: str, latencies: Latencies) -> None:
    """Print a bar for each row of the distribution, as long as its share of the largest."""
    from rich.bar import Bar
    from rich.console import Console
    from rich.table import Table

    rows = latencies.rows()
    most = max(count for _, _, count in rows)
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    for title in (f"{name}, us", "messages", "share"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("")
    for low, high, count in rows:
        share = f"{count / latencies.count:.2%}"
        bar = Bar(most, 0, count, width=BAR_CELLS)
        table.add_row(f"{low:,} to {high:,}", f"{count:,}", share, bar)
    Console().print(table)
