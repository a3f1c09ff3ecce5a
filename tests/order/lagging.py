"""Readers that stop reading, a broker that serves them from its journal, and how it reports that.

with Keeping("none") as broker:      a broker with a journal and little patience
    slow = broker.deaf(b"SUB a 1")   a connection that reads nothing until it is asked to
    pour(broker.port, b"a", 3000)    more than both sockets and its outbox hold
    broker.lags(1)                   one connection is served from the journal now
"""

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.support.processes import Limit, SeriatimServer
from tests.support.raw import QUIET, Operation, RawClient
from tests.support.web import http_port, metrics

SIZE = 8000
COUNT = 1600  # of that size: 12 MiB, more than two sockets and an outbox hold
LIMITS: dict[str, Limit] = {"catchup_pending": "128KiB"}
PATIENCE_S = 60.0


class Keeping(SeriatimServer):
    """A broker with a journal, whose figures can be asked for."""

    def __init__(
        self,
        frame: str = "netstring",
        arguments: list[str] | None = None,
        limits: Mapping[str, Limit] | None = None,
    ) -> None:
        super().__init__(frame, {**LIMITS, **(limits or {})}, ["-m", "-1", *(arguments or [])])
        self._clients: list[RawClient] = []

    def deaf(self, *words: bytes, connect: bytes = QUIET) -> RawClient:
        """A connection that has said these lines, and reads no more by itself."""
        client = RawClient(self.port, connect, receive_buffer=4096, timeout=PATIENCE_S)
        self._clients.append(client)
        assert client.ask(b"".join(line + b"\r\n" for line in words)) == []
        return client

    def __exit__(self, *how: Any) -> None:
        for client in self._clients:
            client.close()
        super().__exit__(*how)

    def figure(self, name: str) -> int:
        """A gauge or a counter of the metrics."""
        found = metrics(http_port(self))
        return int(found.get(f"seriatim_{name}", found.get(f"seriatim_{name}_total", -1)))

    def lags(self, count: int) -> bool:
        """Whether so many connections are served from the journal now."""
        return self.figure("catchups_active") == count

    def awaits(self, fact: Callable[[], bool]) -> bool:
        """Whether something comes true in time, that only asking can tell."""
        deadline = time.monotonic() + PATIENCE_S
        while not fact():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.01)  # no event to await: it is asked
        return True

    def forgets(self, limit: int) -> bool:
        """Whether all is deleted in time that is not retained: what `limit` bytes do not hold."""
        return self.awaits(lambda: self.figure("journal_bytes") <= limit)

    @property
    def cpu_seconds(self) -> float:
        """The processor's time that it has used so far."""
        words = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")

    @property
    def head(self) -> int:
        """The last number that is in the journal."""
        return self.figure("journal_last_number")


def body(at: int, size: int = SIZE) -> bytes:
    """A payload that begins with its count."""
    return (b"%08d " % at).ljust(size, b"x")


def count_of(operation: Operation) -> int:
    """What `body` counted, in whatever frame it comes."""
    at = 0
    if operation.payload[8:9] != b" ":  # it is framed
        at = operation.payload.index(b",") + 1
        at = operation.payload.index(b":", at) + 1
    return int(operation.payload[at : at + 8])


def pour(
    port: int, subject: bytes, count: int = COUNT, *, size: int = SIZE, first: int = 0
) -> float:
    """Publish counted bodies, and wait until all are taken; the seconds that it took."""
    start = time.monotonic()
    with RawClient(port, QUIET, timeout=PATIENCE_S) as publisher:
        for at in range(first, first + count):
            text = body(at, size)
            publisher.send(b"PUB %b %d\r\n%b\r\n" % (subject, len(text), text))
        assert publisher.ask(b"") == []
    return time.monotonic() - start


def take(client: RawClient, count: int) -> list[Operation]:
    """The next messages."""
    client.widen()
    return [client.operation() for _ in range(count)]


def take_until(client: RawClient, subject: bytes) -> list[Operation]:
    """The messages up to the first one of this subject, which is the last of them."""
    found = take(client, 1)
    while found[-1].subject != subject:
        found += take(client, 1)
    return found
