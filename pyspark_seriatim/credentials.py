"""Who we are, as CONNECT says it: user and password, a token, or a credentials file.

What the options say wins over what the address says. A credentials file holds a JWT and the seed
of an nkey; the broker's nonce is signed with it, by the package `nkeys`, which need not be there
otherwise.
"""

import base64
import re
from typing import Any, Final

from pyspark_seriatim.errors import BrokerError, OptionError
from pyspark_seriatim.options import Options
from pyspark_seriatim.values import Server

BLOCK: Final = re.compile(rb"-+BEGIN ([A-Z ]+)-+\s*(\S+)\s*-+END \1-+")
JWT, SEED = b"NATS USER JWT", b"USER NKEY SEED"


def connect_words(options: Options, server: Server, info: dict[str, Any]) -> dict[str, Any]:
    """The object of CONNECT. Raises `OptionError` where the credentials cannot be used."""
    words: dict[str, Any] = {
        "verbose": False,
        "pedantic": False,
        "headers": True,
        "no_responders": True,
        "protocol": 1,
        "lang": "python",
        "version": "1",
        "name": "pyspark_seriatim",
        "frame": "none",
    }
    if options.credentials_file:
        return words | _signed(options.credentials_file, server, info)
    if options.token or (server.token and not options.user):
        return words | {"auth_token": options.token or server.token}
    if options.user:
        return words | {"user": options.user, "pass": options.password}
    if server.user:
        return words | {"user": server.user, "pass": server.password}
    return words


def _signed(path: str, server: Server, info: dict[str, Any]) -> dict[str, Any]:
    """The JWT of a credentials file, and the broker's nonce as its seed signs it."""
    wrong = f"credentialsFile: {path}"
    try:
        with open(path, "rb") as file:
            found = dict(BLOCK.findall(file.read(1 << 20)))
    except OSError as error:
        raise OptionError(f"{wrong} cannot be read: {error.strerror}") from None
    if JWT not in found or SEED not in found:
        raise OptionError(f"{wrong} is not a credentials file: it has no JWT, or no seed")
    try:
        import nkeys
    except ImportError:
        raise OptionError("credentialsFile: it needs nkeys; pip install nkeys") from None
    nonce = str(info.get("nonce", ""))
    if not nonce:
        raise BrokerError(f"{server}: the broker asks for no credentials (credentialsFile)")
    try:
        signature = nkeys.from_seed(found[SEED]).sign(nonce.encode())
    except Exception:  # of whatever kind: its text might hold the seed
        raise OptionError(f"{wrong} holds a seed that cannot be used") from None
    return {
        "jwt": found[JWT].decode("ascii", "replace"),
        "sig": base64.urlsafe_b64encode(signature).decode().rstrip("="),
    }
