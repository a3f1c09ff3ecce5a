"""A day in miniature: far more goes through the journal than it retains, and than memory holds.

The last message must cost no more than the first, and neither the server's memory nor the page
cache of its store may grow. Both are measured after each tenth of the messages.
"""

import time
from pathlib import Path

from benchmarks.connection import Connection
from benchmarks.errors import BenchmarkError
from benchmarks.page_cache import cached_bytes
from benchmarks.process import ServerProcess
from benchmarks.sample import Sample
from benchmarks.scenarios import Day
from benchmarks.servers import Server
from benchmarks.storing import flood
from benchmarks.wire import payload_of

PARTS = 10


def run_day(day: Day, server: Server) -> Sample:
    """Run `day` once on a fresh process of `server`."""
    payload = payload_of(day.size)
    share = max(1, day.messages // PARTS)
    with ServerProcess(server) as process, Connection(process.port) as publisher:
        costs, cached, seconds = [], [], 0.0
        own_cpu = time.process_time()
        for _ in range(PARTS):
            server_cpu, began_at = process.cpu_seconds(), time.perf_counter()
            flood(publisher, payload, share)
            seconds += time.perf_counter() - began_at
            costs.append(process.cpu_seconds() - server_cpu)
            cached.append(cached_bytes(Path(process.directory.name)))
        if not all(costs):
            raise BenchmarkError("the parts of the day are too short to be measured")
        return Sample(
            messages=share * PARTS,
            deliveries=0,
            seconds=seconds,
            server_cpu_seconds=sum(costs),
            generator_cpu_seconds=time.process_time() - own_cpu,
            peak_bytes=process.peak_bytes(),
            first_cpu_us=costs[0] / share * 1e6,
            last_cpu_us=costs[-1] / share * 1e6,
            cache_bytes=max(cached),
        )
