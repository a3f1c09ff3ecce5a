"""JSON requests, read as nats-server reads them: into typed fields, with the words of Go's errors.

    read_strictly(text, kinds, "CreateConsumerRequest")   create, update: unknown fields are refused
    read_loosely(text, kinds, "")                         pull requests and the like: they are not

`kinds` says for each field what it may hold: `STRING`, `INT` and so on, or a dict of the same for
an object within. What comes out has only the fields that the text has; null counts as absent. Names
match in any case. The first error counts. A good text costs one pass of Python's own reader; Go's
words are only looked for when that fails.
"""

import json
import re
from collections.abc import Callable
from datetime import date
from typing import Any, Final, NamedTuple

from broker.wires.go_json import LEVELS_MAX, Pairs, shallow

DIGITS_MAX: Final = 20  # of an int; a longer number is out of range, but its text is in the error
INT_MAX: Final = (1 << 63) - 1
UINT_MAX: Final = (1 << 64) - 1
_SPACE: Final = " \t\n\r"
_HALF: Final = re.compile(
    r"\\(?:(u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)


class WrongJson(ValueError):
    """A text that is no JSON, or does not fit. Its words are Go's."""


class Literal(str):
    """A number that is no int of 64 bits, as written."""


class JsonKind(NamedTuple):
    """A type that a field may hold: its name in Go, and how a value is read."""

    go: str
    read: "Callable[[Any, str], Any]"


JsonKinds = dict[str, "JsonKind | JsonKinds"]


# Values


def name_of(value: Any) -> str:
    """Return what Go calls the type of a JSON value."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int | Literal):
        return "number"
    if isinstance(value, str):
        return "string"
    return "object" if isinstance(value, Pairs) else "array"


def mismatch(value: Any, path: str, go: str, shown: bool = False) -> WrongJson:
    """Return the error for a value of another type; `shown`: its text is part of the error."""
    what = f"{name_of(value)} {value}" if shown else name_of(value)
    place = path if path.rpartition(".")[2].isdigit() else f"Go struct field {path}"
    return WrongJson(f"json: cannot unmarshal {what} into {place} of type {go}")


def _string(value: Any, path: str) -> str:
    if not isinstance(value, str) or isinstance(value, Literal):
        raise mismatch(value, path, "string")
    return value


def _bool(value: Any, path: str) -> bool:
    if not isinstance(value, bool):
        raise mismatch(value, path, "bool")
    return value


def _number(go: str, least: int, most: int) -> JsonKind:
    def read(value: Any, path: str) -> int:
        if name_of(value) != "number":
            raise mismatch(value, path, go)
        if isinstance(value, Literal) or not least <= value <= most:
            raise mismatch(value, path, go, shown=True)
        return int(value)

    return JsonKind(go, read)


def _list_of(kind: JsonKind) -> JsonKind:
    go = "[]" + kind.go

    def read(value: Any, path: str) -> list[Any]:
        if not isinstance(value, list) or isinstance(value, Pairs):
            raise mismatch(value, path, go)
        return [
            kind.read(item, f"{path}.{at}") for at, item in enumerate(value) if item is not None
        ]

    return JsonKind(go, read)


def _strings_by_name(value: Any, path: str) -> dict[str, str]:
    if not isinstance(value, Pairs):
        raise mismatch(value, path, "map[string]string")
    return {key: "" if item is None else _string(item, f"{path}.{key}") for key, item in value}


def one_of(words: tuple[str, ...], complaint: str) -> JsonKind:
    """Return a kind for one of these words; `complaint` has `{}` for the JSON of anything else."""

    def read(value: Any, path: str) -> str:
        if not isinstance(value, str) or value not in words:
            raise WrongJson(complaint.format(as_json(value)))
        return value

    return JsonKind("", read)


def quoted_json(value: Any) -> str:
    """Return a value as JSON, as a Go string literal."""
    return json.dumps(as_json(value), ensure_ascii=False)


def as_json(value: Any) -> str:
    """Return the JSON of a value that was read."""
    if isinstance(value, Literal):
        return str(value)
    if isinstance(value, Pairs):
        return "{" + ",".join(f"{json.dumps(key)}:{as_json(item)}" for key, item in value) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(as_json, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


# Times


class GoTime(NamedTuple):
    """A time as Go's JSON has it: nanoseconds since 1970 in UTC, and the offset that was written.

    The year 1 is Go's zero time; it is before 1970, so `ns` may be negative.
    """

    ns: int
    offset: int = 0  # minutes east of UTC

    def text(self) -> str:
        """Return it as Go writes it: `2030-01-01T00:00:00.12-05:30`, without needless zeros."""
        seconds, fraction = divmod(self.ns + self.offset * 60_000_000_000, 1_000_000_000)
        days, seconds = divmod(seconds, 86_400)
        day = date.fromordinal(_EPOCH + days)
        hours, rest = divmod(seconds, 3600)
        point = f".{fraction:09}".rstrip("0") if fraction else ""
        sign = "-" if self.offset < 0 else "+"
        zone = (
            f"{sign}{abs(self.offset) // 60:02}:{abs(self.offset) % 60:02}" if self.offset else "Z"
        )
        when = f"{hours:02}:{rest // 60:02}:{rest % 60:02}"
        return f"{day.year:04}-{day.month:02}-{day.day:02}T{when}{point}{zone}"

    @property
    def is_zero(self) -> bool:
        """True for the year 1: Go's word for no time at all."""
        return self.ns == ZERO_TIME


_EPOCH: Final = date(1970, 1, 1).toordinal()
ZERO_TIME: Final = (1 - _EPOCH) * 86_400_000_000_000
_PARTS: Final = (  # of Go's layout: what is read, and what the layout calls it
    *((r"\d{4}", "2006"), ("-", "-"), (r"\d\d", "01"), ("-", "-"), (r"\d\d", "02"), ("T", "T")),
    *((r"\d{1,2}", "15"), (":", ":"), (r"\d\d", "04"), (":", ":"), (r"\d\d(?:[.,]\d+)?", "05")),
    (r"Z|[-+]\d\d:\d\d", "Z07:00"),
)


def read_time(text: str) -> GoTime:
    """Read a time of RFC 3339. Raises `WrongJson`."""
    found, at = [], 0
    for pattern, layout in _PARTS:
        match = re.compile(pattern, re.ASCII).match(text, at)
        if match is None:
            raise WrongJson(
                f"parsing time {json.dumps(text, ensure_ascii=False)} as "
                f'"2006-01-02T15:04:05Z07:00": cannot parse {json.dumps(text[at:])} as "{layout}"'
            )
        found.append(match[0])
        at = match.end()
    said = f"parsing time {json.dumps(text, ensure_ascii=False)}: "
    if at < len(text):
        raise WrongJson(f"{said}extra text: {json.dumps(text[at:], ensure_ascii=False)}")
    year, month, day, hour, minute = (int(found[place]) for place in (0, 2, 4, 6, 8))
    second, _, fraction = found[10].replace(",", ".").partition(".")
    zone = found[11]
    zone_hours, zone_minutes = (0, 0) if zone == "Z" else (int(zone[1:3]), int(zone[4:6]))
    for part, is_wrong in (
        ("month", not 1 <= month <= 12),
        ("hour", hour > 23),
        ("minute", minute > 59),
        ("second", int(second) > 59),
        ("time zone offset hour", zone_hours > 24),
        ("time zone offset minute", zone_minutes > 59),
    ):
        if is_wrong:
            raise WrongJson(f"{said}{part} out of range")
    try:
        days = date(year or 4, month, day).toordinal() - _EPOCH
    except ValueError:
        raise WrongJson(f"{said}day out of range") from None
    offset = (zone_hours * 60 + zone_minutes) * (-1 if zone[0] == "-" else 1)
    seconds = ((days * 24 + hour) * 60 + minute - offset) * 60 + int(second)
    return GoTime(seconds * 1_000_000_000 + int(fraction[:9].ljust(9, "0") or 0), offset)


def _time(value: Any, path: str) -> GoTime:
    if name_of(value) != "string":
        raise mismatch(value, path, "time.Time")
    return read_time(value)


STRING: Final = JsonKind("string", _string)
BOOL: Final = JsonKind("bool", _bool)
INT: Final = _number("int", -INT_MAX - 1, INT_MAX)
UINT: Final = _number("uint64", 0, UINT_MAX)
INT64: Final = _number("int64", -INT_MAX - 1, INT_MAX)
INT32: Final = _number("int32", -(1 << 31), (1 << 31) - 1)
DURATION: Final = _number("time.Duration", -INT_MAX - 1, INT_MAX)
STRINGS: Final = _list_of(STRING)
DURATIONS: Final = _list_of(DURATION)
STRING_MAP: Final = JsonKind("map[string]string", _strings_by_name)
TIME: Final = JsonKind("time.Time", _time)


# Requests


def read_strictly(text: bytes, kinds: JsonKinds, root: str) -> dict[str, Any]:
    """Read the JSON values of a text into one, as nats-server does for create and update.

    An empty text is an empty request. Raises `WrongJson`, with the offset of a syntax error.
    """
    words, at = _words(text), 0
    found: dict[str, Any] = {}
    while True:
        while at < len(words) and words[at] in _SPACE:
            at += 1
        if at == len(words):
            return found
        try:
            value, at = _SCANNER(words, at)
        except (ValueError, StopIteration, RecursionError):
            said, offset = _complaint(text)
            raise WrongJson(f"{said} at offset {offset}" if offset else said) from None
        if value is not None:
            _merge(found, value, kinds, root, "", strict=True)


def read_loosely(text: bytes, kinds: JsonKinds, root: str) -> dict[str, Any]:
    """Read one JSON value; fields that are not known are passed over. Raises `WrongJson`."""
    words = _words(text).strip(_SPACE)
    try:
        value, at = _SCANNER(words, 0)
    except (ValueError, StopIteration, RecursionError):
        said, _ = _complaint(text)
        end = "unexpected end of JSON input"
        raise WrongJson(end if said == "unexpected EOF" else said) from None
    if at < len(words):
        while words[at] in _SPACE:
            at += 1
        raise WrongJson(f"invalid character {_character(words[at])} after top-level value")
    found: dict[str, Any] = {}
    if value is not None:
        _merge(found, value, kinds, root, "", strict=False)
    return found


def _merge(
    found: dict[str, Any], value: Any, kinds: JsonKinds, root: str, path: str, strict: bool
) -> None:
    """Add the fields of an object to what was found."""
    if not isinstance(value, Pairs):
        go = "server." + (root if not path else root + path)
        raise WrongJson(f"json: cannot unmarshal {name_of(value)} into Go value of type {go}")
    for key, item in value:
        name = key if key in kinds else key.lower()
        if name not in kinds:
            if strict:
                raise WrongJson(f"json: unknown field {json.dumps(key, ensure_ascii=False)}")
            continue
        kind = kinds[name]
        if isinstance(kind, dict):
            if item is None:
                continue
            if not isinstance(item, Pairs):
                go = STRUCTS.get(name, name)
                raise mismatch(item, f"{root}.{key}", go)
            within = found.setdefault(name, {})
            _merge(within, item, kind, f"{root}.{key}", path, strict)
        elif item is not None or not kind.go:
            found[name] = kind.read(item, f"{root}.{key}")


# The types of objects within, in Go.
STRUCTS: Final = {
    "config": "server.ConsumerConfig",
    "consumer_limits": "server.StreamConsumerLimits",
}


def _words(text: bytes) -> str:
    """Return the text as Go reads it: what is no UTF-8, and half of a surrogate pair, is U+FFFD."""
    words = text.decode("utf-8", "replace")
    if "\\u" in words:
        words = _HALF.sub(lambda match: "\\ufffd" if match[2] else match[0], words)
    if words.count("[") + words.count("{") > LEVELS_MAX:
        try:
            return shallow(words)
        except ValueError:
            return words
    return words


def _whole(digits: str) -> int | Literal:
    return int(digits) if len(digits) <= DIGITS_MAX else Literal(digits)


def _no_constant(word: str) -> None:
    raise ValueError(word)


_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=Pairs, parse_constant=_no_constant, parse_int=_whole, parse_float=Literal
)
_SCANNER: Final[Callable[[str, int], tuple[Any, int]]] = vars(_DECODER)["scan_once"]


