"""Checks passwords and tokens: plain ones at once, bcrypt hashes in a thread.

    is_same       a plain secret, compared in constant time
    HashChecker   bcrypt, which takes a tenth of a second by design

A password that was right is remembered as a keyed digest, so a thousand clients that come back
at once cost one hash. Checks of the same guess are made once. Of several addresses, each has its
turn, and of an address each user: so guessers do not keep the others waiting. Addresses that have
failed lately come last. A user that was guessed too often meanwhile pauses between its checks,
though all of them came before the first had failed.
"""

import asyncio
import hashlib
import hmac
import logging
import os
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final

CHECKS_MAX: Final = 1024  # that wait for the thread; further ones are refused
PASSWORD_MAX: Final = 72  # bytes that bcrypt takes into account
KNOWN_MAX: Final = 65536  # right passwords that are remembered, 10 MiB
# The salt and the result of a hash whose password is unknown.
NOBODYS: Final = "CwTycUXWue0Thq9StjUM0uJ8K5kNRU1PYf1ZoE/CkZsyfEy3sxdwa"

_KEY: Final = os.urandom(32)  # of this process

log = logging.getLogger("seriatim")


def digest(secret: str) -> bytes:
    """A digest that only this process can make."""
    return hashlib.blake2b(secret.encode("utf-8", "surrogatepass"), key=_KEY).digest()


def is_same(one: str, other: str) -> bool:
    """Whether two secrets are equal; the time says nothing about either."""
    return hmac.compare_digest(digest(one), digest(other))


def decoy_of(hashes: Iterable[str]) -> str:
    """A hash that no password has, and that takes as long as most of these; empty if none."""
    costs = [one[4:6] for one in hashes]
    return f"$2b${max(set(costs), key=costs.count)}${NOBODYS}" if costs else ""


@dataclass(frozen=True, slots=True)
class Guess:
    """A password that somebody at an address says is the one of this hash."""

    hash: str
    password: str = field(repr=False)
    name: str  # whose it is said to be; so a decoy's checks are shared as those of a real hash
    address: Hashable

    @property
    def key(self) -> tuple[str, str, bytes]:
        """What makes two guesses the same."""
        return self.name, self.hash, digest(self.password)


# Is called with whether the password is right; None: it was not checked.
Result = Callable[[bool | None], None]


@dataclass(slots=True)
class _HashCheck:
    """One guess, and who waits for the result."""

    guess: Guess
    waiting: list[tuple[Result, Callable[[], bool]]] = field(default_factory=list)

    @property
    def is_left(self) -> bool:
        """Whether all who waited for it have gone."""
        return all(is_gone() for _, is_gone in self.waiting)


class _Queue:
    """The checks of one address that wait: those of its users in turn."""

    def __init__(self) -> None:
        self._of: OrderedDict[str, deque[_HashCheck]] = OrderedDict()  # by user
        self.size = 0

    def add(self, check: _HashCheck) -> None:
        self._of.setdefault(check.guess.name, deque()).append(check)
        self.size += 1

    def add_all(self, other: "_Queue") -> None:
        for name, checks in other._of.items():
            self._of.setdefault(name, deque()).extend(checks)
        self.size += other.size

    def firsts(self) -> list[_HashCheck]:
        """The next check of each user, in the order of their turns."""
        return [checks[0] for checks in self._of.values()]

    def take(self, check: _HashCheck) -> None:
        """Remove the next check of a user, who then is the last in turn."""
        name = check.guess.name
        checks = self._of.pop(name)
        checks.popleft()
        if checks:
            self._of[name] = checks
        self.size -= 1

    def drop_newest(self) -> _HashCheck:
        """Remove the newest check of the user that has most."""
        name = max(self._of, key=lambda one: len(self._of[one]))
        check = self._of[name].pop()
        if not self._of[name]:
            del self._of[name]
        self.size -= 1
        return check


