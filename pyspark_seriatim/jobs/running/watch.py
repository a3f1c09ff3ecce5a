"""The progress of a batch job, if there is a terminal; and the console for its tables."""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from pyspark_seriatim.jobs.running.query_progress import Step, bar

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from rich.console import Console

LOOK_SECONDS: Final = 0.3
FILE_WIDTH: Final = 160  # of a table in a file or a pipe, which has no width


def terminal() -> "Console":
    """Standard output, for tables."""
    # imported here: executors import this module too, and may not have it
    from rich.console import Console

    return Console(file=sys.stdout, width=None if sys.stdout.isatty() else FILE_WIDTH)


@contextmanager
def watching(spark: "SparkSession", what: str) -> Iterator[None]:
    """Show how many tasks are done while the inner code runs."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield
        return
    over = threading.Event()
    with bar(what, "tasks") as step:
        looker = threading.Thread(target=_show_progress, args=(spark, step, over), daemon=True)
        looker.start()
        try:
            yield
        finally:
            over.set()
            looker.join()


def _show_progress(spark: "SparkSession", step: Step, over: threading.Event) -> None:
    tracker = spark.sparkContext.statusTracker()
    while not over.wait(LOOK_SECONDS):
        found = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        stages = [stage for stage in found if stage is not None]
        if stages:
            done = sum(stage.numCompletedTasks for stage in stages)
            step(done, sum(stage.numTasks for stage in stages))
