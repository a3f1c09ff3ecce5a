"""Drives the parser as a connection does: chunks in, operations with their bytes out.

`read` carries what the machine has not consumed over to the next chunk; `Said` holds the spans
of one operation as bytes, so that two ways to read the same stream can be compared. `modelled` is
what the plain model of the wire reads, which shares nothing with the machine.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from parser.machine import Parser
from parser.ops import CONNECT, FAULT, HPUB, IGNORED, INFO, MORE, PING, PONG, PUB, SUB, UNSUB
from testkit import model_wire

NAMES = {
    PUB: "PUB",
    HPUB: "HPUB",
    SUB: "SUB",
    UNSUB: "UNSUB",
    PING: "PING",
    PONG: "PONG",
    CONNECT: "CONNECT",
    FAULT: "FAULT",
    IGNORED: "IGNORED",
    INFO: "INFO",
}
POISON = b"PUB b 1\r\nz\r\n\r\n 999999999 \x00\xff"  # lies behind `stop`, and must not be read


@dataclass(frozen=True, slots=True)
class Said:
    """One operation. `words` are subject, reply and digits in the verb's own order."""

    op: str
    words: tuple[bytes, ...] = ()
    body: bytes = b""  # headers and payload
    header_size: int = 0


def said(parser: Parser, op: int, buffer: bytearray) -> Said:
    """What the machine's spans say of the operation it has just returned."""
    subject = bytes(buffer[parser.subject : parser.subject_end])
    reply = bytes(buffer[parser.reply : parser.reply_end])
    digits = bytes(buffer[parser.digits : parser.digits_end])
    name = NAMES[op]
    if op == FAULT:
        return Said(f"FAULT {type(parser.fault).__name__}")
    if op in (PUB, HPUB):
        body = bytes(buffer[parser.body : parser.body + parser.size])
        if op == PUB:
            return Said(name, (subject, reply, digits), body)
        header_digits = bytes(buffer[parser.header_digits : parser.header_digits_end])
        words = (subject, reply, header_digits, digits)
        return Said(name, words, body, parser.header_size)
    if op in (SUB, UNSUB):
        return Said(name, (subject, reply, digits))
    if op in (CONNECT, INFO):
        return Said(name, (subject,))
    return Said(name)


def read(parser: Parser, chunks: Iterable[bytes], lead: int = 0) -> list[Said]:
    """All operations in a stream that comes in these chunks, up to a fault.

    Each chunk lies in a buffer of its own, `lead` bytes from its start, with poison behind it.
    """
    found: list[Said] = []
    kept = b""
    for chunk in chunks:
        data = kept + chunk
        buffer = bytearray(b"\xee" * lead + data + POISON)
        stop = lead + len(data)
        parser.attach(buffer, lead, stop)
        while (op := parser.next()) != MORE:
            found.append(said(parser, op, buffer))
            if op == FAULT:
                return found
        assert lead <= parser.at <= stop
        kept = bytes(buffer[parser.at : stop])
        assert parser.need == 0 or parser.need > len(kept), "what is awaited is not here yet"
    return found


def split(wire: bytes, cuts: Sequence[int]) -> list[bytes]:
    """The stream cut at these places, wherever they are."""
    edges = [0, *sorted({cut % (len(wire) + 1) for cut in cuts}), len(wire)]
    return [wire[start:end] for start, end in pairwise(edges)]


def read_whole(wire: bytes, **limits: int) -> list[Said]:
    """All operations of a stream that comes at once."""
    return read(Parser(**limits), [wire])


def read_bytes(wire: bytes, **limits: int) -> list[Said]:
    """All operations of a stream that comes one byte at a time."""
    return read(Parser(**limits), [wire[at : at + 1] for at in range(len(wire))])


def fault_of(wire: bytes, **limits: int) -> str:
    """The fault a stream ends with, the same however it comes; empty if it is none."""
    whole, bytewise = read_whole(wire, **limits), read_bytes(wire, **limits)
    assert whole == bytewise, "the answer must not depend on how the bytes come"
    last = whole[-1].op if whole else ""
    return last.removeprefix("FAULT ") if last.startswith("FAULT ") else ""


def modelled(
    wire: bytes, line_max: int = 4096, payload_max: int = 1 << 20, headers: bool = True
) -> list[Said]:
    """All operations of a stream, up to a fault, by the model."""
    found, fault = model_wire.read(wire, model_wire.Limits(line_max, payload_max, headers))
    return [_said(op) for op in found] + ([Said(f"FAULT {fault.name}")] if fault else [])


def _said(op: model_wire.Op) -> Said:
    if op.verb == "PUB":
        return Said("PUB", (op.subject, op.reply, op.digits), op.payload)
    if op.verb == "HPUB":
        words = (op.subject, op.reply, op.header_digits, op.digits)
        return Said("HPUB", words, op.headers + op.payload, len(op.headers))
    if op.verb in ("SUB", "UNSUB"):
        return Said(op.verb, (op.subject, op.reply, op.digits))
    if op.verb in ("CONNECT", "INFO"):
        return Said(op.verb, (op.subject,))
    return Said("IGNORED" if op.verb == "+OK" else op.verb)
