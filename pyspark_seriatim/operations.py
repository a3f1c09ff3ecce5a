"""Turns rows into the bytes of a NATS connection: record batches in, PUB and HPUB operations out.

These columns are recognised by name. No other column is allowed, except the reader's `sequence` and
`timestamp`, which are ignored, so that rows just read can be written unchanged:

    subject   string or binary   not null; not needed when the option `subject` names one for all
    payload   binary or string   not null (a string is encoded as UTF-8)
    reply     string or binary   optional; null or empty: none
    headers   map<string, array<string>>   optional; null, or without a value: a plain PUB

Everything is computed on columns; there is no loop per row, and the data buffer of the last array
is sent as it is. The output is buffers of whole operations, with at most 64 MiB of rows each.
Memory: about three times that.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from pyspark_seriatim.errors import ColumnError, RowError
from seriatim.client.bulk_connection import Data

BYTES_MAX: Final = 64 << 20  # of rows in one buffer: far from the 2 GiB of an Arrow array
ROWS_MAX: Final = 1 << 16
TEXT: Final = ("string", "binary")
HEADERS: Final = "map<string,array<string>>"
TYPES: Final = {"subject": TEXT, "payload": TEXT, "reply": TEXT, "headers": (HEADERS,)}
LEFT_OUT: Final = ("sequence", "timestamp")
BINARY: Final = pa.binary()
VERSION_LINE: Final = b"NATS/1.0\r\n"

# PUB accepts and numbers everything else, even wildcards and control bytes. A line feed is only
# allowed at the beginning of a line's arguments, where it does not end the line. No subscription
# matches a subject with an empty token.
OWN: Final = r"^\$(SEQ|NRG)\.|^(_GR_|\$GR)\.."
BAD_SUBJECT: Final = rf"(?s)^$|[ \t]|.\n|{OWN}|^\.|\.\.|\.$"
BAD_REPLY: Final = r"(?s)[ \t\n]|^_R_\.|^(_GR_|\$GR|\$JS\.ACK)\.."
BAD_NAME: Final = r"^$|[^!-9;-~]"  # RFC 9110: visible ASCII, and a colon ends it
BAD_VALUE: Final = r"[\r\n]"


@dataclass(frozen=True, slots=True)
class Layout:
    """The columns of the rows. Picklable: the driver makes it, tasks use it."""

    subject: bytes | None  # for all rows; None: from the column
    reply: bool
    headers: bool


def layout_of(types: Mapping[str, str], subject: str | None = None) -> Layout:
    """Check columns, name: type as Spark writes it. Raises `ColumnError`, `RowError`."""
    there = ", ".join(types) or "none"
    if "payload" not in types:
        raise ColumnError(f"column 'payload' is missing; there are: {there}. Rename the one it is")
    if subject is None and "subject" not in types:
        raise ColumnError(
            f"column 'subject' is missing; there are: {there}. Add it, or give one subject for "
            "all rows with the option 'subject'"
        )
    for name, kind in types.items():
        if name not in TYPES and name not in LEFT_OUT:
            raise ColumnError(
                f"column {name!r} is not one of {', '.join(TYPES)}: drop it, or rename it to"
                " one of these"
            )
        wanted = TYPES.get(name)
        if wanted and _plain(kind) not in wanted:
            raise ColumnError(f"column {name!r} is {kind}; cast it to {' or '.join(wanted)}")
    fixed = None
    if subject is not None:
        fixed = subject.encode()
        _check_subjects("subject", pa.array([fixed], BINARY), BAD_SUBJECT)
    return Layout(fixed, "reply" in types, "headers" in types)


def _plain(kind: str) -> str:
    """Reduce `varchar(10)`, `char(3)` and `string collate X` to string."""
    return "string" if kind.startswith(("varchar(", "char(", "string ")) else kind


def operations(batch: pa.RecordBatch, layout: Layout, max_payload: int) -> Iterator[pa.Buffer]:
    """The rows of a batch as operations. `max_payload` is the broker's. Raises `RowError`."""
    if not batch.num_rows:
        return
    if batch.num_rows > ROWS_MAX or (batch.nbytes > BYTES_MAX and batch.num_rows > 1):
        half = batch.num_rows // 2
        yield from operations(batch.slice(0, half), layout, max_payload)
        yield from operations(batch.slice(half), layout, max_payload)
        return
    subjects = _subjects(batch, layout)
    payloads = _binary(batch, "payload")
    if payloads.null_count:
        row = pc.index(payloads.is_null(), True).as_py()
        raise RowError(
            f"column 'payload' is null in a row of subject {_shown(subjects, row)}: filter such "
            "rows out, or give them an empty payload by coalesce(payload, X'')"
        )
    replies = _replies(batch) if layout.reply else pa.scalar(None, BINARY)
    sizes = pc.binary_length(payloads)
    heads = _heads(batch.column("headers"), subjects) if layout.headers else None
    if heads is not None:
        head_sizes = pc.binary_length(heads)
        sizes = pc.add(sizes, pc.fill_null(head_sizes, 0))
    most = pc.max(sizes).as_py()
    if most > max_payload:
        row = pc.index(sizes, most).as_py()
        raise RowError(
            f"a row of subject {_shown(subjects, row)} has {most} bytes, but the broker accepts "
            f"at most {max_payload}: make it shorter, or set limits.max_payload of the broker"
        )
    if heads is None:
        control = _join(b"PUB", subjects, replies, _digits(sizes), b" ")
        whole = _join(control, payloads, b"", b"\r\n")
    else:
        verbs = pc.if_else(pc.is_valid(heads), b"HPUB", b"PUB")
        control = _join(verbs, subjects, replies, _digits(head_sizes), _digits(sizes), b" ")
        whole = _join(control, b"\r\n", heads, payloads, b"\r\n", b"")
    yield _data(whole)


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation of a buffer that `operations` made, for a description of its error."""

    subject: str  # as shown in an error
    arguments: int  # bytes of its control line, without the verb
    size: int  # of the whole operation


def taken_apart(buffers: Iterable[Data]) -> Iterator[Operation]:
    """The operations of buffers, one by one: slow, only for errors."""
    for buffer in buffers:
        text = bytes(buffer)
        at = 0
        while at < len(text):
            end = text.index(b"\r\n", at)  # no subject contains one
            verb, subject, *_, payload = text[at:end].split(b" ")
            size = end - at + int(payload) + 2 * len(b"\r\n")
            yield Operation(_quoted(subject), end - at - len(verb) - 1, size)
            at += size


def _join(*parts: Any) -> Any:
    """Join the non-null parts row by row; the last part is the separator."""
    return pc.binary_join_element_wise(*parts, null_handling="skip")


def _digits(numbers: Any) -> Any:
    return numbers.cast(pa.string()).cast(BINARY)


def _data(array: Any) -> pa.Buffer:
    """All bytes of an array of strings, concatenated, as they are in memory."""
    ends = _ends(array)
    first, last = ends[0].as_py(), ends[-1].as_py()
    return array.buffers()[2].slice(first, last - first)


def _ends(array: Any) -> Any:
    """Return where the strings of an array begin, and where the last ends: one more than rows."""
    return pa.Array.from_buffers(
        pa.int32(), len(array) + 1, [None, array.buffers()[1]], offset=array.offset
    )


def _binary(batch: pa.RecordBatch, name: str) -> Any:
    column = batch.column(name)
    try:
        return column.cast(BINARY)
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid) as error:
        raise ColumnError(
            f"column {name!r} is {column.type}; cast it to {' or '.join(TYPES[name])}"
        ) from error


def _subjects(batch: pa.RecordBatch, layout: Layout) -> Any:
    """The subject of each row: an array, or one scalar for all."""
    if layout.subject is not None:
        return pa.repeat(pa.scalar(layout.subject, BINARY), batch.num_rows)
    subjects = _binary(batch, "subject")
    if subjects.null_count:
        row = pc.index(subjects.is_null(), True).as_py()
        payload = _shown(_binary(batch, "payload"), row)
        raise RowError(
            f"column 'subject' is null in a row with the payload {payload}: filter such rows out, "
            "or give one subject for all rows with the option 'subject'"
        )
    _check_subjects("subject", subjects, BAD_SUBJECT)
    return subjects


def _replies(batch: pa.RecordBatch) -> Any:
    replies = _binary(batch, "reply")
    replies = pc.if_else(pc.equal(replies, b""), pa.scalar(None, BINARY), replies)
    _check_subjects("reply", replies, BAD_REPLY)
    return replies


def _check_subjects(column: str, subjects: Any, bad: str) -> None:
    """Raise `RowError` for the first subject that no message can have. Subjects repeat, so few are
    checked.
    """
    each = pc.unique(subjects)
    row = pc.index(pc.match_substring_regex(each, bad), True).as_py()
    if row < 0:
        return
    subject = each[row].as_py()
    if not subject:
        why = "it is empty; give one"
    elif set(subject) & set(b" \t\n"):
        why = f"it has a blank; replace it, for example with regexp_replace({column}, '\\\\s', '_')"
    elif column == "subject" and not re.search(OWN.encode(), subject, re.DOTALL):
        why = (
            "it has an empty token, so no subscription could match it; replace it, say with "
            "regexp_replace(subject, '(?<=^|\\.)(?=\\.|$)', '_')"
        )
    else:
        prefix = subject[: subject.index(b".") + 1].decode()
        why = f"subjects below {prefix} are reserved for the broker; rename it"
    raise RowError(f"{column} {_shown(each, row)} cannot be published to: {why}")


def _heads(column: Any, subjects: Any) -> Any:
    """The block of headers of each row; null if it has none; None if no row has any."""
    if not pa.types.is_map(column.type):
        raise ColumnError(f"column 'headers' is {column.type}; cast it to {HEADERS}")
    if column.null_count:  # without the values under nulls
        column = column.take(pa.array(range(len(column)), pa.int32()))
    first, last = column.offsets[0].as_py(), column.offsets[-1].as_py()
    names = column.keys.slice(first, last - first).cast(BINARY)
    lists = column.items.slice(first, last - first)
    values = pc.list_flatten(lists)
    if not len(values):
        return None
    values = values.cast(BINARY)
    entries = pc.subtract(column.offsets, first)  # row: its entries of the map
    counts = pc.fill_null(pc.list_value_length(lists), 0)
    counted = pc.cumulative_sum(counts.cast(pa.int32()))
    begins = pa.concat_arrays([pa.array([0], pa.int32()), counted])  # entry: its values
    rows = begins.take(entries)  # row: its values
    names = names.take(pc.list_parent_indices(lists))
    _check_headers(names, values, rows, subjects)
    lines = _join(names, b": ", values, b"\r\n", b"")
    ends = _ends(lines).take(rows)
    blocks = pa.Array.from_buffers(
        BINARY, len(column), [None, ends.buffers()[1], lines.buffers()[2]]
    )
    none = pc.equal(pc.binary_length(blocks), 0)
    return pc.if_else(none, pa.scalar(None, BINARY), _join(VERSION_LINE, blocks, b"\r\n", b""))


def _check_headers(names: Any, values: Any, rows: Any, subjects: Any) -> None:
    """`rows` says where the values of each row begin. Raises `RowError` for the first wrong one."""
    bad = pc.index(pc.match_substring_regex(names, BAD_NAME), True).as_py()
    if bad >= 0:
        why = f"the header name {_shown(names, bad)}: visible ASCII without a colon is allowed"
        raise RowError(f"a row of subject {_of(subjects, rows, bad)} has {why}")
    if values.null_count:
        bad = pc.index(values.is_null(), True).as_py()
        why = f"a null among the values of header {_shown(names, bad)}: leave it out"
        raise RowError(f"a row of subject {_of(subjects, rows, bad)} has {why}")
    bad = pc.index(pc.match_substring_regex(values, BAD_VALUE), True).as_py()
    if bad >= 0:
        why = f"a line break in the value of header {_shown(names, bad)}: replace it"
        raise RowError(f"a row of subject {_of(subjects, rows, bad)} has {why}")


def _of(subjects: Any, rows: Any, value: int) -> str:
    """The subject of the row to which the value belongs."""
    row = pc.index(pc.greater(rows, value), True).as_py() - 1
    return _shown(subjects, row)


def _shown(array: Any, row: int) -> str:
    """A row's string as shown in an error."""
    return _quoted(array[row].as_py())


def _quoted(text: bytes) -> str:
    """Short, and on one line."""
    shown = repr(text[:60].decode("utf-8", "replace"))
    return shown if len(text) <= 60 else f"{shown}..."
