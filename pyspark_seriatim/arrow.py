"""Turns chunks of columns into Arrow batches with the wanted columns, of the wanted size.

    batches(chunks, schema, ...) -> RecordBatch, in the order of the numbers

The broker's chunks are small, because large ones would cost it new memory each time. Several are
joined into a batch; one that is large enough is not copied. There is no loop over rows: Arrow
checks text, divides times and splits headers.

    sequence int64    subject string    payload binary    timestamp us, UTC
    reply string or null        headers map<string, list<string>>

Bytes that are not UTF-8 in a subject, a reply or a header become U+FFFD. Memory: two batches.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyspark_seriatim.client import Chunk
from pyspark_seriatim.errors import BrokerError
from seriatim.client import arrow_columns
from seriatim.client.arrow_columns import header_pairs, text, text_or_null
from seriatim.client.chunk_columns import Columns, Strings

REMEMBERED_MAX: Final = 1 << 16  # subjects, each with its match


def batches(
    chunks: Iterable[Chunk],
    schema: pa.Schema,
    rows_max: int,
    bytes_max: int,
    match: "SubjectMatch | None" = None,
) -> Iterator[pa.RecordBatch]:
    """The rows of `chunks` in batches of at most `rows_max` rows, and about `bytes_max` bytes."""
    held: list[Columns] = []
    rows = size = 0
    for chunk in chunks:
        columns = chunk.columns
        count, more = len(columns), chunk.size
        if not count:
            continue
        if held and (rows + count > rows_max or size + more > bytes_max):
            yield from _cut(to_batch(held, schema, match), rows_max)
            held, rows, size = [], 0, 0
        held.append(columns)
        rows, size = rows + count, size + more
    if held:
        yield from _cut(to_batch(held, schema, match), rows_max)


def _cut(batch: pa.RecordBatch, rows_max: int) -> Iterator[pa.RecordBatch]:
    for at in range(0, batch.num_rows, rows_max):
        yield batch.slice(at, rows_max) if batch.num_rows > rows_max else batch


def to_batch(
    pieces: list[Columns], schema: pa.Schema, match: "SubjectMatch | None" = None
) -> pa.RecordBatch:
    """The rows of these chunks, concatenated. Raises `BrokerError` if a chunk is damaged."""
    arrays = [COLUMNS[field.name](pieces, field.type) for field in schema]
    if arrays:
        batch = pa.RecordBatch.from_arrays(arrays, schema=schema)
    else:
        rows = sum(len(piece) for piece in pieces)
        batch = pa.RecordBatch.from_struct_array(pa.array([{}] * rows, pa.struct([])))
    if match is not None:
        batch = batch.filter(match.mask(_subject(pieces, pa.string())))
    return batch


class SubjectMatch:
    """A regular expression for whole subjects, evaluated once per subject."""

    def __init__(self, pattern: str) -> None:
        self._matches = re.compile(pattern).fullmatch
        self._known: dict[str, bool] = {}

    def mask(self, subjects: pa.Array) -> pa.Array:
        """Return a boolean per row: True where the subject matches."""
        encoded = subjects.dictionary_encode()
        return pa.array(
            [self._is_match(s) for s in encoded.dictionary.to_pylist()], pa.bool_()
        ).take(encoded.indices)

    def _is_match(self, subject: str) -> bool:
        known = self._known.get(subject)
        if known is None:
            if len(self._known) >= REMEMBERED_MAX:
                self._known.clear()
            known = self._known[subject] = self._matches(subject) is not None
        return known


def first_match(columns: Columns, match: SubjectMatch) -> int:
    """The first number of a chunk whose subject matches; 0 for none."""
    at = pc.index(match.mask(_subject([columns], pa.string())), True).as_py()
    return 0 if at < 0 else int(columns.numbers[at])


# One column of several chunks


def _integers(views: list[memoryview], type: pa.DataType) -> pa.Array:
    return _joined([arrow_columns.integers(view, type) for view in views])


def _strings(columns: list[Strings]) -> pa.Array:
    return _joined([arrow_columns.binary(strings) for strings in columns])


def _joined(arrays: list[pa.Array]) -> pa.Array:
    if len(arrays) == 1:
        return arrays[0]
    try:
        return pa.concat_arrays(arrays)
    except pa.ArrowInvalid as error:
        raise BrokerError(f"fetchBytes: one Arrow array cannot be so large: {error}") from None


def _sequence(pieces: list[Columns], type: pa.DataType) -> pa.Array:
    return _integers([piece.numbers for piece in pieces], type)


def _timestamp(pieces: list[Columns], type: pa.DataType) -> pa.Array:
    times = _integers([piece.times for piece in pieces], pa.timestamp("ns", "UTC"))
    return times.cast(type, safe=False)


def _subject(pieces: list[Columns], type: pa.DataType) -> pa.Array:
    return text(_strings([piece.subjects for piece in pieces]))


def _payload(pieces: list[Columns], type: pa.DataType) -> pa.Array:
    return _strings([piece.payloads for piece in pieces])


def _reply(pieces: list[Columns], type: pa.DataType) -> pa.Array:
    return text_or_null(_strings([piece.replies for piece in pieces]))


def _headers(pieces: list[Columns], type: pa.MapType) -> pa.Array:
    """Blocks of headers as maps. A name that occurs several times in a block has all its values.

    Without headers the map is empty, not null: Spark 4.3 passes null maps to Python in a time that
    grows with the square of their number.
    """
    blocks = _strings([piece.headers for piece in pieces])
    _, rows, keys, words = header_pairs(blocks)
    row_of = rows.to_numpy(zero_copy_only=False)
    firsts = np.arange(len(keys) + 1, dtype=np.int32)

    encoded = keys.dictionary_encode()
    group = row_of * max(len(encoded.dictionary), 1) + encoded.indices.to_numpy()
    order = np.argsort(group, kind="stable")
    begins = np.flatnonzero(np.diff(group[order], prepend=-1))  # one for each name in each block
    if len(begins) < len(keys):
        keys, words = keys.take(pa.array(order[begins])), words.take(pa.array(order))
        row_of = row_of[order[begins]]
        firsts = np.append(begins, len(order)).astype(np.int32)

    values = pa.ListArray.from_arrays(pa.array(firsts), words, type=type.item_type)
    ends = np.searchsorted(row_of, np.arange(len(blocks) + 1)).astype(np.int32)
    return pa.MapArray.from_arrays(pa.array(ends), keys, values, type=type)


COLUMNS: Final[dict[str, Callable[[list[Columns], Any], pa.Array]]] = {
    "sequence": _sequence,
    "subject": _subject,
    "payload": _payload,
    "timestamp": _timestamp,
    "reply": _reply,
    "headers": _headers,
}
