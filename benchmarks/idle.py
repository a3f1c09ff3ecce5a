"""Idle connections: the cost of many connected clients for a server."""

import resource
import time
from contextlib import ExitStack

from benchmarks.connection import Connection
from benchmarks.errors import BenchmarkError
from benchmarks.process import ServerProcess
from benchmarks.sample import Sample
from benchmarks.scenarios import Idle
from benchmarks.servers import Server
from benchmarks.wire import message, publication

SPARE_FILES = 200


def run_idle(idle: Idle, server: Server) -> Sample:
    """Connect and subscribe `idle.connections` times; check that first and last still receive."""
    allow_files(idle.connections + SPARE_FILES)
    with ServerProcess(server) as process, ExitStack() as stack:
        server_cpu, own_cpu = process.cpu_seconds(), time.process_time()
        began_at = time.perf_counter()
        connections = []
        for number in range(idle.connections):
            connection = stack.enter_context(Connection(process.port))
            connection.settle(b"SUB idle.%d 1\r\n" % number)
            connections.append(connection)
        seconds = time.perf_counter() - began_at
        server_cpu = process.cpu_seconds() - server_cpu
        own_cpu = time.process_time() - own_cpu
        publisher = stack.enter_context(Connection(process.port))
        for number, place in enumerate((0, len(connections) - 1), start=1):
            subject = b"idle.%d" % place
            publisher.settle(publication(subject, b"hello"))
            connections[place].read_until(message(server.frame, subject, b"1", number, b"hello"))
        return Sample(
            messages=idle.connections,
            deliveries=0,
            seconds=seconds,
            server_cpu_seconds=server_cpu,
            generator_cpu_seconds=own_cpu,
            peak_bytes=process.peak_bytes(),
        )


def allow_files(count: int) -> None:
    """Raise the limit of open files for this process and the servers it starts."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < count:
        raise BenchmarkError(f"{count} open files are needed; the limit is {hard} (ulimit -Hn)")
    if soft != resource.RLIM_INFINITY and soft < count:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
