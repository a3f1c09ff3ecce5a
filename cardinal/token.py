"""The resumption token: where to resume reading, as text to be stored with each block.

    1141c2c3a6b8558d=1337              stream=number;stream=number...
    1141c2c3a6b8558d=1337;begun:40     the same, for a chain that was begun in the middle

Reading each stream from its number on gives everything after the block with which the token was
stored. A stream that is not named must be read from its beginning. A stream of Seriatim is the id
of a journal: numbers of another journal mean nothing. Names are without `=`, `;` and blanks;
numbers are 0 to 2^63 - 1.

`begun` is the number of the first applied block, if blocks below it were not applied and may still
come. It is left out as soon as those would be too old.
"""

import re
from collections.abc import Mapping

from cardinal.errors import CardinalError
from cardinal.messages import NUMBER_MAX

NAME = re.compile(r"[!-:<>-~]+")  # printable ASCII but ; and =
BEGUN = "begun:"
DIGITS = re.compile(r"0|[1-9][0-9]{0,18}")


class BadToken(CardinalError):
    """Text that is not a resumption token."""


def format_token(streams: Mapping[str, int], begun: int | None = None) -> str:
    """A token of these streams. Raises `BadToken`."""
    parts = [f"{check_name(name)}={_number(str(streams[name]))}" for name in sorted(streams)]
    if begun is not None:
        parts.append(f"{BEGUN}{_number(str(begun))}")
    return ";".join(parts)


def parse_token(text: str) -> dict[str, int]:
    """The streams of a token; none for the empty text. Raises `BadToken`."""
    return read_token(text)[0]


def read_token(text: str) -> tuple[dict[str, int], int | None]:
    """The streams of a token, and the first number of its chain. Raises `BadToken`."""
    found: dict[str, int] = {}
    begun: int | None = None
    for part in text.split(";") if text else ():
        name, equals, number = part.partition("=")
        if not equals and begun is None and part.startswith(BEGUN):
            begun = _number(part.removeprefix(BEGUN))
            continue
        if not equals:
            raise BadToken(f"{part!r} is not stream=number")
        if name in found:
            raise BadToken(f"the stream {name!r} occurs twice")
        found[check_name(name)] = _number(number)
    return found, begun


def check_name(name: str) -> str:
    """`name` itself, if it can name a stream. Raises `BadToken`."""
    if not NAME.fullmatch(name) or "=" in name:
        raise BadToken(f"{name!r} is not a valid name of a stream")
    return name


def _number(digits: str) -> int:
    if not DIGITS.fullmatch(digits) or int(digits) > NUMBER_MAX:
        raise BadToken(f"{digits!r:.40} is not a number from 0 to 2^63 - 1")
    return int(digits)
