"""The beginning and end of reading, lost numbers, and the division of ranges; without a broker.

Spark keeps an offset in its checkpoint, and compares it as text. It has the journal, and the next
number to read.

    {"journal": "1141c2c3a6b8558d", "sequence": 7}

Spark asks for the first offset of a query more than once, and again when it replays the first batch
after a crash. If the answer could change meanwhile, it is a symbolic offset (`latest`), which the
first batch, an empty one, turns into a number that is kept:

    {"startingOffsets": "latest"}   {"startingOffsets": "earliest"}   {"startingTimestamp": ms}

`info` describes the broker's journal; ends are exclusive, as in Kafka; `seek(time_ns)` finds a
number.
"""

import itertools
import logging
from collections.abc import Callable
from typing import Any, Final

from pyspark_seriatim.client import JournalInfo
from pyspark_seriatim.errors import DataLost
from pyspark_seriatim.options import Options
from pyspark_seriatim.values import EARLIEST, Position

log = logging.getLogger("pyspark_seriatim")

Offset = dict[str, Any]
Range = tuple[int, int]  # the end is exclusive
TASK_ROWS_MIN: Final = 50_000  # below this a task costs more than it reads
MS_NS: Final = 1_000_000
ADVICE: Final = "failOnDataLoss=false continues with what is there"


def lose(options: Options, message: str) -> None:
    """Raise `DataLost` for lost numbers, or log it if failOnDataLoss is false."""
    if options.fail_on_data_loss:
        raise DataLost(f"{message} ({ADVICE})")
    log.warning("%s", message)


def offset(journal: str, sequence: int) -> Offset:
    """The offset before which everything is read. The order of its keys never changes."""
    return {"journal": journal, "sequence": sequence}


def is_symbolic(start: Offset) -> bool:
    """True if an offset must still be turned into a number."""
    return "sequence" not in start


def initial(options: Options, info: JournalInfo) -> Offset:
    """The first offset of a stream: a number only if it will be the same when asked again."""
    if options.starting_timestamp >= 0:
        return {"startingTimestamp": options.starting_timestamp}
    start = options.starting_offsets
    if isinstance(start, Position):
        return offset(start.journal or info.journal, start.sequence)
    if start == EARLIEST and info.first == 1 and not info.trims:
        return offset(info.journal, 1)
    return {"startingOffsets": start}


def resolve(start: Offset, info: JournalInfo, seek: Callable[[int], int]) -> int:
    """The number that a symbolic offset means now."""
    if "startingTimestamp" in start:
        return seek(int(start["startingTimestamp"]) * MS_NS)
    return info.first if start["startingOffsets"] == EARLIEST else info.last + 1


def first_of(
    options: Options, start: Offset, info: JournalInfo, what: str = "the checkpoint"
) -> int:
    """The first number to read from an offset on; a later one if that is lost."""
    journal, sequence = str(start["journal"]), int(start["sequence"])
    if journal != info.journal:
        lose(
            options,
            f"{what} is at {sequence} of journal {journal}, but the broker has"
            f" {info.journal}: everything not yet read of the old one is lost",
        )
        return info.first
    if sequence < info.first:
        lose(
            options,
            f"{what} is at {sequence}, but the first number still kept is {info.first}:"
            f" {sequence} to {info.first - 1} are lost",
        )
        return info.first
    if sequence > info.last + 1:
        lose(
            options,
            f"{what} is at {sequence}, but the last number given is {info.last}: the"
            " journal was cut, or is a different one",
        )
        return info.last + 1
    return sequence


def stream_range(options: Options, start: Offset, end: Offset, info: JournalInfo) -> Range:
    """The numbers of a micro-batch."""
    if end["journal"] != info.journal:
        lose(
            options,
            f"a batch ends at {end['sequence']} of journal {end['journal']}, but the"
            f" broker has {info.journal}: the batch is lost",
        )
        return 1, 1
    stop = int(end["sequence"])
    if is_symbolic(start):
        if start.get("startingOffsets") != EARLIEST or stop <= info.first:
            return stop, stop  # the batch that resolved the symbolic offset to this number
        # before any deletion the first number was 1
        first = first_of(options, offset(info.journal, 1), info)
    elif start["journal"] != end["journal"]:
        first = info.first  # as when the end was chosen
    else:
        first = int(start["sequence"])
        if first >= stop:
            return stop, stop
        first = first_of(options, start, info)
    if stop > info.last + 1:
        lose(
            options,
            f"a batch ends before {stop}, but the last number given is {info.last}: the"
            " journal was cut",
        )
        stop = info.last + 1
    return min(first, stop), stop


def batch_range(options: Options, info: JournalInfo, seek: Callable[[int], int]) -> Range:
    """The numbers of a batch query."""
    start, end = options.starting_offsets, options.ending_offsets
    stop = info.last + 1
    if options.ending_timestamp >= 0:
        stop = seek(options.ending_timestamp * MS_NS)
    elif isinstance(end, Position):
        stop = _ending(options, end, info)
    if options.starting_timestamp >= 0:
        first = seek(options.starting_timestamp * MS_NS)
    elif isinstance(start, Position):
        journal = start.journal or info.journal
        first = first_of(options, offset(journal, start.sequence), info, "startingOffsets")
    else:
        first = info.first if start == EARLIEST else info.last + 1
    return first, max(first, stop)


def _ending(options: Options, end: Position, info: JournalInfo) -> int:
    if end.journal not in ("", info.journal):
        lose(
            options, f"endingOffsets is of journal {end.journal}, but the broker has {info.journal}"
        )
        return info.last + 1
    if end.sequence > info.last + 1:
        lose(options, f"endingOffsets is {end.sequence}, but the last number given is {info.last}")
    return min(end.sequence, info.last + 1)


def end_of(first: int, head: int, rows_max: int | None) -> int:
    """The end of a micro-batch that begins at `first`: the head, or after so many numbers."""
    return head if rows_max is None else min(head, first + rows_max)


def plan(options: Options, first: int, end: int) -> list[Range]:
    """Split a range into parts of nearly the same size, one per task; none if it is empty."""
    rows = end - first
    if rows <= 0:
        return []
    parts = min(options.min_partitions, max(rows // TASK_ROWS_MIN, 1))
    if options.max_records_per_partition:
        parts = max(parts, -(-rows // options.max_records_per_partition))
    cuts = [first + rows * part // parts for part in range(parts + 1)]
    return list(itertools.pairwise(cuts))
