"""Remembers which secrets were right or wrong, for a user at an address.

    right   this user has logged in with it from there: it need not wait for wrong ones
    wrong   it was wrong there before: it is refused at once, and is no new guess

So clients that retry an old password delay no others, and a guesser learns nothing from asking
twice. But a guesser at an address where the user has logged in could try secrets against the
remembered one without waiting. So after `MISSES_MAX` other secrets, plus one a second, the
remembered one is not compared any more until the guesser pauses.

Secrets come as seals: keyed digests of the given secret and of the one that it was compared with.
When the settings change a secret, its seals change, so old entries no longer match.

Memory: `USERS_MAX` pairs of user and address in each table, the longest unused are dropped first;
`WRONG_MAX` wrong secrets for each pair.
"""

import hmac
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, Final

USERS_MAX: Final = 16384
WRONG_MAX: Final = 16  # of one user at one address: more distinct ones are guesses
MISSES_MAX: Final = 1000  # other secrets where the right one is known; a day of guesses has 86400
MISSES_S: Final = 1.0  # how many of them are forgiven a second


@dataclass(slots=True)
class _Right:
    seal: bytes
    misses: float = 0.0
    since: float = 0.0  # when `misses` was brought up to date


class KnownSecrets:
    """The seals of right and of wrong secrets, by user and address. One per broker or monitor."""

    def __init__(self) -> None:
        self._right: OrderedDict[Hashable, _Right] = OrderedDict()
        self._wrong: OrderedDict[Hashable, OrderedDict[bytes, None]] = OrderedDict()

    def verdict(self, key: Hashable, seal: bytes, now: float) -> bool | None:
        """Return True for a right secret, False for a wrong one, None if it is not known.

        `now` is in seconds, always of the same clock.
        """
        wrong = self._wrong.get(key)
        if wrong is not None and seal in wrong:
            wrong.move_to_end(seal)
            self._wrong.move_to_end(key)
            return False
        right = self._right.get(key)
        if right is None:
            return None
        right.misses = max(right.misses - (now - right.since) * MISSES_S, 0.0)
        right.since = now
        if right.misses >= MISSES_MAX:
            return None
        if hmac.compare_digest(right.seal, seal):
            self._right.move_to_end(key)
            return True
        right.misses += 1
        return None

    def learn(self, key: Hashable, seal: bytes, is_right: bool) -> None:
        """Remember the result of a check."""
        if is_right:
            known = self._right.get(key)
            if known is None:
                self._right[key] = _Right(seal)
            else:
                known.seal = seal
            self._right.move_to_end(key)
            _trim(self._right, USERS_MAX)
            return
        wrong = self._wrong.setdefault(key, OrderedDict())
        wrong[seal] = None
        _trim(wrong, WRONG_MAX)
        self._wrong.move_to_end(key)
        _trim(self._wrong, USERS_MAX)


def _trim(table: OrderedDict[Any, Any], most: int) -> None:
    while len(table) > most:
        table.popitem(last=False)
