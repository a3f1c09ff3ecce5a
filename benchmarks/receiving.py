"""Receiving by multicast: the cost of a message for the receiving process.

The program that measures the floor of sending sends at a steady rate. A receiver must keep up with
it: a message for which it had no room would cost it nothing.
"""

import socket
import sys
from pathlib import Path

from benchmarks.errors import BenchmarkError
from benchmarks.process import free_port
from benchmarks.programs import Process, Program
from benchmarks.sample import Sample
from benchmarks.scenarios import Receiving
from benchmarks.servers import GROUP, Server

RECEIVER = Path(__file__).with_name("receiver.py")
LOSS_MAX = 0.01


def run_receiving(receiving: Receiving, server: Server) -> Sample:
    """Run `receiving` once; the server is a receiver."""
    port = free_port(socket.SOCK_DGRAM)
    words = (GROUP, port, receiving.messages, receiving.size, 1, receiving.packed, receiving.rate)
    with receiver(server, port) as ours, Program("floor", *words) as sender:
        before = ours.cpu_seconds()
        seconds = sender.run()["seconds"]
        heard = ours.run()
        cpu = ours.cpu_seconds() - before
        messages = int(heard["messages"])
        if messages < receiving.messages * (1 - LOSS_MAX):
            raise BenchmarkError(
                f"the receiver got {messages} messages of {receiving.messages}: it cannot keep up"
            )
        return Sample(
            messages=messages,
            deliveries=messages,
            seconds=seconds,
            server_cpu_seconds=cpu,
            generator_cpu_seconds=sender.cpu_seconds(),
            peak_bytes=ours.peak_bytes(),
            sent=receiving.messages,
        )


def receiver(server: Server, port: int) -> Process:
    """Return the receiver that a server's command names, not started yet."""
    name, *words = server.command.format(group=GROUP, feed_port=port).split()
    if name != RECEIVER.stem:
        return Program(name, *words)
    return Process(name, [sys.executable, str(RECEIVER), *words])
