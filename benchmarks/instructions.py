"""Instructions of the broker for a message, by function: the same whatever else the machine does.

    python -m benchmarks.instructions [--only NAME] [--tree DIR] [--flags='-js'] [--functions 20]

Callgrind counts them (`apt-get install valgrind`). Client and broker take turns, so each run has
the same bytes in the same reads: a client sends a chunk in one piece, and waits until the broker
has done all that it asks for. `--tree` is another copy of these sources, built in its place:

    python -m benchmarks.instructions --only '1:*' --tree . --tree /tmp/before

shows both beside each other. Without `--functions` there is one line for each load.
"""

import argparse
import sys
from collections.abc import Callable
from contextlib import ExitStack
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.callgrind import CountedBroker
from benchmarks.connection import Connection
from benchmarks.consuming import ACK_SUBJECT, BATCH, DURABLE, ORDERED, PULL, Flowing
from benchmarks.errors import BenchmarkError
from benchmarks.keepers import CREATE, INBOX, LISTEN, PUSHED, SUBJECT, Stream, ask, unasked
from benchmarks.report import table
from benchmarks.wire import PING, PONG, message, payload_of

CHUNK = 400  # messages that a publisher sends at once: one segment of the loopback's
CHUNKS = 100
WARM = 10  # chunks before that: routes are learned, buffers have grown

PATIENCE_SECONDS = 120  # a busy machine runs callgrind a hundred times slower than the broker alone


def connected(broker: CountedBroker) -> Connection:
    """Connect a client that waits long enough."""
    return Connection(broker.port, wait_seconds=PATIENCE_SECONDS)


def flood(broker: CountedBroker, size: int, subscribers: int) -> int:
    """Publish without acknowledgement; each chunk is awaited at each subscriber."""
    payload = payload_of(size)
    chunk = unasked(payload) * CHUNK + PING
    with ExitStack() as stack:
        publisher, *listening = (
            stack.enter_context(connected(broker)) for _ in range(1 + subscribers)
        )
        for one in listening:
            one.settle(b"SUB %b 1\r\n" % SUBJECT)
        for turn in range(WARM + CHUNKS):
            if turn == WARM:
                broker.begin()
            publisher.send(chunk)
            publisher.read_until(PONG)
            for one in listening:
                one.read_until(message("netstring", SUBJECT, b"1", (turn + 1) * CHUNK, payload))
    return CHUNKS * CHUNK


def publish_acked(broker: CountedBroker, size: int) -> int:
    """Publish to a stream, and await the pub acks of each chunk."""
    with connected(broker) as control, connected(broker) as publisher:
        fill(control, publisher, size, broker.begin)
    return CHUNKS * CHUNK


def fill(
    control: Connection, publisher: Connection, size: int, warmed: Callable[[], None]
) -> Stream:
    """Make a stream and publish to it; call `warmed` when the first chunks are acknowledged."""
    keeper = Stream()
    keeper.begin(control)
    publisher.settle(LISTEN)
    chunk = keeper.asking(payload_of(size), INBOX) * CHUNK
    for turn in range(WARM + CHUNKS):
        if turn == WARM:
            warmed()
        publisher.send(chunk)
        publisher.read_until(b'"seq":%d}\r\n' % ((turn + 1) * CHUNK))
    return keeper


def nothing() -> None:
    """Do nothing."""


def push(broker: CountedBroker, size: int, config: dict[str, Any]) -> int:
    """Have a consumer push everything; the client answers flow control, if there is any."""
    payload, messages = payload_of(size), (WARM + CHUNKS) * CHUNK
    with connected(broker) as control, connected(broker) as client:
        course = fill(control, client, size, nothing).course(payload, messages, config)
        client.settle()
        broker.begin()
        client.send(course.opening.removeprefix(LISTEN))
        flowing, tail = Flowing(), b""
        while course.last not in tail:
            taken, answers = flowing.take(client.receive())
            tail = (tail + taken)[-2 * len(course.last) :]
            if answers:
                client.send(answers)
    return messages


