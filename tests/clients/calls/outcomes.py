"""What each call of a client came to, so that two servers can be compared.

A program makes its calls by `Outcomes.of`, which notes what each returned or raised, and prints all
of it as one line of JSON. Times, names that a server draws, and what each server has of its own are
replaced. A sequence becomes its rank among those that were published, so another server's holes
do not show.

Imports no client: it runs beside several, in more than one Python.
"""

import dataclasses
import enum
import json
import re
from bisect import bisect_right, insort
from collections.abc import Awaitable
from datetime import date, timedelta
from typing import Any

# A header is text, and a guard's means the number that the program has read before.
HEADERS = frozenset(
    ("Nats-Sequence", "Nats-Last-Sequence", "Nats-Expected-Last-Subject-Sequence")
) | {"Nats-Expected-Last-Sequence", "Nats-UpTo-Sequence"}
SEQUENCES = frozenset(
    ("seq", "deleted", "sequence", "first_seq", "last_seq", "stream_seq", "stream", "opt_start_seq")
) | {"reset_seq", "first_sequence", "last_sequence", "stream_sequence"}
IGNORED = frozenset(
    ("created", "ts", "time", "time_stamp", "timestamp", "last_active", "first_ts", "last_ts")
) | {
    "nats-time-stamp",
    "hdrs",
    "cluster",
    "domain",
    "api",
    "bytes",
    "storage",
    "memory",
    "raw",
    "num_waiting",
    "pause_remaining",
    "metadata",
}
INBOX = re.compile(r"_INBOX\.[A-Za-z0-9.]+")
NUMBER = re.compile(r"(sequence:? (?:number )?)(\d+)")
PLACE = re.compile(r"(\$JS\.ACK\.[^ ,)]+|<[^>]* object at [^>]*>)")


class Outcomes:
    """Notes what calls came to, in order."""

    def __init__(self) -> None:
        self.noted: list[tuple[str, Any]] = []
        self._published: list[int] = []

    def begin(self, section: str) -> None:
        """Begin a section, with a stream of its own: where the ranks begin again."""
        self._published = []
        self.note("section", section)

    def published(self, number: int) -> int:
        """Remember the number of a message that was published; return it."""
        if number not in self._published:
            insort(self._published, number)
        return number

    def rank(self, number: int) -> int:
        """How many of the published messages have this number or a lower one."""
        return bisect_right(self._published, number)

    async def of(self, name: str, call: Awaitable[Any]) -> Any:
        """Await a call and note what it came to; return that, or None after an error."""
        try:
            result = await call
        except Exception as error:
            self.note(name, f"{type(error).__name__}: {error}")
            return None
        self.note(name, result)
        return result

    def note(self, name: str, result: Any) -> None:
        """Note something that is not a call's result as it is."""
        self.noted.append((name, self._shown(result)))

    def _shown(self, value: Any, name: str = "") -> Any:
        if isinstance(value, enum.Enum):
            return value.value
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            value = {one.name: getattr(value, one.name) for one in dataclasses.fields(value)}
        if isinstance(value, dict):
            found = {str(key): self._shown(one, str(key)) for key, one in value.items()}
            return {k: one for k, one in found.items() if k.lower() not in IGNORED and k[0] != "_"}
        if isinstance(value, (list, tuple)):
            return [self._shown(one, name) for one in value]
        if isinstance(value, bytes):
            return value.decode()
        if isinstance(value, (date, timedelta)):
            return "T"
        if isinstance(value, int) and not isinstance(value, bool) and name in SEQUENCES:
            # the number from which something goes on may be in a hole
            return self.rank(value - 1) + 1 if name == "reset_seq" else self.rank(value)
        if name in HEADERS and isinstance(value, str):
            return self.rank(int(value))
        if isinstance(value, str):
            value = PLACE.sub("...", INBOX.sub("_INBOX", value))
            return NUMBER.sub(lambda found: f"{found[1]}{self.rank(int(found[2]))}", value)
        if value is None or isinstance(value, (bool, int, float)):
            return value
        return type(value).__name__

    def print(self) -> None:
        """Print everything, for the test that has started the program."""
        print(json.dumps(self.noted))
