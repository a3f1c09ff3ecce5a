"""The round trip of one message: out on one connection, back on another, with no other traffic."""

import statistics
import time

from benchmarks.connection import Connection
from benchmarks.errors import BenchmarkError
from benchmarks.process import ServerProcess
from benchmarks.sample import Sample
from benchmarks.scenarios import RoundTrip
from benchmarks.servers import Server
from benchmarks.wire import message, payload_of, publication

WARM_UP = 500  # rounds before the clock counts


def run_round_trip(trip: RoundTrip, server: Server) -> Sample:
    """Run `trip` once on a fresh process of `server`; every byte of every round is compared."""
    if server.frame == "stamp":
        raise BenchmarkError("a round trip compares all bytes, and times differ: run a flood")
    payload = payload_of(trip.size)
    request = publication(b"bench", payload)
    with (
        ServerProcess(server) as process,
        Connection(process.port) as publisher,
        Connection(process.port) as subscriber,
    ):
        subscriber.settle(b"SUB bench 1\r\n")
        publisher.settle()
        for number in range(1, WARM_UP + 1):
            one_round(
                publisher,
                subscriber,
                request,
                message(server.frame, b"bench", b"1", number, payload),
            )
        server_cpu, own_cpu = process.cpu_seconds(), time.process_time()
        began_at = time.perf_counter()
        nanoseconds = [
            one_round(
                publisher,
                subscriber,
                request,
                message(server.frame, b"bench", b"1", number, payload),
            )
            for number in range(WARM_UP + 1, WARM_UP + trip.rounds + 1)
        ]
        percentiles = statistics.quantiles(nanoseconds, n=100)
        return Sample(
            messages=trip.rounds,
            deliveries=trip.rounds,
            seconds=time.perf_counter() - began_at,
            server_cpu_seconds=process.cpu_seconds() - server_cpu,
            generator_cpu_seconds=time.process_time() - own_cpu,
            peak_bytes=process.peak_bytes(),
            p50_us=percentiles[49] / 1000,
            p99_us=percentiles[98] / 1000,
        )


def one_round(publisher: Connection, subscriber: Connection, request: bytes, answer: bytes) -> int:
    """Send `request`, wait for exactly `answer`, and return the nanoseconds between."""
    began_at = time.perf_counter_ns()
    publisher.send(request)
    data = subscriber.receive()
    while answer not in data:  # a PING of the server's may come before or after it
        data += subscriber.receive()
    return time.perf_counter_ns() - began_at
