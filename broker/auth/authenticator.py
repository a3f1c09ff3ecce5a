"""Finds the user of a client, from its CONNECT and from its certificate.

    a certificate    with `tls.verify_and_map`: the user named in it; no other proof is needed
    an nkey          the nonce of INFO, signed with the private key; ignored if no user has one
    user, password   compared in constant time, or with a bcrypt hash, in a thread
    a token          the same
    nothing          the user of `no_auth_user`, if there is one

Clients cannot learn if a name exists: an unknown name takes as long as a wrong password.

Keys and certificates are checked at once: they cannot be guessed. A secret that is already known
to be right or wrong for this user and address is answered at once (broker/auth/known_secrets.py);
one that is being checked for another client is not checked twice. All others wait if this user has
failed often from this address, or the address with very many users (broker/auth/attempts.py).
"""

import asyncio
import secrets
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Final

from broker.addresses import network_of
from broker.auth.attempts import Attempts
from broker.auth.known_secrets import KnownSecrets
from broker.auth.passwords import Guess, HashChecker, digest, is_same
from broker.auth.users import Users
from broker.dataplane.user import User
from broker.settings.authorization_checks import is_hash
from broker.settings.public_key import is_public_key, is_signed
from broker.wires.distinguished_name import Name

SHOWN_MAX: Final = 64  # characters of a name that the log shows
NAMES_SHOWN: Final = 8  # names of one certificate that it shows
UNHASHED = secrets.token_hex()  # stands for a missing secret; never right

USERS_FREE: Final = 10  # an address may fail this many times as often as one user from it


class Crowded:
    """The result for a claim that was not checked, because too many others are waiting."""


CROWDED: Final = Crowded()
Answer = User | Crowded | None
Then = Callable[[Answer], None]


@dataclass(slots=True)  # not frozen: that would take four times as long to make
class Claim:
    """The credentials that a client presents, and its address."""

    ip: str
    nonce: bytes  # of its INFO
    is_gone: Callable[[], bool]  # True once the client has left
    user: str = ""
    password: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    nkey: str = ""
    signature: str = field(default="", repr=False)
    names: tuple[Name, ...] | None = None  # in its certificate, if that decides

    def is_empty(self, keys: bool) -> bool:
        """True if the client gave no credentials. `keys`: some users have keys, so nkeys count."""
        return not (self.user or self.password or self.token or (keys and self.nkey))

    @property
    def says_something(self) -> bool:
        """True if the client gave credentials, or a certificate."""
        return bool(self.names) or not self.is_empty(keys=True)

    @property
    def label(self) -> str:
        """The claimed identity, as the log shows it; never a secret."""
        if self.names is not None:
            shown = ", ".join(repr(str(name)[:SHOWN_MAX]) for name in self.names[:NAMES_SHOWN])
            more = ", ..." if len(self.names) > NAMES_SHOWN else ""
            return f"no user has a name of its certificate: {shown or 'it has none'}{more}"
        if self.nkey:  # text that is not a public key may be a seed
            return f"nkey {self.nkey}" if is_public_key(self.nkey) else "an nkey"
        return (
            f"user {self.user[:SHOWN_MAX]!r}"
            if self.user
            else "a token"
            if self.token
            else "nobody"
        )


@dataclass(slots=True)
class _Attempt:
    """One secret to be checked, and the clients that wait for the result."""

    network: Hashable
    key: tuple[Hashable, str]  # the network and the user
    seal: bytes  # of the secret
    waiting: list[tuple[Claim, Then]] = field(default_factory=list)

    @property
    def claim(self) -> Claim:
        """The first of the claims; all have the same secret."""
        return self.waiting[0][0]

    def is_left(self) -> bool:
        """True if all waiting clients have gone."""
        return all(claim.is_gone() for claim, _ in self.waiting)


