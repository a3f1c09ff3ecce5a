"""Public keys of users as NATS writes them: nkeys, and signatures made with them.

The text is base32 of a prefix byte (U for users), the 32 bytes of an Ed25519 key, and a CRC-16
(https://docs.nats.io/running-a-nats-service/configuration/securing_nats/auth_intro/nkey_auth).
"""

import base64
import binascii
import re
from typing import Final

_USER_KEY: Final = re.compile(r"U[A-Z2-7]{55}")


def public_key_of(text: str) -> bytes:
    """Return the 32 bytes of a user's public key. Raises `ValueError`, which says what is wrong."""
    import nkeys

    if text.startswith("S"):
        raise ValueError("the nkey is a seed, which is secret; give the public key, U...")
    if not _USER_KEY.fullmatch(text):
        raise ValueError("the nkey is not the public key of a user: U and 55 letters or digits 2-7")
    raw = base64.b32decode(text)
    crc = int.from_bytes(raw[-2:], "little")
    if raw[0] != nkeys.PREFIX_BYTE_USER or crc != nkeys.crc16(raw[:-2]):
        raise ValueError("the nkey has a letter that is wrong: its checksum does not fit")
    return raw[1:-2]


def is_public_key(text: str) -> bool:
    """True if this looks like a user's public key."""
    return _USER_KEY.fullmatch(text) is not None


def is_signed(public_key: bytes, text: bytes, signature: str) -> bool:
    """True if a text was signed with the private key; `signature` is base64, of either alphabet."""
    from nacl.exceptions import CryptoError
    from nacl.signing import VerifyKey

    try:
        padded = signature.translate({ord("+"): "-", ord("/"): "_"}).rstrip("=")
        raw = base64.b64decode(padded + "=" * (-len(padded) % 4), b"-_", validate=True)
        VerifyKey(public_key).verify(text, raw)
    except (CryptoError, ValueError, TypeError, binascii.Error):
        return False
    return True
