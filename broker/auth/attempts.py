"""Slows down guessing: computes how long an attempt to authenticate must wait, for each key.

A key, such as an address and the claimed user, may fail `free` times; one failure is forgiven
every `FORGIVE_S`. After that, its attempts are checked one after the other, with a pause before
each that doubles up to `PAUSE_MAX_S`. An attempt waits before it is checked, not before it is
answered: otherwise a guesser need not wait for a refusal. An attempt that would wait for too long
is refused at once, unchecked.

Memory: `KEYS_MAX` keys, the longest unused is dropped first; `WAITING_MAX` attempts of each.
"""

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final

FORGIVE_S: Final = 6.0
BEYOND_MAX: Final = 10  # failures beyond the free ones that are counted: a minute's
PAUSE_S: Final = 0.125
PAUSE_MAX_S: Final = 1.0  # and half of the timeout of authentication: an answer comes in time
SUSPECT_S: Final = 600.0  # after a failure
KEYS_MAX: Final = 16384
WAITING_MAX: Final = 32  # attempts of a key that has failed; others are refused unchecked
PATIENCE: Final = 0.75  # of the timeout: an attempt that must wait longer is refused at once


@dataclass(slots=True)
class _Key:
    failures: float = 0.0
    since: float = 0.0  # when `failures` was brought up to date
    failed_at: float = float("-inf")  # when it last failed, or a client left unchecked
    free_at: float = 0.0  # when the next attempt may be checked
    waiting: int = 0  # attempts that wait, or are being checked


class Attempts:
    """The failures and waiting attempts of each key. All times are in seconds of one clock."""

    def __init__(self, free: int, timeout: float, expects_worst: bool = True) -> None:
        """Set the limits; `timeout` is how long clients may take to authenticate, in seconds.

        `expects_worst`: attempts that are not checked yet count as if they had failed.
        """
        self.allow(free, timeout)
        self._expects_worst = expects_worst
        self._keys: OrderedDict[Hashable, _Key] = OrderedDict()

    def allow(self, free: int, timeout: float) -> None:
        """Set the number of free failures, and the time that clients have to authenticate."""
        self.free = free  # 0: no one waits
        self.pause_max = min(PAUSE_MAX_S, timeout / 2)
        self.patience = timeout * PATIENCE

    def wait(self, key: Hashable, now: float) -> float:
        """Return how long an attempt must wait, or -1 to refuse it.

        Unless it was refused, call `ended` or `left` for it later.
        """
        one = self._of(key, now)
        guilty = one.failures - self.free + (one.waiting if self._expects_worst else 0)
        if not self.free or guilty <= 0:
            one.waiting += 1
            return 0.0
        free_at = max(now, one.free_at) + self._length(guilty)
        if one.waiting >= WAITING_MAX or free_at - now > self.patience:
            return -1.0
        one.waiting += 1
        one.free_at = free_at
        return free_at - now

    def ended(self, key: Hashable, now: float, failed: bool) -> None:
        """Record that an attempt was checked."""
        one = self._of(key, now)
        one.waiting = max(one.waiting - 1, 0)
        if failed:
            one.failures = min(one.failures + 1, self.free + BEYOND_MAX)
            one.failed_at = now

    def left(self, key: Hashable, now: float) -> None:
        """Record that a client left before its attempt was checked: a flood, or just a crowd.

        Other keys come first then, but this does not count as a failure. Otherwise the clients of
        a crowd would wait for each other until they leave, again and again.
        """
        self.ended(key, now, failed=False)
        self._keys[key].failed_at = now

    def pause(self, key: Hashable, now: float) -> float:
        """Return how long to wait before the next check of a key that has failed too often."""
        one = self._of(key, now)
        guilty = one.failures - self.free
        if not self.free or guilty <= 0:
            return 0.0
        return max(one.failed_at + self._length(guilty) - now, 0.0)

    def _length(self, guilty: float) -> float:
        return min(PAUSE_S * 2 ** min(guilty, 10), self.pause_max)

    def is_suspect(self, key: Hashable, now: float) -> bool:
        """True if this key failed lately, or a client of it left before it was checked."""
        one = self._keys.get(key)
        return one is not None and now - one.failed_at < SUSPECT_S

    def _of(self, key: Hashable, now: float) -> _Key:
        one = self._keys.get(key)
        if one is None:
            while len(self._keys) >= KEYS_MAX:
                self._keys.popitem(last=False)
            one = self._keys[key] = _Key(since=now)
        self._keys.move_to_end(key)
        one.failures = max(one.failures - (now - one.since) / FORGIVE_S, 0.0)
        one.since = now
        return one
