"""Sets the time of day of a broker's process while it runs (clock.c, by LD_PRELOAD).

clock = SetClock(tmp_path / "clock")
server.env.update(clock.env)            before the start
clock.ahead(86_400)                     a day; negative: behind; 0: as it is

An `Asker` publishes with a Nats-Msg-Id, and is told the number.
"""

import json
import re
import time
from pathlib import Path
from typing import Any

from tests.crash.shim import library
from tests.support.raw import HEADERS, RawClient

BOUND_S = 60.0
SOURCE = Path(__file__).parent.parent / "cluster" / "clock.c"


class SetClock:
    """The file that clock.c maps. One writer: the test."""

    def __init__(self, path: Path) -> None:
        self._path = path
        path.write_bytes(bytes(8))
        self.env = {"LD_PRELOAD": str(library(SOURCE)), "CLOCK_AHEAD": str(path)}

    def ahead(self, seconds: float) -> None:
        """So much is added to the time of day, from now on."""
        with self._path.open("r+b") as file:
            file.write(int(seconds * 1e9).to_bytes(8, "little", signed=True))


class Asker:
    """A client that knows the answers to `$SEQ.` requests."""

    def __init__(self, port: int) -> None:
        self.client = RawClient(port)
        self.client.ask(HEADERS + b"SUB _R 1\r\n")

    def number(self, message_id: str, size: int = 1) -> int:
        """Publish with this id; the number that it has."""
        head = b"NATS/1.0\r\nNats-Msg-Id: %b\r\n\r\n" % message_id.encode()
        sizes = len(head), len(head) + size
        put = b"HPUB $SEQ.PUB.a _R %d %d\r\n%b%b\r\n" % (*sizes, head, b"x" * size)
        (answer,) = self.client.ask(put)
        found = re.fullmatch(rb"[0-9]+:([0-9]+),", answer.payload)
        assert found, answer
        return int(found[1])

    def info(self) -> dict[str, Any]:
        (answer,) = self.client.ask(b"PUB $SEQ.INFO _R 0\r\n\r\n")
        found: dict[str, Any] = json.loads(answer.payload)
        return found

    def until_forgotten(self, message_id: str, number: int) -> None:
        """Publish it again and again, until it gets another number."""
        end = time.monotonic() + BOUND_S
        while self.number(message_id) == number:
            assert time.monotonic() < end, "its window has ended long ago"
            time.sleep(0.02)  # no event to await

    def until(self, key: str, least: int) -> None:
        end = time.monotonic() + BOUND_S
        while self.info()[key] < least:
            assert time.monotonic() < end, (key, self.info())
            time.sleep(0.02)  # no event to await
