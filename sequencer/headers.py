"""Header blocks of publishers, with what the broker says in front of their own lines.

    NATS/1.0\r\nA: b\r\n\r\n  ->  NATS/1.0\r\nNats-Sequence: 7\r\nA: b\r\n\r\n

What the broker says stands alone: a publisher's lines of the same name are taken out, in any
case, with blanks around the name, and behind the empty line that ends the block for some readers
and not for others. Readers differ in where a line ends, so a CR or an LF alone ends one here, too;
and a line that begins with a blank continues the one before, so it goes with it.

A block that does not begin with a line `NATS/1.0` has no headers that anyone could read. In its
place stands the broker's own, which says how many bytes were left out.
"""

import re
from typing import Final

STATUS_LINE: Final = b"NATS/1.0\r\n"
LEFT_OUT: Final = b"Seriatim-Left-Out: %d\r\n"

_FIRST_LINE = re.compile(rb"NATS/1\.0(?:[ \t][^\r\n]*)?\r\n")
_LINE = re.compile(rb"[^\r\n]*(?:\r\n|\r|\n|\Z)")
_BLANKS = bytes(range(33))


def with_fields(block: bytes, fields: bytes) -> bytes:
    """The block with `fields`, whole lines, after its first line and nowhere else."""
    first = _FIRST_LINE.match(block)
    if first is None:
        left_out = LEFT_OUT % len(block) if block else b""
        return STATUS_LINE + fields + left_out + b"\r\n"
    names = {line.partition(b":")[0].lower() for line in fields.splitlines()}
    kept, taken_out = [], True  # what continues the first line would continue ours
    at = first.end()
    while at < len(block):
        line = _LINE.match(block, at)
        assert line is not None, "it matches any bytes"
        at = line.end()
        if not (taken_out and line[0][:1] in (b" ", b"\t")):
            taken_out = line[0].partition(b":")[0].strip(_BLANKS).lower() in names
        if not taken_out:
            kept.append(line[0])
    return first[0] + fields + b"".join(kept)
