"""The resumption token: where to begin to read again, as text to be stored with each block.

    1141c2c3a6b8558d=1337              stream=number;stream=number...

Whoever reads each stream from its number on misses nothing that comes after the block with which
the token was stored. A stream of Seriatim is the id of a journal: the number of another journal
means nothing. Names are without `=`, `;` and blanks, numbers are 0 to 2^63 - 1.
"""

import re
from collections.abc import Mapping

from cardinal.errors import CardinalError
from cardinal.message import NUMBER_MAX

NAME = re.compile(r"[!-:<>-~]+")  # printable ASCII but ; and =
DIGITS = re.compile(r"0|[1-9][0-9]{0,18}")


class BadToken(CardinalError):
    """Text that is no resumption token."""


def format_token(streams: Mapping[str, int]) -> str:
    """A token of these streams. Raises `BadToken`."""
    return ";".join(f"{_name(name)}={_number(str(streams[name]))}" for name in sorted(streams))


def parse_token(text: str) -> dict[str, int]:
    """The streams of a token; none for the empty text. Raises `BadToken`."""
    found: dict[str, int] = {}
    for part in text.split(";") if text else ():
        name, equals, number = part.partition("=")
        if not equals:
            raise BadToken(f"{part!r} is not stream=number")
        if name in found:
            raise BadToken(f"the stream {name!r} is there twice")
        found[_name(name)] = _number(number)
    return found


def _name(name: str) -> str:
    if not NAME.fullmatch(name) or "=" in name:
        raise BadToken(f"{name!r} is no name of a stream")
    return name


def _number(digits: str) -> int:
    if not DIGITS.fullmatch(digits) or int(digits) > NUMBER_MAX:
        raise BadToken(f"{digits!r:.40} is no number from 0 to 2^63 - 1")
    return int(digits)
