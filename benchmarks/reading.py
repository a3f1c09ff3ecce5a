"""Reading in columns: everything kept, by requests to $SEQ.READ, each answered in chunks.

A chunk (docs/protocol.md) has a header, with the number of rows and where to continue, and ten
columns. The rows are counted by the headers. The first chunk and the last are decoded and compared;
the others are read from the socket without copying.
"""

import json
import re
import struct

from benchmarks.connection import Connection
from benchmarks.errors import BenchmarkError
from benchmarks.keepers import Journal
from benchmarks.process import ServerProcess
from benchmarks.sample import Sample
from benchmarks.scenarios import Reading
from benchmarks.servers import Server
from benchmarks.storing import Clock, fill
from benchmarks.wire import payload_of

LINE = re.compile(rb"HMSG _INBOX\.b 1 (\d+) (\d+)\r\n")
FIELD = re.compile(rb"Seriatim-(\w+): (\d+)\r\n")
STATUS = re.compile(rb"NATS/1\.0 (\d.*)\r\n")
MAGIC, SECTIONS = b"SQC1", 10
NUMBERS, PAYLOADS = 0, 9  # their indexes among the sections
ASKED_BYTES = 1 << 30  # as much as the server allows for one request


def run_reading(reading: Reading, server: Server) -> Sample:
    """Run `reading` once on a fresh process of `server`."""
    payload = payload_of(reading.size)
    keeper = Journal(server.frame)
    with ServerProcess(server) as process:
        with Connection(process.port) as control:
            keeper.begin(control)
            fill(keeper, control, payload, reading.messages)
        with Connection(process.port) as connection:
            connection.settle(b"SUB _INBOX.b 1\r\n")
            clock = Clock(process)
            reader = Reader(connection, reading.messages)
            reader.run()
            clock.stop()
        check(reader.first_chunk, 1, payload)
        check(reader.last_chunk, reading.messages + 1 - reader.rows_of_last, payload)
        return clock.sample(reading.messages, reading.messages)


class Reader:
    """The client: sends requests, and counts the rows of the chunks, until all have arrived."""

    def __init__(self, connection: Connection, rows: int) -> None:
        self.connection = connection
        self.rows = rows
        self.next = 1
        self.data = bytearray()  # received but not parsed
        self.scratch = bytearray(1 << 20)
        self.first_chunk = self.last_chunk = b""
        self.rows_of_last = 0

    def run(self) -> None:
        """Read everything."""
        while self.next <= self.rows:
            request = {"from": self.next, "max_bytes": ASKED_BYTES, "format": "columns"}
            text = json.dumps(request).encode()
            asking = b"PUB $SEQ.READ _INBOX.b %d\r\n%b\r\n" % (len(text), text)
            self.connection.send(asking)
            before = self.next
            while not self._take_chunk():
                pass
            if self.next == before:
                raise BenchmarkError(f"$SEQ.READ gave nothing from {before} on")

    def _take_chunk(self) -> bool:
        """Read one chunk; return whether it was the last one of its request."""
        while not (line := LINE.search(self.data)):
            self.data += self.connection.receive()
        header_end = line.end() + int(line[1])
        while len(self.data) < header_end:
            self.data += self.connection.receive()
        header = bytes(self.data[line.end() : header_end])
        status = STATUS.match(header)
        if status:
            raise BenchmarkError(f"$SEQ.READ answered {status[1].decode()}")
        fields = {name: int(value) for name, value in FIELD.findall(header)}
        rows, first = fields.get(b"Rows", 0), fields.get(b"First", 0)
        if rows and first != self.next:
            raise BenchmarkError(f"the rows from {self.next} were asked for, {first} came")
        chunk = self._take_body(header_end, int(line[2]) - int(line[1]))
        if rows and first == 1:
            self.first_chunk = chunk
        if rows and first + rows > self.rows:
            self.last_chunk, self.rows_of_last = chunk, rows
        self.next = fields[b"Next"]
        return b"Last" in fields

    def _take_body(self, at: int, size: int) -> bytes:
        """Read the columns and the end of the line; return them if they may be needed."""
        del self.data[:at]
        if self.next == 1 or self.next + size // 128 > self.rows:
            while len(self.data) < size + 2:
                self.data += self.connection.receive()
            chunk = bytes(self.data[:size])
            del self.data[: size + 2]
            return chunk
        left = size + 2 - len(self.data)
        if left < 0:
            del self.data[: size + 2]
            return b""
        self.data.clear()
        while left:
            left -= self.connection.discard(self.scratch, left)
        return b""


def check(chunk: bytes, first: int, payload: bytes) -> None:
    """Raise unless the chunk has messages from `first` on, all with this payload."""
    magic, rows, _, sections = struct.unpack_from("<4s3I", chunk)
    places = struct.unpack_from(f"<{2 * SECTIONS}I", chunk, 16)
    start, size = places[2 * NUMBERS : 2 * NUMBERS + 2]
    numbers = struct.unpack_from(f"<{size // 8}q", chunk, start)
    start, size = places[2 * PAYLOADS : 2 * PAYLOADS + 2]
    good = (
        (magic, sections) == (MAGIC, SECTIONS)
        and numbers == tuple(range(first, first + rows))
        and chunk[start : start + size] == payload * rows
    )
    if not good:
        raise BenchmarkError(f"a chunk of $SEQ.READ is not {rows} rows from {first} on")
