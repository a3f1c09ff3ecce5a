"""The cost for a broker when other processes follow its journal, and how fast they do.

    python -m benchmarks.following [--messages 10000000] [--size 16] [--rounds 3]

One client floods the broker, which keeps everything and has no subscriber. Processes with a
`Reader` follow its journal by columns, live: none of them, one, and three. Measured are the
broker's processor time, each reader's, and the rate at which the readers have seen everything.
"""

import argparse
import statistics
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from benchmarks.errors import BenchmarkError
from benchmarks.load import Publisher
from benchmarks.process import ServerProcess
from benchmarks.report import table
from benchmarks.servers import KNOWN
from benchmarks.wire import payload_of, publications

READERS = (0, 1, 3)
ENDS_S = 120.0
READER = """
import sys, time
from sequencer.journal import Lost, Reader
from seriatim.client.chunk_columns import Columns
last, seen = int(sys.argv[2]), 0
print("ready", flush=True)
for chunk in Reader(sys.argv[1]).columns(1, last, columns=("number", "subject"), live=True):
    assert not isinstance(chunk, Lost), chunk
    numbers = Columns(chunk).numbers
    assert numbers[0] == seen + 1 and len(numbers) == numbers[-1] - seen, "each comes once"
    seen = numbers[-1]
print(seen, time.monotonic(), time.process_time(), flush=True)
"""


class Round(NamedTuple):
    """One flood. Times in us for a message; `rate` in millions of messages a second."""

    broker: float
    reader: float
    rate: float


def run(messages: int, size: int, readers: int) -> Round:
    """Flood a new broker once, while `readers` processes follow."""
    block = publications([b"bench"], payload_of(size), messages)
    total = block.messages * block.repeats
    with ServerProcess(KNOWN["seriatim"]) as server, ExitStack() as stack:
        store = Path(server.directory.name) / "store"
        words = [sys.executable, "-c", READER, str(store), str(total)]
        followers = [
            stack.enter_context(subprocess.Popen(words, stdout=subprocess.PIPE, text=True))
            for _ in range(readers)
        ]
        for follower in followers:
            stack.callback(follower.kill)
            said_by(follower)
        publisher = Publisher(server.port, block.data, block.repeats)
        stack.callback(publisher.stop)
        publisher.connection.settle()
        cpu, begun = server.cpu_seconds(), time.monotonic()
        publisher.start()
        publisher.join(ENDS_S)
        if publisher.error:
            raise BenchmarkError(publisher.error)
        cpu = server.cpu_seconds() - cpu
        ends = [said_by(follower).split() for follower in followers]
    ended = max((float(end[1]) for end in ends), default=time.monotonic())
    theirs = statistics.mean(float(end[2]) for end in ends) if ends else 0.0
    return Round(cpu / total * 1e6, theirs / total * 1e6, total / (ended - begun) / 1e6)


def said_by(follower: "subprocess.Popen[str]") -> str:
    """Return the next line of a reader."""
    assert follower.stdout is not None, "it is a pipe"
    line = follower.stdout.readline()
    if not line:
        raise BenchmarkError("a reader has ended: what it lacked is above")
    return line


def main() -> None:
    """Measure, and print a table of medians."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--messages", type=int, default=10_000_000)
    parser.add_argument("--size", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=3)
    words = parser.parse_args()
    rounds: dict[int, list[Round]] = {readers: [] for readers in READERS}
    for _ in range(words.rounds):  # in turn: the machine's speed changes over time
        for readers in READERS:
            rounds[readers].append(run(words.messages, words.size, readers))
    head = ("readers", "broker, CPU for a message", "reader, CPU for a message", "followed")
    rows = []
    for readers, runs in rounds.items():
        broker, reader, rate = (statistics.median(column) for column in zip(*runs, strict=True))
        theirs = f"{reader:.3f} us" if readers else ""
        rows.append([f"{readers}", f"{broker:.3f} us", theirs, f"{rate:.1f} M/s"])
    print(table(head, rows), end="")


if __name__ == "__main__":
    main()
