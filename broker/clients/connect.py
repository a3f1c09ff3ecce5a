"""What a client may say in CONNECT, and how it is read: as nats-server reads it.

A JSON object; keys in any case, unknown ones ignored, the last of equal ones wins; `null`
leaves an option as it is. A second CONNECT adds to the first. Anything else that is no
object, or has a value of the wrong type, hangs up on the client without a word.
"""

from typing import Any, Final

from broker.clients.go_json import Pairs, read
from parser.errors import (
    BadConnect,
    BadFrameOption,
    BadProtocol,
    NoRespondersNeedsHeaders,
    NoSuchAccount,
)

FRAMES = ("netstring", "header", "none")
SECRETS: Final = ("pass", "auth_token", "jwt", "nkey", "sig", "proxy_sig")
_TYPES: dict[str, type] = {
    **dict.fromkeys(
        ("verbose", "pedantic", "echo", "headers", "no_responders", "tls_required", "new_account"),
        bool,
    ),
    **dict.fromkeys(
        (*SECRETS, "name", "lang", "version", "account", "user", "remote_account"),
        str,
    ),
    "protocol": int,
    "frame": str,
    "import": Pairs,
    "export": Pairs,
}
SHOWN: Final = {  # what the log may show, each with a value of its type: others may be secret
    name: wanted for name, wanted in _TYPES.items() if name not in (*SECRETS, "import", "export")
}
_WORDS = {bool: "a bool", str: "a string", int: "a whole number", Pairs: "an object"}


def folded(key: str) -> str:
    """A key as it is compared: Go knows two more letters than ASCII's that have a case."""
    return key.lower().replace("\N{LATIN SMALL LETTER LONG S}", "s")


def read_object(text: bytes) -> Pairs:
    """A JSON object, or `null` for an empty one. Raises `BadConnect`."""
    try:
        value = read(text)
    except ValueError as error:
        raise BadConnect(f"no JSON: {error}") from error
    if value is None:
        return Pairs()
    if not isinstance(value, Pairs):
        raise BadConnect(f"JSON, but no object: a {type(value).__name__}")
    return value


def read_options(text: bytes) -> dict[str, Any]:
    """The options that a CONNECT sets, by their lower-case names. Raises `WireError`."""
    options: dict[str, Any] = {}
    for key, value in read_object(text):
        name = folded(key)
        wanted = _TYPES.get(name)
        if value is None or wanted is None:
            continue
        if type(value) is not wanted:  # the value stays out of the log: it may be a password
            raise BadConnect(f"{name} is not {_WORDS[wanted]}")
        if isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
            raise BadConnect(f"{name} is out of range")
        if isinstance(value, Pairs):
            _check_permissions(name, value)
        options[name] = value
    return options


def _check_permissions(name: str, permissions: Pairs) -> None:
    """They are not used here, but must be what Go could read. Raises `BadConnect`."""
    for key, subjects in permissions:
        if subjects is None or folded(key) not in ("allow", "deny"):
            continue
        if type(subjects) is not list or not all(
            type(one) in (str, type(None)) for one in subjects
        ):
            raise BadConnect(f"{name}.{folded(key)} is not a list of strings")


def check_options(options: dict[str, Any]) -> None:
    """Refuse what all options so far, taken together, may not say. Raises `WireError`."""
    if options.get("protocol", 0) not in (0, 1):
        raise BadProtocol(f"protocol {options['protocol']}")
    if options.get("account") or options.get("new_account"):
        raise NoSuchAccount(f"account {options.get('account')!r}")
    if options.get("no_responders") and not options.get("headers"):
        raise NoRespondersNeedsHeaders("no_responders without headers")
    if options.get("frame", "netstring") not in FRAMES:
        raise BadFrameOption(f"frame {options['frame']!r}")
