"""Well-behaved clients next to those that come and go at random; they must notice nothing.

    Listener    receives every message, with consecutive numbers
    Steady      publishes, receives what it publishes, and asks for numbers and for the past
    Watcher     reads the pages of monitoring, and sometimes disconnects in the middle of one

Each is a thread. `error` is the first violation.
"""

import contextlib
import socket
import struct
import threading
from typing import Final

from sequencer.netstring import decode_number
from testkit.model_frame import split_frame
from tests.support.processes import ServerProcess
from tests.support.raw import HEADERS, Operation, RawClient
from tests.support.web import get, http_port

FRAMED: Final = HEADERS[:-3] + b',"frame":"netstring"}\r\n'
PATIENCE_S: Final = 120.0
PACE_S: Final = 0.01
PUBLISHED: Final = b"steady.told"
PAGES: Final = (
    *("/", "/varz", "/connz?subs=detail", "/connz?subs=1&subs_limit=16", "/metrics", "/healthz"),
    *("/subsz?subs=1", "/subsz?test=p", "/portz"),
)
WRONG: Final = ("/nothing", "/connz?sort=nothing", "/connz?limit=x")


class Beside(threading.Thread):
    """One of them."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.error = ""
        self.over = threading.Event()

    def run(self) -> None:
        try:
            self.behave()
        except Exception as error:  # whoever looks at `error` reports it
            self.wrong(repr(error))

    def behave(self) -> None:
        """Until it is over."""
        raise NotImplementedError

    def wrong(self, what: str) -> None:
        self.error = self.error or what

    def finish(self) -> None:
        """Have it end, and wait for that."""
        self.over.set()
        self.join(PATIENCE_S)
        if self.is_alive():
            self.wrong("it has not ended")


class Listener(Beside):
    """A subscriber of `>`; until the message that ends it."""

    def __init__(self, port: int) -> None:
        super().__init__()
        self.client = RawClient(port, FRAMED, timeout=PATIENCE_S)
        self.client.ask(b"SUB > 1\r\n")
        self.heard = 0
        self.steady: list[tuple[int, bytes]] = []  # what that one has published

    def behave(self) -> None:
        while True:
            operation = self.client.operation()
            if operation.verb not in ("MSG", "HMSG"):
                self.wrong(f"{operation} after {self.heard}")
                return
            number, payload = split_frame(operation.payload)
            if self.heard and number != self.heard + 1:
                self.wrong(f"{number} after {self.heard}")
            self.heard = number
            if operation.subject == PUBLISHED:
                self.steady.append((number, payload))
            if operation.subject == b"over":
                return


class Steady(Beside):
    """A publisher who checks each number: as it was answered, and as its own subscription has it.

    In each round there is a message without a question, one with, the same once more (it has an id,
    so it has the same number), and the last one again as the journal has it.
    """

    def __init__(self, port: int) -> None:
        super().__init__()
        self.client = RawClient(port, FRAMED, timeout=PATIENCE_S)
        self.client.ask(b"SUB steady.> 1\r\n")
        self.told: list[tuple[int, bytes]] = []  # as its own subscription has them

    def behave(self) -> None:
        rounds = 0
        while not self.over.wait(PACE_S) and not self.error:
            rounds += 1
            self._round(rounds)

    def _round(self, at: int) -> None:
        plain, asked = b"plain %d" % at, b"asked %d" % at
        head = b"NATS/1.0\r\nNats-Msg-Id: steady %d\r\n\r\n" % at
        sizes = (len(head), len(head) + len(asked))
        question = b"HPUB $SEQ.PUB.%b steady.answer %d %d\r\n%b%b\r\n" % (
            *(PUBLISHED, *sizes),
            *(head, asked),
        )
        self.client.send(b"PUB %b %d\r\n%b\r\n" % (PUBLISHED, len(plain), plain) + question * 2)
        heard, answers = [], []
        for _ in range(4):
            one = self._message()
            if one.subject == PUBLISHED:
                heard.append(split_frame(one.payload))
            else:
                answers.append(decode_number(one.payload))
        self.told += heard
        if [payload for _, payload in heard] != [plain, asked]:
            self.wrong(f"published {plain!r} and {asked!r}, heard {heard}")
        if answers != [heard[-1][0]] * 2:
            self.wrong(f"{heard} were answered with {answers}")
        self.client.send(b"PUB $SEQ.GET.%d steady.answer 0\r\n\r\n" % answers[0])
        kept = self._message()
        if kept.subject == PUBLISHED or split_frame(kept.payload) != heard[-1]:
            self.wrong(f"{heard[-1]} is {kept} in the journal")

    def _message(self) -> Operation:
        operation = self.client.operation()
        if operation.verb not in ("MSG", "HMSG"):
            raise AssertionError(f"the publisher was told {operation}")
        return operation


class Watcher(Beside):
    """Who monitors, in an orderly way and otherwise."""

    def __init__(self, process: ServerProcess) -> None:
        super().__init__()
        self.port = http_port(process)
        self.pages = 0

    def behave(self) -> None:
        while not self.over.wait(PACE_S):
            path = PAGES[self.pages % len(PAGES)]
            page = get(self.port, path)
            if page.status != 200 or not page.body:
                self.wrong(f"{path}: {page.status} {page.body[:200]!r}")
            self.pages += 1
            refused = get(self.port, WRONG[self.pages % len(WRONG)])
            if refused.status not in (400, 404):
                self.wrong(f"{WRONG[self.pages % len(WRONG)]}: {refused.status}")
            self._leave_early(path)

    def _leave_early(self, path: str) -> None:
        """A question, or half of one, and a reset before the answer."""
        with (
            contextlib.suppress(OSError),
            socket.create_connection(("127.0.0.1", self.port)) as one,
        ):
            question = b"GET %b HTTP/1.1\r\nHost: here\r\n\r\n" % path.encode()
            one.sendall(question[: len(question) // (1 + self.pages % 2)])
            one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
