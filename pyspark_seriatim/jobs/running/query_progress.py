"""How far a streaming query has come: a bar on standard error where that is a terminal.

The bar goes by numbers: where the query's last batch has ended, of what the broker had given by
then. `follow` returns when the query has ended by itself or by the user's Ctrl-C or a SIGTERM.
"""

import json
import logging
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

LOOK_SECONDS: Final = 0.25
Step = Callable[[int, int], None]


@dataclass(slots=True)
class Run:
    """What a query has done: batches, rows, seconds, and the next number it would read."""

    batches: int = 0
    rows: int = 0
    seconds: float = 0.0
    next: int = 0

    @property
    def rate(self) -> float:
        """Rows a second."""
        return self.rows / self.seconds if self.seconds else 0.0


@dataclass(slots=True)
class CountedReports:
    """Which of Spark's reports are counted: up to this batch; the last began at this moment."""

    batch: int = -1
    moment: str = ""


def follow(query: "StreamingQuery", what: str) -> Run:
    """Show how far a query has come until it has ended. Raises what has ended it."""
    # What a batch raises is raised here; py4j would print it before, with the stacks around it.
    logging.getLogger("py4j.clientserver").setLevel(logging.CRITICAL)
    done, seen = Run(), CountedReports()
    begun = time.monotonic()
    with bar(what, "numbers") as step, _stopped_by_signals() as asked:
        while not query.awaitTermination(LOOK_SECONDS):  # type: ignore[arg-type]
            _count(query, done, seen, step)
            if asked.is_set():
                query.stop()
        _count(query, done, seen, step)
    done.seconds = time.monotonic() - begun
    error = query.exception()
    if error is not None:
        raise error
    return done


def _count(query: "StreamingQuery", done: Run, seen: CountedReports, step: Step) -> None:
    latest = query.lastProgress
    if latest is None or latest["timestamp"] == seen.moment:
        return  # Spark keeps a hundred of them, which are not to be read four times a second
    for progress in query.recentProgress:
        if not progress["sources"]:
            continue
        seen.moment, source = progress["timestamp"], progress["sources"][0]
        if progress["numInputRows"] and progress["batchId"] > seen.batch:
            seen.batch = progress["batchId"]
            done.batches += 1
            done.rows += progress["numInputRows"]
        done.next = _number(source.get("endOffset")) or done.next
        step(done.next, max(_number(source.get("latestOffset")), done.next))


def _number(offset: Any) -> int:
    """The number of an offset, as Spark shows it: text, or read already."""
    try:
        found = json.loads(offset) if isinstance(offset, str) else offset
        return int(found["sequence"])
    except (ValueError, KeyError, TypeError):
        return 0


@contextmanager
def _stopped_by_signals() -> Iterator[threading.Event]:
    """An event that Ctrl-C and SIGTERM set, so that a query may end between two batches."""
    asked = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield asked
        return

    def ask(_: int, __: FrameType | None) -> None:
        asked.set()

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def bar(what: str, unit: str) -> Iterator[Step]:
    """Show `what` while inside; the step it gives is told how far the work is, and of how much."""
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
