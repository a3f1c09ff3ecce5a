"""The credentials that CONNECT sends: user and password, a token, an nkey, or a file.

Explicit credentials win over those in the address. A credentials file holds a JWT and the seed of
an nkey, an nkey file only the seed. The package `nkeys` signs the broker's nonce with the seed; it
is needed for nothing else.
"""

import base64
import re
from dataclasses import dataclass, field
from typing import Any, Final

from seriatim.client.errors import BrokerError, InvalidArgument
from seriatim.client.server_address import ServerAddress

BLOCK: Final = re.compile(rb"-+BEGIN ([A-Z ]+)-+\s*(\S+)\s*-+END \1-+")
SEED_LINE: Final = re.compile(rb"^\s*(SU[A-Z2-7]+)\s*$", re.MULTILINE)
JWT, SEED = b"NATS USER JWT", b"USER NKEY SEED"
FILE_MAX: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Credentials:
    """Our credentials, wherever we connect; files are read at each connection."""

    user: str = ""
    password: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    file: str = ""  # with a JWT and a seed
    nkey_file: str = ""  # with a seed


NOBODY: Final = Credentials()


def connect_fields(
    credentials: Credentials, address: ServerAddress, info: dict[str, Any]
) -> dict[str, Any]:
    """Return the credentials as fields of CONNECT. Raises `InvalidArgument`, `BrokerError`."""
    if credentials.file or credentials.nkey_file:
        return _signed(credentials, address, info)
    if credentials.token or (address.token and not credentials.user):
        return {"auth_token": credentials.token or address.token}
    if credentials.user:
        return {"user": credentials.user, "pass": credentials.password}
    if address.user:
        return {"user": address.user, "pass": address.password}
    return {}


def _signed(
    credentials: Credentials, address: ServerAddress, info: dict[str, Any]
) -> dict[str, Any]:
    """Return the JWT or the public key, and the broker's nonce signed with the seed."""
    path = credentials.file or credentials.nkey_file
    try:
        with open(path, "rb") as file:
            text = file.read(FILE_MAX)
    except OSError as error:
        raise InvalidArgument(f"{path} cannot be read: {error.strerror}") from None
    found = dict(BLOCK.findall(text))
    if credentials.file and (JWT not in found or SEED not in found):
        raise InvalidArgument(f"{path} is not a credentials file: it has no JWT, or no seed")
    alone = SEED_LINE.search(text)
    seed = found.get(SEED) or (alone[1] if alone else b"")
    if not seed:
        raise InvalidArgument(f"{path} is not an nkey file: it has no seed")
    try:
        import nkeys
    except ImportError:
        raise InvalidArgument("an nkey needs the package nkeys: pip install nkeys") from None
    nonce = str(info.get("nonce", ""))
    if not nonce:
        raise BrokerError("the broker does not ask for credentials", address=str(address))
    try:
        pair = nkeys.from_seed(seed)
        signature, public = pair.sign(nonce.encode()), pair.public_key
    except Exception:  # any exception: its text might contain the seed
        raise InvalidArgument(f"{path} holds a seed that cannot be used") from None
    signed = {"sig": base64.urlsafe_b64encode(signature).decode().rstrip("=")}
    if credentials.file:
        return signed | {"jwt": found[JWT].decode("ascii", "replace")}
    return signed | {"nkey": public.decode()}
