"""HTTP Basic for the monitoring pages: one user, whose password may be a bcrypt hash.

bcrypt is slow on purpose. So one request at a time is checked with it, and the credentials that
were right last time are recognised without it: a scrape costs nothing, and guesses take turns.
"""

import base64
import binascii
import hmac
import os
import threading

from broker.settings.authorization_checks import is_hash

CHALLENGE = ("WWW-Authenticate", 'Basic realm="Seriatim monitoring", charset="UTF-8"')


class BasicAuth:
    """One per monitor, for its threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._key = os.urandom(32)
        self._right = b""  # a digest of what was right last time, for whom, and of which password

    def admits(self, user: str, password: str, header: str) -> bool:
        """Whether an `Authorization` header has this user and password; all if there is no user."""
        if not user:
            return True
        given = _credentials(header)
        if given is None:
            return False
        said, secret = given
        named = hmac.compare_digest(said, user.encode())
        if not is_hash(password):
            return hmac.compare_digest(secret, password.encode()) and named
        digest = self._digest(said, secret, password.encode())
        if named and hmac.compare_digest(digest, self._right):
            return True
        with self._lock:
            right = _fits(secret, password.encode()) and named
        if right:
            self._right = digest
        return right

    def _digest(self, *parts: bytes) -> bytes:
        sized = b"".join(b"%d:%b," % (len(part), part) for part in parts)
        return hmac.digest(self._key, sized, "sha256")


def _fits(secret: bytes, hashed: bytes) -> bool:
    import bcrypt  # only where there is a hash

    try:
        return bcrypt.checkpw(secret, hashed)
    except ValueError:  # longer than bcrypt takes
        return False


def _credentials(header: str) -> tuple[bytes, bytes] | None:
    """User and password of a header; None if it has none."""
    scheme, _, encoded = header.strip().partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        user, colon, password = base64.b64decode(encoded.strip(), validate=True).partition(b":")
    except (binascii.Error, ValueError):
        return None
    return (user, password) if colon else None
