"""A publisher and a subscriber that behave: a process of their own, beside those that attack.

    python -m tests.attacks.good_pair '{"port": 4222, "connect": {...}, "broker": 1234}'

The publisher sends a message every `EVERY_S`, numbered by itself and with the time. The subscriber
checks that none is missing, doubled or out of order, and how long each took, without the time for
which the system let the broker's event loop or this process wait for a processor: on two cores that
run four tests at a time, that is most of it.

With `"streams": true` the messages are in a stream, and the subscriber has them from a durable push
consumer and acknowledges each. At the end nothing is pending.

It begins with the first line `ready`. At the end of its input it sends nothing more, waits for what
is still missing, and prints one line of JSON: see `Told`. Whatever the broker says that it should
not is a fault.

It shares no interpreter with the attackers, so what they compute delays nothing here.
"""

import json
import os
import select
import socket
import ssl
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.support.raw import Operation, next_operation

EVERY_S = 0.002
SIZE = 128
REST_S = 30.0
SUBJECT = b"beside.orders"
STREAM = {"name": "BESIDE", "subjects": [SUBJECT.decode()]}
CONSUMER = {"durable_name": "pair", "ack_policy": "explicit", "deliver_subject": "beside.pushed"}
SIDE: dict[str, Any] = {"verbose": False, "pedantic": False, "headers": True, "frame": "none"}


@dataclass
class Told:
    """What the pair has seen."""

    messages: int = 0
    worst_ms: float = 0.0  # the longest that a message took, without waiting for a processor
    worst_at: float = 0.0  # and when it was sent, in seconds since the start
    own_worst_ms: float = 0.0  # the longest that this process was late by itself
    fault: str = ""


class Side:
    """One connection; `text` is what the broker has said and nobody has read."""

    def __init__(self, port: int, connect: dict[str, Any]) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.text = b""
        if connect.get("tls_required"):
            self.heard()
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            self.socket = context.wrap_socket(self.socket)
        self.send(b"CONNECT %b\r\n" % json.dumps(SIDE | connect).encode())

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def heard(self) -> list[Operation]:
        """Everything that has come. PINGs are answered."""
        data = self.socket.recv(1 << 18)
        if not data:
            raise ConnectionError(f"closed, after {self.text[-200:]!r}")
        self.text += data
        if isinstance(self.socket, ssl.SSLSocket) and self.socket.pending():
            self.text += self.socket.recv(self.socket.pending())
        found, at = [], 0
        while step := next_operation(self.text, at):
            operation, at = step
            if operation.verb == "-ERR":
                raise ConnectionError(operation.text.decode())
            if operation.verb == "PING":
                self.send(b"PONG\r\n")
            found.append(operation)
        self.text = self.text[at:]
        return found

    def ask(self, data: bytes) -> None:
        """Send, and wait for the PONG behind it."""
        self.send(data + b"PING\r\n")
        while not any(operation.verb == "PONG" for operation in self.heard()):
            pass


class Processors:
    """How long the first threads of some processes could run, and waited for a processor.

    The second figure of /proc/PID/schedstat, in ns (Documentation/scheduler/sched-stats.rst).
    """

    def __init__(self, *pids: int) -> None:
        self._paths = [Path(f"/proc/{pid}/schedstat") for pid in pids]

    def waited(self) -> int:
        return sum(int(path.read_bytes().split()[1]) for path in self._paths)


class Pair:
    """The publisher and the subscriber."""

    def __init__(self, port: int, connect: dict[str, Any], broker: int, streams: bool) -> None:
        self.told = Told()
        self.processors = Processors(broker, os.getpid())
        self.sent = 0
        self.began = time.monotonic()
        self.subscriber = Side(port, connect)
        self.streams = streams
        if streams:
            self.subscriber.ask(b"SUB beside.inbox 2\r\nSUB beside.pushed 1\r\n")
            self.requested("STREAM.CREATE.BESIDE", STREAM)
            consumer = {"stream_name": "BESIDE", "config": CONSUMER}
            self.requested("CONSUMER.DURABLE.CREATE.BESIDE.pair", consumer)
        else:
            self.subscriber.ask(b"SUB %b 1\r\n" % SUBJECT)
        self.publisher = Side(port, connect)
        self.publisher.ask(b"")

    def requested(self, subject: str, body: dict[str, Any] | None) -> dict[str, Any]:
        """Ask the API, and return what it says; deliveries are judged meanwhile."""
        text = b"" if body is None else json.dumps(body).encode()
        head = b"PUB $JS.API.%b beside.inbox %d\r\n" % (subject.encode(), len(text))
        self.subscriber.send(head + text + b"\r\n")
        while True:
            found = None
            for operation in self.subscriber.heard():
                if operation.subject == b"beside.inbox":
                    found = operation
                elif operation.verb == "MSG":
                    self.take_message(operation)
            if found is not None:
                answer: dict[str, Any] = json.loads(found.payload)
                assert "error" not in answer, answer
                return answer

    def take_message(self, operation: Operation) -> None:
        self.judge(operation.payload)
        if self.streams:
            self.subscriber.send(b"PUB %b 0\r\n\r\n" % operation.reply)

    def publish(self) -> None:
        text = b"%d %d %d " % (self.sent, time.monotonic_ns(), self.processors.waited())
        text += b"." * (SIZE - len(text))
        self.publisher.send(b"PUB %b %d\r\n%b\r\n" % (SUBJECT, len(text), text))
        self.sent += 1

    def take(self, wait: float) -> None:
        """Take what comes within this time, until something has."""
        for side in select.select([self.subscriber.socket, self.publisher.socket], [], [], wait)[0]:
            if side is self.publisher.socket:
                self.publisher.heard()
                continue
            for operation in self.subscriber.heard():
                if operation.verb == "MSG":
                    self.take_message(operation)

    def judge(self, payload: bytes) -> None:
        number, at, waited = map(int, payload.split(b" ")[:3])
        told = self.told
        if number != told.messages and not told.fault:
            told.fault = f"message {number} came where {told.messages} was expected"
        told.messages = number + 1
        took = (time.monotonic_ns() - at - (self.processors.waited() - waited)) / 1e6
        if took > told.worst_ms:
            told.worst_ms, told.worst_at = took, at / 1e9 - self.began

    def run(self) -> None:
        """Until the end of the input, and then until all messages have come."""
        due = time.monotonic()
        while not select.select([sys.stdin], [], [], 0)[0]:
            now = time.monotonic()
            if now >= due:
                self.told.own_worst_ms = max(self.told.own_worst_ms, (now - due) * 1e3)
                self.publish()
                due = now + EVERY_S
            self.take(max(due - time.monotonic(), 0))
        end = time.monotonic() + REST_S
        while self.told.messages < self.sent and time.monotonic() < end:
            self.take(1)
        if self.told.messages < self.sent and not self.told.fault:
            self.told.fault = f"{self.sent - self.told.messages} messages did not come"
        if self.streams and not self.told.fault:
            said = self.requested("CONSUMER.INFO.BESIDE.pair", None)
            if said["num_pending"] or said["num_ack_pending"]:
                self.told.fault = f"something is left: {said}"


def main() -> None:
    given = json.loads(sys.argv[1])
    pair = Pair(given["port"], given["connect"], given["broker"], given.get("streams", False))
    print("ready", flush=True)
    try:
        pair.run()
    except (OSError, AssertionError) as error:
        pair.told.fault = pair.told.fault or repr(error)
    print(json.dumps(asdict(pair.told)), flush=True)


if __name__ == "__main__":
    main()
