"""What a client may say in CONNECT, and how it is read: as nats-server reads it.

A JSON object; keys in any case, unknown ones ignored, the last of two equal ones wins;
`null` leaves an option as it is. A second CONNECT adds to the first. Anything else that is
no object, or has a value of the wrong type, hangs up on the client without a word.
"""

import json
from typing import Any

from parser.errors import (
    BadConnect,
    BadFrameOption,
    BadProtocol,
    NoRespondersNeedsHeaders,
    NoSuchAccount,
)

FRAMES = ("netstring", "header", "none")
_TYPES: dict[str, type] = {
    **dict.fromkeys(
        ("verbose", "pedantic", "echo", "headers", "no_responders", "tls_required", "new_account"),
        bool,
    ),
    **dict.fromkeys(
        ("name", "lang", "version", "account", "user", "pass", "auth_token", "jwt", "nkey", "sig"),
        str,
    ),
    "protocol": int,
    "frame": str,
}


def _no_constant(word: str) -> None:
    raise ValueError(f"{word} is not JSON")


def read_object(text: bytes) -> dict[str, Any]:
    """A JSON object, or `null` for an empty one. Raises `BadConnect`."""
    try:
        # Invalid UTF-8 within a string is nobody's business here: nats-server takes it too.
        value = json.loads(text.decode("utf-8", "replace"), parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise BadConnect(f"no JSON: {error}") from error
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise BadConnect(f"JSON, but no object: a {type(value).__name__}")
    return value


def read_options(text: bytes) -> dict[str, Any]:
    """The options that a CONNECT sets, by their lower-case names. Raises `WireError`."""
    options: dict[str, Any] = {}
    for key, value in read_object(text).items():
        name = key.lower()
        wanted = _TYPES.get(name)
        if value is None or wanted is None:
            continue
        if type(value) is not wanted:
            raise BadConnect(f"{name}: {value!r} is no {wanted.__name__}")
        options[name] = value
    if not -(1 << 63) <= options.get("protocol", 0) < 1 << 63:
        raise BadConnect("protocol: out of range")
    return options


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
