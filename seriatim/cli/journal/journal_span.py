"""The messages of a journal that a command reads: from where, to where, on which subjects.

Also the common part of all commands on a journal: finding its directory, and opening it with
errors that say what to do.
"""

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from broker.settings.store_directory import default_store_dir
from broker.storage.member_store import cluster_of
from sequencer.journal import Lost, Reader, StoreError
from seriatim.cli.errors import CliError, UsageError
from seriatim.cli.moment import moment
from seriatim.cli.pubsub.pub import checked_subject
from sublist.subject import covers


@dataclass(frozen=True, slots=True)
class Span:
    """Numbers `first` to `last` (0 and None: all) of the subjects that `wanted` accepts."""

    first: int
    last: int | None
    wanted: Callable[[bytes], bool] | None


def directory(given: str | None) -> str:
    """The directory of the journal: the one given, or where the broker keeps it."""
    path = given or default_store_dir()
    if not path:
        raise CliError("there is no home directory to look in; give the journal's directory")
    return path


def note_member(path: str) -> None:
    """Warn on stderr if the newest numbers may still change: the journal is a cluster's."""
    name = cluster_of(path)
    if name:
        print(
            f"seriatim: {path} is a member of the cluster {name}: its newest numbers may not be"
            " committed yet, and are other messages later if they are not",
            file=sys.stderr,
        )


@contextmanager
def store_errors(path: str) -> Iterator[None]:
    """Turn the journal's errors into one-line messages."""
    try:
        yield
    except StoreError as error:
        text = str(error)
        raise CliError(text if path in text else f"{path}: {text}") from error
    except PermissionError as error:
        who = f"run this as the user of the broker ({os.strerror(error.errno or 0).lower()})"
        raise CliError(f"{error.filename or path}: permission denied; {who}") from error


def open_reader(path: str) -> Reader:
    """Open the journal at `path` for reading. Raises `CliError`."""
    with store_errors(path):
        return Reader(path)


def filter_of(subjects: list[str] | None) -> Callable[[bytes], bool] | None:
    """Return a filter for the subjects that a pattern covers; None accepts all."""
    patterns = [checked_subject(subject, wildcards=True).encode() for subject in subjects or ()]
    if not patterns or b">" in patterns:
        return None
    if len(patterns) == 1:
        return partial(covers, patterns[0])
    return lambda subject: any(covers(pattern, subject) for pattern in patterns)


def span_of(
    reader: Reader,
    first: int | None,
    last: int | None,
    since: str | None,
    until: str | None,
    subjects: list[str] | None,
) -> Span:
    """The span that the flags mean in this journal. Raises `CliError`."""
    if first is not None and since is not None:
        raise UsageError("give --from or --since, not both")
    if last is not None and until is not None:
        raise UsageError("give --to or --until, not both")
    now = time.time_ns()
    wanted = filter_of(subjects)
    if since is not None:
        first = reader.number_at(moment(since, now))
    if until is not None:
        last = reader.number_at(moment(until, now)) - 1
    elif first is not None and last is not None and last < first:
        raise UsageError(f"--to {last} is before --from {first}")
    return Span(first or 0, last, wanted)


class Losses:
    """Reporter of missing numbers on standard error. `damaged`: some are lost by damage."""

    def __init__(self) -> None:
        self.damaged = False

    def tell(self, lost: Lost) -> None:
        """Report which numbers, and why."""
        what = f"number {lost.first} is" if lost.first == lost.last else ""
        what = what or f"numbers {lost.first} to {lost.last} are"
        if lost.damage is None:
            why = "no longer in the journal"
        else:
            self.damaged = True
            where = f"segment {lost.damage.segment}, bytes {lost.damage.offset} to"
            why = f"lost by damage in {where} {lost.damage.end}"
        print(f"seriatim: {what} {why}", file=sys.stderr, flush=True)
