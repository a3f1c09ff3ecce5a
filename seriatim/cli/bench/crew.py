"""The workers of a benchmark together: started, told to begin, watched, interrupted, ended."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.connection import wait
from typing import Final, Self

from seriatim.cli.bench.bench_process import (
    PUBLISHED,
    TOTAL,
    SharedCells,
    Work,
    Worker,
    WorkerReport,
)
from seriatim.cli.errors import CliError
from seriatim.cli.progress import bar

LOOK_SECONDS: Final = 0.1  # between two looks at the progress
LEAD_NS: Final = 10_000_000  # from the go until a schedule begins
LAST_WORDS_SECONDS: Final = 5.0  # for the reports of workers that were interrupted


class Crew:
    """Subscribers first, then publishers. A context manager that leaves no process behind.

    `total`: how many messages each subscriber is to receive; 0: what the publishers send.
    """

    def __init__(self, works: Sequence[tuple[str, Work]], subscribers: int, total: int) -> None:
        self._shared = SharedCells(len(works))
        self._shared.cells[TOTAL] = total
        self._workers: list[Worker] = []
        try:
            for index, (name, work) in enumerate(works):
                self._workers.append(Worker(name, work, self._shared, index))
        except BaseException:
            self.end()
            raise
        self.subscribers = self._workers[:subscribers]
        self.publishers = self._workers[subscribers:]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def work(self, what: str, seconds: float | None) -> None:
        """Let them work to the end, beside a progress bar: of messages, or of so many seconds.

        Raises `CliError`. After `KeyboardInterrupt` they have reported what they have done so far.
        """
        try:
            self._watch(lambda: all(one.is_ready for one in self._workers))
            self._go()
            with self._bar(what, seconds) as show:
                self._watch(lambda: all(one.report for one in self.publishers), show)
                if self.publishers:
                    sent = sum(one.messages for one in self.reports(self.publishers))
                    self._shared.cells[TOTAL] = sent
                self._shared.cells[PUBLISHED] = 1
                self._watch(lambda: all(one.report for one in self.subscribers), show)
        except CliError as error:
            raise CliError(f"{error}{self._progress()}") from None
        except KeyboardInterrupt:
            self._interrupt()
            raise

    def reports(self, workers: Sequence[Worker]) -> list[WorkerReport]:
        """Return the reports that there are of these workers."""
        return [one.report for one in workers if one.report is not None]

    def end(self) -> None:
        """Kill the workers that are still there."""
        for one in self._workers:
            one.end()

    def _go(self) -> None:
        begin = time.monotonic_ns() + LEAD_NS
        for one in self._workers:
            with suppress(OSError):  # it has died, which `_watch` will see
                one.pipe.send(begin)

    def _watch(self, is_over: Callable[[], bool], show: Callable[[], None] = lambda: None) -> None:
        """Take what workers say until that is over. Raises `CliError` for the first failure."""
        while not is_over():
            working = {one.pipe: one for one in self._workers if one.report is None}
            for pipe in wait(list(working), LOOK_SECONDS):
                working[pipe].take()  # type: ignore[index]  # the pipes that it was given
            show()

    def _interrupt(self) -> None:
        """Make all workers stop and report."""
        until = time.monotonic() + LAST_WORDS_SECONDS
        for one in self._workers:
            one.interrupt()

        def is_over() -> bool:
            return time.monotonic() > until or all(one.report for one in self._workers)

        while not is_over():
            with suppress(CliError):  # a failure is of no interest any more
                self._watch(is_over)

    @contextmanager
    def _bar(self, what: str, seconds: float | None) -> Iterator[Callable[[], None]]:
        cells, begun = self._shared.cells, time.monotonic()
        shown = self.subscribers or self.publishers
        share = len(self.subscribers) or 1
        if seconds is None:
            with bar(what, cells[TOTAL] * share, "messages") as step:
                yield lambda: step(sum(cells[one.cell] for one in shown))
        else:
            with bar(what, int(seconds), "seconds") as step:
                yield lambda: step(int(time.monotonic() - begun))

    def _progress(self) -> str:
        """Say how far they came, for the end of an error message."""
        groups = {"published": self.publishers, "received": self.subscribers}
        counts = {
            word: sum(self._shared.cells[one.cell] for one in group)
            for word, group in groups.items()
            if group
        }
        if not any(counts.values()):
            return ""
        return "; " + " and ".join(f"{count:,} {word}" for word, count in counts.items())
