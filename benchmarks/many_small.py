"""Many publishers that each send little: the cost of a message that comes alone.

The server is not the limit, so its rate says nothing; its CPU time per message does. One program in
C publishes for all connections; a run in which it fell behind its rate is an error.
"""

import time
from contextlib import ExitStack

from benchmarks.errors import BenchmarkError
from benchmarks.flood import FLOOD_SECONDS, finish
from benchmarks.load import Subscriber
from benchmarks.process import ServerProcess
from benchmarks.programs import Program
from benchmarks.sample import Sample
from benchmarks.scenarios import ManySmall
from benchmarks.servers import Server
from benchmarks.wire import payload_of, stream_bytes

LATE_TIMES = 1.1  # a run may take this many times its planned time, and a moment
LATE_SECONDS = 0.5


def run_many_small(small: ManySmall, server: Server) -> Sample:
    """Run `small` once on a fresh process of `server`."""
    messages = max(1, small.messages // small.publishers) * small.publishers
    payload = payload_of(small.size)
    subjects = [b"bench.%d" % number for number in range(small.publishers)]
    length = stream_bytes(server.frame, subjects, b"1", payload, messages)
    with ServerProcess(server) as process, ExitStack() as stack:
        subscribers = []
        for _ in range(small.subscribers):
            subscriber = Subscriber(process.port, server.frame, payload, messages, length)
            stack.callback(subscriber.stop)
            subscriber.connection.settle(b"SUB bench.> 1\r\n")
            subscribers.append(subscriber)
        pace = (small.rate, small.together)
        words = (process.port, small.publishers, messages, *pace, small.size)
        trickle = stack.enter_context(Program("trickle", *words))
        server_cpu, own_cpu = process.cpu_seconds(), time.process_time()
        began_at = time.perf_counter()
        for subscriber in subscribers:
            subscriber.start()
        figures = trickle.run()
        for subscriber in subscribers:
            subscriber.ask_for_end()
        finish(process, subscribers, began_at + FLOOD_SECONDS)
        sample = Sample(
            messages=messages,
            deliveries=messages * len(subscribers),
            seconds=max(subscriber.ended_at for subscriber in subscribers) - began_at,
            server_cpu_seconds=process.cpu_seconds() - server_cpu,
            generator_cpu_seconds=time.process_time() - own_cpu + figures["cpu"],
            peak_bytes=process.peak_bytes(),
        )
        for subscriber in subscribers:
            subscriber.verify()
    if figures["seconds"] > messages / small.rate * LATE_TIMES + LATE_SECONDS:
        took, due = figures["seconds"], messages / small.rate
        raise BenchmarkError(f"{messages} messages took {took:.2f} s to send, not {due:.2f} s")
    return sample
