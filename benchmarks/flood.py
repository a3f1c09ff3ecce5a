"""One flood: everyone subscribes, everything is published and received; the CPU time in between."""

import os
import random
import time
from collections.abc import Sequence
from contextlib import ExitStack

from benchmarks.burden import subscribe_many
from benchmarks.errors import BenchmarkError
from benchmarks.load import Loader, Publisher, Subscriber
from benchmarks.memory import have_at_hand
from benchmarks.process import ServerProcess
from benchmarks.sample import Sample
from benchmarks.scenarios import Flood
from benchmarks.servers import Server
from benchmarks.wire import HEADERS, Block, payload_of, publications, stream_bytes

FLOOD_SECONDS = 90  # after that the run has failed


def run_flood(flood: Flood, server: Server) -> Sample:
    """Run `flood` once on a fresh process of `server`."""
    subjects = subjects_of(flood)
    blocks = blocks_of(flood, subjects)
    headers, payload = content_of(flood)
    pattern = subjects[0] if len(subjects) == 1 else b"bench.>"
    messages = sum(block.messages * block.repeats for block in blocks)
    length = stream_bytes(server.frame, subjects, b"1", payload, messages, headers)
    with ServerProcess(server) as process, ExitStack() as stack:
        stack.enter_context(subscribe_many(process.port, flood.burden))
        subscribers = []
        for _ in range(flood.subscribers):
            expected = (payload, messages, length, headers)
            subscriber = Subscriber(process.port, server.frame, *expected)
            stack.callback(subscriber.stop)
            subscriber.connection.settle(b"SUB %b 1\r\n" % pattern)
            subscribers.append(subscriber)
        publishers = []
        for block in blocks:
            publisher = Publisher(process.port, block.data, block.repeats)
            stack.callback(publisher.stop)
            publisher.connection.settle()
            publishers.append(publisher)
        if server.keeps:
            os.sync()  # so that the run does not wait for earlier writes
        if flood.warm:
            have_at_hand(flood.messages, flood.size)
        return measured(process, publishers, subscribers, messages)


def subjects_of(flood: Flood) -> list[bytes]:
    """Return the subjects published to: `bench` alone or `bench.0`, `bench.1`, ..."""
    if flood.subjects == 1:
        return [b"bench"]
    return [b"bench.%d" % number for number in range(flood.subjects)]


def content_of(flood: Flood) -> tuple[bytes, bytes]:
    """Return the headers and the payload of each message, of the flood's size together."""
    headers = HEADERS if flood.headers else b""
    return headers, payload_of(flood.size - len(headers))


def blocks_of(flood: Flood, subjects: list[bytes]) -> list[Block]:
    """Return every publisher's block; each uses the subjects in a different order."""
    share = flood.messages // flood.publishers
    headers, payload = content_of(flood)
    order = random.Random(1)
    return [
        publications(order.sample(subjects, len(subjects)), payload, share, headers)
        for _ in range(flood.publishers)
    ]


def measured(
    process: ServerProcess,
    publishers: Sequence[Publisher],
    subscribers: Sequence[Subscriber],
    messages: int,
) -> Sample:
    """Start the threads, wait until everything is published and received, and measure."""
    server_cpu = process.cpu_seconds()
    own_cpu = time.process_time()
    began_at = time.perf_counter()
    for loader in (*subscribers, *publishers):
        loader.start()
    finish(process, publishers, began_at + FLOOD_SECONDS)
    for subscriber in subscribers:
        subscriber.ask_for_end()
    finish(process, subscribers, began_at + FLOOD_SECONDS)
    sample = Sample(
        messages=messages,
        deliveries=messages * len(subscribers),
        seconds=max(loader.ended_at for loader in (*publishers, *subscribers)) - began_at,
        server_cpu_seconds=process.cpu_seconds() - server_cpu,
        generator_cpu_seconds=time.process_time() - own_cpu,
        peak_bytes=process.peak_bytes(),
    )
    for subscriber in subscribers:
        subscriber.verify()
    return sample


def finish(process: ServerProcess, loaders: Sequence[Loader], until: float) -> None:
    """Wait for the threads, with a timeout, and raise the error of one that failed."""
    for loader in loaders:
        loader.join(max(0.0, until - time.perf_counter()))
        if loader.is_alive():
            raise BenchmarkError(f"the flood was not over after {FLOOD_SECONDS} s")
    for loader in loaders:
        if loader.error:
            kind = type(loader).__name__.lower()
            raise BenchmarkError(f"a {kind}: {loader.error} (log: {process.last_words()})")
