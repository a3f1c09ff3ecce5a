"""Everything that clients were told, over all lives of a broker, and what must be in its journal.

    delivered   a number was seen with a message: it is that message's for good
    acked       a publisher got the number of its message, or `+OK`, or PONG after it
    judge       the journal, read from 1 at the end, has all of that, and nothing twice

A message is identified by its publisher and the publisher's own count; subject, size and payload
follow from these two, so any damage shows. One writer: the trial's event loop.
"""

import asyncio
from bisect import insort
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from zlib import crc32

SUBJECTS = [b"t.%d.%s" % (a, b) for a in (1, 2, 3) for b in (b"x", b"y", b"z")]
FILLER = bytes(range(256)) * 300  # CR, LF and NUL too


class Broken(AssertionError):
    """Something sequenced was lost, repeated or changed."""


@dataclass(frozen=True, slots=True)
class Message:
    """The one that publisher `name` counts as `count`."""

    name: bytes
    count: int

    @property
    def id(self) -> bytes:
        return b"%s-%d" % (self.name, self.count)

    @property
    def subject(self) -> bytes:
        return SUBJECTS[crc32(self.id) % len(SUBJECTS)]

    @property
    def payload(self) -> bytes:
        chance = crc32(self.id, 1)
        size = chance % 200 if chance & 0xF00 else chance % 20_000
        return b"%s %d %s" % (self.name, self.count, FILLER[chance & 0xFF :][:size])

    @property
    def headers(self) -> bytes:
        return b"NATS/1.0\r\nNats-Msg-Id: %s\r\n\r\n" % self.id


def known(payload: bytes) -> Message:
    """The message that has this payload."""
    name, count, _ = payload.split(b" ", 2)
    message = Message(name, int(count))
    if payload != message.payload:
        raise Broken(f"the payload of {message} was changed: {payload[:80]!r}")
    return message


@lru_cache(maxsize=1 << 14)
def checked(subject: bytes, header: bytes, payload: bytes) -> Message:
    """The same, with the subject and the headers that it was published with."""
    message = known(payload)
    if subject != message.subject or header not in (b"", message.headers):
        raise Broken(f"{message} came on {subject!r} with headers {header!r}")
    return message


@dataclass(slots=True)
class Ledger:
    """Every sighting and every promise."""

    seen: dict[int, Message] = field(default_factory=dict)
    numbers: dict[Message, int] = field(default_factory=dict)  # promised to their publishers
    taken: set[Message] = field(default_factory=set)  # accepted with a word that has no number
    taken_from_groups: dict[int, bytes] = field(default_factory=dict)  # by whom
    last: int = 0  # the highest number that anybody knows of
    events: int = 0
    _waiting: list[tuple[int, asyncio.Event]] = field(default_factory=list)

    def delivered(self, number: int, message: Message) -> None:
        before = self.seen.setdefault(number, message)
        if before != message:
            raise Broken(f"number {number} was {before}, and now is {message}")
        self._tick(number)

    def taken_from_group(self, number: int, who: bytes) -> None:
        """One of a queue group, which is on all members, got a message."""
        before = self.taken_from_groups.setdefault(number, who)
        if before is not who:
            raise Broken(f"{who!r} got {number}, which {before!r} of the same queue group has")

    def acked(self, message: Message, number: int) -> None:
        before = self.numbers.setdefault(message, number)
        if before != number:
            raise Broken(f"{message} has number {before}, and was acknowledged again as {number}")
        self._tick(number)

    def accepted(self, message: Message) -> None:
        self.taken.add(message)
        self._tick(0)

    def _tick(self, number: int) -> None:
        self.last = max(self.last, number)
        self.events += 1
        if self._waiting and self.events >= self._waiting[0][0]:
            self._waiting.pop(0)[1].set()

    async def more(self, count: int) -> None:
        """Wait for so many more events, or for `wake`."""
        reached = asyncio.Event()
        insort(self._waiting, (self.events + count, reached), key=lambda one: one[0])
        await reached.wait()

    def wake(self) -> None:
        """Nobody shall wait any longer: what was awaited may never come."""
        for _, reached in self._waiting:
            reached.set()
        self._waiting.clear()

    def judge(
        self,
        journal: dict[int, Message],
        first: int,
        once: set[bytes],
        refused: frozenset[bytes] = frozenset(),
    ) -> None:
        """The journal from number `first` on, against all promises.

        Publishers in `once` sent ids with all they sent, and sent it until it was taken. Those that
        were `refused` some of it sent that later, behind what was taken meanwhile.
        """
        expected = range(first, first + len(journal))
        if list(journal) != list(expected):
            raise Broken(f"gaps or disorder: {sorted({*journal} ^ {*expected})[:9]}")
        for number, message in self.seen.items():
            if number >= first and journal.get(number) != message:
                raise Broken(f"{number} was seen as {message}, kept is {journal.get(number)}")
        for message, number in self.numbers.items():
            if number >= first and journal.get(number) != message:
                raise Broken(f"{message} was given {number}, kept there is {journal.get(number)}")
        counts: dict[bytes, list[int]] = {}
        for message in journal.values():
            counts.setdefault(message.name, []).append(message.count)
        for name, found in counts.items():
            run = sorted(found) if name in refused else found
            wrong = next((pair for pair in pairwise(run) if pair[0] >= pair[1]), None)
            if wrong:
                raise Broken(f"{name!r}: {wrong[1]} is kept behind {wrong[0]}")
            start = run[0] if first > 1 else 0
            if name in once and run != list(range(start, start + len(run))):
                raise Broken(f"{name!r}: a message is missing among its {len(run)}")
        gone = self.taken - {*journal.values()}
        if first > 1:
            gone = {one for one in gone if one.count > counts.get(one.name, [one.count])[0]}
        if gone:
            raise Broken(f"{len(gone)} accepted messages are not kept, one is {gone.pop()}")
