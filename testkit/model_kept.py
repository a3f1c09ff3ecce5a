"""The memory of a broker with a journal: its messages, their ids, and the room it has.

Requests for the past are parsed by broker/replay/requests.py, which has its own tests; the expected
answers are computed here.
"""

import re
from dataclasses import dataclass, field

from broker.replay import requests
from testkit.model_frame import Sequenced

MESSAGE_ID = re.compile(rb"\r\nNats-Msg-Id: *([^\r]*(?:\r(?!\n)[^\r]*)*)")
STEP = 512  # bytes reserved by the disk of testkit/disk.py beyond what is needed
PROBLEM = b"No space left on device"


@dataclass(frozen=True, slots=True)
class Entry:
    """A message that was kept: when, and from which connection."""

    message: Sequenced
    time: int
    origin: int


@dataclass(slots=True)
class Past:
    """A request for the past: which messages it selects, among those that match its filter."""

    stream: int  # identifies it
    first: int = 0
    until: int = 0
    since: int = 0

    def takes(self, number: int, time: int) -> bool:
        """True if the message with this number and time is selected."""
        return number >= self.first and time >= self.since and not 0 < self.until < number


@dataclass(slots=True)
class Kept:
    """Everything since the start. The numbers before `first` never existed."""

    first: int
    replays: bool = False  # whether there is a journal, so that the past can be requested
    bounded: bool = False  # whether it can be full
    entries: list[Entry] = field(default_factory=list)
    ids: dict[bytes, int] = field(default_factory=dict)
    now: int = 0
    used: int = 0
    limit: int = 0
    short: bool = False
    full: bool = False
    stuck_at: int | None = None  # the last number accepted before a write failed

    def refuses(self, message: Sequenced) -> bool:
        """True if there is no room; if there is, the message takes it."""
        if not self.bounded:
            return False
        spans = message.subject + message.reply + message.headers + message.payload
        need = 56 + len(spans) + 7 & ~7
        if self.stuck_at is not None and message.number > self.stuck_at:
            return True
        if self.used + need > self.limit:
            if self.short or self.full:
                self.full = True
                return True
            self.limit = self.used + need + STEP
        self.used += need
        return False

    def mend(self, limit: int) -> None:
        """Make room again; the disk says how much."""
        self.limit = limit
        self.short = self.full = False
        self.stuck_at = None

    def id_of(self, headers: bytes) -> bytes:
        """Return a message's id, if ids are evaluated."""
        found = MESSAGE_ID.search(headers) if self.replays else None
        return found[1] if found is not None else b""

    def lost(self, past: Past, request: requests.Past) -> bytes:
        """Return the subject that reports lost numbers; empty if none are lost."""
        if isinstance(request, requests.Since):
            older = bool(self.entries) and past.since < self.entries[0].time
            first = 1 if older and past.since <= self.entries[-1].time else self.first
        elif isinstance(request, requests.Last):
            return b""
        else:
            first = past.first
        last = min(self.first - 1, past.until or self.first)
        return b"$SEQ.LOST.%d.%d" % (first, last) if first < self.first else b""
