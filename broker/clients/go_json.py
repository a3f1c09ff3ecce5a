"""JSON as Go's `encoding/json` reads it, for what clients of nats-server may send.

Equal keys all count, in their order; values may lie `DEPTH_MAX` deep; a number may have any
length; invalid UTF-8 within a string is allowed. Python's own reader ends at some
thousand levels, so a deep text has what lies below `KEPT_DEPTH` checked here, and cut out.
"""

import json
import re
from typing import Any, Final

DEPTH_MAX: Final = 10_000  # Go's own
KEPT_DEPTH: Final = 8  # no option lies deeper
LEVELS_MAX: Final = 200  # brackets in a text that Python reads as it is
DIGITS_MAX: Final = 24  # of a number that is read in full; one with more fits no type of ours

_TOKEN = re.compile(
    r"[ \t\n\r]*(?:"
    r'("[^"\\\x00-\x1f]*(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*)*")'
    r"|(-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?|true|false|null)"
    r"|([\[\]{},:]))"
)
_STRING, _SCALAR = 1, 2  # groups of it; the third is a mark
# What may come next. A value or a key that is the first of its kind may also be missing.
_VALUE, _FIRST_VALUE, _KEY, _FIRST_KEY, _COLON, _END = range(6)
_EMPTY = {"]": _FIRST_VALUE, "}": _FIRST_KEY}
_OPENED_BY = {"]": "[", "}": "{"}


class Pairs(list[tuple[str, Any]]):
    """A JSON object: its keys and values as they were written."""


def read(text: bytes) -> Any:
    """The value of a text, objects as `Pairs`. Raises `ValueError`."""
    words = text.decode("utf-8", "replace")
    if words.count("[") + words.count("{") > LEVELS_MAX:
        words = shallow(words)
    return json.loads(words, object_pairs_hook=Pairs, parse_constant=_no_constant, parse_int=_whole)


def shallow(words: str) -> str:
    """The same text with `null` for what lies too deep to matter. Raises `ValueError`."""
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
    """A whole number; its beginning alone, if it is longer than any that we take."""
    return int(digits[:DIGITS_MAX])
