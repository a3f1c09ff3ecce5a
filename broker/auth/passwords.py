"""Checks passwords and tokens: plain ones at once, bcrypt hashes in a thread.

    is_same       a plain secret, compared in constant time
    HashChecker   bcrypt, which takes a tenth of a second by design

A password that was right is remembered as a keyed digest, so a thousand clients that come back
at once cost one hash. Equal guesses are checked once. Addresses take turns, and so do the users of
an address: guessers do not keep the others waiting. Addresses that have failed lately come last.
The checks of a user that has failed too often are spaced out, even if all of them came before the
first had failed.
"""

import asyncio
import hashlib
import hmac
import logging
import os
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Final

from broker.limits.fair_queue import FairQueue

CHECKS_MAX: Final = 1024  # checks that wait for the thread; further ones are refused
PASSWORD_MAX: Final = 72  # bytes that bcrypt takes into account
KNOWN_MAX: Final = 65536  # right passwords remembered, 10 MiB
# The salt and the result of a hash whose password is unknown.
NOBODYS: Final = "CwTycUXWue0Thq9StjUM0uJ8K5kNRU1PYf1ZoE/CkZsyfEy3sxdwa"

_KEY: Final = os.urandom(32)  # of this process

log = logging.getLogger("seriatim")


def digest(secret: str) -> bytes:
    """Return a digest that only this process can compute."""
    return hashlib.blake2b(secret.encode("utf-8", "surrogatepass"), key=_KEY).digest()


def is_same(one: str, other: str) -> bool:
    """True if two secrets are equal; the time that this takes reveals nothing about them."""
    return hmac.compare_digest(digest(one), digest(other))


def decoy_of(hashes: Iterable[str]) -> str:
    """Return a hash that no password matches, with the most common cost of these; or empty."""
    costs = [one[4:6] for one in hashes]
    return f"$2b${max(set(costs), key=costs.count)}${NOBODYS}" if costs else ""


@dataclass(frozen=True, slots=True)
class Guess:
    """A password to be checked against a hash, and the address that sent it."""

    hash: str
    password: str = field(repr=False)
    name: str  # the claimed user; so checks of a decoy are shared like those of a real hash
    address: Hashable

    @property
    def key(self) -> tuple[str, str, bytes]:
        """The key that equal guesses share."""
        return self.name, self.hash, digest(self.password)


# Called with True for a right password, False for a wrong one, None if it was not checked.
Result = Callable[[bool | None], None]


@dataclass(slots=True, eq=False)
class _HashCheck:
    """One guess, and the callers that wait for the result."""

    guess: Guess
    waiting: list[tuple[Result, Callable[[], bool]]] = field(default_factory=list)

    @property
    def is_left(self) -> bool:
        """True if all waiting clients have gone."""
        return all(is_gone() for _, is_gone in self.waiting)


_Checks = FairQueue[str, _HashCheck]  # those of one address wait; its users take turns
_Queues = OrderedDict[Hashable, _Checks]  # by address


