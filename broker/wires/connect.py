"""The options of CONNECT, read as nats-server reads them.

A JSON object: keys match in any case, unknown keys are ignored, the last of equal keys counts, and
`null` leaves an option unchanged. A second CONNECT adds to the first. If CONNECT is not an object,
or an option has the wrong type, the connection is closed without an error message.
"""

from typing import Any, Final

from broker.wires.go_json import Pairs, read
from parser.errors import (
    BadConnect,
    BadFrameOption,
    BadProtocol,
    NoRespondersNeedsHeaders,
    NoSuchAccount,
)

FRAMES = ("netstring", "header", "stamp", "none")
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
SHOWN: Final = {  # the log may show these if their type is right; other values may be secret
    name: wanted for name, wanted in _TYPES.items() if name not in (*SECRETS, "import", "export")
}
_WORDS = {bool: "a bool", str: "a string", int: "a whole number", Pairs: "an object"}


def folded(key: str) -> str:
    """Return a key as Go compares it: in lower case, and the long s as an s."""
    return key.lower().replace("\N{LATIN SMALL LETTER LONG S}", "s")


def read_object(text: bytes) -> Pairs:
    """Read a JSON object; the empty one for `null`. Raises `BadConnect`."""
    try:
        value = read(text)
    except ValueError as error:
        raise BadConnect(f"not valid JSON: {error}") from error
    if value is None:
        return Pairs()
    if not isinstance(value, Pairs):
        raise BadConnect(f"not a JSON object: a {type(value).__name__}")
    return value


def read_options(text: bytes) -> dict[str, Any]:
    """Return the options that a CONNECT sets, by their lower-case names. Raises `WireError`."""
    options: dict[str, Any] = {}
    for key, value in read_object(text):
        name = key if key in _TYPES else folded(key)  # nearly all are written like that
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
    """Check the types of permissions as Go does; they are not used. Raises `BadConnect`."""
    for key, subjects in permissions:
        if subjects is None or folded(key) not in ("allow", "deny"):
            continue
        if type(subjects) is not list or not all(
            type(one) in (str, type(None)) for one in subjects
        ):
            raise BadConnect(f"{name}.{folded(key)} is not a list of strings")


def check_options(options: dict[str, Any]) -> None:
    """Refuse invalid combinations of all the options so far. Raises `WireError`."""
    if options.get("protocol", 0) not in (0, 1):
        raise BadProtocol(f"protocol {options['protocol']}")
    if options.get("account") or options.get("new_account"):
        raise NoSuchAccount(f"account {options.get('account')!r}")
    if options.get("no_responders") and not options.get("headers"):
        raise NoRespondersNeedsHeaders("no_responders without headers")
    if options.get("frame", "netstring") not in FRAMES:
        raise BadFrameOption(f"frame {options['frame']!r}")
