"""HTTP Basic for the monitoring pages: one user, whose password may be a bcrypt hash.

bcrypt is slow on purpose. So one request at a time is checked with it, and credentials that were
right last time are recognised without it: a scrape costs nothing, and guesses take turns. An
address that has failed too often is refused for up to a second after each failure, unchecked, even
with the right password: otherwise a guesser would learn from the answer that it is right.
"""

import base64
import binascii
import threading
import time

from broker.addresses import network_of
from broker.auth.attempts import Attempts
from broker.auth.passwords import digest, has_hash, is_same
from broker.settings.authorization_checks import is_hash

CHALLENGE = ("WWW-Authenticate", 'Basic realm="Seriatim monitoring", charset="UTF-8"')


class BasicAuth:
    """One per monitor, for its threads."""

    def __init__(self) -> None:
        self._attempts = Attempts(0, 0.0)
        self._attempting = threading.Lock()
        self._lock = threading.Lock()
        self._right = b""  # a digest of the credentials and the hash that were right last time

    def pause(self, ip: str, free: int, timeout: float) -> float:
        """For how many seconds an address is refused unchecked; 0: it may try.

        `free` attempts may fail a minute; `timeout` is that of authentication, in seconds.
        """
        with self._attempting:
            self._attempts.allow(free, timeout)
            return self._attempts.pause(network_of(ip), time.monotonic())

    def ended(self, ip: str, failed: bool) -> None:
        """An attempt of this address was checked."""
        with self._attempting:
            self._attempts.ended(network_of(ip), time.monotonic(), failed)

    def admits(self, user: str, password: str, header: str) -> bool:
        """Whether an `Authorization` header has this user and password."""
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
    """User and password of a header; None if it has none."""
    scheme, _, encoded = header.strip().partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        both = base64.b64decode(encoded.strip(), validate=True)
    except (binascii.Error, ValueError):
        return None
    user, colon, password = both.decode("utf-8", "surrogateescape").partition(":")
    return (user, password) if colon else None
