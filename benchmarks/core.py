"""The core scenarios, as data: each once with nothing kept, and once by the defaults of `serve`.

The kept form has three servers in one run: the default, which keeps every message in its journal,
the same broker keeping nothing, and nats-server, which keeps nothing. So it has three goals: those
of both forms against nats-server, and a limit for the journal's cost. Its messages make a gigabyte
or two, so that it writes far more than the journal's window holds.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from benchmarks.kinds import (
    DEFAULT,
    Flood,
    Goal,
    ManySmall,
    RoundTrip,
    Scenario,
    cpu,
)

JOURNAL_TIMES = 1.3  # the limit for a message's cost with the journal, relative to one without


@dataclass(frozen=True, slots=True)
class Core:
    """One core scenario: its form with nothing kept, and its goals against nats-server."""

    form: Flood | ManySmall | RoundTrip
    nothing_kept: float
    journal_on: float
    kept_messages: int = 0  # of the kept form; 0: as many as the other

    def forms(self) -> tuple[Scenario, Scenario]:
        """Return the form with nothing kept, and the kept form."""
        bare, peer = "seriatim-bare", "nats-server"
        figure = "p50_us" if isinstance(self.form, RoundTrip) else "cpu_us"
        goals = [
            Goal(figure, self.journal_on, peer, "seriatim"),
            Goal(figure, self.nothing_kept, peer, bare),
        ]
        if figure == "cpu_us":
            goals += cpu(1 / JOURNAL_TIMES, bare, "seriatim")
        kept = replace(
            self.form,
            name=f"kept-{self.form.name}",
            about=f"{self.form.about}; the default, and what keeps nothing",
            servers=DEFAULT,
            goals=tuple(goals),
            compared_with="",
        )
        if self.kept_messages and not isinstance(kept, RoundTrip):
            kept = replace(kept, messages=self.kept_messages)
        return replace(self.form, goals=(Goal(figure, self.nothing_kept),)), kept


CORE = (
    Core(
        Flood(
            name="1:0-16", about="1 publisher, no subscriber, 16 B",
            messages=40_000_000, size=16,
        ), 5, 3, 20_000_000,
    ),
    Core(
        Flood(
            name="1:0-128", about="1 publisher, no subscriber, 128 B",
            messages=24_000_000, size=128,
        ), 4.5, 2.5, 10_000_000,
    ),
    Core(
        Flood(
            name="1:1-16", about="1 publisher, 1 subscriber, 16 B",
            messages=12_000_000, size=16, subscribers=1,
        ), 7.5, 5.5,
    ),
    Core(
        Flood(
            name="1:1-128", about="1 publisher, 1 subscriber, 128 B",
            messages=8_000_000, size=128, subscribers=1,
        ), 5.5, 4,
    ),
    Core(
        Flood(
            name="1:1-1024", about="1 publisher, 1 subscriber, 1 KiB",
            messages=3_000_000, size=1024, subscribers=1,
        ), 2.4, 1.8, 1_500_000,
    ),
    Core(
        Flood(
            name="1:10-128", about="1 publisher, 10 subscribers, 128 B",
            messages=1_500_000, size=128, subscribers=10,
        ), 6.5, 5.5,
    ),
    Core(
        Flood(
            name="4:4-1000", about="4 publishers, 4 subscribers to bench.>, 1000 subjects, 128 B",
            messages=4_000_000, size=128, publishers=4, subscribers=4, subjects=1000,
        ), 6, 4.5,
    ),
    Core(
        Flood(
            name="4:4-100000",
            about="4 publishers, 4 subscribers to bench.>, 100 000 subjects, 128 B",
            messages=4_000_000, size=128, publishers=4, subscribers=4, subjects=100_000,
            compared_with="4:4-1000",
        ), 5, 4,
    ),
    Core(
        ManySmall(
            name="many-small-1",
            about="500 publishers, each a message in 25 ms, 1 subscriber, 128 B",
            messages=100_000, size=128, publishers=500, rate=20_000, together=20, subscribers=1,
        ), 3.5, 3,
    ),
    Core(
        ManySmall(
            name="many-small-10",
            about="500 publishers, each a message in 25 ms, 10 subscribers, 128 B",
            messages=100_000, size=128, publishers=500, rate=20_000, together=20, subscribers=10,
        ), 5, 4,
    ),
    Core(
        RoundTrip(name="round-trip", about="one message in flight, 16 B", rounds=20_000, size=16),
        1, 1,
    ),
)  # fmt: skip


def core_scenarios() -> Iterator[Scenario]:
    """Yield those with nothing kept, then their kept forms."""
    pairs = [core.forms() for core in CORE]
    for form in (0, 1):
        for pair in pairs:
            yield pair[form]
