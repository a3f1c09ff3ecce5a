"""Checks passwords and tokens: plain ones at once, bcrypt hashes in a thread.

    is_same       a plain secret, compared in constant time
    HashChecker   bcrypt, which takes a tenth of a second by design

A password that was right is remembered as a keyed digest, so a thousand clients that come back
at once cost one hash. Checks of the same password and hash are made once. Of several addresses,
each has its turn, so one that guesses cannot keep the others waiting.
"""

import asyncio
import hashlib
import hmac
import os
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final

CHECKS_MAX: Final = 1024  # that wait for the thread; further ones are refused
PASSWORD_MAX: Final = 72  # bytes that bcrypt takes into account
KNOWN_MAX: Final = 65536  # right passwords that are remembered, 10 MiB
# Of a password that nobody knows: a check against it takes as long as one of a user's.
NOBODY: Final = "$2b$11$CwTycUXWue0Thq9StjUM0uJ8K5kNRU1PYf1ZoE/CkZsyfEy3sxdwa"

_KEY: Final = os.urandom(32)  # of this process


def digest(secret: str) -> bytes:
    """A digest that only this process can make."""
    return hashlib.blake2b(secret.encode("utf-8", "surrogateescape"), key=_KEY).digest()


def is_same(one: str, other: str) -> bool:
    """Whether two secrets are equal; the time says nothing about either."""
    return hmac.compare_digest(digest(one), digest(other))


@dataclass(slots=True)
class _Check:
    """One password against one hash, and who waits for the result."""

    hash: str
    password: str
    waiting: list[tuple[Callable[[bool], None], Callable[[], bool]]] = field(default_factory=list)


class HashChecker:
    """One per broker. `later` runs an action in the broker's thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._thread = ThreadPoolExecutor(1, "passwords")
        self._known: OrderedDict[str, bytes] = OrderedDict()  # hash: digest of its password
        self._checks: dict[tuple[str, bytes], _Check] = {}
        self._queues: OrderedDict[Hashable, deque[_Check]] = OrderedDict()  # by address
        self._running = False

    def stop(self) -> None:
        """Check nothing more."""
        self._queues.clear()
        self._thread.shutdown(wait=False, cancel_futures=True)

    def check(
        self,
        hash: str,
        password: str,
        address: Hashable,
        then: Callable[[bool], None],
        is_gone: Callable[[], bool],
    ) -> None:
        """Call `then` with whether the password is right: at once if that is known, or later.

        A check is left out if nobody waits for it any more.
        """
        made = digest(password)
        known = self._known.get(hash)
        if known is not None and hmac.compare_digest(known, made):
            then(True)
            return
        check = self._checks.get((hash, made))
        if check is None:
            if len(self._checks) >= CHECKS_MAX:
                then(False)
                return
            check = self._checks[hash, made] = _Check(hash, password)
            self._queues.setdefault(address, deque()).append(check)
        check.waiting.append((then, is_gone))
        self._next()

    def _next(self) -> None:
        """Begin with the next check, of the address whose turn it is."""
        if self._running or not self._queues:
            return
        address, queue = self._queues.popitem(last=False)
        check = queue.popleft()
        if queue:
            self._queues[address] = queue
        if all(is_gone() for _, is_gone in check.waiting):
            self._answer(check, False)
            self._loop.call_soon(self._next)
            return
        self._running = True
        job = self._loop.run_in_executor(self._thread, has_hash, check.hash, check.password)
        job.add_done_callback(lambda done: self._checked(check, done))

    def _checked(self, check: _Check, done: "asyncio.Future[bool]") -> None:
        self._running = False
        if done.cancelled():
            return
        right = done.exception() is None and done.result()
        if right:
            self._known[check.hash] = digest(check.password)
            while len(self._known) > KNOWN_MAX:
                self._known.popitem(last=False)
        self._answer(check, right)
        self._next()

    def _answer(self, check: _Check, right: bool) -> None:
        del self._checks[check.hash, digest(check.password)]
        for then, _ in check.waiting:
            then(right)


def has_hash(hash: str, password: str) -> bool:
    """Whether a password has this bcrypt hash; slow by design, without the interpreter's lock."""
    import bcrypt

    raw = password.encode("utf-8", "surrogateescape")
    return len(raw) <= PASSWORD_MAX and bcrypt.checkpw(raw, hash.encode())
