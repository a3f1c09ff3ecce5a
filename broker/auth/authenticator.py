"""Finds out which user a client is, from what it claims in CONNECT, and from its certificate.

    a certificate    with `tls.verify_and_map`: the user named in it; it need prove nothing more
    an nkey          the nonce of INFO, signed with the private key; ignored if nobody has one
    user, password   compared in constant time, or with a bcrypt hash, in a thread
    a token          the same
    nothing          the user of `no_auth_user`, if there is one

Whether a name exists cannot be learned: an unknown one takes as long as a wrong password.
Attempts of an address that has failed often wait (broker/auth/attempts.py).
"""

import asyncio
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from broker.addresses import network_of
from broker.auth.attempts import Attempts
from broker.auth.passwords import Guess, HashChecker, is_same
from broker.auth.users import Users
from broker.dataplane.user import User
from broker.distinguished_name import Name
from broker.public_key import is_public_key, is_signed
from broker.settings.authorization_checks import is_hash

SHOWN_MAX: Final = 64  # characters of a name that the log shows
NAMES_SHOWN: Final = 8  # names of one certificate that it shows
UNHASHED = secrets.token_hex()  # takes the place of a secret that is not there; never right

Then = Callable[[User | None], None]
Ended = Callable[[User | None, bool], None]  # and whether the claim was checked


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
    names: tuple[Name, ...] | None = None  # in its certificate, if that decides

    def is_empty(self, keys: bool) -> bool:
        """Whether it claims nothing; `keys`: whether there are users with keys."""
        return not (self.user or self.password or self.token or (keys and self.nkey))

    @property
    def label(self) -> str:
        """How the log names who it claims to be; never a secret."""
        if self.names is not None:
            shown = ", ".join(repr(str(name)[:SHOWN_MAX]) for name in self.names[:NAMES_SHOWN])
            more = ", ..." if len(self.names) > NAMES_SHOWN else ""
            return f"no user has a name of its certificate: {shown or 'it has none'}{more}"
        if self.nkey:  # one that is no public key may be a seed
            return f"nkey {self.nkey}" if is_public_key(self.nkey) else "an nkey"
        return (
            f"user {self.user[:SHOWN_MAX]!r}"
            if self.user
            else "a token"
            if self.token
            else "nobody"
        )


class Authenticator:
    """One per broker, for its one thread."""

    def __init__(
        self, users: Users, attempts: int, timeout: float, loop: asyncio.AbstractEventLoop
    ) -> None:
        """`attempts` that an address may fail a minute; `timeout` of an attempt, in seconds."""
        self.users = users
        self.attempts = Attempts(attempts, timeout)
        self.failures = 0  # so far
        self._loop = loop
        self._hashes = HashChecker(
            loop,
            lambda address: self.attempts.is_suspect(address, loop.time()),
            lambda address: self.attempts.pause(address, loop.time()),
        )
        self._asked: dict[Then, None] = {}  # who waits for an answer
        self._stopped = False

    def stop(self) -> None:
        """Answer nobody any more."""
        self._stopped = True
        self._asked.clear()
        self._hashes.stop()

    def let_go(self) -> None:
        """Nobody need authenticate any more: answer all who wait, and then nobody."""
        asked = list(self._asked)
        self.stop()
        for then in asked:
            then(None)

    def identify(self, claim: Claim, then: Then) -> None:
        """Call `then` with the user, or None: now or later, in the broker's thread."""
        if claim.names is not None:
            self._answer(self.users.of_certificate(claim.names), then)
            return
        if self.users.nobody is not None and claim.is_empty(keys=bool(self.users.keys)):
            then(self.users.nobody)
            return
        key, now = network_of(claim.ip), self._loop.time()
        wait = self.attempts.wait(key, now)
        if wait < 0:
            self._answer(None, then)
            return
        self._asked[then] = None

        def ended(user: User | None, is_checked: bool) -> None:
            if then in self._asked:
                del self._asked[then]
                now = self._loop.time()
                if is_checked:
                    self.attempts.ended(key, now, user is None)
                else:
                    self.attempts.left(key, now)
                self._answer(user, then)

        if wait == 0:
            self._check(claim, ended)
        else:
            self._loop.call_later(wait, self._check, claim, ended)

    def _answer(self, user: User | None, then: Then) -> None:
        self.failures += user is None
        then(user)

    def _check(self, claim: Claim, ended: Ended) -> None:
        """Check one claim, which has waited as long as it must."""
        if claim.is_gone() or self._stopped:
            ended(None, False)
        elif claim.nkey and self.users.keys:
            public = self.users.keys.get(claim.nkey)
            signed = (
                public is not None
                and claim.nonce != b""
                and is_signed(public, claim.nonce, claim.signature)
            )
            ended(self.users.find(claim.nkey) if signed else None, True)
        elif self.users.token:
            self._compare(self.users.token, claim.token, claim, ended)
        else:
            self._compare(self.users.passwords.get(claim.user, ""), claim.password, claim, ended)

    def _compare(self, secret: str, given: str, claim: Claim, ended: Ended) -> None:
        """Compare what was given with the secret; one that is empty is never right."""
        users = self.users
        if secret and not is_hash(secret) and is_same(secret, given):
            ended(self._named(claim), True)
            return
        if not is_hash(secret):
            same = is_same(UNHASHED, given)  # as long as a comparison takes
            secret = users.decoy
            if same or not secret:
                ended(None, True)
                return

        def checked(right: bool | None) -> None:
            if right is not None and self.users is not users:  # they were reloaded meanwhile
                self._check(claim, ended)
            else:
                ended(self._named(claim) if right else None, right is not None)

        guess = Guess(secret, given, claim.user, network_of(claim.ip))
        self._hashes.check(guess, checked, claim.is_gone)

    def _named(self, claim: Claim) -> User | None:
        """The user whose secret was right."""
        return self.users.tokens_user if self.users.token else self.users.find(claim.user)
