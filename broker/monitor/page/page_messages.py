"""Messages for the live page: those of the journal, and new ones as they come.

The page is a client like any other. Each request opens a connection inside the process, sends
CONNECT with the user that the viewer has given, and subscribes. So the broker itself judges who may
read what, counts it, limits it and lists it in /connz; nothing here can show a message that a
client with these rights could not have.

    browser --HTTP--> request's thread --socket pair--> session of the broker's loop
"""

import base64
import json
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Final, NamedTuple

from broker.monitor.page.live import event

NAME: Final = "live page"  # of the connection, in /connz
FOUND_MAX: Final = 200  # messages in one answer
FOUND_BYTES_MAX: Final = 1 << 22  # of what is shown of them
SEARCH_SECONDS: Final = 3.0  # a search takes at most; the journal may be large
ANSWER_SECONDS: Final = 5.0  # for the broker's answer to CONNECT
SHOWN_BYTES_MAX: Final = 1 << 16  # of one message; what is longer is cut
TAILED_MAX: Final = 50  # messages a second: no eye follows more
TAIL_SECONDS: Final = 1.0
RECEIVE_BYTES: Final = 1 << 18
NUMBER_MAX: Final = (1 << 63) - 1


class NotShown(Exception):
    """The broker refuses this viewer, or the request; the text says why."""


class Login(NamedTuple):
    """The login of a viewer: a user with a password, or a token without a user."""

    user: str = ""
    password: str = ""

    @classmethod
    def parse(cls, header: str) -> "Login":
        """Read the header that the page sends: base64 of a JSON list. Raises `NotShown`."""
        if not header:
            return cls()
        try:
            user, password = json.loads(base64.b64decode(header, validate=True))
        except (ValueError, TypeError, RecursionError):
            raise NotShown(
                "the login cannot be read: it is no base64 of [user, password]"
            ) from None
        if not isinstance(user, str) or not isinstance(password, str):
            raise NotShown("user and password must be text")
        return cls(user, password)

    @property
    def fields(self) -> dict[str, str]:
        """The fields of CONNECT."""
        if self.user:
            return {"user": self.user, "pass": self.password}
        return {"auth_token": self.password} if self.password else {}


class Delivery(NamedTuple):
    """One message as the broker delivers it, with the frame `stamp`."""

    subject: bytes
    reply: bytes
    header: bytes
    payload: bytes


