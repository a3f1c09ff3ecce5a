"""The cost of replication: three members beside one broker with a journal, in one run.

    python -m benchmarks.cluster_costs [--quick] [--runs 5]

Each row is one flood of 128-byte messages, with as many publishers and subscribers everywhere:

    even         a publisher and a subscriber at each of three members; the broker has all six
    coordinator  one publisher and one subscriber, at the coordinator
    follower     one publisher and one subscriber, at a follower

The figures are CPU microseconds per message of each process, as medians over the runs, and their
ratio to the broker's. `acknowledged` is the round trip of `PUB $SEQ.PUB.x reply`, one at a time.
All processes share this machine's cores: rates say nothing here, and round trips only on a quiet
machine.
"""

import argparse
import asyncio
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from benchmarks import machine
from benchmarks.clusters import SeriatimCluster
from benchmarks.connection import Connection
from benchmarks.flood import FLOOD_SECONDS
from benchmarks.keepers import Journal, ask
from benchmarks.load import Loader, Publisher, Subscriber
from benchmarks.process import ServerProcess
from benchmarks.report import table
from benchmarks.servers import KNOWN
from benchmarks.usage import cpu_seconds, peak_bytes
from benchmarks.window import Waiting, publish_all
from benchmarks.wire import payload_of, publications, stream_bytes

BROKER = "one broker"
SUBJECT = b"bench"
SIZE = 128
TOTAL = 1_500_000
ROUNDS = 3000
POLL_SECONDS = 0.02


class Measured(Protocol):
    """A process with a port for clients."""

    @property
    def port(self) -> int: ...
    def cpu_seconds(self) -> float: ...
    def peak_bytes(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Member:
    """One process of a cluster."""

    port: int
    process: int

    def cpu_seconds(self) -> float:
        return cpu_seconds(self.process)

    def peak_bytes(self) -> int:
        return peak_bytes(self.process)


class NumberedCluster(SeriatimCluster):
    """A cluster with the frames that a broker sends by default."""

    frame = "netstring"


@dataclass(slots=True)
class Case:
    """A flood: the members, by index, where its publishers and subscribers are."""

    name: str
    clients: tuple[int, ...]
    costs: dict[str, list[float]] = field(default_factory=dict)  # by process

    def add(self, process: str, value: float) -> None:
        self.costs.setdefault(process, []).append(value)


def flood(processes: Sequence[Measured], clients: Sequence[int], messages: int) -> list[float]:
    """Publish and receive `messages`; return the CPU us per message of each process."""
    payload = payload_of(SIZE)
    block = publications([SUBJECT], payload, messages // len(clients))
    messages = block.messages * block.repeats * len(clients)
    length = stream_bytes("netstring", [SUBJECT], b"1", payload, messages)
    with ExitStack() as stack:
        subscribers, publishers = [], []
        for at in clients:
            subscriber = Subscriber(processes[at].port, "netstring", payload, messages, length)
            stack.callback(subscriber.stop)
            subscriber.connection.settle(b"SUB %b 1\r\n" % SUBJECT)
            subscribers.append(subscriber)
            publisher = Publisher(processes[at].port, block.data, block.repeats)
            stack.callback(publisher.stop)
            publisher.connection.settle()
            publishers.append(publisher)
        controls = [stack.enter_context(Connection(one.port)) for one in processes]
        began = [one.cpu_seconds() for one in processes]
        for loader in (*subscribers, *publishers):
            loader.start()
        finish(publishers)
        for control in controls:
            await_number(control, messages)
        for subscriber in subscribers:
            subscriber.ask_for_end()
        finish(subscribers)
        spent = [one.cpu_seconds() - at for one, at in zip(processes, began, strict=True)]
        for subscriber in subscribers:
            subscriber.verify()
    return [seconds / messages * 1e6 for seconds in spent]


def finish(loaders: Sequence[Loader]) -> None:
    """Wait for the threads, and raise the error of one that failed."""
    for loader in loaders:
        loader.join(FLOOD_SECONDS)
        if loader.error or loader.is_alive():
            raise SystemExit(f"a {type(loader).__name__.lower()}: {loader.error or 'not over'}")


def await_number(control: Connection, number: int) -> None:
    """Return when that broker has delivered `number`."""
    until = time.monotonic() + FLOOD_SECONDS
    while int(ask(control, b"$SEQ.INFO")["last"]) < number:
        if time.monotonic() > until:
            raise SystemExit(f"number {number} was not delivered")
        time.sleep(POLL_SECONDS)  # the state of another program: there is no event to await


def round_trip(port: int, rounds: int) -> float:
    """Measure the median time from a publication to its number, in microseconds."""
    with Connection(port) as connection:
        one = Waiting(connection, Journal("netstring"), payload_of(SIZE), rounds, 1)
        publish_all([one])
        return statistics.median(one.waits) / 1000


def run(case: Case, messages: int, rounds: int) -> None:
    """Run one case once: one broker, then a cluster, each with fresh processes."""
    with ServerProcess(KNOWN["seriatim"]) as broker:
        clients = [0] * len(case.clients)
        case.add(BROKER, flood([broker], clients, messages)[0])
        case.add(f"{BROKER}, MiB", broker.peak_bytes() / 2**20)
        case.add(f"{BROKER}, acknowledged", round_trip(broker.port, rounds))
    with ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix="benchmark-cluster-"))
        stack.callback(shutil.rmtree, folder, True)
        cluster = stack.enter_context(NumberedCluster(folder))
        asyncio.run(cluster.whole())
        members = [
            Member(port, process.pid)
            for port, process in zip(cluster.ports, cluster.processes, strict=True)
        ]
        costs = flood(members, case.clients, messages)
        for name, member, cost in zip(NAMES, members, costs, strict=True):
            case.add(name, cost)
            case.add(f"{name}, MiB", member.peak_bytes() / 2**20)
        at = case.clients[-1]
        case.add(f"{NAMES[at]}, acknowledged", round_trip(members[at].port, rounds))


NAMES = ("coordinator", "follower", "another follower")


def report(cases: Sequence[Case]) -> str:
    """Return the table of all cases."""
    rows = []
    for case in cases:
        for name, values in case.costs.items():
            kind = name.partition(", ")[2]
            peer = statistics.median(case.costs[f"{BROKER}, {kind}" if kind else BROKER])
            median = statistics.median(values)
            ratio = f"{median - peer:+.0f} MiB" if kind == "MiB" else f"{median / peer:.2f}x"
            numbers = [f"{value:.3g}" for value in (median, min(values), max(values))]
            rows.append([case.name, name, *numbers, ratio])
    head = ("clients", "what", "median", "low", "high", "to one broker's")
    return f"CPU us per message, peak MiB, round trip us\n\n{table(head, rows)}"


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cluster_costs", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="a tenth of the messages, one run")
    given = parser.parse_args()
    cases = [Case("even", (0, 1, 2)), Case("coordinator", (0,)), Case("follower", (1,))]
    for what, value in machine.description(()).items():
        print(f"{what}: {value}")
    for _ in range(1 if given.quick else given.runs):
        for case in cases:
            run(case, TOTAL // (10 if given.quick else 1), ROUNDS // (10 if given.quick else 1))
    print(f"\n{report(cases)}", end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
