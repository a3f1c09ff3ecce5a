"""Runs in which every wait is kept: messages at a steady rate, and requests.

One program in C does the work of all clients. Messages go out in an open loop: a wait counts from
the time at which a message was due, even if it was sent later. A run that fell behind its rate is
an error. Without a rate messages queue, and a wait says nothing.
"""

from dataclasses import replace

from benchmarks.errors import BenchmarkError
from benchmarks.process import ServerProcess
from benchmarks.programs import Program
from benchmarks.sample import Sample
from benchmarks.scenarios import Paced, Requests
from benchmarks.servers import Server

LATE_TIMES = 1.1  # a run may take this many times its planned time, and a moment
LATE_SECONDS = 0.5


def run_paced(paced: Paced, server: Server) -> Sample:
    """Run `paced` once on a fresh process of `server`."""
    with ServerProcess(server) as process:
        connections = (process.port, paced.publishers, paced.subscribers)
        words = (*connections, paced.messages, paced.rate, paced.together, paced.size)
        sample = run_program(process, "paced", words, paced.messages)
    sample = replace(sample, deliveries=paced.messages * paced.subscribers)
    if not paced.rate:
        return replace(sample, p50_us=0, p90_us=0, p99_us=0, p999_us=0, max_us=0)
    due = paced.messages / paced.rate
    if sample.seconds > due * LATE_TIMES + LATE_SECONDS:
        took = f"{paced.messages} messages took {sample.seconds:.2f} s"
        raise BenchmarkError(f"{took}, not {due:.2f} s")
    return sample


def run_requests(requests: Requests, server: Server) -> Sample:
    """Run `requests` once on a fresh process of `server`."""
    with ServerProcess(server) as process:
        words = (process.port, requests.clients, requests.requests, requests.size)
        return run_program(process, "requests", words, requests.requests)


def run_program(process: ServerProcess, name: str, words: tuple[int, ...], messages: int) -> Sample:
    """Let a program in C do its work, and return what the server did meanwhile."""
    with Program(name, *words) as program:
        server_cpu = process.cpu_seconds()
        figures = program.run()
        return Sample(
            messages=messages,
            deliveries=messages,
            seconds=figures["seconds"],
            server_cpu_seconds=process.cpu_seconds() - server_cpu,
            generator_cpu_seconds=figures["cpu"],
            peak_bytes=process.peak_bytes(),
            p50_us=figures["p50"],
            p90_us=figures["p90"],
            p99_us=figures["p99"],
            p999_us=figures["p999"],
            max_us=figures["max"],
        )
