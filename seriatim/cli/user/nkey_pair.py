"""A user's pair of keys, as NATS writes them: the public one for the broker, the seed for the user.

A seed file contains the seed alone, without a line end: every client and tool of NATS reads it.
"""

import os
from typing import NamedTuple

from broker.settings.public_key import public_key_of
from seriatim.cli.errors import CliError, UsageError


class NkeyPair(NamedTuple):
    """A public key, and its seed if known."""

    public: str  # U...
    seed: str  # SU..., secret; empty: not known here


def new_pair() -> NkeyPair:
    """Make new random keys."""
    import nkeys

    seed: bytes = nkeys.encode_seed(os.urandom(32), nkeys.PREFIX_BYTE_USER)
    return NkeyPair(nkeys.from_seed(seed).public_key.decode(), seed.decode())


def checked_public(text: str) -> NkeyPair:
    """Check a public key that was made elsewhere, so without its seed. Raises `CliError`."""
    try:
        public_key_of(text)
    except ValueError as wrong:
        raise UsageError(f"--public: {wrong}") from None
    return NkeyPair(text, "")


def write_seed(path: str, seed: str) -> None:
    """Write a new file that only its owner can read. Raises `CliError`."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise CliError(f"--seed {path}: exists already; give the name of a new file") from None
    except OSError as error:
        raise CliError(f"--seed {path}: cannot be made: {error.strerror}") from None
    try:
        with open(descriptor, "wb") as file:
            file.write(seed.encode())
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        os.unlink(path)
        raise CliError(f"--seed {path}: cannot be written: {error.strerror}") from None
