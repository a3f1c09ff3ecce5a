"""How long a live subscriber's messages take while others lag, catch up or replay.

One program in C publishes at a steady rate and receives; its waits are exact, and count from when
a message was due. Another has the other connections. The figures are those of the whole run: the
laggards read nothing in its first half, and all that they can after that.
"""

import threading

from benchmarks.connection import Connection
from benchmarks.errors import BenchmarkError
from benchmarks.process import ServerProcess
from benchmarks.programs import Program
from benchmarks.sample import Sample
from benchmarks.scenarios import Stalls
from benchmarks.servers import Server
from benchmarks.wire import payload_of

FILL = 10_000  # messages in one batch


def run_stalls(stalls: Stalls, server: Server) -> Sample:
    """Run `stalls` once on a fresh process of `server`."""
    live = (1, 1, stalls.messages, stalls.rate, 1, stalls.size)
    crowded = (stalls.others, stalls.subscriptions, stalls.laggards, stalls.subject)
    with ServerProcess(server) as process:
        fill(process.port, stalls)
        with (
            Program("paced", process.port, *live) as paced,
            Program("crowd", process.port, *crowded) as crowd,
        ):
            server_cpu, own_cpu = process.cpu_seconds(), crowd.cpu_seconds()
            released: list[dict[str, float]] = []
            wait = stalls.messages / stalls.rate / 2
            timer = threading.Timer(wait, lambda: released.append(crowd.run()))
            timer.start()
            try:
                figures = paced.run()
            finally:
                timer.cancel()
                timer.join()
            server_cpu, own_cpu = (
                process.cpu_seconds() - server_cpu,
                crowd.cpu_seconds() - own_cpu,
            )
            if not released or crowd.run()["dropped"] <= released[0]["dropped"]:
                raise BenchmarkError("the connections beside the live one got nothing")
        return Sample(
            messages=stalls.messages,
            deliveries=stalls.messages,
            seconds=figures["seconds"],
            server_cpu_seconds=server_cpu,
            generator_cpu_seconds=own_cpu + figures["cpu"],
            peak_bytes=process.peak_bytes(),
            p50_us=figures["p50"],
            p99_us=figures["p99"],
            p999_us=figures["p999"],
            sent=stalls.messages,
        )


def fill(port: int, stalls: Stalls) -> None:
    """Publish what is kept before the run."""
    one = b"PUB kept %d\r\n%b\r\n" % (stalls.size, payload_of(stalls.size))
    with Connection(port) as connection:
        for first in range(0, stalls.kept, FILL):
            connection.settle(one * min(FILL, stalls.kept - first))