# What is wrong with a text, in Go's words

_STRING: Final = re.compile(rb'"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*')
_NUMBER: Final = re.compile(
    rb"-?(?:(?:0|[1-9][0-9]*)(\.(?:[0-9]+([eE](?:[-+]?([0-9]+)?)?)?)?|[eE](?:[-+]?([0-9]+)?)?)?)?"
)
_WHOLE_NUMBER: Final = re.compile(rb"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
_WORDS: Final = {ord("t"): b"true", ord("f"): b"false", ord("n"): b"null"}
_BEGIN = "looking for beginning of value"
_KEY = "looking for beginning of object key string"
_AFTER_KEY = "after object key"
_CLOSING: Final = {b"{": ord("}"), b"[": ord("]")}


class _Wrong(Exception):
    """A character that may not stand where it is: what was expected, and its place."""


class _BadEscape(Exception):
    """An escape in a string that is none: its own words, and the offset behind it."""


def _complaint(text: bytes) -> tuple[str, int]:
    """Return Go's words for the first syntax error of a text, and the offset behind it.

    The offset is 0 if the text ends too early.
    """
    stack: list[bytes] = []
    at, expects, may_close = 0, _BEGIN, False
    try:
        while True:
            at = _after_space(text, at)
            if at == len(text):
                return "unexpected EOF", 0
            at, expects, may_close = _step(text, at, expects, may_close, stack)
    except _BadEscape as bad:
        return bad.args[0], bad.args[1]
    except _Wrong as wrong:
        expected, place = wrong.args
        letter = text[place : place + 4].decode("utf-8", "replace")[:1]
        size = len(letter.encode())
        if letter == "\ufffd":
            letter, size = f"\\x{text[place]:02x}", 1
        return f"invalid character {_character(letter)} {expected}", place + size


def _step(
    text: bytes, at: int, expects: str, may_close: bool, stack: list[bytes]
) -> tuple[int, str, bool]:
    """Take one token: return where the next may be, what it must be, and if it may close."""
    byte = text[at]
    if expects in (_BEGIN, _KEY):
        if may_close and byte == _CLOSING[stack[-1]]:
            stack.pop()
            return at + 1, _after(stack), False
        if expects == _KEY:
            if byte != ord('"'):
                raise _Wrong(_KEY, at)
            return _skip_string(text, at), _AFTER_KEY, False
        if byte in b"[{":
            stack.append(text[at : at + 1])
            return at + 1, _KEY if byte == ord("{") else _BEGIN, True
        return _skip_scalar(text, at), _after(stack), False
    if expects == _AFTER_KEY:
        if byte != ord(":"):
            raise _Wrong(expects, at)
        return at + 1, _BEGIN, False
    if not stack:
        return at, _BEGIN, False  # another value
    if byte == ord(","):
        return at + 1, _KEY if stack[-1] == b"{" else _BEGIN, False
    if byte == _CLOSING[stack[-1]]:
        stack.pop()
        return at + 1, _after(stack), False
    raise _Wrong(expects, at)


def _after(stack: list[bytes]) -> str:
    if not stack:
        return ""
    return "after object key:value pair" if stack[-1] == b"{" else "after array element"


def _after_space(text: bytes, at: int) -> int:
    while at < len(text) and text[at] in b" \t\n\r":
        at += 1
    return at


def _character(letter: str) -> str:
    """Return a character as Go quotes it in errors."""
    if letter == "'":
        return "'\\''"
    if letter == '"' or letter.startswith("\\x"):
        return f"'{letter}'"
    return "'" + json.dumps(letter, ensure_ascii=False)[1:-1] + "'"


def _skip_string(text: bytes, at: int) -> int:
    match = _STRING.match(text, at)
    assert match is not None
    end = match.end()
    if end >= len(text):
        return end
    if text[end] == ord('"'):
        return end + 1
    if text[end] == ord("\\"):
        size = 6 if text[end + 1 : end + 2] == b"u" else 2
        if end + size > len(text):
            return len(text)
        escape = text[end : end + size].decode("utf-8", "replace")
        raise _BadEscape(f"invalid escape sequence `{escape}` in string", end + size)
    raise _Wrong("in string", end)


def _skip_scalar(text: bytes, at: int) -> int:
    byte = text[at]
    if byte == ord('"'):
        return _skip_string(text, at)
    if byte in _WORDS:
        word = _WORDS[byte]
        for place, letter in enumerate(word):
            if at + place == len(text):
                return len(text)
            if text[at + place] != letter:
                said = f"in literal {word.decode()} (expecting '{chr(letter)}')"
                raise _Wrong(said, at + place)
        return at + len(word)
    if byte not in b"-0123456789":
        raise _Wrong(_BEGIN, at)
    begun, whole = _NUMBER.match(text, at), _WHOLE_NUMBER.match(text, at)
    assert begun is not None
    if begun.end() == len(text) or (whole is not None and whole.end() == begun.end()):
        return begun.end()
    raise _Wrong("in numeric literal", begun.end())