_Queues = OrderedDict[Hashable, _Queue]  # by address


class HashChecker:
    """One per broker, for its one thread."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        is_suspect: Callable[[Hashable], bool],
        pause: Callable[[Guess], float] = lambda _: 0.0,
    ) -> None:
        """`is_suspect`: whether an address has failed lately, so that others come first.

        `pause`: for how many seconds no check of a suspect's guess may begin.
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
        """Check nothing more, and answer no one."""
        self._stopped = True
        self._rest(None)
        self._fresh.clear()
        self._suspect.clear()
        self._checks.clear()
        self._thread.shutdown(wait=False, cancel_futures=True)

    def check(self, guess: Guess, then: Result, is_gone: Callable[[], bool]) -> None:
        """Call `then` with whether the password is right: at once if that is known, or later.

        A check is left out if its clients have gone; then it is called with None.
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
            _queue(queues, guess.address).add(check)
        check.waiting.append((then, is_gone))
        self._next()

    def _displace(self, guess: Guess, queues: _Queues) -> bool:
        """Leave out the newest check of the address that has most; False if that is this one."""
        if self._suspect and queues is self._fresh:
            queues, own = self._suspect, 0
        else:
            own = (queues[guess.address].size if guess.address in queues else 0) + 1
        most = max(queues, key=lambda address: queues[address].size, default=None)
        if most is None or queues[most].size <= own:
            return False
        check = queues[most].drop_newest()
        if not queues[most].size:
            del queues[most]
        del self._checks[check.guess.key]
        self._loop.call_soon(self._tell, check, None)  # another client is being served now
        return True

    def _next(self) -> None:
        """Begin with the next check, of the address whose turn it is."""
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
        """Remove the next check from its queue; None: there is none, or not yet.

        Fresh addresses take turns first, then those of the suspects that need not pause.
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
        """Remove this check; its address then is the last in turn."""
        queue = queues.pop(address)
        queue.take(check)
        if queue.size:
            queues[address] = queue
        return check

    def _rest(self, seconds: float | None) -> None:
        """Look again after this time; None: when there is something new."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if seconds is None else self._loop.call_later(seconds, self._next)

    def _set_suspects_back(self) -> None:
        """Put the addresses whose turn is next among the suspects if they have failed meanwhile."""
        while self._fresh:
            address = next(iter(self._fresh))
            if not self._is_suspect(address):
                break
            _queue(self._suspect, address).add_all(self._fresh.pop(address))

    def _checked(self, check: _HashCheck, done: "asyncio.Future[bool]") -> None:
        self._running = False
        if done.cancelled() or self._stopped:
            return
        error = done.exception()
        if error is not None:  # its text stays out of the log: it may quote what it was given
            log.error("A password could not be checked: %s", type(error).__name__)
        right = error is None and done.result()
        if right:
            self._known[check.guess.hash] = digest(check.guess.password)
            while len(self._known) > KNOWN_MAX:
                self._known.popitem(last=False)
        self._loop.call_soon(self._next)  # whatever becomes of the answer
        self._answer(check, right)

    def _answer(self, check: _HashCheck, right: bool | None) -> None:
        del self._checks[check.guess.key]
        self._tell(check, right)

    def _tell(self, check: _HashCheck, right: bool | None) -> None:
        for then, _ in check.waiting:
            then(right)


def _queue(queues: _Queues, address: Hashable) -> _Queue:
    """The queue of an address, which may be new."""
    queue = queues.get(address)
    if queue is None:
        queue = queues[address] = _Queue()
    return queue


def has_hash(hash: str, password: str) -> bool:
    """Whether a password has this bcrypt hash; slow by design, without the interpreter's lock."""
    import bcrypt

    raw = password.encode("utf-8", "surrogatepass")
    if len(raw) > PASSWORD_MAX or b"\0" in raw:  # bcrypt would take only a part of it
        return False
    return bcrypt.checkpw(raw, hash.encode())
