"""Looking things up in a large journal: starts, single messages, and the last of a subject.

    python -m benchmarks.looking_up [--gib 4] [--size 16] [--server-cmd NAME=COMMAND]

One client floods the broker with `--gib` of records, on 1000 subjects in turn. It is stopped as
soon as the last one is there, and started again; it is killed, and started again. Then single
messages are asked for at random, and last messages, of subjects that exist and of one that does
not. The files are put out of the page cache before each start. Times are the processor's, in the
server, for one request, but for `wall` and `start`. Before the questions, the broker has `--settle`
seconds to build indexes.
"""

import argparse
import contextlib
import os
import random
import socket
import statistics
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.connection import Connection
from benchmarks.errors import BenchmarkError
from benchmarks.load import Publisher
from benchmarks.process import ServerProcess
from benchmarks.report import table
from benchmarks.servers import KNOWN, Server, server_from_option
from benchmarks.wire import payload_of, publications

GIB = 1 << 30
ENDS_S = 600.0
SUBJECTS = 1000
NUMBERS = 1000
QUESTIONS = 100
RECORD_HEAD = 56
ABSENT = b"bench.absent"
STOP_S = 60.0
POLL_S = 0.05
IDLE_S = 2.0
PATIENCE = struct.pack("ll", 300, 0)  # until an answer comes: everything may have to be read


def subject(at: int) -> bytes:
    """Return one of the subjects that are in use."""
    return b"bench.%03d" % at


class Trial:
    """One server with its store, filled and asked. `rows` are what was found."""

    def __init__(self, server: Server, gib: float, size: int, settle: float) -> None:
        self.rows: list[tuple[str, str]] = []
        self.settle = settle
        record = (RECORD_HEAD + len(subject(0)) + size + 7) & ~7
        messages = int(gib * GIB) // record
        self.block = publications(
            [subject(at) for at in range(SUBJECTS)], payload_of(size), messages
        )
        self.messages = self.block.messages * self.block.repeats
        with ServerProcess(server) as self.process:
            self.store = Path(self.process.directory.name) / "store"
            self.run()

    def note(self, name: str, value: str) -> None:
        """Keep a figure."""
        self.rows.append((name, value))

    def run(self) -> None:
        """Fill the server, and ask."""
        self.fill()
        self.end()
        self.note("sealed segments without an index", f"{self.unindexed()}")
        self.begin("start after a clean stop")
        self.process.kill()
        self.begin("start after a kill")
        self.await_indexes()
        self.forget()
        self.messages_at_random("$SEQ.GET, files not in memory")
        self.messages_at_random("$SEQ.GET, files in memory")
        self.last_messages()
        with Connection(self.process.port) as client:
            client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, PATIENCE)
            self.replays(client)

    def fill(self) -> None:
        """Flood the server."""
        publisher = Publisher(self.process.port, self.block.data, self.block.repeats)
        cpu, begun = self.process.cpu_seconds(), time.monotonic()
        publisher.start()
        publisher.join(ENDS_S)
        if publisher.error:
            raise BenchmarkError(publisher.error)
        seconds = time.monotonic() - begun
        cpu = self.process.cpu_seconds() - cpu
        publisher.stop()
        rate = self.messages / seconds / 1e6
        self.note("filled, M/s", f"{rate:.1f}")
        self.note("filled, CPU us for a message", f"{cpu / self.messages * 1e6:.3f}")

    def end(self) -> None:
        """Stop the server as an operator does."""
        begun = time.monotonic()
        self.process.process.terminate()
        self.process.process.wait(STOP_S)
        self.note("stop, ms", f"{1000 * (time.monotonic() - begun):.0f}")

    def unindexed(self, kind: str = ".index") -> int:
        """Count the sealed segments that lack such a file."""
        segments = sorted(self.store.glob("*.segment"))[:-1]
        return sum(not one.with_suffix(kind).exists() for one in segments)

    def await_indexes(self) -> None:
        """Wait until the broker has built what is missing, for `settle` seconds at most."""
        begun, cpu = time.monotonic(), self.process.cpu_seconds()
        while self.unindexed(".subjects") and time.monotonic() - begun < self.settle:
            time.sleep(POLL_S)
        self.note("until there are subject indexes, s", f"{time.monotonic() - begun:.1f}")
        self.note("their CPU, s", f"{self.process.cpu_seconds() - cpu:.2f}")
        self.note("sealed segments without one", f"{self.unindexed('.subjects')}")
        time.sleep(IDLE_S)  # what the broker reads after a start

    def begin(self, what: str) -> None:
        """Start the server again."""
        self.forget()
        self.process.start()
        self.note(f"{what}, ms", f"{1000 * self.process.started_seconds:.0f}")

    def forget(self) -> None:
        """Put the store's segments out of the page cache."""
        for file in self.store.glob("*.segment"):
            fd = os.open(file, os.O_RDONLY)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(fd)

    @contextlib.contextmanager
    def measured(self, what: str, count: int) -> Iterator[list[float]]:
        """Measure the server's CPU while `count` requests are made; the list gets their times."""
        waits: list[float] = []
        cpu = self.process.cpu_seconds()
        yield waits
        spent = (self.process.cpu_seconds() - cpu) / count * 1e6
        self.note(f"{what}, CPU us", f"{spent:.0f}")
        self.note(f"{what}, wall us (median)", f"{statistics.median(waits) * 1e6:.0f}")

    def messages_at_random(self, what: str) -> None:
        """Ask for single messages, one after another."""
        draw = random.Random(1)  # the same numbers each time
        with Connection(self.process.port) as client:
            client.settle(b"SUB _INBOX.a 1\r\n")
            ask(client, b"$SEQ.GET.1")
            with self.measured(what, NUMBERS) as waits:
                for _ in range(NUMBERS):
                    number = draw.randrange(1, self.messages)
                    answer = timed(waits, ask, client, b"$SEQ.GET.%d" % number)
                    if b"Nats-Sequence: %d\r\n" % number not in answer:
                        raise BenchmarkError(f"not number {number}: {answer[:200]!r}")

    def last_messages(self) -> None:
        """Ask for the last message of subjects, one after another; the first answer is apart."""
        with Connection(self.process.port) as client:
            client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, PATIENCE)
            client.settle(b"SUB _INBOX.a 1\r\n")
            for what, wanted in (("present", subject(7)), ("absent", ABSENT)):
                with self.measured(f"$SEQ.LAST, {what}, the first time", 1) as waits:
                    timed(waits, ask, client, b"$SEQ.LAST." + wanted)
                with self.measured(f"$SEQ.LAST, {what}", QUESTIONS) as waits:
                    for at in range(QUESTIONS):
                        asked = subject(at) if what == "present" else ABSENT + b"%d" % at
                        answer = timed(waits, ask, client, b"$SEQ.LAST." + asked)
                        if (b"Nats-Sequence: " in answer) is not (what == "present"):
                            raise BenchmarkError(f"not the last of {asked!r}: {answer[:200]!r}")

    def replays(self, client: Connection) -> None:
        """Subscribe to the last of every subject, and to a range that has none of a subject."""
        with self.measured("SUB $SEQ.LAST.>", 1) as waits:
            client.send(b"SUB $SEQ.LAST.> 2\r\n")
            timed(waits, until, client, b"MSG ", SUBJECTS)
        client.settle(b"UNSUB 2\r\n")
        with self.measured("SUB $SEQ.RANGE of an absent subject", 1) as waits:
            client.send(b"SUB $SEQ.RANGE.1.%d.%b 3\r\n" % (self.messages, ABSENT))
            timed(waits, until, client, b"$SEQ.END.", 1)


