"""HTTP Basic for the monitoring pages: one user, whose password may be a bcrypt hash.

bcrypt is slow on purpose. So one request at a time is checked with it, and credentials that were
right last time are recognised without it: a scrape costs nothing, and guesses take turns.
"""

import base64
import binascii
import threading

from broker.auth.passwords import digest, has_hash, is_same
from broker.settings.authorization_checks import is_hash

CHALLENGE = ("WWW-Authenticate", 'Basic realm="Seriatim monitoring", charset="UTF-8"')


class BasicAuth:
    """One per monitor, for its threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._right = b""  # a digest of the credentials and the hash that were right last time

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
