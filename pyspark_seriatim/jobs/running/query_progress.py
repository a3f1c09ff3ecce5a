"""The progress of a streaming query: a bar on standard error if that is a terminal.

The bar shows numbers: the end of the query's last batch, relative to the last number the broker had
then. `follow` returns when the query ends, also after Ctrl-C or SIGTERM.
"""

import json
import logging
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

LOOK_SECONDS: Final = 0.25
Step = Callable[[int, int], None]


@dataclass(slots=True)
class Run:
    """A query's totals: batches, rows, seconds, and the next number to read."""

    batches: int = 0
    rows: int = 0
    seconds: float = 0.0
    next: int = 0
    _batch: int = field(default=-1, init=False, repr=False)  # reports are counted up to this one
    _moment: str = field(default="", init=False, repr=False)  # when the last one began

    @property
    def rate(self) -> float:
        """Rows per second."""
        return self.rows / self.seconds if self.seconds else 0.0

    def look(self, query: "StreamingQuery", step: Step) -> None:
        """Count Spark's new reports, and show how far the query is."""
        latest = query.lastProgress
        if latest is None or latest["timestamp"] == self._moment:
            return  # Spark keeps a hundred reports; do not parse all of them four times a second
        for progress in query.recentProgress:
            if not progress["sources"]:
                continue
            self._moment, source = progress["timestamp"], progress["sources"][0]
            if progress["numInputRows"] and progress["batchId"] > self._batch:
                self._batch = progress["batchId"]
                self.batches += 1
                self.rows += progress["numInputRows"]
            self.next = _number(source.get("endOffset")) or self.next
            step(self.next, max(_number(source.get("latestOffset")), self.next))


def follow(query: "StreamingQuery", what: str) -> Run:
    """Show a query's progress until it ends. Raises the error that ended it."""
    # A batch's error is raised here; py4j would print it first, with both stack traces.
    logging.getLogger("py4j.clientserver").setLevel(logging.CRITICAL)
    done = Run()
    begun = time.monotonic()
    with bar(what, "numbers") as step, _stopped_by_signals() as asked:
        while not query.awaitTermination(LOOK_SECONDS):  # type: ignore[arg-type]
            done.look(query, step)
            if asked.is_set():
                query.stop()
        done.look(query, step)
    done.seconds = time.monotonic() - begun
    error = query.exception()
    if error is not None:
        raise error
    return done


def _number(offset: Any) -> int:
    """The number of an offset, as text or parsed."""
    try:
        found = json.loads(offset) if isinstance(offset, str) else offset
        return int(found["sequence"])
    except (ValueError, KeyError, TypeError):
        return 0


@contextmanager
def _stopped_by_signals() -> Iterator[threading.Event]:
    """Yield an event that Ctrl-C and SIGTERM set, so that a query can end between two batches."""
    asked = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield asked
        return

    def on_signal(_: int, __: FrameType | None) -> None:
        asked.set()

    before = {
        number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def bar(what: str, unit: str) -> Iterator[Step]:
    """Show `what` while inside; call the step it yields with the work done, and the total."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield lambda done, total: None
        return
    from rich import progress
    from rich.console import Console

    columns = (
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        progress.TextColumn("{task.completed:,} of {task.total:,} " + unit),
        progress.TimeRemainingColumn(),
    )
    with progress.Progress(*columns, console=Console(stderr=True), transient=True) as shown:
        task = shown.add_task(what, total=1)
        yield lambda done, total: shown.update(task, completed=done, total=max(total, 1))
