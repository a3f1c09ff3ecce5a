"""Deduplication by `Nats-Msg-Id`: the ids of recent messages, and their numbers.

    find(id, now)           the number of a message with this id in the window, or 0
    add(id, number, now)    a message with this id has just been numbered
    forget_above(number)    a member of a cluster has cut its log there

Rule 1  The window is exact. By time: what `find` returns was added less than `window_ns` ago.
        By count: it is among the last `count_max` ids added.
Rule 2  Neither time nor numbers go backwards: the journal's clock ensures the former, the
        sequencer the latter.
Rule 3  No call takes long: `add` forgets at most `FORGET_MAX` expired ids.

Memory, measured with a million ids in the window after many more had expired: 232 bytes for an
id of 22 letters, as NATS clients make them, and 248 for a UUID of 36. Ids longer than
`PLAIN_MAX` are kept as a digest, so no id takes more than 290.
"""

from array import array
from collections.abc import Iterable
from typing import Final

PLAIN_MAX: Final = 63
DIGEST_SIZE: Final = 64  # longer than any id that is kept as it is, so the two never collide
FORGET_MAX: Final = 64
KEPT_MIN: Final = 4096  # forgotten entries at the front before the lists are cut

_FIELD = b"\r\nNats-Msg-Id:"


class Window:
    """One per broker; written by the data plane, and before that by `rebuild`."""

    def __init__(self, window_ns: int, count_max: int) -> None:
        assert window_ns > 0, "a window of 0 ns remembers nothing"
        assert count_max > 0, "a window of 0 ids remembers nothing"
        self.window_ns = window_ns
        self.count_max = count_max
        self.duplicates = 0  # how often `find` found something
        # Entries, oldest first. The first `_head` are forgotten. `_cut` entries before those were
        # removed from the lists. The dictionary counts from the very first entry on, so that
        # nothing in it changes when the front is removed.
        self._places: dict[bytes, int] = {}
        self._ids: list[bytes] = []
        self._numbers = array("q")
        self._times = array("q")
        self._head = self._cut = 0

    def __len__(self) -> int:
        return len(self._ids) - self._head

    def find(self, message_id: bytes, now: int) -> int:
        """Return the number of the message with this id; 0 if the window has none."""
        place = self._places.get(_key(message_id))
        if place is None:
            return 0
        at = place - self._cut
        if now - self._times[at] >= self.window_ns:
            return 0
        self.duplicates += 1
        return self._numbers[at]

    def add(self, message_id: bytes, number: int, now: int) -> None:
        """Remember the number that the message with this id was given."""
        self._forget_old(now)
        if len(self) == self.count_max:
            self._forget_first()
        if self._head >= KEPT_MIN and self._head * 4 >= len(self._ids):
            self._cut_front()
        key = _key(message_id)
        self._places[key] = self._cut + len(self._ids)
        self._ids.append(key)
        self._numbers.append(number)
        self._times.append(now)

    @property
    def newest(self) -> int:
        """The number of the newest id; 0 if there is none."""
        return self._numbers[-1] if len(self) else 0

    def forget_above(self, number: int) -> None:
        """Forget the ids of higher numbers: these messages were cut, and have no number.

        It is as if they had never come, but what left the window because of them stays out: older
        ids, and what was added before under the same id.
        """
        while len(self) and self._numbers[-1] > number:
            key = self._ids.pop()
            self._numbers.pop()
            self._times.pop()
            if self._places.get(key) == self._cut + len(self._ids):
                del self._places[key]

    def _forget_old(self, now: int) -> None:
        for _ in range(min(len(self), FORGET_MAX)):
            if now - self._times[self._head] < self.window_ns:
                return
            self._forget_first()

    def _forget_first(self) -> None:
        key = self._ids[self._head]
        if self._places.get(key) == self._cut + self._head:  # else it was added again
            del self._places[key]
        self._ids[self._head] = b""
        self._head += 1

    def _cut_front(self) -> None:
        del self._ids[: self._head]
        del self._numbers[: self._head]
        del self._times[: self._head]
        self._cut += self._head
        self._head = 0


def id_of(headers: bytes | bytearray | memoryview) -> bytes:
    """Return the value of the header Nats-Msg-Id, or b""; parsed as nats-server does.

    The name must be spelled exactly so, at the start of a line, with its colon. Blanks before
    the value are skipped, blanks after it are part of it. The first such header counts.
    """
    text = bytes(headers)
    at = text.find(_FIELD)
    if at < 0:
        return b""
    start = at + len(_FIELD)
    end = text.find(b"\r\n", start)
    return text[start : end if end >= 0 else len(text)].lstrip(b" ")


def rebuild(window: Window, records: Iterable[tuple[int, int, bytes]]) -> None:
    """Fill an empty window from the tail of a journal: number, time and headers, oldest first."""
    for number, time, headers in records:
        message_id = id_of(headers)
        if message_id:
            window.add(message_id, number, time)


def _key(message_id: bytes) -> bytes:
    """The form in which an id is kept."""
    if len(message_id) <= PLAIN_MAX:
        return message_id
    from hashlib import blake2b  # imports OpenSSL, and such long ids are very rare

    return blake2b(message_id, digest_size=DIGEST_SIZE).digest()
