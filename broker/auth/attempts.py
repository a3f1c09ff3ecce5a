"""Slows down guessing: how long an attempt to authenticate must wait, by its address.

An address may fail `free` times; one failure is forgiven every `FORGIVE_S`. After that, its
attempts are checked one after the other, with a pause before each that doubles up to
`PAUSE_MAX_S`. An attempt waits before it is checked, not before it is answered: otherwise a
guesser need not wait for a refusal. So clients behind the address of a guesser wait, too; a
minute after it has given up, nobody waits any more.

Memory: `ADDRESSES_MAX` addresses, the longest quiet goes first; `WAITING_MAX` attempts of each.
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
ADDRESSES_MAX: Final = 4096
WAITING_MAX: Final = 32  # attempts of an address that has failed; others are refused unchecked


@dataclass(slots=True)
class _Address:
    failures: float = 0.0
    since: float = 0.0  # when `failures` was brought up to date
    failed_at: float = float("-inf")  # the last time, or that one has left unchecked
    free_at: float = 0.0  # when the next attempt may be checked
    waiting: int = 0  # attempts that wait, or are being checked


class Attempts:
    """One per broker, for its one thread; all times in seconds of one clock."""

    def __init__(self, free: int, timeout: float) -> None:
        """`timeout`: how long clients may take to authenticate, in seconds."""
        self.allow(free, timeout)
        self._addresses: OrderedDict[Hashable, _Address] = OrderedDict()

    def allow(self, free: int, timeout: float) -> None:
        """The settings are these from now on."""
        self.free = free  # 0: nobody waits
        self.pause_max = min(PAUSE_MAX_S, timeout / 2)

    def wait(self, key: Hashable, now: float) -> float:
        """How long an attempt must wait; -1: it is refused. Otherwise `ended` or `left` follows."""
        address = self._of(key, now)
        if self.free and address.failures >= 1 and address.waiting >= WAITING_MAX:
            return -1.0
        address.waiting += 1
        guilty = address.failures + address.waiting - 1 - self.free
        if not self.free or address.failures < 1 or guilty <= 0:
            return 0.0
        start = max(now, address.free_at)
        address.free_at = start + self._length(guilty)
        return max(address.free_at - now, 0.0)

    def ended(self, key: Hashable, now: float, failed: bool) -> None:
        """An attempt was checked."""
        address = self._of(key, now)
        address.waiting = max(address.waiting - 1, 0)
        if failed:
            address.failures = min(address.failures + 1, self.free + BEYOND_MAX)
            address.failed_at = now

    def left(self, key: Hashable, now: float) -> None:
        """A client has gone before its attempt was checked: a flood, or only too many at once.

        So others come first, but the address has not failed: its clients would only wait for each
        other until they leave, again and again.
        """
        self.ended(key, now, failed=False)
        self._addresses[key].failed_at = now

    def pause(self, key: Hashable, now: float) -> float:
        """How long no check of an address may begin, as it has failed too often since it asked."""
        address = self._of(key, now)
        guilty = address.failures - self.free
        if not self.free or guilty <= 0:
            return 0.0
        return max(address.failed_at + self._length(guilty) - now, 0.0)

    def _length(self, guilty: float) -> float:
        return min(PAUSE_S * 2 ** min(guilty, 10), self.pause_max)

    def is_suspect(self, key: Hashable, now: float) -> bool:
        """Whether an address has failed lately, or clients have left unchecked."""
        address = self._addresses.get(key)
        return address is not None and now - address.failed_at < SUSPECT_S

    def _of(self, key: Hashable, now: float) -> _Address:
        address = self._addresses.get(key)
        if address is None:
            while len(self._addresses) >= ADDRESSES_MAX:
                self._addresses.popitem(last=False)
            address = self._addresses[key] = _Address(since=now)
        self._addresses.move_to_end(key)
        address.failures = max(address.failures - (now - address.since) / FORGIVE_S, 0.0)
        address.since = now
        return address
