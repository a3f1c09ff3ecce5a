"""Redis beside a broker: PUBLISH, or XADD to a stream, as fast as it reads.

No command waits for the answers to earlier ones, but each answer is read and counted, as a client
library does with a pipeline. Each byte for a subscriber is counted, too. At the end a stream must
have as many entries as were added.
"""

import time
from contextlib import ExitStack

from benchmarks.connection import Connection
from benchmarks.errors import BenchmarkError
from benchmarks.flood import FLOOD_SECONDS, finish
from benchmarks.load import Loader
from benchmarks.process import ServerProcess
from benchmarks.sample import Sample
from benchmarks.scenarios import Flood, Storing
from benchmarks.servers import Server
from benchmarks.storing import Clock
from benchmarks.wire import BLOCK_BYTES, payload_of

SUBJECT = b"bench"
XADD_LINES, PUBLISH_LINES = 2, 1  # of an answer
SCRATCH_BYTES = 1 << 20


def words(*each: bytes) -> bytes:
    """Return an array of words as it is on the wire: a command, or a message for a subscriber."""
    return b"*%d\r\n%b" % (len(each), b"".join(b"$%d\r\n%b\r\n" % (len(w), w) for w in each))


class Answers(Loader):
    """The connection of a publisher, and the thread that counts its answers by their lines."""

    def __init__(self, port: int, lines: int) -> None:
        super().__init__(port, b"")
        self.lines = lines

    def work(self) -> None:
        while self.lines:
            data = self.connection.receive(SCRATCH_BYTES)
            if b"-ERR" in data:
                raise BenchmarkError(f"redis said {data[data.index(b'-ERR') :][:80]!r}")
            self.lines -= data.count(b"\n")
        self.ended_at = time.perf_counter()


class Subscriber(Loader):
    """Counts bytes up to the length of all messages."""

    def __init__(self, port: int, length: int) -> None:
        super().__init__(port, b"")
        self.length = length
        self.connection.send(words(b"SUBSCRIBE", SUBJECT))
        self.connection.read_until(b":1\r\n")

    def work(self) -> None:
        scratch = bytearray(SCRATCH_BYTES)
        while self.length:
            self.length -= self.connection.discard(scratch, self.length)
        self.ended_at = time.perf_counter()


def run_redis(scenario: Flood | Storing, server: Server) -> Sample:
    """Run a flood (PUBLISH), or one that is kept (XADD), once on a fresh process of Redis."""
    payload = payload_of(scenario.size)
    is_kept = isinstance(scenario, Storing)
    added = words(b"XADD", SUBJECT, b"*", b"m", payload)
    one = added if is_kept else words(b"PUBLISH", SUBJECT, payload)
    count = max(1, BLOCK_BYTES // len(one))
    messages = -(-scenario.messages // count) * count
    length = len(words(b"message", SUBJECT, payload)) * messages
    with ServerProcess(server) as process, ExitStack() as stack:
        ears = 0 if isinstance(scenario, Storing) else scenario.subscribers
        subscribers = [Subscriber(process.port, length) for _ in range(ears)]
        answers = Answers(process.port, messages * (XADD_LINES if is_kept else PUBLISH_LINES))
        loaders = (answers, *subscribers)
        for loader in loaders:
            stack.callback(loader.stop)
        clock = Clock(process)
        for loader in loaders:
            loader.start()
        block = one * count
        for _ in range(messages // count):
            answers.connection.send(block)
        finish(process, loaders, clock.began_at + FLOOD_SECONDS)
        clock.stop()
        if is_kept:
            check_entries(process.port, messages)
        return clock.sample(messages, messages * ears, messages if is_kept else 0)


def check_entries(port: int, messages: int) -> None:
    """Raise unless the stream has so many entries."""
    with Connection(port, b"") as control:
        control.send(words(b"XLEN", SUBJECT))
        said = control.read_until(b"\r\n")
    if said != b":%d\r\n" % messages:
        raise BenchmarkError(f"{messages} entries were added, and redis has {said!r}")
