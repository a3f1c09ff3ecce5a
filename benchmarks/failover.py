"""`python -m benchmarks.failover`: how long a cluster takes no messages, and the cost of one.

Three Seriatims and an etcd, then three nats-servers with a JetStream stream of three replicas, on
this machine, one after the other. Publishers ask for an acknowledgement of each message.

    cost        acknowledged messages for a second of the processors, of all servers and etcd
    standing    the longest time between two acknowledgements while the leader is killed (kill -9),
                stopped (SIGSTOP, SIGCONT after a while) or asked to hand over, and replaced, and
                while a follower is killed or stopped; the publisher is on another server
"""

import argparse
import asyncio
import shutil
import signal
import statistics
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path

from benchmarks.clusters import JetStreamCluster, SeriatimCluster, ServerCluster
from benchmarks.connection import Connection
from benchmarks.errors import BenchmarkError
from benchmarks.report import table
from benchmarks.requester import Requester
from benchmarks.window import Waiting, publish_all

PAYLOAD = b"x" * 128
APART_S = 0.001  # between two messages while the leader is replaced
AGAIN_S = 0.25  # an unanswered one is asked again then; Seriatim answers all, JetStream may not
STOPPED_S = 6.0
STEADY_S = 0.5
FOLLOWER_S = 2.0  # more than a cluster waits for a follower
FAULTS = (
    *("leader killed", "leader stopped", "leader handed over"),
    *("follower killed", "follower stopped"),
)


def cost(cluster: ServerCluster, messages: int, window: int) -> tuple[float, float]:
    """Measure messages per second of the processors, and per second of time."""
    publish(cluster, window, window)  # connections between the servers, memory, files
    before, began = cluster.cpu_seconds(), time.perf_counter()
    publish(cluster, messages // len(cluster.ports), window)
    took, used = time.perf_counter() - began, cluster.cpu_seconds() - before
    return messages / used, messages / took


def publish(cluster: ServerCluster, share: int, window: int) -> None:
    """Have a publisher at each server publish its share, and wait for all acknowledgements."""
    with ExitStack() as stack:
        connections = [stack.enter_context(Connection(port)) for port in cluster.ports]
        publish_all([Waiting(one, cluster.keeper, PAYLOAD, share, window) for one in connections])


async def standing(cluster: ServerCluster, fault: str) -> float:
    """Measure the seconds without an acknowledgement while the leader or a follower fails."""
    leader = await cluster.leader()
    other, third = (at for at in range(len(cluster.ports)) if at != leader)
    who, _, what = fault.partition(" ")
    victim = leader if who == "leader" else third
    asking = await Requester.open(cluster.ports[other], cluster.prefix)
    task = asyncio.create_task(asking.steadily(APART_S, AGAIN_S, PAYLOAD))
    await asyncio.sleep(STEADY_S)
    process = cluster.processes[victim]
    if what == "killed":
        process.kill()
        process.wait()
    elif what == "stopped":
        process.send_signal(signal.SIGSTOP)
    else:
        await cluster.hand_over(leader)
    asking.times.append(time.perf_counter())
    if victim == leader:
        while await cluster.leader(without=leader if what != "handed over" else -1) == leader:
            await asyncio.sleep(0.01)
    else:
        await asyncio.sleep(FOLLOWER_S)  # no event to await: the time is what is measured
    if what == "stopped":
        await asyncio.sleep(STOPPED_S if victim == leader else 0)
        process.send_signal(signal.SIGCONT)
    await asyncio.sleep(STEADY_S)
    seen = len(asking.times)
    while len(asking.times) < seen + 20:  # the publisher is served again
        await asyncio.sleep(0.01)
    task.cancel()
    asking.close()
    times = sorted(asking.times)
    if what == "killed":
        cluster.start(victim)
    await cluster.whole()
    return max(later - before for before, later in pairwise(times))


async def measure(cluster: ServerCluster, messages: int, window: int, rounds: int) -> list[str]:
    """Measure a cluster; return its row of the table."""
    await cluster.whole()
    a_cpu_second, a_second = cost(cluster, messages, window)
    row = [cluster.name, f"{a_cpu_second:,.0f}", f"{a_second:,.0f}"]
    for fault in FAULTS:
        stood = [await standing(cluster, fault) for _ in range(rounds)]
        if stood:
            row.append(f"{statistics.median(stood):.2f} / {percentile(stood, 0.99):.2f} s")
    return row


def percentile(values: Sequence[float], part: float) -> float:
    """Return the smallest value that this fraction of the values does not exceed."""
    ordered = sorted(values)
    return ordered[min(int(part * len(ordered)), len(ordered) - 1)]


def main() -> None:
    """Measure, and print the table."""
    made = argparse.ArgumentParser(
        prog="python -m benchmarks.failover",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument(
        "--rounds",
        type=int,
        default=50,
        help="fail-overs of each kind; default 50, 0: only the cost",
    )
    made.add_argument("--messages", type=int, default=600_000, help="for the cost; default 600000")
    made.add_argument(
        "--window", type=int, default=1000, help="of each of three publishers; default 1000"
    )
    made.add_argument("--only", choices=("seriatim", "jetstream"), help="one of them")
    given = made.parse_args()
    faults = [f"{fault}: p50 / p99" for fault in (FAULTS if given.rounds else ())]
    head = ("cluster of 3", "acks a CPU second", "acks a second", *faults)
    rows = []
    for kind in (SeriatimCluster, JetStreamCluster):
        if given.only not in (None, kind.name):
            continue
        with ExitStack() as stack:
            folder = Path(tempfile.mkdtemp(prefix="benchmark-failover-"))
            stack.callback(shutil.rmtree, folder, True)
            cluster = stack.enter_context(kind(folder))
            rows.append(asyncio.run(measure(cluster, given.messages, given.window, given.rounds)))
    print(table(head, rows), end="")


if __name__ == "__main__":
    try:
        main()
    except BenchmarkError as error:
        raise SystemExit(str(error)) from None
