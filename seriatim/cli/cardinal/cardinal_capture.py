"""Copies messages of a journal, or of another capture, to a capture that outlives the journal."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from cardinal.follower import Row
from cardinal.transport.capture import CaptureWriter
from cardinal.transport.errors import BadTopic
from seriatim.cli.errors import CliError, UsageError


@dataclass(slots=True)
class CaptureCounts:
    """The counts of messages written, and left out because they are not of Cardinal Streams."""

    messages: int = 0
    left_out: int = 0

    def __str__(self) -> str:
        left_out = f" ({self.left_out} left out: not of Cardinal Streams)" if self.left_out else ""
        return f"{self.messages} messages{left_out}"


def write(name: str, stream: str, rows: Iterable[Row | None], source: str) -> CaptureCounts:
    """Write the rows, whose numbers belong to `stream`; skip None. Raises `CliError`."""
    if name == "-":
        raise UsageError("give a file: standard output is used for the report")
    if Path(name).exists() and Path(name).samefile(source):
        raise UsageError(f"{name}: cannot be read and written at the same time")
    done = CaptureCounts()
    try:
        with open(name, "wb") as file:
            writer = CaptureWriter(file, stream)
            for row in rows:
                try:
                    writer.write(_only(row))
                except BadTopic:
                    row = None
                done.messages += row is not None
                done.left_out += row is None
    except OSError as error:
        if error.filename != name:
            raise
        raise CliError(f"{name}: cannot be written: {error.strerror}") from error
    return done


def _only(row: Row | None) -> Iterator[Row]:
    if row is not None:
        yield row
