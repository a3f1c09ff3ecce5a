"""Stages rows of an archive, and finds those that no broker, or not this one, would publish.

    rows --make--> operations         rows that fail are found by bisection
    operations --> a stage            the broker names a row it refuses: it is staged without that

Without `skip` the first such row ends the replay; the error has its number in the archive. With it,
such rows are left out and reported. Publishable rows cost nothing extra: they are made and staged
at once.
"""

import re
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from pyspark_seriatim.errors import BrokerError, RowError
from pyspark_seriatim.jobs.errors import JobError
from pyspark_seriatim.operation_publishing import OperationPublisher, Transaction, WholeStage

ROW: Final = re.compile(r": 400 Row (\d+) of stage \S+: (.*)", re.DOTALL)
Make = Callable[[pa.RecordBatch], Iterable[Any]]


@dataclass(frozen=True, slots=True)
class Unpublishable:
    """A message of the archive that the broker would refuse."""

    number: int
    why: str

    def __str__(self) -> str:
        return f"number {self.number}: {self.why}"

    @property
    def error(self) -> JobError:
        """The error that ends a replay without `skip`."""
        return JobError(
            f"{self}; --skip-unpublishable leaves out messages that cannot be published"
        )


def stage(
    publisher: OperationPublisher,
    transaction: Transaction,
    rows: pa.RecordBatch,
    make: Make,
    skip: bool,
) -> tuple[WholeStage, list[Unpublishable]]:
    """Stage rows with a column `sequence`; return those left out, or raise `JobError` for them."""
    made, left_out = sifted(rows, make, skip)
    rows = _without(rows, left_out)
    while True:
        try:
            return publisher.stage(transaction, uuid.uuid4().hex, made), left_out
        except (BrokerError, RowError) as error:
            refused = refused_by(error, rows)
            if not refused:
                raise
            if not skip:
                raise refused[0].error from error
        left_out += refused
        rows = _without(rows, refused)
        made = [*make(rows)]


def sifted(rows: pa.RecordBatch, make: Make, skip: bool) -> tuple[list[Any], list[Unpublishable]]:
    """The operations for the rows, and the rows for which there is none. Raises `JobError`."""
    try:
        return [*make(rows)], []
    except RowError as error:
        if rows.num_rows == 1:
            found = Unpublishable(rows.column("sequence")[0].as_py(), str(error))
            if not skip:
                raise found.error from error
            return [], [found]
    half = rows.num_rows // 2
    first, wrong = sifted(rows.slice(0, half), make, skip)
    second, more = sifted(rows.slice(half), make, skip)
    return first + second, wrong + more


def refused_by(error: BrokerError | RowError, rows: pa.RecordBatch) -> list[Unpublishable]:
    """The row that the broker names; if its subject is at fault, all rows of that subject."""
    found = ROW.search(str(error))
    if found is None or not 0 < int(found[1]) <= rows.num_rows:
        return []
    row, why = int(found[1]) - 1, f"the broker refuses it: {found[2]}"
    numbers = rows.column("sequence").slice(row, 1)
    if found[2].startswith('"'):
        subjects = rows.column("subject")
        numbers = rows.column("sequence").filter(pc.equal(subjects, subjects[row]))
    return [Unpublishable(number, why) for number in numbers.to_pylist()]


def _without(rows: pa.RecordBatch, left_out: Sequence[Unpublishable]) -> pa.RecordBatch:
    if not left_out:
        return rows
    gone = pa.array([one.number for one in left_out], pa.int64())
    return rows.filter(pc.invert(pc.is_in(rows.column("sequence"), gone)))
