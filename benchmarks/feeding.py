"""Messages sent by multicast: one receiver on this machine counts them.

A broker is flooded by one NATS publisher. cquencer, whose clients must wait for each number, has
eight of them and fewer messages. The floor only sends, as fast as the system accepts it. Datagrams
for which the receiver had no room are not an error: they show how much of the work was wasted.
"""

import dataclasses
import socket

from benchmarks.errors import BenchmarkError
from benchmarks.flood import measured
from benchmarks.load import Publisher
from benchmarks.numbering import PIPELINED_TIMES, numbered
from benchmarks.process import ServerProcess, free_port
from benchmarks.programs import Program
from benchmarks.sample import Sample
from benchmarks.scenarios import Feeding
from benchmarks.servers import GROUP, Server
from benchmarks.wire import payload_of, publications

SUBJECT = b"bench"
WAITING_CLIENTS = 8


def run_feeding(feeding: Feeding, server: Server) -> Sample:
    """Run `feeding` once on a fresh process of `server`."""
    if server.takes == "nothing":
        return run_floor(feeding, server)
    with ServerProcess(server) as process, Program("listener", GROUP, process.feed_port) as heard:
        if server.takes == "nats":
            sample = flooded(process, feeding)
        else:
            few = max(WAITING_CLIENTS, feeding.messages // PIPELINED_TIMES)
            sample = numbered(process, WAITING_CLIENTS, few, feeding.size)
        return with_deliveries(sample, heard.run())


def run_floor(feeding: Feeding, server: Server) -> Sample:
    """Run the program that replaces a server and only sends."""
    port = free_port(socket.SOCK_DGRAM)
    words = server.command.format(
        group=GROUP, feed_port=port, messages=feeding.messages, size=feeding.size
    ).split()
    with Program("listener", GROUP, port) as heard, Program(*words) as sender:
        cpu = sender.cpu_seconds()
        figures = sender.run()
        sample = Sample(
            messages=feeding.messages,
            deliveries=0,
            seconds=figures["seconds"],
            server_cpu_seconds=sender.cpu_seconds() - cpu,
            generator_cpu_seconds=0,
            peak_bytes=sender.peak_bytes(),
        )
        return with_deliveries(sample, heard.run())


def flooded(process: ServerProcess, feeding: Feeding) -> Sample:
    """Publish as fast as the broker reads."""
    block = publications([SUBJECT], payload_of(feeding.size), feeding.messages)
    publisher = Publisher(process.port, block.data, block.repeats)
    try:
        publisher.connection.settle()
        return measured(process, [publisher], [], block.messages * block.repeats)
    finally:
        publisher.stop()


def with_deliveries(sample: Sample, heard: dict[str, float]) -> Sample:
    """Add what the receiver counted; it has checked that the numbers increase."""
    messages, missing = int(heard["messages"]), int(heard["missing"])
    if not 0 < messages <= sample.messages:
        raise BenchmarkError(f"the receiver got {messages} messages of {sample.messages}")
    if heard["last"] - heard["first"] + 1 != messages + missing:
        raise BenchmarkError(f"the receiver's counts do not agree: {heard}")
    return dataclasses.replace(
        sample,
        deliveries=messages,
        generator_cpu_seconds=sample.generator_cpu_seconds + heard["cpu"],
    )
