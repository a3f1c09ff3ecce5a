"""Numbers from cquencer's port: clients that send a message and want its number.

Each waits for the number before it sends the next, as cquencer's must. If a server accepts
netstrings there may be a window of messages in flight; the run then has more messages, to take
about as long. The clients check every answer: each number from 1 on comes once.

Server and clients take turns, so rates depend on where the system schedules the two: on one core,
or on two that wake each other. On a virtual machine rates differ by a factor of two, and of five
with one client. So they are pinned: one client shares a core with its server, several have another
one.
"""

import contextlib
import os
import subprocess

from benchmarks.errors import BenchmarkError
from benchmarks.process import ServerProcess
from benchmarks.programs import Program
from benchmarks.sample import Sample
from benchmarks.scenarios import Numbering
from benchmarks.servers import Server

PIPELINED_TIMES = 20  # times as many messages as where clients wait
ENDING_SECONDS = 0.5  # for a server to end


def run_numbering(numbering: Numbering, server: Server) -> Sample:
    """Run `numbering` once on a fresh process of `server`."""
    window = numbering.window if server.takes == "netstring" else 1
    messages = numbering.messages * (PIPELINED_TIMES if window > 1 else 1)
    with ServerProcess(server) as process:
        return numbered(process, numbering.connections, messages, numbering.size, window)


def place(server: int, clients: int, apart: bool) -> None:
    """Pin a server to the first core and its clients to the last, or both to the last."""
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(server, cores[:1] if apart else cores[-1:])
    os.sched_setaffinity(clients, cores[-1:])


def numbered(
    process: ServerProcess, connections: int, messages: int, size: int, window: int = 1
) -> Sample:
    """Have clients get a number for each of `messages`, and measure."""
    words = (process.port, connections, messages, size, window, process.server.takes)
    try:
        with Program("clients", *words) as clients:
            place(process.process.pid, clients.process.pid, apart=connections > 1)
            server_cpu = process.cpu_seconds()
            figures = clients.run()
            server_cpu = process.cpu_seconds() - server_cpu
    except BenchmarkError as error:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.process.wait(ENDING_SECONDS)
            raise BenchmarkError(f"{error}; it said: {process.last_words()}") from None
        raise
    return Sample(
        messages=messages,
        deliveries=0,
        seconds=figures["seconds"],
        server_cpu_seconds=server_cpu,
        generator_cpu_seconds=figures["cpu"],
        peak_bytes=process.peak_bytes(),
        p50_us=figures["p50"],
        p99_us=figures["p99"],
    )
