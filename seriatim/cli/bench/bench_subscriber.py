"""A subscriber that counts: what is published meanwhile, or what the broker has kept."""

import re
import time
from typing import Final

from seriatim.bench.arrival_tally import ArrivalTally
from seriatim.bench.latency_table import LatencyTable
from seriatim.cli.bench.bench_connection import bench_connection
from seriatim.cli.bench.bench_plan import BenchPlan
from seriatim.cli.bench.bench_process import PUBLISHED, TOTAL, Work, WorkerPost, WorkerReport
from seriatim.client.bulk_connection import BulkConnection
from seriatim.client.errors import BrokerError, NotABroker
from seriatim.client.protocol import LINE_MAX, PAYLOAD_MAX, ErrorReceived

BUFFER_BYTES: Final = 1 << 19
LOOK_SECONDS: Final = 0.1  # how often it looks, when nothing comes, whether the publishers are done
SID: Final = 9  # the client's own answers have the first ones
SHOWN_MAX: Final = 40  # characters of what the broker said
OWN_MESSAGE: Final = re.compile(rb"H?MSG (\S+) \d+ (?:\S+ ){0,2}(\d{1,10})\r\n")
LOST: Final = re.compile(rb"\$SEQ\.LOST\.(\d{1,19})\.(\d{1,19})")


class RawReader:
    """Reads a connection through a tally, and the broker's own words besides."""

    def __init__(self, connection: BulkConnection, tally: ArrivalTally) -> None:
        self.lost = 0
        self.is_over = False  # the replay has ended
        self._connection = connection
        self._tally = tally
        self._buffer = bytearray(BUFFER_BYTES)
        self._at = self._end = 0

    def read(self) -> int:
        """Read once, and count what came; return when that was, or 0 if nothing came."""
        if self._at:
            kept = self._end - self._at
            self._buffer[:kept] = self._buffer[self._at : self._end]
            self._at, self._end = 0, kept
        elif self._end == len(self._buffer):
            if self._end > min(self._connection.max_payload, PAYLOAD_MAX) + LINE_MAX:
                raise NotABroker("this is not a NATS broker: a message has no end")
            self._buffer = self._buffer + bytes(self._end)
        with memoryview(self._buffer) as view:
            size = self._connection.receive_into(view[self._end :], LOOK_SECONDS)
        if not size:
            return 0
        now = time.monotonic_ns()
        self._end += size
        while True:
            self._at = self._tally.scan(self._buffer, self._at, self._end, now)
            if not self._take_other():
                return now

    def _take_other(self) -> bool:
        """Take one operation that is no message to count; return whether there was one."""
        stop = self._buffer.find(b"\n", self._at, self._end) + 1
        if not stop:
            return False
        line = bytes(self._buffer[self._at : stop])
        if own := OWN_MESSAGE.fullmatch(line):
            end = stop + int(own[2]) + 2
            if not own[1].startswith(b"$") or end > self._end:
                return False  # it is not all there
            self._at = end
            self.is_over |= own[1].startswith(b"$SEQ.END.")
            if lost := LOST.fullmatch(own[1]):
                self.lost += max(int(lost[2]) - int(lost[1]) + 1, 0)
            return True
        self._at = stop
        if line.startswith(b"PING"):
            self._connection.send(b"PONG\r\n")
        elif line.startswith(b"-ERR"):
            words = line[4:].decode("utf-8", "replace").strip().strip("'")
            raise ErrorReceived(words).error() if words else BrokerError("the broker refuses")
        elif not line.startswith((b"PONG", b"INFO", b"+OK")):
            raise NotABroker(f"this is not a NATS broker: it says {line[:SHOWN_MAX]!r}")
        return True


def receive(
    plan: BenchPlan, run: int, index: int, has_numbers: bool, numbers: tuple[int, int] | None = None
) -> Work:
    """Return the work of subscriber `index`: live messages, or a replay of these numbers."""

    def work(post: WorkerPost, report: WorkerReport) -> None:
        latencies = LatencyTable() if plan.rate is not None and numbers is None else None
        stamps = run if plan.publishes else 0
        tally = ArrivalTally(stamps, plan.publishers, plan.size, has_numbers, latencies)
        with bench_connection(plan, f"subscriber {index + 1}") as connection:
            reader = RawReader(connection, tally)
            try:
                if numbers is None:
                    connection.send(f"SUB {plan.pattern} {SID}\r\n".encode())
                    connection.flush()
                    report.begin_ns = post.await_go()
                    _follow(plan, reader, tally, post, report)
                else:
                    connection.flush()
                    post.await_go()
                    report.begin_ns = time.monotonic_ns()
                    wanted = f"$SEQ.RANGE.{numbers[0]}.{numbers[1]}.{plan.pattern}"
                    connection.send(f"SUB {wanted} {SID}\r\n".encode())
                    _replay(plan, reader, tally, post, report)
            finally:
                pairs = latencies.pairs() if latencies is not None else ()
                report.count_received(tally, reader.lost, post.cpu_seconds(), pairs)

    return work


def _follow(
    plan: BenchPlan, reader: RawReader, tally: ArrivalTally, post: WorkerPost, report: WorkerReport
) -> None:
    """Receive until every message was seen, or nothing more comes of those that were published."""
    cells, patience = post.cells, int(plan.timeout * 1e9)
    quiet_since = time.monotonic_ns()
    while not ((cells[TOTAL] or cells[PUBLISHED]) and tally.reached >= cells[TOTAL]):
        before = tally.messages
        now = reader.read()
        if now and tally.messages > before:
            report.end_ns = quiet_since = now
            post.note(tally.messages)
        elif not cells[PUBLISHED]:
            quiet_since = time.monotonic_ns()
        elif time.monotonic_ns() - quiet_since > patience:
            break
    report.is_complete = True


def _replay(
    plan: BenchPlan, reader: RawReader, tally: ArrivalTally, post: WorkerPost, report: WorkerReport
) -> None:
    """Receive until the broker says that this is the end."""
    patience = int(plan.timeout * 1e9)
    quiet_since = time.monotonic_ns()
    while not reader.is_over:
        if now := reader.read():
            report.end_ns = quiet_since = now
            post.note(tally.messages)
        elif time.monotonic_ns() - quiet_since > patience:
            raise BrokerError(f"the replay stands still: nothing came for {plan.timeout:g} s")
    report.is_complete = True