class Authenticator:
    """The checks of all clients' credentials. One per broker, for its one thread."""

    def __init__(
        self, users: Users, attempts: int, timeout: float, loop: asyncio.AbstractEventLoop
    ) -> None:
        """Let a user fail `attempts` times a minute from one address; `timeout` in seconds."""
        self.users = users
        self.timeout = timeout
        self._of_users = Attempts(attempts, timeout)
        # All clients of an address may come at once: unchecked attempts do not count as failed.
        self._of_addresses = Attempts(attempts * USERS_FREE, timeout, expects_worst=False)
        self.failures = 0  # so far
        self._loop = loop
        self._known = KnownSecrets()
        self._hashes = HashChecker(
            loop, lambda network: self._of_addresses.is_suspect(network, loop.time()), self._pause
        )
        self._attempts: dict[tuple[Hashable, bytes], _Attempt] = {}  # not checked yet
        self._stopped = False

    def renew(self, users: Users, attempts: int, timeout: float) -> None:
        """Take other users, how often each may fail, and how long clients may take."""
        self.users = users
        self.timeout = timeout
        self._of_users.allow(attempts, timeout)
        self._of_addresses.allow(attempts * USERS_FREE, timeout)

    def stop(self) -> None:
        """Stop checking, and give no more answers."""
        self._stopped = True
        self._attempts.clear()
        self._hashes.stop()

    def let_go(self) -> None:
        """Answer all waiting clients with None, and stop: authentication is now turned off."""
        waiting = [then for attempt in self._attempts.values() for _, then in attempt.waiting]
        self.stop()
        for then in waiting:
            then(None)

    @property
    def waiting(self) -> int:
        """The number of clients that wait for an answer."""
        return sum(len(attempt.waiting) for attempt in self._attempts.values())

    def identify(self, claim: Claim, then: Then) -> None:
        """Call `then` with the answer: now or later, in the broker's thread."""
        users = self.users
        if claim.names is not None:
            self._answer(users.of_certificate(claim.names), then)
        elif claim.is_empty(keys=bool(users.keys)):
            self._answer(users.nobody, then)
        elif claim.nkey and users.keys:
            self._answer(self._signer(claim), then)
        else:
            self._identify_by_secret(claim, then)

    def _signer(self, claim: Claim) -> User | None:
        public = self.users.keys.get(claim.nkey)
        if public is None or not claim.nonce:
            return None
        signed = is_signed(public, claim.nonce, claim.signature)
        return self.users.find(claim.nkey) if signed else None

    def _identify_by_secret(self, claim: Claim, then: Then) -> None:
        name, secret, given = self._compared(claim)
        network, now = network_of(claim.ip), self._loop.time()
        key = network, name if len(name) <= SHOWN_MAX else digest(name).hex()
        seal = digest(f"{len(secret)}:{secret}{given}")
        known = self._known.verdict(key, seal, now)
        if known is not None:
            self._answer(self._named(claim) if known else None, then)
            return
        attempt = self._attempts.get((key, seal))
        if attempt is not None:
            attempt.waiting.append((claim, then))
            return
        wait = self._wait(network, key, now)
        if wait < 0:
            self._answer(CROWDED, then)
            return
        attempt = self._attempts[key, seal] = _Attempt(network, key, seal, [(claim, then)])
        if wait == 0:
            self._check(attempt)
        else:
            self._loop.call_later(wait, self._check, attempt)

    def _compared(self, claim: Claim) -> tuple[str, str, str]:
        """Return the claimed user (empty for the token), its secret (empty if none), and the guess.

        An empty secret never matches.
        """
        users = self.users
        if users.token:
            return "", users.token, claim.token
        return claim.user, users.passwords.get(claim.user, ""), claim.password

    def _wait(self, network: Hashable, key: Hashable, now: float) -> float:
        """Return how long an attempt must wait, or -1 to refuse it."""
        wait = self._of_users.wait(key, now)
        if wait < 0:
            return wait
        of_address = self._of_addresses.wait(network, now)
        if of_address < 0:
            self._of_users.left(key, now)
            return of_address
        return max(wait, of_address)

    def _pause(self, guess: Guess) -> float:
        """Return how long to wait before this guess may be checked."""
        now = self._loop.time()
        of_user = self._of_users.pause((guess.address, guess.name), now)
        return max(of_user, self._of_addresses.pause(guess.address, now))

    def _answer(self, answer: Answer, then: Then) -> None:
        self.failures += not isinstance(answer, User)
        then(answer)

    def _check(self, attempt: _Attempt) -> None:
        """Compare a secret, after it has waited as long as it must."""
        if attempt.is_left() or self._stopped:
            self._leave(attempt)
            return
        _, secret, given = self._compared(attempt.claim)
        if secret and not is_hash(secret) and is_same(secret, given):
            self._checked(attempt, True)
            return
        if not is_hash(secret):
            same = is_same(UNHASHED, given)  # as long as a comparison takes
            secret = self.users.decoy
            if same or not secret:
                self._checked(attempt, False)
                return
        users = self.users

        def checked(right: bool | None) -> None:
            if right is None or self.users is not users:  # the users were reloaded meanwhile
                self._leave(attempt, again=right is not None)
            else:
                self._checked(attempt, right)

        guess = Guess(secret, given, attempt.key[1], attempt.network)
        self._hashes.check(guess, checked, attempt.is_left)

    def _checked(self, attempt: _Attempt, right: bool) -> None:
        """Answer all clients that wait for this secret."""
        now = self._loop.time()
        self._of_users.ended(attempt.key, now, not right)
        self._of_addresses.ended(attempt.network, now, not right)
        self._known.learn(attempt.key, attempt.seal, right)
        if self._attempts.pop((attempt.key, attempt.seal), None) is None:
            return  # all were answered already
        for claim, then in attempt.waiting:
            self._answer(self._named(claim) if right else None, then)

    def _leave(self, attempt: _Attempt, again: bool = False) -> None:
        """Drop an attempt unchecked: its clients have gone, or there are too many attempts.

        `again`: the users were reloaded, so identify the remaining clients from the start.
        """
        now = self._loop.time()
        self._of_users.left(attempt.key, now)
        self._of_addresses.left(attempt.network, now)
        if self._attempts.pop((attempt.key, attempt.seal), None) is None:
            return
        for claim, then in attempt.waiting:
            if claim.is_gone() or self._stopped:
                then(None)
            elif again:
                self.identify(claim, then)
            else:
                self._answer(CROWDED, then)

    def _named(self, claim: Claim) -> User | None:
        """Return the user whose secret was right."""
        return self.users.tokens_user if self.users.token else self.users.find(claim.user)
