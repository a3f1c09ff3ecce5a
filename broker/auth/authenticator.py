"""Finds out which user a client is, from what it claims in CONNECT, and from its certificate.

    a certificate    with `tls.verify_and_map`: the user named in it; it need prove nothing more
    an nkey          the nonce of INFO, signed with the private key
    user, password   compared in constant time, or with a bcrypt hash, in a thread
    a token          the same
    nothing          the user of `no_auth_user`, if there is one

Whether a name exists cannot be learned: an unknown one takes as long as a wrong password.
Attempts of an address that has failed often wait (broker/auth/attempts.py).
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from broker.addresses import network_of
from broker.auth.attempts import Attempts
from broker.auth.passwords import NOBODY, HashChecker, is_same
from broker.auth.users import Users
from broker.dataplane.user import User
from broker.public_key import is_signed
from broker.settings.authorization_checks import is_hash

UNHASHED = "nobody's"  # takes the place of a secret that is not there; never right

Then = Callable[[User | None], None]


@dataclass(frozen=True, slots=True)
class Claim:
    """What a client says of itself, and where it comes from."""

    ip: str
    nonce: bytes  # of its INFO
    is_gone: Callable[[], bool]  # whether the client has left meanwhile
    user: str = ""
    password: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    nkey: str = ""
    signature: str = field(default="", repr=False)
    names: tuple[str, ...] | None = None  # in its certificate, if that decides

    @property
    def is_empty(self) -> bool:
        """Whether it claims nothing."""
        return not (self.user or self.password or self.token or self.nkey or self.signature)

    @property
    def label(self) -> str:
        """How the log names who it claims to be; never a secret."""
        if self.nkey:
            return f"nkey {self.nkey[:64]!r}"
        return f"user {self.user[:64]!r}" if self.user else "a token" if self.token else "nobody"


class Authenticator:
    """One per broker, for its one thread."""

    def __init__(self, users: Users, attempts: int, loop: asyncio.AbstractEventLoop) -> None:
        self.users = users
        self.attempts = Attempts(attempts)
        self.failures = 0  # so far
        self._loop = loop
        self._hashes = HashChecker(loop)

    def stop(self) -> None:
        """Answer nobody any more."""
        self._hashes.stop()

    def identify(self, claim: Claim, then: Then) -> None:
        """Call `then` with the user, or None: now or later, in the broker's thread."""
        if claim.names is not None:
            found = (self.users.find(name) for name in claim.names)
            self._answer(next((user for user in found if user is not None), None), then)
            return
        if claim.is_empty and self.users.nobody is not None:
            then(self.users.nobody)
            return
        key, now = network_of(claim.ip), self._loop.time()
        wait = self.attempts.wait(key, now)

        def ended(user: User | None) -> None:
            self.attempts.ended(key, self._loop.time(), user is None)
            self._answer(user, then)

        if wait < 0:
            self._answer(None, then)
        elif wait == 0:
            self._check(claim, ended)
        else:
            self._loop.call_later(wait, self._check, claim, ended)

    def _answer(self, user: User | None, then: Then) -> None:
        self.failures += user is None
        then(user)

    def _check(self, claim: Claim, then: Then) -> None:
        """Check one claim, which has waited as long as it must."""
        if claim.is_gone():
            then(None)
        elif claim.nkey or claim.signature:
            public = self.users.keys.get(claim.nkey)
            signed = public is not None and is_signed(public, claim.nonce, claim.signature)
            then(self.users.find(claim.nkey) if signed else None)
        elif claim.user:
            user = self.users.find(claim.user)
            secret = self.users.passwords.get(claim.user, "")
            self._compare(secret, claim.password, claim, user, then)
        else:
            user = self.users.tokens_user if self.users.token else None
            self._compare(self.users.token, claim.token, claim, user, then)

    def _compare(
        self, secret: str, given: str, claim: Claim, user: User | None, then: Then
    ) -> None:
        """Compare what was given with the secret; one that is empty is never right."""
        if not secret:
            secret, user = NOBODY if self.users.has_hashes else UNHASHED, None
        if not is_hash(secret):
            same = is_same(secret, given)
            then(user if same else None)
            return

        def checked(right: bool) -> None:
            then(user if right else None)

        self._hashes.check(secret, given, network_of(claim.ip), checked, claim.is_gone)
