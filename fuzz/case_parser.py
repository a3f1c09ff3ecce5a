"""Any bytes in any chunks through the parser, compared with the plain model of the wire.

    flags  limits  chunk chunk chunk chunk  the client's bytes ...

`flags`: 1 headers are agreed, 2 look ahead with `peek`, 4 the buffer starts further in. `limits`
choose the longest control line and payload. The four chunk sizes are used in turn; 0 means all that
is left. The same bytes are also parsed in one piece.
"""

from parser import ops
from parser.machine import Parser
from parser.table import START
from testkit.fence import GRANULE, fenced
from testkit.model_wire import Fault, Limits, Op, read

MAX_LEN = 4096
HEADER = 6
LINES = (4096, 512, 40, 8)
PAYLOADS = (1 << 20, 64 << 20, 30, 0)
PAST = bytes(range(1, 33)) + b"\r\nPUB a 1\r\nx\r\n"  # the bytes after the received ones
NAMES = {
    ops.PUB: "PUB",
    ops.HPUB: "HPUB",
    ops.SUB: "SUB",
    ops.UNSUB: "UNSUB",
    ops.PING: "PING",
    ops.PONG: "PONG",
    ops.CONNECT: "CONNECT",
    ops.INFO: "INFO",
    ops.IGNORED: "+OK",
}


class Reader:
    """One connection's reader: keeps unconsumed bytes, like broker/clients/inbox.py."""

    def __init__(self, limits: Limits, flags: int) -> None:
        self.limits = limits
        self.parser = Parser(limits.max_control_line, limits.max_payload)
        self.parser.headers = limits.headers
        self.peeking = bool(flags & 2)
        self.start = 2 * GRANULE if flags & 4 else 0
        self.kept = b""
        self.ops: list[Op] = []
        self.fault = ""

    def feed(self, chunk: bytes) -> None:
        """Parse the kept bytes followed by the chunk, in a new buffer."""
        filled = bytes(self.start) + self.kept + chunk
        buffer = bytearray(filled + PAST)
        stop = len(filled)
        with fenced(buffer, self.start, stop):
            self.parser.attach(buffer, self.start, stop)
            self._drain(buffer, stop)

    def _drain(self, buffer: bytearray, stop: int) -> None:
        parser = self.parser
        while True:
            before = parser.at
            if self.peeking:
                parser.peek()
            op = parser.next()
            assert self.start <= before <= parser.at <= stop, "positions stay in the buffer"
            if op == ops.FAULT:
                self._broken()
                return
            if op == ops.MORE:
                self._keep(buffer, stop)
                return
            assert parser.at > before, "an operation consumes the bytes it is made of"
            assert parser.state == START, "an operation ends where the next begins"
            self.ops.append(self._taken(op, buffer, before))

    def _taken(self, op: int, buffer: bytearray, before: int) -> Op:
        parser, name = self.parser, NAMES[op]
        if name in ("PING", "PONG", "+OK"):
            return Op(name, 0)

        def span(start: int, end: int) -> bytes:
            if start == end:
                return b""
            assert before <= start < end <= parser.at, "spans lie in the bytes just consumed"
            return bytes(buffer[start:end])

        subject = span(parser.subject, parser.subject_end)
        reply = span(parser.reply, parser.reply_end)
        digits = span(parser.digits, parser.digits_end)
        if name not in ("PUB", "HPUB"):
            return Op(name, 0, subject, reply, digits)
        assert parser.size == int(digits), "the size is what the digits say"
        middle, header_digits = parser.body, b""
        if name == "HPUB":
            header_digits = span(parser.header_digits, parser.header_digits_end)
            assert parser.header_size == int(header_digits)
            middle += parser.header_size
        payload_end = parser.body + parser.size
        headers = span(parser.body, middle)
        payload = span(middle, payload_end)
        return Op(name, 0, subject, reply, digits, header_digits, headers, payload)

    def _keep(self, buffer: bytearray, stop: int) -> None:
        parser, limits = self.parser, self.limits
        self.kept = bytes(buffer[parser.at : stop])
        # A line with its CR LF, then a payload with its CR, but never a whole operation.
        line_max = limits.max_control_line + 1
        most = line_max + 1 + limits.max_payload + 1 if parser.need else line_max
        assert len(self.kept) <= most, "what is kept is bounded"
        assert parser.need == 0 or len(self.kept) < parser.need <= most + 1

    def _broken(self) -> None:
        parser = self.parser
        self.fault = type(parser.fault).__name__
        for _ in range(2):
            assert parser.next() == ops.FAULT, "there is no way back"
            assert type(parser.fault).__name__ == self.fault, "the first fault is the fault"


def pieces(wire: bytes, sizes: bytes) -> list[bytes]:
    """The bytes cut into chunks whose sizes are used in turn; 0 means all the rest."""
    cut, at, turn = [], 0, 0
    while at < len(wire):
        size = sizes[turn % len(sizes)] if sizes else 0
        turn += 1
        end = at + size if size else len(wire)
        cut.append(wire[at:end])
        at = end
    return cut


def run(wire: list[bytes], limits: Limits, flags: int) -> tuple[list[Op], str, bytes]:
    """Return the operations, the fault and the kept bytes, after these chunks."""
    reader = Reader(limits, flags)
    for chunk in wire:
        reader.feed(chunk)
        if reader.fault:
            break
    return reader.ops, reader.fault, b"" if reader.fault else reader.kept


def check(data: bytes) -> None:
    """Parse one input in its chunks and in one piece: both must agree with the model."""
    if len(data) < HEADER:
        return
    flags, choice, sizes, wire = data[0], data[1], data[2:HEADER], data[HEADER:]
    limits = Limits(LINES[choice & 3], PAYLOADS[choice >> 2 & 3], bool(flags & 1))
    wanted, fault = read(wire, limits)
    expected = [op._replace(end=0) for op in wanted]
    name = fault.name if isinstance(fault, Fault) else ""
    for chunks in (pieces(wire, sizes), [wire]):
        found, broken, _ = run(chunks, limits, flags)
        assert found == expected, f"{found} is not {expected} in {chunks}"
        assert broken == name, f"{broken or 'no fault'} is not {name or 'no fault'} in {chunks}"