class InsideClient:
    """One client of the broker, in its own process, for one thread. A context manager."""

    def __init__(self, connection: socket.socket, login: Login) -> None:
        """Take over one end of a socket pair, whose other end is a session. Raises `NotShown`."""
        self._socket = connection
        self._received = bytearray()
        try:
            self.settimeout(ANSWER_SECONDS)
            options = {"verbose": False, "pedantic": False, "headers": True, "frame": "stamp"}
            options |= {"name": NAME, "lang": "page", "no_responders": False} | login.fields
            self.send(b"CONNECT %b\r\nPING\r\n" % json.dumps(options).encode())
            while self.next_delivery() is not None:
                pass  # up to PONG
        except OSError as error:
            self.close()
            raise NotShown(f"the broker does not answer: {error}") from None
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> "InsideClient":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Leave the broker."""
        self._socket.close()

    def settimeout(self, seconds: float) -> None:
        """Let `next_delivery` wait for so long at most, from now on."""
        self._socket.settimeout(max(seconds, 0.001))

    def send(self, operations: bytes) -> None:
        """Send operations of the protocol. If the broker has closed, `next_delivery` says why."""
        with suppress(ConnectionError):
            self._socket.sendall(operations)

    def next_delivery(self) -> Delivery | None:
        """Wait for the next message; None after a PONG.

        Raises `NotShown` if the broker refuses something or has gone, and `TimeoutError`.
        """
        while True:
            while (end := self._received.find(b"\r\n")) < 0:
                self._receive()
            words = bytes(self._received[:end]).split(b" ")
            match words[0].upper():
                case b"MSG" | b"HMSG":
                    stop = end + 2 + int(words[-1])
                    while len(self._received) < stop + 2:
                        self._receive()  # a timeout here loses nothing: all of it is still there
                    body = bytes(self._received[end + 2 : stop])
                    del self._received[: stop + 2]
                    return _delivery(words, body)
                case b"PONG":
                    del self._received[: end + 2]
                    return None
                case b"PING":
                    self.send(b"PONG\r\n")
                case b"-ERR":
                    raise NotShown(b" ".join(words[1:]).decode("utf-8", "replace").strip("'"))
            del self._received[: end + 2]

    def _receive(self) -> None:
        piece = b""
        with suppress(ConnectionError):  # it has closed without reading all that was sent
            piece = self._socket.recv(RECEIVE_BYTES)
        if not piece:
            raise NotShown("the broker has closed the connection")
        self._received += piece


def _delivery(words: list[bytes], body: bytes) -> Delivery:
    """Return the message of the operation MSG or HMSG."""
    sizes = 2 if words[0].upper() == b"HMSG" else 1
    header_size = int(words[-2]) if sizes == 2 else 0
    reply = words[3] if len(words) - sizes == 4 else b""
    return Delivery(words[1], reply, body[:header_size], body[header_size:])


def find(client: InsideClient, subject: str, first: int, last: int, most: int) -> dict[str, Any]:
    """Return the messages from number `first` to `last` that match: `most` and 4 MiB at most.

    `lost` lists ranges that are not there any more. `is_whole` is False if the search took too
    long, and may have missed some.
    """
    found: list[dict[str, Any]] = []
    lost: list[list[int]] = []
    page = {"messages": found, "lost": lost, "is_whole": True}
    if first > last:
        return page
    client.send(b"SUB $SEQ.RANGE.%d.%d.%b 2\r\n" % (first, last, subject.encode()))
    deadline = time.monotonic() + SEARCH_SECONDS
    left = FOUND_BYTES_MAX
    while len(found) < most and left > 0:
        client.settimeout(deadline - time.monotonic())
        try:
            delivery = client.next_delivery()
        except TimeoutError:
            return page | {"is_whole": False}
        if delivery is None:
            continue
        if delivery.subject.startswith(b"$SEQ.END."):
            break
        if delivery.subject.startswith(b"$SEQ.LOST."):
            lost.append([int(number) for number in delivery.subject.split(b".")[2:4]])
        else:
            found.append(_shown(delivery))
            left -= len(found[-1]["payload"]) + len(found[-1]["headers"])
    return page


def first_since(client: InsideClient, subject: str, ms: int) -> int:
    """Return the number of the first message at a time or later; 0 if none is found in time."""
    client.send(b"SUB $SEQ.SINCE.%d.%b 1\r\nUNSUB 1 1\r\n" % (ms, subject.encode()))
    deadline = time.monotonic() + SEARCH_SECONDS
    while True:
        client.settimeout(deadline - time.monotonic())
        try:
            delivery = client.next_delivery()
        except TimeoutError:
            return 0
        if delivery is not None and not delivery.subject.startswith(b"$SEQ."):
            return int(_shown(delivery)["number"])


def tail(client: InsideClient, subject: str, refusal: Callable[[], str]) -> Iterator[bytes]:
    """Yield server-sent events: new messages, at most `TAILED_MAX` of each second.

    After `TAILED_MAX` messages the subscription ends, and the next second starts another. So a busy
    subject costs the broker no more than a quiet one; the numbers show what is left out.

    It ends once `refusal` returns a reason: the settings may change while somebody looks.
    """
    with client:
        yield event("tail", {"subject": subject, "most": TAILED_MAX})
        sid, delivered, most = 0, 0, 0
        found: list[dict[str, Any]] = []
        try:
            while True:
                operations = b""
                if delivered == most:  # it has ended, or is the first
                    sid, delivered = sid + 1, 0
                    operations = b"SUB %b %d\r\n" % (subject.encode(), sid)
                most = delivered + TAILED_MAX
                shown = _settled(client, b"%bUNSUB %d %d\r\n" % (operations, sid, most))
                if why := refusal():
                    raise NotShown(why)
                # Only now: what a viewer publishes when it sees these is among the next ones.
                yield event("messages", {"messages": found})
                until = time.monotonic() + TAIL_SECONDS
                found = shown + _arrived(client, TAILED_MAX - len(shown), until)
                delivered += len(found)
        except (NotShown, OSError) as error:
            yield event("refused", {"error": str(error)})


def _settled(client: InsideClient, operations: bytes) -> list[dict[str, Any]]:
    """Send operations; return the messages that come until the broker has served them."""
    client.settimeout(ANSWER_SECONDS)
    client.send(operations + b"PING\r\n")
    shown = []
    while (delivery := client.next_delivery()) is not None:
        shown.append(_shown(delivery))
    return shown


def _arrived(client: InsideClient, most: int, until: float) -> list[dict[str, Any]]:
    """Return the messages that come until then, all of them or the first `most`."""
    shown: list[dict[str, Any]] = []
    while (left := until - time.monotonic()) > 0:
        if len(shown) == most:
            time.sleep(left)
            break
        client.settimeout(left)
        with suppress(TimeoutError):
            delivery = client.next_delivery()
            if delivery is not None:
                shown.append(_shown(delivery))
    return shown


def check_subject(subject: str) -> None:
    """Raise `NotShown` unless this is one word: it becomes part of an operation."""
    if not subject or len(subject) > 1024 or not subject.isprintable() or " " in subject:
        raise NotShown("give a subject without spaces; * is any token, and > all that follow")


def _shown(delivery: Delivery) -> dict[str, Any]:
    """Describe a message for the page. Payload and headers are base64 of their first bytes."""
    number, moment, rest = _stamp(delivery.header)
    return {
        "number": number,
        "time": moment,
        "subject": delivery.subject.decode("utf-8", "replace"),
        "reply": delivery.reply.decode("utf-8", "replace"),
        "size": len(delivery.payload),
        "headers": _base64(rest.strip()),
        "payload": _base64(delivery.payload),
    }


def _stamp(header: bytes) -> tuple[int, str, bytes]:
    """Return number and time, the first two lines that the broker writes, and the lines after."""
    lines = header.split(b"\r\n", 3)
    if len(lines) < 4 or not lines[1].startswith(b"Nats-Sequence: "):
        return 0, "", header  # of an excluded subject: it has no number
    number = int(lines[1].partition(b": ")[2])
    return number, lines[2].partition(b": ")[2].decode(), lines[3]


def _base64(data: bytes) -> str:
    return base64.b64encode(data[:SHOWN_BYTES_MAX]).decode()


def is_of_the_page(environ: Mapping[str, str], has_user: bool) -> bool:
    """True if a request for messages comes from the page itself.

    Other sites can send requests from a viewer's browser. The browser asks us before it sets the
    header for them (CORS), and we refuse. They cannot guess the password, either. Without one,
    `Host` gives away a name of theirs that resolves to us (DNS rebinding): only addresses and
    localhost count.
    """
    if not environ.get("HTTP_X_SERIATIM_PAGE"):
        return False
    if has_user:
        return True
    host = environ.get("HTTP_HOST", "").rpartition("@")[2]
    name = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
    if name == "localhost":
        return True
    for family in (socket.AF_INET, socket.AF_INET6):
        with suppress(OSError, ValueError):
            socket.inet_pton(family, name)
            return True
    return False
