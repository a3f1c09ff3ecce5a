"""Slows down guessing: how long an attempt to authenticate must wait, by who makes it.

A key, such as an address and the user that is claimed, may fail `free` times; one failure is
forgiven every `FORGIVE_S`. After that, its attempts are checked one after the other, with a pause
before each that doubles up to `PAUSE_MAX_S`. An attempt waits before it is checked, not before it
is answered: otherwise a guesser need not wait for a refusal. One that would wait for too long is
refused at once, unchecked.

Memory: `KEYS_MAX` keys, the longest quiet goes first; `WAITING_MAX` attempts of each.
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
PATIENCE: Final = 0.75  # of the timeout: who would have to wait for longer is refused at once


@dataclass(slots=True)
class _Key:
    failures: float = 0.0
    since: float = 0.0  # when `failures` was brought up to date
    failed_at: float = float("-inf")  # the last time, or that one has left unchecked
    free_at: float = 0.0  # when the next attempt may be checked
    waiting: int = 0  # attempts that wait, or are being checked


class Attempts:
    """One per broker, for its one thread; all times in seconds of one clock."""

    def __init__(self, free: int, timeout: float, expects_worst: bool = True) -> None:
        """`timeout`: how long clients may take to authenticate, in seconds.

        `expects_worst`: attempts that are not checked yet count as if they had failed.
        """
        self.allow(free, timeout)
        self._expects_worst = expects_worst
        self._keys: OrderedDict[Hashable, _Key] = OrderedDict()

    def allow(self, free: int, timeout: float) -> None:
        """The settings are these from now on."""
        self.free = free  # 0: no one waits
        self.pause_max = min(PAUSE_MAX_S, timeout / 2)
        self.patience = timeout * PATIENCE

    def wait(self, key: Hashable, now: float) -> float:
        """How long an attempt must wait; -1: it is refused. Otherwise `ended` or `left` follows."""
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
        """An attempt was checked."""
        one = self._of(key, now)
        one.waiting = max(one.waiting - 1, 0)
        if failed:
            one.failures = min(one.failures + 1, self.free + BEYOND_MAX)
            one.failed_at = now

    def left(self, key: Hashable, now: float) -> None:
        """A client has gone before its attempt was checked: a flood, or only too many at once.

        So others come first, but the key has not failed: its clients would only wait for each
        other until they leave, again and again.
        """
        self.ended(key, now, failed=False)
        self._keys[key].failed_at = now

    def pause(self, key: Hashable, now: float) -> float:
        """How long no check of a key may begin, as it has failed too often since it asked."""
        one = self._of(key, now)
        guilty = one.failures - self.free
        if not self.free or guilty <= 0:
            return 0.0
        return max(one.failed_at + self._length(guilty) - now, 0.0)

    def _length(self, guilty: float) -> float:
        return min(PAUSE_S * 2 ** min(guilty, 10), self.pause_max)

    def is_suspect(self, key: Hashable, now: float) -> bool:
        """Whether this key failed lately, or clients left before they were checked."""
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
