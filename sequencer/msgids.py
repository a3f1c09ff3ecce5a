"""Deduplication by `Nats-Msg-Id`: the ids of recent messages, and their numbers.

    key_of(scope, headers)   what a message is recognised by: where its id counts, and its id
    find(key, now)           the number of a message with this key in the window, or 0
    add(key, number, now)    a message with this key has just been numbered
    forget_above(number)     a member of a cluster has cut its log there

An id counts for all subjects. The id of a client with permissions counts for the message's subject,
and among such clients only, so it takes no id from other clients.

Rule 1  The window is exact. By time: what `find` returns was added less than `window_ns` ago.
        By count: it is among the last `count_max` keys added.
Rule 2  Neither time nor numbers go backwards. Times are those of receipt, by a clock that does not
        jump: the time in a record may be wrong by years.
Rule 3  No call takes long: `add` forgets at most `FORGET_MAX` expired keys.

Memory, measured with a million keys in the window after many more had expired: 238 bytes for an
id of 22 letters, as NATS clients make them, and 254 for a UUID of 36. Keys longer than `PLAIN_MAX`
are kept as a digest, so none takes more than 290.
"""

from array import array
from bisect import bisect_right
from collections.abc import Iterable
from typing import Final

PLAIN_MAX: Final = 63
DIGEST_SIZE: Final = 64  # longer than any key that is kept as it is, so the two never collide
FORGET_MAX: Final = 64
KEPT_MIN: Final = 4096  # forgotten entries at the front before the lists are cut

_FIELD = b"\r\nNats-Msg-Id:"


class Window:
    """The recent ids of a broker; written by the data plane, and before that by `rebuild`."""

    def __init__(self, window_ns: int, count_max: int) -> None:
        assert window_ns > 0, "a window of 0 ns remembers nothing"
        assert count_max > 0, "a window of 0 ids remembers nothing"
        self.window_ns = window_ns
        self.count_max = count_max
        self.duplicates = 0  # how often `find` found something
        # Entries, oldest first. The first `_head` are forgotten. `_cut` entries before those were
        # removed from the lists. The dictionary counts from the very first entry on, so that
        # nothing in it changes when the front is removed.
        self._positions: dict[bytes, int] = {}
        self._keys: list[bytes] = []
        self._numbers = array("q")
        self._times = array("q")
        self._head = self._cut = 0

    def __len__(self) -> int:
        return len(self._keys) - self._head

    def find(self, key: bytes, now: int, most_age: int = 0) -> int:
        """Return the number of the message with this key; 0 if the window has none.

        `most_age`: an older one does not count, in ns; 0: all that are in the window count.
        """
        number = self.number_of(key, now, most_age)
        self.duplicates += number > 0
        return number

    def number_of(self, key: bytes, now: int, most_age: int = 0) -> int:
        """Return the same as `find`, without counting a duplicate."""
        position = self._positions.get(kept_form(key))
        if position is None:
            return 0
        at = position - self._cut
        if now - self._times[at] >= min(most_age or self.window_ns, self.window_ns):
            return 0
        return self._numbers[at]

    def add(self, key: bytes, number: int, now: int) -> None:
        """Remember the number that the message with this key was given."""
        self._forget_old(now)
        if len(self) == self.count_max:
            self._forget_first()
        if self._head >= KEPT_MIN and self._head * 4 >= len(self._keys):
            self._cut_front()
        self._append(kept_form(key), number, now)

    def restore(self, kept: bytes, number: int, received: int) -> None:
        """Remember a key of an earlier process, in the form in which it was kept."""
        if len(self) == self.count_max:
            self._forget_first()
        self._append(kept, number, max(received, self._times[-1] if self._times else received))

    def known(self) -> tuple["array[int]", "array[int]", list[bytes]]:
        """Return numbers, times and kept forms of all keys, oldest first."""
        head = self._head
        return self._numbers[head:], self._times[head:], self._keys[head:]

    def refill(self, numbers: "array[int]", times: "array[int]", keys: list[bytes]) -> None:
        """Fill an empty window with what `known` has returned."""
        assert not self._keys, "it is empty"
        begin = max(len(keys) - self.count_max, 0)
        self._numbers, self._times, self._keys = numbers[begin:], times[begin:], keys[begin:]
        self._positions = dict(zip(self._keys, range(len(self._keys)), strict=True))

    def _append(self, kept: bytes, number: int, now: int) -> None:
        self._positions[kept] = self._cut + len(self._keys)
        self._keys.append(kept)
        self._numbers.append(number)
        self._times.append(now)

    @property
    def newest(self) -> int:
        """The number of the newest key; 0 if there is none."""
        return self._numbers[-1] if len(self) else 0

    def oldest_counting(self, now: int) -> int:
        """The number of the oldest key that counts; 0 if there is none."""
        at = bisect_right(self._times, now - self.window_ns, self._head)
        return self._numbers[at] if at < len(self._numbers) else 0

    def forget_before(self, number: int) -> None:
        """Forget the keys of lower numbers."""
        while len(self) and self._numbers[self._head] < number:
            self._forget_first()

    def forget_above(self, number: int) -> None:
        """Forget the keys of higher numbers: these messages were cut, and have no number.

        It is as if they had never come, but what left the window because of them stays out: older
        keys, and what was added before under the same key.
        """
        while len(self) and self._numbers[-1] > number:
            key = self._keys.pop()
            self._numbers.pop()
            self._times.pop()
            if self._positions.get(key) == self._cut + len(self._keys):
                del self._positions[key]

    def _forget_old(self, now: int) -> None:
        for _ in range(min(len(self), FORGET_MAX)):
            if now - self._times[self._head] < self.window_ns:
                return
            self._forget_first()

    def _forget_first(self) -> None:
        key = self._keys[self._head]
        if self._positions.get(key) == self._cut + self._head:  # else it was added again
            del self._positions[key]
        self._keys[self._head] = b""
        self._head += 1

    def _cut_front(self) -> None:
        del self._keys[: self._head]
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


def key_of(scope: bytes, headers: bytes | bytearray | memoryview) -> bytes:
    """Return the key that identifies a message with these headers; b"" if it has no id.

    `scope` is the subject for which alone the id counts, or empty. No subject has a blank, so
    different scopes or ids make different keys.
    """
    message_id = id_of(headers)
    return b"%b %b" % (scope, message_id) if message_id else b""


def rebuild(window: Window, ids: Iterable[tuple[int, int, bytes]]) -> None:
    """Fill an empty window, oldest first: number, time of receipt, and key as it is kept."""
    for number, received, kept in ids:
        window.restore(kept, number, received)


def kept_form(key: bytes) -> bytes:
    """Return the form in which a key is kept."""
    if len(key) <= PLAIN_MAX:
        return key
    from hashlib import blake2b  # imports OpenSSL, and such long keys are rare

    return blake2b(key, digest_size=DIGEST_SIZE).digest()
