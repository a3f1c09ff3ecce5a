"""Consuming: a JetStream consumer's client takes everything that a stream has.

Replaying has the cheapest consumer: the server pushes, and hears nothing. Here the client answers.
It finds what to answer with a few searches in each piece that it reads, without work per message
but for the acks, which it must make.
"""

import re
import time
from typing import Protocol

from benchmarks.connection import Connection
from benchmarks.errors import BenchmarkError
from benchmarks.keepers import CREATE, INBOX, LISTEN, Course, Stream, ask
from benchmarks.load import CHECKED_BYTES
from benchmarks.process import ServerProcess
from benchmarks.replaying import Intake
from benchmarks.sample import Sample
from benchmarks.scenarios import Consuming
from benchmarks.servers import Server
from benchmarks.storing import POLL_SECONDS, Clock, fill
from benchmarks.wire import payload_of

BATCH = 500  # what nats.go's Consume asks for at once
REQUESTS = 2  # under way: the next one waits at the server when the first is served
PULL = b"PUB $JS.API.CONSUMER.MSG.NEXT.BENCH.C %b 3\r\n%d\r\n" % (INBOX, BATCH)
CHUNK = 256 * 1024
PATIENCE_SECONDS = 15
DURABLE = {"ack_policy": "explicit", "durable_name": "C"}
ORDERED = {
    "ack_policy": "none", "deliver_subject": INBOX.decode(), "flow_control": True,
    "idle_heartbeat": 5 * 10**9, "max_deliver": 1, "mem_storage": True, "num_replicas": 1,
    "ack_wait": 22 * 3600 * 10**9,
}  # fmt: skip
ACK_SUBJECT = re.compile(rb" (\$JS\.ACK\.[^ ]+) ")
STATUS_BEGINS = b"HMSG %b 1 " % INBOX
STATUS = re.compile(
    rb"HMSG \S+ 1 (?:(?P<reply>\S+) )?(\d+) \2\r\n"
    rb"NATS/1\.0 100 [^\r]*\r\n(?P<lines>(?:[^\r]+\r\n)*)\r\n\r\n"
)
STALLED = re.compile(rb"Nats-Consumer-Stalled: (\S+)")


class Answering(Protocol):
    """The part of a client that answers what it reads."""

    def take(self, data: bytes) -> tuple[bytes, bytes]:
        """Return the messages in what has come, and what to send."""


class Acking:
    """Pulls, and acknowledges each message."""

    def __init__(self) -> None:
        self.acked = 0
        self.carried = b""

    def take(self, data: bytes) -> tuple[bytes, bytes]:
        whole = self.carried + data
        subjects = ACK_SUBJECT.findall(whole)
        if not subjects:
            self.carried = whole
            return data, b""
        self.carried = whole[whole.rindex(subjects[-1]) + len(subjects[-1]) :]
        before, self.acked = self.acked, self.acked + len(subjects)
        acks = b"PUB %b 4\r\n+ACK\r\n" % b" 4\r\n+ACK\r\nPUB ".join(subjects)
        return data, acks + PULL * (self.acked // BATCH - before // BATCH)


class Flowing:
    """Gets messages pushed, and answers flow control: the server's statuses are no messages."""

    def __init__(self) -> None:
        self.statuses = 0
        self.carried = b""

    def take(self, data: bytes) -> tuple[bytes, bytes]:
        whole = self.carried + data
        messages: list[bytes] = []
        answers: list[bytes] = []
        at = 0
        while (begin := whole.find(STATUS_BEGINS, at)) >= 0:
            status = STATUS.match(whole, begin)
            if status is None:  # its end is still to come
                break
            messages.append(whole[at:begin])
            self.statuses += 1
            answers += [status["reply"]] if status["reply"] else STALLED.findall(status["lines"])
            at = status.end()
        if begin < 0:
            begin = len(whole) - begun(whole)
        messages.append(whole[at:begin])
        self.carried = whole[begin:]
        return b"".join(messages), b"".join(b"PUB %b 0\r\n\r\n" % reply for reply in answers)


def begun(data: bytes) -> int:
    """Return how many bytes at the end of `data` may be the beginning of a status."""
    sizes = range(len(STATUS_BEGINS) - 1, 0, -1)
    return next((size for size in sizes if data.endswith(STATUS_BEGINS[:size])), 0)


class Client(Intake):
    """The reader of a consumer's messages, which answers what it reads."""

    def __init__(self, connection: Connection, course: Course, answering: Answering) -> None:
        super().__init__(connection, course)
        self.answering = answering

    def run(self) -> None:
        """Read to the end."""
        self.connection.send(self.course.opening)
        while self.received < self.course.length or self.course.last not in self.tail:
            messages, answers = self.answering.take(self.connection.receive(CHUNK))
            if answers:
                self.connection.send(answers)
            self.received += len(messages)
            if len(self.head) < CHECKED_BYTES:
                self.head += messages
            self.tail = (self.tail + messages)[-CHECKED_BYTES:]


def run_consuming(consuming: Consuming, server: Server) -> Sample:
    """Run `consuming` once on a fresh process of `server`."""
    payload, messages = payload_of(consuming.size), consuming.messages
    keeper = Stream()
    with ServerProcess(server) as process, Connection(process.port) as control:
        keeper.begin(control)
        fill(keeper, control, payload, messages)
        answering: Answering = Flowing()
        course = keeper.course(payload, messages, ORDERED)
        if consuming.acked:
            answering = Acking()
            course = course._replace(opening=LISTEN + PULL * REQUESTS)
            ask(control, CREATE, keeper.consumer(DURABLE))
        with Connection(process.port) as connection:
            connection.settle()
            clock = Clock(process)
            client = Client(connection, course, answering)
            client.run()
            clock.stop()
            if consuming.acked:
                connection.settle()
                await_acked(clock, control, messages)
        client.verify(keeper, payload, messages)
        return clock.sample(messages, messages)


def await_acked(clock: Clock, control: Connection, messages: int) -> None:
    """Stop the clock when the server has taken all acks; it was asked to deliver nothing twice."""
    until = time.monotonic() + PATIENCE_SECONDS
    while True:
        told = ask(control, b"$JS.API.CONSUMER.INFO.BENCH.C")
        clock.stop()
        if told["ack_floor"]["stream_seq"] == told["delivered"]["consumer_seq"] == messages:
            return
        if time.monotonic() > until or told["num_redelivered"]:
            raise BenchmarkError(f"{messages} were acknowledged, but the consumer says {told}")
        time.sleep(POLL_SECONDS)  # no event to await: servers do not report acks