def timed(waits: list[float], call: Callable[..., bytes], *words: Any) -> bytes:
    """Note how long a call takes."""
    begun = time.perf_counter()
    answer = call(*words)
    waits.append(time.perf_counter() - begun)
    return answer


def ask(client: Connection, request: bytes) -> bytes:
    """Send a request, and return its answer."""
    client.send(b"PUB %b _INBOX.a 0\r\n\r\n" % request)
    return until(client, b"MSG _INBOX.a 1 ", 1)


def until(client: Connection, words: bytes, count: int) -> bytes:
    """Receive until these words have come so often, and their lines are complete."""
    data = b""
    while data.count(words) < count or not data.endswith(b"\r\n"):
        data += client.receive(1 << 20)
        if b"-ERR" in data:
            raise BenchmarkError(f"the server said {data[-200:]!r}")
    return data


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--gib", type=float, default=4.0)
    parser.add_argument("--size", type=int, default=16)
    parser.add_argument("--settle", type=float, default=120.0)
    parser.add_argument("--server-cmd", action="append", default=[])
    words = parser.parse_args()
    servers = [server_from_option(one) for one in words.server_cmd] or [KNOWN["seriatim"]]
    trials = [Trial(one, words.gib, words.size, words.settle) for one in servers]
    rows = [
        [name, *(dict(trial.rows).get(name, "") for trial in trials)] for name, _ in trials[0].rows
    ]
    print(table(("", *(one.name for one in servers)), rows), end="")


if __name__ == "__main__":
    main()
