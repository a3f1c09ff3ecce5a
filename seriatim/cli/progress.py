"""A progress bar on standard error, if that is a terminal."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Step = Callable[[int], None]


@contextmanager
def bar(what: str, total: int | None, unit: str) -> Iterator[Step]:
    """Show `what` while inside; call the step it yields with the work done so far, of `total`.

    Without a total it shows how much is done.
    """
    if sys.stderr is None or not sys.stderr.isatty():
        yield lambda done: None
        return
    from rich import progress
    from rich.console import Console

    done_of = (
        "{task.completed:,} of {task.total:,} " if total is not None else "{task.completed:,} "
    )
    text = progress.TextColumn("{task.description}")
    count = progress.TextColumn(done_of + unit)
    columns: tuple[progress.ProgressColumn, ...] = (text, count, progress.TimeElapsedColumn())
    if total is not None:
        columns = (text, progress.BarColumn(), count, progress.TimeRemainingColumn())
    most = None if total is None else max(total, 1)
    with progress.Progress(*columns, console=Console(stderr=True), transient=True) as shown:
        task = shown.add_task(what, total=most)
        yield lambda done: shown.update(task, completed=done if most is None else min(done, most))
