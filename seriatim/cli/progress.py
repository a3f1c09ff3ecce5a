"""A progress bar on standard error, if that is a terminal."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Step = Callable[[int], None]


@contextmanager
def bar(what: str, total: int, unit: str) -> Iterator[Step]:
    """Show `what` while inside; call the step it yields with the work done so far, of `total`."""
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
