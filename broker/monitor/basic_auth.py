"""HTTP Basic for the monitoring pages: one user, whose password may be a bcrypt hash.

bcrypt is slow on purpose. So one request at a time is checked with it, and credentials that were
right last time are recognised without it: a scrape costs nothing, and guesses take turns. An
address that has failed too often is refused for up to a second after each failure, unchecked:
otherwise a guesser would learn from the answer that a password is right. Credentials that were
right or wrong from an address before are remembered (broker/auth/known_secrets.py): a scraper with
an old password does not lock out clients with the new one.
"""

import base64
import binascii
import threading
import time

from broker.addresses import network_of
from broker.auth.attempts import Attempts
from broker.auth.known_secrets import KnownSecrets
from broker.auth.passwords import digest, has_hash, is_same
from broker.settings.authorization_checks import is_hash

CHALLENGE = ("WWW-Authenticate", 'Basic realm="Seriatim monitoring", charset="UTF-8"')


class BasicAuth:
    """The check of credentials, one per monitor, for its threads."""

    def __init__(self) -> None:
        self._attempts = Attempts(0, 0.0)
        self._known = KnownSecrets()
        self._attempting = threading.Lock()
        self._lock = threading.Lock()
        self._right = b""  # a digest of the credentials and the hash that were right last time

    def judge(
        self, ip: str, header: str, login: tuple[str, str], free: int, timeout: float
    ) -> float:
        """Check an `Authorization` header from this address for the user and the password.

        0: they are right; -1: they are wrong; otherwise the seconds for which it is refused
        unchecked. `free` attempts may fail a minute; `timeout` is that of authentication, in
        seconds.
        """
        user, password = login
        network = network_of(ip)
        seal = digest(f"{len(user)}:{user}{len(password)}:{password}{header}")
        with self._attempting:
            self._attempts.allow(free, timeout)
            now = time.monotonic()
            known = self._known.verdict(network, seal, now)
            pause = self._attempts.pause(network, now) if known is None else 0.0
        if known is None and pause > 0:
            return pause
        if known is None:
            known = self.admits(user, password, header)
            with self._attempting:
                self._attempts.ended(network, time.monotonic(), not known)
                self._known.learn(network, seal, known)
        return 0.0 if known else -1.0

    def admits(self, user: str, password: str, header: str) -> bool:
        """True if an `Authorization` header contains this user and password."""
        given = _credentials(header)
        if given is None:
            return False
        name, secret = given
        named = is_same(name, user)
        if not is_hash(password):
            return is_same(secret, password) and named
        right = digest(f"{len(name)}:{name}{len(secret)}:{secret}{password}")
        if named and right == self._right:
            return True
        with self._lock:
            admitted = has_hash(password, secret) and named
        if admitted:
            self._right = right
        return admitted


def _credentials(header: str) -> tuple[str, str] | None:
    """Return the user and password of a header; None if it contains none."""
    scheme, _, encoded = header.strip().partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        both = base64.b64decode(encoded.strip(), validate=True)
    except (binascii.Error, ValueError):
        return None
    user, colon, password = both.decode("utf-8", "surrogateescape").partition(":")
    return (user, password) if colon else None
