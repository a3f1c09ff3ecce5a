"""Columns of chunks as arrays of Arrow, on the same memory and without a loop over the rows.

    integers, binary     the bytes as they are: nothing is copied, and offsets are checked
    text                 as text: bytes that are not UTF-8 become U+FFFD
    text_or_null         and null where there is none
    header_pairs         every header line as a name and a value; `headers` as maps of them

Arrow trusts the buffers it is given, so `binary` is the only way in for bytes of unknown origin.
"""

from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from seriatim.client.chunk_columns import ChunkError, Strings

STATUS_LINE: Final = "NATS/1.0"
TYPES: Final = {
    "number": pa.int64(),
    "time": pa.timestamp("ns", "UTC"),
    "subject": pa.string(),
    "reply": pa.string(),
    "headers": pa.map_(pa.string(), pa.string()),
    "payload": pa.binary(),
}


def integers(view: memoryview, type: Any) -> Any:
    """Return an array of this type of 64 bits."""
    return pa.Array.from_buffers(type, len(view), [None, pa.py_buffer(view)])


def binary(strings: Strings) -> Any:
    """Return byte strings. Raises `ChunkError` for offsets that would make Arrow read anywhere."""
    buffers = [None, pa.py_buffer(strings.offsets), pa.py_buffer(strings.data)]
    array = pa.Array.from_buffers(pa.binary(), len(strings), buffers)
    try:
        array.validate(full=True)
    except pa.ArrowInvalid as error:
        raise ChunkError(f"$SEQ.READ: a chunk is damaged: {error}") from None
    return array


def text(strings: Any) -> Any:
    """Return bytes as text. Invalid UTF-8 is replaced, once per distinct value."""
    try:
        return strings.cast(pa.string())
    except pa.ArrowInvalid:
        encoded = strings.dictionary_encode()
        words = [word.decode("utf-8", "replace") for word in encoded.dictionary.to_pylist()]
        return pa.array(words, pa.string()).take(encoded.indices)


def text_or_null(strings: Any) -> Any:
    """Return bytes as text, and null for none."""
    words = text(strings)
    return pc.if_else(pc.equal(pc.binary_length(words), 0), pa.scalar(None, pa.string()), words)


class HeaderPairs(NamedTuple):
    """The headers of many messages, in order; `ends` has one more entry than there are messages."""

    ends: Any  # int32: where the pairs of each message begin, and at last end
    rows: Any  # of each pair
    names: Any
    values: Any


def header_pairs(blocks: Any) -> HeaderPairs:
    """Split blocks of headers: every line `name: value`, as often as the name occurs."""
    lines = pc.split_pattern(text(blocks), "\r\n")
    flat = lines.flatten()
    named = pc.greater(pc.find_substring(flat, ":"), 0)
    named = pc.and_not(named, pc.starts_with(flat, STATUS_LINE))
    pairs = pc.split_pattern(flat.filter(named), ":", max_splits=1)
    before = pa.concat_arrays(
        [pa.array([0], pa.int32()), pc.cumulative_sum(named.cast(pa.int32()))]
    )
    begins = pc.subtract(lines.offsets, lines.offsets[0])
    return HeaderPairs(
        before.take(begins),
        pc.list_parent_indices(lines).filter(named),
        pc.list_element(pairs, 0),
        pc.utf8_trim(pc.list_element(pairs, 1), " \t"),
    )


def replies(strings: Strings) -> Any:
    """Return reply subjects, and null for none."""
    if not len(strings.data):
        return pa.nulls(len(strings), pa.string())
    return text_or_null(binary(strings))


def headers(strings: Strings) -> Any:
    """Return headers as maps of text; a name that occurs several times is there as often."""
    if not len(strings.data):
        size = len(strings) + 1
        ends = pa.Array.from_buffers(pa.int32(), size, [None, pa.py_buffer(bytes(4 * size))])
        none = pa.array([], pa.string())
        return pa.MapArray.from_arrays(ends, none, none)
    found = header_pairs(binary(strings))
    return pa.MapArray.from_arrays(found.ends, found.names, found.values)
