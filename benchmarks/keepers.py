r"""The protocols of servers that keep messages: Seriatim's journal, and JetStream's.

Both must keep what is published to `bench.>`, acknowledge that it is kept, report how much is kept,
and send it all again, from the first message.

    ours        PUB $SEQ.PUB.bench.x REPLY 128     MSG REPLY 1 7\r\n5:88485,\r\n
    JetStream   PUB bench.x REPLY 128              MSG REPLY 1 26\r\n{"stream":"BENCH","seq":7}\r\n
"""

import json
import re
from typing import Any, NamedTuple, Protocol

from benchmarks.connection import Connection
from benchmarks.errors import BenchmarkError
from benchmarks.servers import Server
from benchmarks.wire import Frame, digits, message, numbers_of, publication, stream_bytes

SUBJECT = b"bench.x"
INBOX = b"_INBOX.b"
LISTEN = b"SUB %b 1\r\n" % INBOX
CREATE = b"$JS.API.CONSUMER.CREATE.BENCH.C"
# The cheapest consumer: pulls of 2000 to 100 000 messages were slower by a sixth.
PUSHED = {"ack_policy": "none", "mem_storage": True, "deliver_subject": INBOX.decode()}
ANSWER = re.compile(rb"H?MSG _INBOX\.ask 9 (?:(\d+) )?(\d+)\r\n")
DELIVERED = re.compile(rb"MSG bench\.x 1 \$JS\.ACK\.BENCH\.C\.1\.(\d+)\.\d+\.\d{19}\.\d+ ")


def ask(connection: Connection, subject: bytes, request: bytes = b"") -> dict[str, Any]:
    """Make a request whose answer is a JSON object; return the object."""
    connection.send(
        b"SUB _INBOX.ask 9\r\nUNSUB 9 1\r\nPUB %b _INBOX.ask %d\r\n%b\r\n"
        % (subject, len(request), request)
    )
    data = connection.read_until(b"\r\n")
    while True:
        found = ANSWER.search(data)
        if found and len(data) >= found.end() + int(found[2]) + 2:
            break
        data += connection.read_until(b"\r\n")
    content = data[found.end() + int(found[1] or 0) : found.end() + int(found[2])]
    try:
        answer: dict[str, Any] = json.loads(content)
    except ValueError:
        raise BenchmarkError(f"{subject.decode()} answered {data[-200:]!r}") from None
    if "error" in answer:
        raise BenchmarkError(f"{subject.decode()} answered {answer['error']}")
    return answer


class Course(NamedTuple):
    """A replay from the reader's point of view."""

    opening: bytes  # the request
    length: int  # of all that must arrive
    last: bytes  # the end of the last message


class Keeper(Protocol):
    """The interface of a server that keeps messages, for scenarios."""

    acknowledged: bytes  # occurs once in every acknowledgement, and nowhere else
    refused: bytes  # occurs in the answer when a message is refused

    def begin(self, connection: Connection) -> None:
        """Prepare to keep what is published to SUBJECT."""

    def asking(self, payload: bytes, reply: bytes) -> bytes:
        """Return a publication whose acknowledgement goes to `reply`."""

    def kept(self, connection: Connection) -> int:
        """Return how many messages are kept."""

    def course(self, payload: bytes, messages: int) -> Course:
        """Describe the replay of everything that is kept, 1..`messages`."""

    def replayed(self, data: bytes, payload: bytes) -> list[int]:
        """Check every whole message in `data` and return their numbers."""


class Journal:
    """The keeper for Seriatim's journal."""

    acknowledged = b",\r\n"
    refused = b"NATS/1.0"

    def __init__(self, frame: Frame) -> None:
        self.frame = frame

    def begin(self, connection: Connection) -> None:
        if self.kept(connection):
            raise BenchmarkError("the journal is not empty")

    def asking(self, payload: bytes, reply: bytes) -> bytes:
        return b"PUB $SEQ.PUB.%b %b %d\r\n%b\r\n" % (SUBJECT, reply, len(payload), payload)

    def kept(self, connection: Connection) -> int:
        return int(ask(connection, b"$SEQ.INFO")["messages"])

    def course(self, payload: bytes, messages: int) -> Course:
        length = stream_bytes(self.frame, [SUBJECT], b"1", payload, messages)
        last = message(self.frame, SUBJECT, b"1", messages, payload)
        return Course(b"SUB $SEQ.FROM.1.> 1\r\n", length, last)

    def replayed(self, data: bytes, payload: bytes) -> list[int]:
        return numbers_of(self.frame, data, payload)


class Stream:
    """The keeper for JetStream's API: a stream in a file, and a consumer of all its messages."""

    acknowledged = b'"seq":'
    refused = b'"error"'

    def begin(self, connection: Connection) -> None:
        stream = {"name": "BENCH", "subjects": ["bench.>"], "storage": "file", "num_replicas": 1}
        ask(connection, b"$JS.API.STREAM.CREATE.BENCH", json.dumps(stream).encode())

    def asking(self, payload: bytes, reply: bytes) -> bytes:
        return b"PUB %b %b %d\r\n%b\r\n" % (SUBJECT, reply, len(payload), payload)

    def kept(self, connection: Connection) -> int:
        return int(ask(connection, b"$JS.API.STREAM.INFO.BENCH")["state"]["messages"])

    def course(self, payload: bytes, messages: int, config: dict[str, Any] = PUSHED) -> Course:
        """Have the consumer push, unless its config is another.

        The subject for acknowledging a message grows with three numbers in it: that of the message,
        that of the delivery, and how many are still to come.
        """
        words = (SUBJECT, b"", b"", b"1" * 19, b"", len(payload), payload)
        fixed = len(b"MSG %b 1 $JS.ACK.BENCH.C.1.%b.%b.%b.%b %d\r\n%b\r\n" % words)
        length = messages * fixed + 2 * digits(1, messages) + digits(0, messages - 1)
        last = b".0 %d\r\n%b\r\n" % (len(payload), payload)
        return Course(LISTEN + publication(CREATE, self.consumer(config)), length, last)

    def consumer(self, config: dict[str, Any]) -> bytes:
        """Return the request that creates the consumer."""
        return json.dumps({"stream_name": "BENCH", "config": {"name": "C"} | config}).encode()

    def replayed(self, data: bytes, payload: bytes) -> list[int]:
        count = len(numbers_of("none", data, payload))
        return [int(number) for number in DELIVERED.findall(data)[:count]]


def keeper_of(server: Server) -> Keeper:
    """Return the keeper for `server`."""
    return Stream() if server.keeps == "jetstream" else Journal(server.frame)


def unasked(payload: bytes) -> bytes:
    """Return a publication without acknowledgement, the same for all servers."""
    return publication(SUBJECT, payload)
