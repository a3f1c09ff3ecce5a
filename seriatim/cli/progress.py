"""How far long work has come: a bar on standard error, where that is a terminal."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Step = Callable[[int], None]


@contextmanager
def bar(what: str, total: int, unit: str) -> Iterator[Step]:
    """Show `what` while inside; the step it gives is told how far the work is, of `total`."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield lambda done: None
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
        task = shown.add_task(what, total=max(total, 1))
        yield lambda done: shown.update(task, completed=min(done, max(total, 1)))
