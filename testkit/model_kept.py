"""What a broker with a journal must remember: its messages, their ids, and the room it has.

`wishes` of the past are read from the subject by broker/replay/requests.py, which has tests of its
own; what they must be answered is here.
"""

import re
from dataclasses import dataclass, field

from broker.replay import requests
from testkit.model_frame import Sequenced

MESSAGE_ID = re.compile(rb"\r\nNats-Msg-Id: *([^\r]*(?:\r(?!\n)[^\r]*)*)")
STEP = 512  # bytes that a disk of testkit/disk.py reserves beyond what is needed
PROBLEM = b"No space left on device"


@dataclass(frozen=True, slots=True)
class Entry:
    """A message that was kept: when, and from which connection."""

    message: Sequenced
    time: int
    origin: int


@dataclass(slots=True)
class Past:
    """Which messages a wish of the past takes, of those that its filter takes in."""

    stream: int  # tells it from all others
    first: int = 0
    until: int = 0
    since: int = 0

    def takes(self, number: int, time: int) -> bool:
        """Whether it wants the message of this number and time."""
        return number >= self.first and time >= self.since and not 0 < self.until < number


@dataclass(slots=True)
class Kept:
    """Everything since the start. The numbers before `first` are not there, and never were."""

    first: int
    replays: bool = False  # whether there is a journal, so that the past can be asked for
    bounded: bool = False  # whether it can be full
    entries: list[Entry] = field(default_factory=list)
    ids: dict[bytes, int] = field(default_factory=dict)
    now: int = 0
    used: int = 0
    limit: int = 0
    short: bool = False
    full: bool = False
    stuck_at: int | None = None  # the last number taken before a write failed

    def refuses(self, message: Sequenced) -> bool:
        """Whether there is no room; else it is taken."""
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
        """There is room again; the disk says how much."""
        self.limit = limit
        self.short = self.full = False
        self.stuck_at = None

    def id_of(self, headers: bytes) -> bytes:
        """A message's id, where ids are looked at."""
        found = MESSAGE_ID.search(headers) if self.replays else None
        return found[1] if found is not None else b""

    def lost(self, past: Past, wish: requests.Past) -> bytes:
        """The subject of what says that numbers are lost; empty if none are."""
        if isinstance(wish, requests.Since):
            older = bool(self.entries) and past.since < self.entries[0].time
            first = 1 if older and past.since <= self.entries[-1].time else self.first
        elif isinstance(wish, requests.Last):
            return b""
        else:
            first = past.first
        last = min(self.first - 1, past.until or self.first)
        return b"$SEQ.LOST.%d.%d" % (first, last) if first < self.first else b""
