"""Header blocks of publishers, with the broker's own fields added in front.

    NATS/1.0\r\nA: b\r\n\r\n  ->  NATS/1.0\r\nNats-Sequence: 7\r\nA: b\r\n\r\n

Only the broker may set its fields. So a publisher's lines with the same name are removed: in any
case, with blanks around the name, and also after the empty line that ends the block for some
readers but not for others. Readers also differ in where a line ends, so a single CR or LF ends
one here. A line that begins with a blank continues the line before and is removed with it.

If a block does not begin with the line `NATS/1.0`, it has no readable headers. The broker's
own block replaces it and says how many bytes were left out.
"""

import re
from collections.abc import Set
from typing import Final

STATUS_LINE: Final = b"NATS/1.0\r\n"
LEFT_OUT: Final = b"Seriatim-Left-Out: %d\r\n"

_FIRST_LINE = re.compile(rb"NATS/1\.0(?:[ \t][^\r\n]*)?\r\n")
_LINE = re.compile(rb"[^\r\n]*(?:\r\n|\r|\n|\Z)")
_BLANKS = bytes(range(33))


def with_fields(block: bytes, fields: bytes) -> bytes:
    """Return the block with `fields`, whole lines, inserted after its first line."""
    if not block:
        return b"%b%b\r\n" % (STATUS_LINE, fields)
    names = {line.partition(b":")[0].lower() for line in fields.splitlines()}
    return _rewritten(block, fields, names)


def without_fields(block: bytes, names: Set[bytes]) -> bytes:
    """Return the block without the lines of these names, in lower case."""
    return _rewritten(block, b"", names)


def _rewritten(block: bytes, fields: bytes, names: Set[bytes]) -> bytes:
    first = _FIRST_LINE.match(block)
    if first is None:
        return STATUS_LINE + fields + LEFT_OUT % len(block) + b"\r\n"
    kept, taken_out = [], True  # a continuation of the first line would continue ours
    at = first.end()
    while at < len(block):
        line = _LINE.match(block, at)
        assert line is not None, "the pattern matches any bytes"
        at = line.end()
        if not (taken_out and line[0][:1] in (b" ", b"\t")):
            taken_out = line[0].partition(b":")[0].strip(_BLANKS).lower() in names
        if not taken_out:
            kept.append(line[0])
    return first[0] + fields + b"".join(kept)


def with_fields_behind(block: bytes, fields: bytes) -> bytes:
    """Return the block with `fields`, whole lines, behind the publisher's own."""
    full = with_fields(block, fields)
    first = _FIRST_LINE.match(full)
    assert first is not None, "there is a first line"
    rest = full[first.end() + len(fields) :]
    if not rest.endswith(b"\r\n\r\n"):
        return full  # behind a block without an end, nothing of ours would be read
    return b"%b%b%b\r\n" % (first[0], rest[:-2], fields)
