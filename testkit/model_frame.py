"""One message exactly as a subscriber must receive it, written from docs/protocol.md."""

import re
from dataclasses import dataclass

NETSTRING, HEADER, NONE = "netstring", "header", "none"


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


def netstring(content: bytes) -> bytes:
    """`5:hello,`"""
    return b"%d:%b," % (len(content), content)


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
        payload = netstring(netstring(b"%d" % message.number) + netstring(payload))
        sizes = _sizes(headers, payload)
    elif message.number and frame == HEADER and takes_headers:
        headers = _numbered(headers, message.number)
        sizes = _sizes(headers, payload)
    verb = b"HMSG" if len(sizes) == 2 else b"MSG"
    return b" ".join([verb, *words, *sizes]) + b"\r\n" + headers + payload + b"\r\n"


def _sizes(headers: bytes, payload: bytes) -> list[bytes]:
    total = b"%d" % (len(headers) + len(payload))
    return [b"%d" % len(headers), total] if headers else [total]


def _numbered(headers: bytes, number: int) -> bytes:
    """Insert the number as a header after the first line of the headers, if any, and only there."""
    field = b"Nats-Sequence: %d\r\n" % number
    line, end, rest = headers.partition(b"\r\n")
    broken = b"\r" in line or b"\n" in line
    if not end or broken or not (line + b" ").startswith((b"NATS/1.0 ", b"NATS/1.0\t")):
        left_out = b"Seriatim-Left-Out: %d\r\n" % len(headers) if headers else b""
        return b"NATS/1.0\r\n" + field + left_out + b"\r\n"
    kept, gone = b"", True
    for one in re.split(rb"(?<=\n)|(?<=\r)(?!\n)", rest):
        if not (gone and one.startswith((b" ", b"\t"))):
            name = one.split(b":")[0].strip(bytes(range(33)))
            gone = name.lower() == b"nats-sequence"
        kept += b"" if gone else one
    return line + end + field + kept
