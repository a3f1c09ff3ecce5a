"""Parses `$SEQ.` subjects; the errors say what a valid request looks like.

    SUB $SEQ.FROM.<number>.<filter>          From      from a number on, then live
    SUB $SEQ.RANGE.<first>.<last>.<filter>   Range     a range of numbers, then the end
    SUB $SEQ.SINCE.<ms>.<filter>             Since     from a time on, then live
    SUB $SEQ.LAST.<filter>                   Last      the last of every subject, then live
    PUB $SEQ.LAST.<subject> <reply>          Last      the last message of this subject
    PUB $SEQ.INFO <reply>                    Info      facts about the journal
    PUB $SEQ.GET.<number> <reply>            Get       one message
    PUB $SEQ.READ <reply>                    Read      many, for programs; the payload says which
    PUB $SEQ.STAGE, COMMIT, ABORT, BATCH     Staging   publishing exactly once (broker/staging)

`parse` looks at the subject only. Retention, permissions, and the payload are checked where the
request is answered (broker/replay/replays.py, broker/clients/request_handler.py).
"""

import json
from dataclasses import dataclass
from typing import Final, NamedTuple

from broker.dataplane.kinds import CONTROL_PREFIX
from parser.errors import quoted, shown
from sequencer.sequencer import NUMBER_MAX
from sublist.subject import is_pattern

MS_MAX: Final = NUMBER_MAX // 1_000_000  # in the year 2262; the journal's times are ns in an i64
SHOWN_MAX: Final = 40  # bytes of a word quoted in an error


class BadRequest(ValueError):
    """An invalid request; the text says why, and what to write instead."""


class From(NamedTuple):
    """All matching messages from a number on, then live."""

    number: int
    filter: bytes


class Range(NamedTuple):
    """The matching messages of the numbers `first` to `last`, then the end."""

    first: int
    last: int
    filter: bytes


class Since(NamedTuple):
    """All matching messages from a time on (Unix ms), then live."""

    ms: int
    filter: bytes


class Last(NamedTuple):
    """The last message of every matching subject, then live; for PUB, of this subject alone."""

    filter: bytes


@dataclass(frozen=True, slots=True)
class Info:
    """The facts about the journal."""


class Get(NamedTuple):
    """One message."""

    number: int


@dataclass(frozen=True, slots=True)
class Read:
    """A range of messages for a program."""


class Staging(NamedTuple):
    """A request of exactly-once publishing; `word` says which."""

    word: str


Past = From | Range | Since | Last  # for SUB
Question = Info | Get | Last | Read | Staging  # for PUB with a reply subject
Request = Past | Question
PAST = (From, Range, Since, Last)


def parse(subject: bytes) -> Request | None:
    """Parse a subject; None if it is not a request. Raises `BadRequest`."""
    if not subject.startswith(CONTROL_PREFIX):
        return None
    word, _, rest = subject[len(CONTROL_PREFIX) :].partition(b".")
    match word:
        case b"FROM":
            digits, filter = _cut(rest, "$SEQ.FROM.<number>.<subject>", "$SEQ.FROM.88485.>")
            return From(_number(digits), _filter(filter))
        case b"RANGE":
            return _range(rest)
        case b"SINCE":
            ms, filter = _cut(rest, "$SEQ.SINCE.<unix ms>.<subject>", "$SEQ.SINCE.1767225600000.>")
            return Since(_milliseconds(ms), _filter(filter))
        case b"LAST":
            if not rest:
                raise BadRequest("write $SEQ.LAST.<subject>, such as $SEQ.LAST.>")
            return Last(_filter(rest))
        case b"GET":
            if not rest:
                raise BadRequest("write $SEQ.GET.<number>, such as $SEQ.GET.88485")
            return Get(_number(rest))
        case b"INFO" | b"READ" if subject == CONTROL_PREFIX + word:
            return Info() if word == b"INFO" else Read()
        case b"STAGE" | b"COMMIT" | b"ABORT" | b"BATCH" if subject == CONTROL_PREFIX + word:
            return Staging(word.decode())
    return None


def _range(rest: bytes) -> Range:
    form, example = "$SEQ.RANGE.<first>.<last>.<subject>", "$SEQ.RANGE.1.1000.>"
    first_digits, rest = _cut(rest, form, example)
    last_digits, filter = _cut(rest, form, example)
    first, last = _number(first_digits), _number(last_digits)
    if first > last:
        raise BadRequest(f"{first} is above {last}; write the smaller number first")
    return Range(first, last, _filter(filter))


def _cut(text: bytes, form: str, example: str) -> tuple[bytes, bytes]:
    """Split off the next word. Raises `BadRequest` if nothing follows it."""
    word, _, rest = text.partition(b".")
    if not word or not rest:
        raise BadRequest(f"write {form}, such as {example} for every subject")
    return word, rest


def _number(digits: bytes) -> int:
    number = _digits(digits)
    if number is None:
        raise BadRequest(f"{shown(digits, SHOWN_MAX)} is not a valid message number")
    if number == 0:
        raise BadRequest("0 is not a valid message number; the first is 1")
    if number > NUMBER_MAX:
        raise BadRequest(f"{shown(digits, SHOWN_MAX)} is above the largest number, {NUMBER_MAX}")
    return number


def _milliseconds(digits: bytes) -> int:
    ms = _digits(digits)
    if ms is None:
        raise BadRequest(
            f"{shown(digits, SHOWN_MAX)} is not a valid time; write milliseconds since 1970"
        )
    if ms > MS_MAX:
        raise BadRequest(
            f"{shown(digits, SHOWN_MAX)} is after the year 2262; write milliseconds since 1970"
        )
    return ms


def _digits(digits: bytes) -> int | None:
    """Parse digits; too many give a number that is too large, other words give None."""
    if not digits.isdigit():  # on bytes, only 0 to 9 count
        return None
    return int(digits) if len(digits) <= 32 else NUMBER_MAX + 1


def _filter(filter: bytes) -> bytes:
    if not is_pattern(filter):
        raise BadRequest(f"{shown(filter, SHOWN_MAX)} is not a subject that can be subscribed to")
    if filter.startswith(CONTROL_PREFIX):
        raise BadRequest("subjects below $SEQ. are not kept, so they cannot be replayed")
    return filter


def quote_value(value: object) -> str:
    """Quote a value of a request for a header: short, and on one line."""
    try:
        text = json.dumps(value) if not isinstance(value, str) else value
    except RecursionError:  # the value was just shallow enough to be parsed
        text = "so deep a value"
    return quoted(text.encode("utf-8", "replace")[:SHOWN_MAX]).decode()