class HashChecker:
    """The queue of bcrypt checks, and the thread that makes them. One per broker.

    Only the broker's thread calls it.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        is_suspect: Callable[[Hashable], bool],
        pause: Callable[[Guess], float] = lambda _: 0.0,
    ) -> None:
        """Check in one thread. `is_suspect`: an address has failed lately, so others come first.

        `pause`: how many seconds a suspect's guess must still wait.
        """
        self._loop = loop
        self._is_suspect = is_suspect
        self._pause = pause
        self._timer: asyncio.TimerHandle | None = None  # while all suspects pause
        self._thread = ThreadPoolExecutor(1, "passwords")
        self._known: OrderedDict[str, bytes] = OrderedDict()  # hash: digest of its password
        self._checks: dict[tuple[str, str, bytes], _HashCheck] = {}
        self._fresh: _Queues = OrderedDict()
        self._suspect: _Queues = OrderedDict()
        self._running = self._stopped = False

    def stop(self) -> None:
        """Stop checking, and give no more answers."""
        self._stopped = True
        self._rest(None)
        self._fresh.clear()
        self._suspect.clear()
        self._checks.clear()
        self._thread.shutdown(wait=False, cancel_futures=True)

    def check(self, guess: Guess, then: Result, is_gone: Callable[[], bool]) -> None:
        """Call `then` with True if the password is right: at once if that is known, or later.

        If all its clients have gone, the check is skipped, and `then` is called with None.
        """
        if self._stopped:
            return
        known = self._known.get(guess.hash)
        if known is not None and hmac.compare_digest(known, digest(guess.password)):
            then(True)
            return
        check = self._checks.get(guess.key)
        if check is None:
            queues = self._suspect if self._is_suspect(guess.address) else self._fresh
            if len(self._checks) >= CHECKS_MAX and not self._displace(guess, queues):
                then(None)
                return
            check = self._checks[guess.key] = _HashCheck(guess)
            _queue(queues, guess.address).put(check)
        check.waiting.append((then, is_gone))
        self._next()

    def _displace(self, guess: Guess, queues: _Queues) -> bool:
        """Drop the newest check of the address with the most checks, to make room for a guess.

        Return False if the guess itself is the one to drop.
        """
        if self._suspect and queues is self._fresh:
            queues, own = self._suspect, 0
        else:
            own = (len(queues[guess.address]) if guess.address in queues else 0) + 1
        most = max(queues, key=lambda address: len(queues[address]), default=None)
        if most is None or len(queues[most]) <= own:
            return False
        check = queues[most].pop_newest()
        if not queues[most]:
            del queues[most]
        del self._checks[check.guess.key]
        self._loop.call_soon(self._tell, check, None)  # another client is being served now
        return True

    def _next(self) -> None:
        """Start the next check, of the address whose turn it is."""
        self._set_suspects_back()
        if self._running:
            return
        check = self._take()
        if check is None:
            return
        if check.is_left:
            self._answer(check, None)
            self._loop.call_soon(self._next)
            return
        self._running = True
        guess = check.guess
        job = self._loop.run_in_executor(self._thread, has_hash, guess.hash, guess.password)
        job.add_done_callback(lambda done: self._checked(check, done))

    def _take(self) -> _HashCheck | None:
        """Remove the next check from its queue; return None if there is none yet.

        Fresh addresses take turns first, then the suspects that need not pause.
        """
        if self._fresh:
            address, queue = next(iter(self._fresh.items()))
            return self._taken(self._fresh, address, queue.firsts()[0])
        shortest = None
        for address, queue in self._suspect.items():
            for check in queue.firsts():
                wait = 0.0 if check.is_left else self._pause(check.guess)
                if wait <= 0:
                    return self._taken(self._suspect, address, check)
                shortest = wait if shortest is None else min(shortest, wait)
        self._rest(shortest)
        return None

    @staticmethod
    def _taken(queues: _Queues, address: Hashable, check: _HashCheck) -> _HashCheck:
        """Remove this check, and put its address last in turn."""
        queue = queues.pop(address)
        queue.pop_this(check)
        if queue:
            queues[address] = queue
        return check

    def _rest(self, seconds: float | None) -> None:
        """Call `_next` again after this time; None: only when a new check comes."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if seconds is None else self._loop.call_later(seconds, self._next)

    def _set_suspects_back(self) -> None:
        """Move the next addresses to the suspects if they have failed meanwhile."""
        while self._fresh:
            address = next(iter(self._fresh))
            if not self._is_suspect(address):
                break
            suspects = _queue(self._suspect, address)
            for check in self._fresh.pop(address):
                suspects.put(check)

    def _checked(self, check: _HashCheck, done: "asyncio.Future[bool]") -> None:
        self._running = False
        if done.cancelled() or self._stopped:
            return
        error = done.exception()
        if error is not None:  # its text stays out of the log: it may quote the password
            log.error("A password could not be checked: %s", type(error).__name__)
        right = error is None and done.result()
        if right:
            self._known[check.guess.hash] = digest(check.guess.password)
            while len(self._known) > KNOWN_MAX:
                self._known.popitem(last=False)
        self._loop.call_soon(self._next)  # even if the callback below fails
        self._answer(check, right)

    def _answer(self, check: _HashCheck, right: bool | None) -> None:
        del self._checks[check.guess.key]
        self._tell(check, right)

    def _tell(self, check: _HashCheck, right: bool | None) -> None:
        for then, _ in check.waiting:
            then(right)


def _queue(queues: _Queues, address: Hashable) -> _Checks:
    """Return the queue of an address; make one if there is none."""
    queue = queues.get(address)
    if queue is None:
        queue = queues[address] = _Checks(attrgetter("guess.name"))
    return queue


def has_hash(hash: str, password: str) -> bool:
    """True if a password has this bcrypt hash; slow by design, without the interpreter's lock."""
    import bcrypt

    raw = password.encode("utf-8", "surrogatepass")
    if len(raw) > PASSWORD_MAX or b"\0" in raw:  # bcrypt would take only a part of it
        return False
    return bcrypt.checkpw(raw, hash.encode())
