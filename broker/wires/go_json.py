"""Reads JSON as Go's `encoding/json` does, so that it accepts what nats-server accepts.

Equal keys are all kept, in order; values may be nested `DEPTH_MAX` deep; a number may have any
length; invalid UTF-8 in strings is allowed, and half of a surrogate pair: both become U+FFFD.
Python's own reader fails at some thousand levels. So in a deeply nested text, everything below
`KEPT_DEPTH` is checked here and then cut out.
"""

import json
import re
from collections.abc import Callable
from typing import Any, Final

DEPTH_MAX: Final = 10_000  # Go's own limit
KEPT_DEPTH: Final = 8  # no option is nested deeper
LEVELS_MAX: Final = 200  # brackets in a text that Python reads directly
DIGITS_MAX: Final = 24  # digits of a number that are read; longer numbers are out of range anyway

_TOKEN = re.compile(
    r"[ \t\n\r]*(?:"
    r'("[^"\\\x00-\x1f]*(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*)*")'
    r"|(-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?|true|false|null)"
    r"|([\[\]{},:]))"
)
# An escape: a surrogate pair, half of one, or any other.
_ESCAPE = re.compile(
    r"\\(?:(u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})"
    r"|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)
_HALF = 2  # group of that pattern
_STRING, _SCALAR = 1, 2  # groups of the pattern; the third is a punctuation mark
# The tokens that may come next. In an empty object or array the first key or value may be missing.
_VALUE, _FIRST_VALUE, _KEY, _FIRST_KEY, _COLON, _END = range(6)
_EMPTY = {"]": _FIRST_VALUE, "}": _FIRST_KEY}
_OPENED_BY = {"]": "[", "}": "{"}


class Pairs(list[tuple[str, Any]]):
    """A JSON object: its keys and values as written."""


def read(text: bytes) -> Any:
    """Read a JSON text, with objects as `Pairs`. Raises `ValueError`."""
    words = text.decode("utf-8", "replace")
    if "\\u" in words:
        words = _ESCAPE.sub(lambda found: "\\ufffd" if found[_HALF] else found[0], words)
    if words.count("[") + words.count("{") > LEVELS_MAX:
        words = shallow(words)
    if words[:1] == "{" and words[-1:] == "}":
        try:
            value, end = _SCANNER(words, 0)
        except StopIteration:  # a value is missing: `decode` says where
            end = -1
        if end == len(words):
            return value
    return _DECODER.decode(words)


def shallow(words: str) -> str:
    """Return the text with `null` for values nested too deep to matter. Raises `ValueError`."""
    kept: list[str] = []
    stack: list[str] = []
    state, at = _VALUE, 0
    while (match := _TOKEN.match(words, at)) is not None:
        kind = match.lastindex or 0
        token = match[kind]
        depth = len(stack)
        if kind == _STRING and state in (_KEY, _FIRST_KEY):
            state = _COLON
        elif kind in (_STRING, _SCALAR) and state in (_VALUE, _FIRST_VALUE):
            state = _END
        elif token in ("[", "{") and state in (_VALUE, _FIRST_VALUE):
            stack.append(token)
            state = _FIRST_VALUE if token == "[" else _FIRST_KEY
            if depth == DEPTH_MAX:
                raise ValueError(f"more than {DEPTH_MAX} levels")
            token = token if depth < KEPT_DEPTH else "null"
        elif token in _EMPTY and stack and stack[-1] == _OPENED_BY[token]:
            if state not in (_END, _EMPTY[token]):
                break
            stack.pop()
            state = _END
            depth = len(stack) if len(stack) < KEPT_DEPTH else KEPT_DEPTH + 1
        elif token == ":" and state == _COLON:
            state = _VALUE
        elif token == "," and state == _END and stack:
            state = _KEY if stack[-1] == "{" else _VALUE
        else:
            break
        at = match.end()
        if depth <= KEPT_DEPTH:
            kept.append(token)
    if stack or state != _END or words[at:].strip(" \t\n\r"):
        raise ValueError(f"not JSON at character {at}")
    return "".join(kept)


def _no_constant(word: str) -> None:
    raise ValueError(f"{word} is not JSON")


def _whole(digits: str) -> int:
    """Read a whole number; only its first digits, if it is longer than any that is accepted."""
    return int(digits[:DIGITS_MAX])


# `json.loads` would make one for each CONNECT.
_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=Pairs, parse_constant=_no_constant, parse_int=_whole
)
# What `decode` calls between its looks for blanks.
_SCANNER: Final[Callable[[str, int], tuple[Any, int]]] = vars(_DECODER)["scan_once"]
