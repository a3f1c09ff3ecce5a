"""The handshake in which two members prove that they know the cluster's secret, without I/O.

    listener                                        dialler
    "SERISECR" version u8 challenge[32]  ------->
                 <-------  1 u8  challenge[32]  proof[32]
    1 u8  proof[32]                      ------->          or 0 u8: refused; then it closes

A proof is an HMAC-SHA256, with the secret as its key, of the version, the role of the proving side,
the cluster's name and both challenges. Challenges are random, so no proof is valid twice. The role
is included, so a side cannot be tricked into answering its own challenge. The dialler proves first,
so a stranger that connects learns nothing made with the secret.

The handshake does not protect the rest of the connection: use TLS (member_tls.py) or a private
network for that.
At most 97 bytes are kept.
"""

import hmac
import os
from typing import Final

MAGIC: Final = b"SERISECR"
VERSION: Final = 1
CHALLENGE_BYTES: Final = 32
PROOF_BYTES: Final = 32
REFUSED: Final = 0
PROVEN: Final = 1
SECRET_BYTES_MIN: Final = 16
SECRET_BYTES_MAX: Final = 64 << 10  # more is another file, given by mistake

GREETING_BYTES: Final = len(MAGIC) + 1 + CHALLENGE_BYTES
PROOF_AT: Final = 1 + CHALLENGE_BYTES


class HandshakeFailed(Exception):
    """The other side is not a member of this cluster; `str()` says why."""


class BadSecret(OSError):
    """The secret's file cannot be used; `str()` says why, and what to do."""


class SecretHandshake:
    """One side of a new connection. Feed `receive`; send `take_output()` after each call."""

    def __init__(
        self, secret: bytes, cluster: str, dials: bool, challenge: bytes | None = None
    ) -> None:
        self.done = False  # both sides have proven that they know the secret
        self.rest = b""  # bytes received after the handshake
        self._secret, self._cluster, self._dials = secret, cluster, dials
        self._own = os.urandom(CHALLENGE_BYTES) if challenge is None else challenge
        assert len(self._own) == CHALLENGE_BYTES, "a challenge has one size"
        self._other = b""  # the other side's challenge
        self._inbox = b""
        self._output = b"" if dials else MAGIC + bytes((VERSION,)) + self._own

    def take_output(self) -> bytes:
        """Return the bytes to send now, also after `HandshakeFailed`."""
        output, self._output = self._output, b""
        return output

    def receive(self, data: bytes) -> None:
        """Take received bytes. Raises `HandshakeFailed`: then send the output, and close."""
        if self.done:
            self.rest += data
            return
        self._inbox += data
        if not self._dials:
            self._hear_proof()
        elif not self._other:
            self._hear_greeting()
        else:
            self._hear_answer()

    def _hear_greeting(self) -> None:
        """As the dialler: read the listener's challenge, and send the proof."""
        inbox = self._inbox
        if inbox[: len(MAGIC)] != MAGIC[: len(inbox)]:
            raise HandshakeFailed("what listens there is not a member of a cluster")
        if len(inbox) > len(MAGIC) and inbox[len(MAGIC)] != VERSION:
            raise HandshakeFailed(
                f"it speaks version {inbox[len(MAGIC)]} of the handshake, and this member"
                f" version {VERSION}"
            )
        if len(inbox) < GREETING_BYTES:
            return
        self._other = inbox[len(MAGIC) + 1 : GREETING_BYTES]
        if len(inbox) > GREETING_BYTES:
            raise HandshakeFailed("it has answered before it was asked")
        self._inbox = b""
        self._output += bytes((PROVEN,)) + self._own + self._proof(True)

    def _hear_proof(self) -> None:
        """As the listener: read the dialler's challenge, check its proof, and prove in turn."""
        inbox = self._inbox
        size = PROOF_AT + PROOF_BYTES
        if inbox and inbox[0] != PROVEN:
            raise HandshakeFailed("what connected is not a member of a cluster")
        if len(inbox) < size:
            return
        self._other = inbox[1:PROOF_AT]
        if not hmac.compare_digest(inbox[PROOF_AT:size], self._proof(True)):
            self._output += bytes((REFUSED,))
            raise HandshakeFailed("it has another cluster.secret_file, or another cluster.name")
        self._output += bytes((PROVEN,)) + self._proof(False)
        self._finish(size)

    def _hear_answer(self) -> None:
        """As the dialler: check the listener's proof."""
        inbox = self._inbox
        size = 1 + PROOF_BYTES
        if inbox and inbox[0] == REFUSED:
            raise HandshakeFailed(
                "it refused this member: it has another cluster.secret_file, or another"
                " cluster.name"
            )
        if inbox and inbox[0] != PROVEN:
            raise HandshakeFailed("what listens there is not a member of a cluster")
        if len(inbox) < size:
            return
        if not hmac.compare_digest(inbox[1:size], self._proof(False)):
            raise HandshakeFailed("it does not know the secret of cluster.secret_file")
        self._finish(size)

    def _finish(self, size: int) -> None:
        self.rest, self._inbox = self._inbox[size:], b""
        self.done = True

    def _proof(self, of_dialler: bool) -> bytes:
        """Return a side's proof for this handshake. Only its last part has no fixed size."""
        role = b"dialler " if of_dialler else b"listener"
        dialler, listener = (self._own, self._other) if self._dials else (self._other, self._own)
        text = MAGIC + bytes((VERSION,)) + role + listener + dialler + self._cluster.encode()
        return hmac.digest(self._secret, text, "sha256")


def read_secret(path: str) -> bytes:
    """Read the secret from a file, and strip blanks and line ends. Raises `BadSecret`."""
    try:
        with open(path, "rb") as file:
            secret = file.read(SECRET_BYTES_MAX + 1).strip()
    except OSError as error:
        raise BadSecret(f"cluster.secret_file: {path}: {error.strerror}") from error
    if not SECRET_BYTES_MIN <= len(secret) <= SECRET_BYTES_MAX:
        raise BadSecret(
            f"cluster.secret_file: {path}: {len(secret)} bytes are not a secret; make one of"
            f" {SECRET_BYTES_MIN} or more: openssl rand -hex 32 > {path}"
        )
    return secret
