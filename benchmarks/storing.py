"""Storing: messages that the server keeps, by its own count.

JetStream drops a part of an unacknowledged flood, so the number sent means nothing. The clock runs
until the last message was kept; a server that keeps them later is asked every 20 ms.
"""

import os
import statistics
import time
from contextlib import ExitStack

from benchmarks.connection import Connection
from benchmarks.errors import BenchmarkError
from benchmarks.keepers import Keeper, keeper_of, unasked
from benchmarks.memory import have_at_hand
from benchmarks.process import ServerProcess
from benchmarks.sample import Sample
from benchmarks.scenarios import Storing
from benchmarks.servers import Server
from benchmarks.window import Waiting, publish_all
from benchmarks.wire import BLOCK_BYTES, payload_of

WINDOW = 4000  # nats.go's default, with which JetStream is fastest
POLL_SECONDS = 0.02
STILL_SECONDS = 0.5  # if the count stands still for this long, the rest was dropped


def run_storing(storing: Storing, server: Server) -> Sample:
    """Run `storing` once on a fresh process of `server`."""
    payload = payload_of(storing.size)
    keeper = keeper_of(server)
    with ServerProcess(server) as process, ExitStack() as stack:
        control = stack.enter_context(Connection(process.port))
        keeper.begin(control)
        connections = [
            stack.enter_context(Connection(process.port)) for _ in range(storing.publishers)
        ]
        share = storing.messages // storing.publishers
        publishers = [
            Waiting(connection, keeper, payload, share, storing.window)
            for connection in connections
            if storing.window
        ]
        os.sync()  # so that the run does not wait for earlier writes
        if storing.warm:
            have_at_hand(storing.messages, storing.size)
        clock = Clock(process)
        if storing.window:
            publish_all(publishers)
        else:
            flood(connections[0], payload, share)
        sent = share * storing.publishers
        kept = await_kept(clock, keeper, control, sent)
        if storing.window and kept != sent:
            raise BenchmarkError(f"{sent} were acknowledged, {kept} were kept")
        waits = [wait for one in publishers for wait in one.waits]
        percentiles = statistics.quantiles(waits, n=100) if waits else [0] * 99
        return clock.sample(kept, 0, sent, percentiles[49] / 1000, percentiles[98] / 1000)


class Clock:
    """The time and the CPU time since its creation, up to the last `stop`."""

    def __init__(self, process: ServerProcess) -> None:
        self.process = process
        self.server_began, self.own_began = process.cpu_seconds(), time.process_time()
        self.began_at = time.perf_counter()
        self.stop()

    def stop(self) -> None:
        """Stop, provisionally: a later call replaces this one."""
        self.seconds = time.perf_counter() - self.began_at
        self.server_cpu = self.process.cpu_seconds() - self.server_began
        self.own_cpu = time.process_time() - self.own_began

    def sample(
        self, messages: int, deliveries: int, sent: int = 0, p50: float = 0, p99: float = 0
    ) -> Sample:
        """Return what was measured up to the last `stop`."""
        return Sample(
            messages=messages,
            deliveries=deliveries,
            seconds=self.seconds,
            server_cpu_seconds=self.server_cpu,
            generator_cpu_seconds=self.own_cpu,
            peak_bytes=self.process.peak_bytes(),
            p50_us=p50,
            p99_us=p99,
            sent=sent,
        )


def flood(connection: Connection, payload: bytes, messages: int) -> None:
    """Publish, in large pieces and as fast as the server reads, until it has read everything."""
    one = unasked(payload)
    count = max(1, BLOCK_BYTES // len(one))
    block = memoryview(one * count)
    for first in range(0, messages, count):
        connection.send(block[: min(count, messages - first) * len(one)])
    connection.settle()


def await_kept(clock: Clock, keeper: Keeper, connection: Connection, sent: int) -> int:
    """Stop the clock when the last of `sent` messages was kept, and return how many were."""
    kept = keeper.kept(connection)
    clock.stop()
    still_since = time.perf_counter()
    while kept < sent:
        is_still = time.perf_counter() - still_since >= STILL_SECONDS
        time.sleep(POLL_SECONDS)  # no event to await: servers do not report dropped messages
        now = keeper.kept(connection)
        if now == kept and is_still:
            break
        if now > kept:
            kept = now
            clock.stop()
            still_since = time.perf_counter()
    if not 0 < kept <= sent:
        raise BenchmarkError(f"{kept} messages are kept of {sent}")
    return kept


def fill(keeper: Keeper, connection: Connection, payload: bytes, messages: int) -> None:
    """Have the server keep exactly `messages`, and sync them to the disk."""
    publish_all([Waiting(connection, keeper, payload, messages, window=WINDOW)])
    kept = keeper.kept(connection)
    if kept != messages:
        raise BenchmarkError(f"{messages} were acknowledged, {kept} were kept")
    os.sync()