def pull(broker: CountedBroker, size: int) -> int:
    """Pull from a durable consumer, and acknowledge each message, a whole request at a time."""
    turns = (WARM + CHUNKS) * CHUNK // BATCH
    with connected(broker) as control, connected(broker) as client:
        keeper = fill(control, client, size, nothing)
        ask(control, CREATE, keeper.consumer(DURABLE))
        client.settle()
        asked = PULL
        for turn in range(turns):
            if turn == WARM:
                broker.begin()
            client.send(asked)
            subjects = pulled(client, payload_of(size))
            asked = b"PUB %b 4\r\n+ACK\r\n" % b" 4\r\n+ACK\r\nPUB ".join(subjects) + PULL
        client.settle()
    return (turns - WARM) * BATCH


def pulled(client: Connection, payload: bytes) -> list[bytes]:
    """Return the ack subjects of all messages of one request."""
    data = b""
    while True:
        data += client.receive()
        if data.endswith(payload + b"\r\n"):
            subjects = ACK_SUBJECT.findall(data)
            if len(subjects) == BATCH:
                return subjects


class Load(NamedTuple):
    """Work of the broker that is counted; `run` returns how many messages that were."""

    run: Callable[[CountedBroker], int]
    flags: str = ""


LOADS = {
    "1:0-16": Load(lambda broker: flood(broker, 16, 0)),
    "1:1-16": Load(lambda broker: flood(broker, 16, 1)),
    "1:1-128": Load(lambda broker: flood(broker, 128, 1)),
    "js-acked-128": Load(lambda broker: publish_acked(broker, 128), "-js"),
    "js-push-128": Load(lambda broker: push(broker, 128, PUSHED), "-js"),
    "js-ordered-128": Load(lambda broker: push(broker, 128, ORDERED), "-js"),
    "js-pull-128": Load(lambda broker: pull(broker, 128), "-js"),
}


def counted(load: Load, tree: Path, flags: str) -> dict[str, float]:
    """Return the instructions of each function for one message."""
    with CountedBroker(tree, f"{load.flags} {flags}") as broker:
        messages = load.run(broker)
        return {name: count / messages for name, count in broker.end().items()}


def main() -> None:
    """Count, and print tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", action="append", help=f"of {', '.join(LOADS)}; also js-*")
    parser.add_argument("--tree", action="append", type=Path, help="sources, built in place")
    parser.add_argument("--flags", default="", help="more flags of the broker, such as -js")
    parser.add_argument("--functions", type=int, default=0, help="so many of them, for each load")
    words = parser.parse_args()
    trees = [one.resolve() for one in words.tree or [Path()]]
    names = [one for one in LOADS if any(fnmatch(one, only) for only in words.only or ["*"])]
    rows = []
    for name in names:
        found = []
        for tree in trees:
            print(f"{name}, {tree}", file=sys.stderr)
            found.append(counted(LOADS[name], tree, words.flags))
        totals = [sum(one.values()) for one in found]
        ratios = [f"{total / totals[0]:.4f}" for total in totals[1:]]
        rows.append([name, *(f"{total:.0f}" for total in totals), *ratios])
        if words.functions:
            print(by_function(found, words.functions))
    head = ["load", *map(str, trees), *(f"{tree.name} / {trees[0].name}" for tree in trees[1:])]
    print(table(head, rows), end="")


def by_function(found: list[dict[str, float]], most: int) -> str:
    """Return a table of the functions with most instructions, those of the first tree first."""
    every = {name: max(one.get(name, 0) for one in found) for one in found for name in one}
    names = sorted(every, key=lambda name: -every[name])[:most]
    rows = [[name, *(f"{one.get(name, 0):.1f}" for one in found)] for name in names]
    rest = [f"{sum(one.values()) - sum(one.get(name, 0) for name in names):.1f}" for one in found]
    return table(["function", *("" for _ in found)], [*rows, ["all others", *rest]])


if __name__ == "__main__":
    try:
        main()
    except BenchmarkError as error:
        sys.exit(f"benchmarks.instructions: {error}")
