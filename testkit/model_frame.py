"""One message exactly as a subscriber must receive it, written from docs/protocol.md."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime

NETSTRING, HEADER, STAMP, NONE = "netstring", "header", "stamp", "none"
OWN_NAMES = {HEADER: [b"nats-sequence"], STAMP: [b"nats-sequence", b"nats-time-stamp"]}


@dataclass(frozen=True, slots=True)
class Sequenced:
    """A published message. `number` 0: excluded from the order, so neither numbered nor framed."""

    number: int
    subject: bytes
    reply: bytes
    digits: bytes  # the sizes as the publisher wrote them
    header_digits: bytes
    headers: bytes
    payload: bytes
    time: int = 0  # ns since 1970


def netstring(content: bytes) -> bytes:
    """`5:hello,`"""
    return b"%d:%b," % (len(content), content)


def _netstring(data: bytes, at: int) -> tuple[bytes, int]:
    digits, colon, _ = data[at : at + 12].partition(b":")
    assert colon, f"a netstring has its length: {data[at : at + 80]!r}"
    assert digits.isdigit(), f"a netstring's length is a number: {digits!r}"
    assert digits == b"0" or digits[:1] != b"0", f"no leading zero in {digits!r}"
    start = at + len(digits) + 1
    end = start + int(digits)
    assert data[end : end + 1] == b",", f"a netstring ends with a comma: {data[at : end + 1]!r}"
    return data[start:end], end + 1


def split_frame(data: bytes) -> tuple[int, bytes]:
    """The number and the payload of one whole frame, as a subscriber takes it apart."""
    inner, end = _netstring(data, 0)
    assert end == len(data), f"nothing follows a frame: {data[end : end + 80]!r}"
    number, at = _netstring(inner, 0)
    payload, end = _netstring(inner, at)
    assert end == len(inner), f"nothing follows the payload: {inner[end : end + 80]!r}"
    assert number.isdigit(), f"the number is a decimal: {number!r}"
    assert number[:1] != b"0", f"numbers begin with 1 and have no leading zero: {number!r}"
    return int(number), payload


def unframe(data: bytes, frame: str) -> bytes:
    """Return the payload that was published, from what a client with this frame got."""
    return split_frame(data)[1] if frame == NETSTRING else data


def netstring_frame(number: int, payload: bytes) -> bytes:
    """The frame around one payload."""
    return netstring(netstring(b"%d" % number) + netstring(payload))


def delivery(message: Sequenced, sid: bytes, frame: str, takes_headers: bool) -> bytes:
    """The MSG or HMSG for a subscription of a client with this frame."""
    words = [message.subject, sid]
    if message.reply:
        words.append(message.reply)
    headers = message.headers if takes_headers else b""
    payload = message.payload
    # nats-server relays sizes literally, but recomputes them when it drops headers.
    kept = bool(headers) or not message.headers
    sizes = [message.digits if kept else b"%d" % len(payload)]
    if headers:
        sizes.insert(0, message.header_digits)
    if message.number and frame == NETSTRING:
        payload = netstring_frame(message.number, payload)
        sizes = _sizes(headers, payload)
    elif frame in OWN_NAMES and takes_headers and (message.number or headers):
        made = _with_own(headers, _own_fields(message, frame), OWN_NAMES[frame])
        if message.number or made != headers:
            headers = made
            sizes = _sizes(headers, payload)
    verb = b"HMSG" if len(sizes) == 2 else b"MSG"
    return b" ".join([verb, *words, *sizes]) + b"\r\n" + headers + payload + b"\r\n"


def _sizes(headers: bytes, payload: bytes) -> list[bytes]:
    total = b"%d" % (len(headers) + len(payload))
    return [b"%d" % len(headers), total] if headers else [total]


def time_text(ns: int) -> bytes:
    """The time as text, from the standard library's calendar."""
    second = datetime.fromtimestamp(ns // 10**9, UTC)
    return b"%b.%09dZ" % (second.strftime("%Y-%m-%dT%H:%M:%S").encode(), ns % 10**9)


def _own_fields(message: Sequenced, frame: str) -> bytes:
    """The lines that the broker writes; none for a message without a number."""
    if not message.number:
        return b""
    fields = b"Nats-Sequence: %d\r\n" % message.number
    if frame == STAMP:
        fields += b"Nats-Time-Stamp: %b\r\n" % time_text(message.time)
    return fields


def _with_own(headers: bytes, fields: bytes, names: list[bytes]) -> bytes:
    """Insert the broker's lines after the first line of the headers, if any; leave out others."""
    line, end, rest = headers.partition(b"\r\n")
    broken = b"\r" in line or b"\n" in line
    if not end or broken or not (line + b" ").startswith((b"NATS/1.0 ", b"NATS/1.0\t")):
        left_out = b"Seriatim-Left-Out: %d\r\n" % len(headers) if headers else b""
        return b"NATS/1.0\r\n" + fields + left_out + b"\r\n"
    kept, gone = b"", True
    for one in re.split(rb"(?<=\n)|(?<=\r)(?!\n)", rest):
        if not (gone and one.startswith((b" ", b"\t"))):
            name = one.split(b":")[0].strip(bytes(range(33)))
            gone = name.lower() in names
        kept += b"" if gone else one
    return line + end + fields + kept
