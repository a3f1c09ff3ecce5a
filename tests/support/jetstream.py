"""JetStream's dialogues with a server, and what two servers say that must be the same.

Times, versions and names of servers differ, and so they are replaced: what is left of two answers
can be compared. In a dialogue that begins with an empty store and publishes to one stream, numbers
are the same, too.
"""

import json
import re
from itertools import count
from typing import Any, NamedTuple

from tests.support.raw import Operation, RawClient

ACK_SUBJECT = re.compile(rb"(\$JS\.ACK\.[^.]+\.[^.]+\.\d+\.\d+\.\d+)\.\d+(\.\d+)")
STAMP = re.compile(rb"Nats-Time-Stamp: [^\r]*")
TIMES = ("created", "ts", "first_ts", "last_ts", "time", "last_active", "pause_remaining")
INBOXES = count(1)
ZERO_TIME = "0001-01-01T00:00:00Z"


class Step(NamedTuple):
    """One request, and how many messages answer it; 0: until a status says that it was the last.

    The subject `#7` is the ack subject of the eighth message that was delivered.
    """

    subject: str
    body: str | bytes | dict[str, Any] = b""
    headers: dict[str, str] | None = None
    answers: int = 1


class Dialogue:
    """One client that asks, and hears the answers in order."""

    def __init__(self, port: int, user: str = "", password: str = "") -> None:
        options: dict[str, Any] = {"verbose": False, "pedantic": False, "headers": True}
        options |= {"no_responders": True}
        options |= {"user": user, "pass": password} if user else {}
        connect = b"CONNECT %b\r\n" % json.dumps(options).encode()
        self.inbox = f"_INBOX.{next(INBOXES)}"  # what is left for an earlier one is not for this
        self.client = RawClient(port, connect, b"SUB %b.> 1\r\n" % self.inbox.encode())
        self.asked = 0
        self.acks: list[str] = []  # the ack subjects of what was delivered

    def ask(self, step: Step) -> list[Operation]:
        """Send a request, and return what answers it."""
        self.asked += 1
        reply = f"{self.inbox}.{self.asked}"
        if step.subject.startswith("#"):
            step = step._replace(subject=self.acks[int(step.subject[1:])])
        self.client.send(request(step, reply))
        found: list[Operation] = []
        while True:
            operation = self.client.operation()
            if operation.verb == "PONG":
                continue
            if operation.reply.startswith(b"$JS.ACK."):
                self.acks.append(operation.reply.decode())
            else:
                assert operation.subject == reply.encode(), f"not to this request: {operation}"
            found.append(operation)
            status = operation.header[:12]
            is_last = status.startswith(b"NATS/1.0 ") or not operation.header
            if len(found) == step.answers or (step.answers == 0 and is_last):
                return found

    def close(self) -> None:
        self.client.close()


def request(step: Step, reply: str) -> bytes:
    """A request as it is published."""
    body = step.body
    if isinstance(body, dict):
        body = json.dumps(body)
    if isinstance(body, str):
        body = body.encode()
    if step.headers is None:
        return b"PUB %b %b %d\r\n%b\r\n" % (step.subject.encode(), reply.encode(), len(body), body)
    fields = "".join(f"{name}: {value}\r\n" for name, value in step.headers.items())
    head = f"NATS/1.0\r\n{fields}\r\n".encode()
    sizes = len(head), len(head) + len(body)
    line = b"HPUB %b %b %d %d\r\n" % (step.subject.encode(), reply.encode(), *sizes)
    return line + head + body + b"\r\n"


def comparable(operation: Operation, ignored: tuple[str, ...] = ()) -> Any:
    """What an answer says, without what differs from server to server, or is `ignored`."""
    header = STAMP.sub(b"Nats-Time-Stamp: T", operation.header)
    reply = ACK_SUBJECT.sub(rb"\1.T\2", operation.reply)
    payload: Any = operation.payload
    if payload.startswith(b"{") and not header:
        payload = _shown(json.loads(payload), ignored)
    subject = re.sub(rb"^_INBOX\.\d+", b"_INBOX.R", operation.subject)
    return operation.verb, subject, reply, header, payload


def _shown(value: Any, ignored: tuple[str, ...], name: str = "") -> Any:
    """JSON with its keys in order, as pairs, and placeholders for what differs."""
    if isinstance(value, dict):
        if name == "metadata":
            return sorted(key for key in value if key != "_nats.req.level")
        left_out = ("api", *ignored)
        return [(k, _shown(one, ignored, k)) for k, one in value.items() if k not in left_out]
    if isinstance(value, list):
        return [_shown(one, ignored) for one in value]
    if name in TIMES and value != ZERO_TIME:
        return "T"
    return "N" if name == "leader" else value
