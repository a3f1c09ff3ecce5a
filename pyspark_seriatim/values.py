"""Parses the values of options: addresses, times, sizes, positions and subjects.

Each `read_...` takes the user's text, and raises `WrongValue` with what is allowed; options.py
prepends the option's name. Secrets appear in no message, and in no repr.
"""

import json
import re
from dataclasses import dataclass
from typing import Final

from seriatim.client.server_address import ServerAddress, read_address
from seriatim.settings.checked import WrongValue, quoted
from seriatim.settings.subjects import is_subject

NUMBER_MAX: Final = (1 << 63) - 1
TIME_MS_MAX: Final = NUMBER_MAX // 1_000_000  # the journal's times are ns in 63 bits
SUBJECTS_MAX: Final = 64  # the limit of $SEQ.READ
EARLIEST: Final = "earliest"
LATEST: Final = "latest"
ADDRESSES: Final = "host:port[,host:port], or nats://user:password@host:port"
UNITS_MS: Final = {"": 1, "ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000}
UNITS_BYTES: Final = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
AMOUNT: Final = re.compile(r"(\d{1,18})\s*([a-z]*)")


@dataclass(frozen=True, slots=True)
class Position:
    """A number to begin at or to end before, and the journal it belongs to, if known."""

    sequence: int
    journal: str = ""


def read_servers(text: str) -> tuple[ServerAddress, ...]:
    """`host:port[,host:port]`, each optionally with `nats://user:password@` or `tls://`."""
    words = [word.strip() for word in text.split(",")]
    if not all(words):
        raise WrongValue(f"an address is empty; give {ADDRESSES}")
    return tuple(_server(word, at) for at, word in enumerate(words, 1))


def _server(word: str, at: int) -> ServerAddress:
    try:
        return read_address(word)
    except ValueError:  # without its text: the address may contain a password
        raise WrongValue(f"address {at} of the list is not valid; give {ADDRESSES}") from None


def read_count(text: str, low: int, high: int) -> int:
    """A whole number from `low` to `high`."""
    digits = text.strip()
    if not re.fullmatch(r"\d{1,19}", digits, re.ASCII) or not low <= int(digits) <= high:
        raise WrongValue(f"{quoted(text)} is not {_bounds('a whole number', low, high)}")
    return int(digits)


def read_ms(text: str, low: int, high: int) -> int:
    """A time in milliseconds: 500, 500ms, 30s, 15m, 1h."""
    return _amount(text, UNITS_MS, "milliseconds, or a time such as 30s or 15m", low, high)


def read_bytes(text: str, low: int, high: int) -> int:
    """A size in bytes: 8388608, 8m, 8MiB."""
    return _amount(text, UNITS_BYTES, "bytes, or a size such as 512k or 8m", low, high, r"i?b$")


def _amount(
    text: str, units: dict[str, int], what: str, low: int, high: int, ending: str = "$"
) -> int:
    """A number with a unit, which an `ending` may follow: the b or iB of bytes."""
    plain = text.strip().lower()
    found = AMOUNT.fullmatch(re.sub(ending, "", plain) or plain)
    value = int(found[1]) * units[found[2]] if found and found[2] in units else -1
    if not low <= value <= high:
        raise WrongValue(f"{quoted(text)} is not {_bounds(what, low, high)}")
    return value


def read_position(text: str, words: tuple[str, ...]) -> str | Position:
    """One of `words`, a number, or an offset as Spark shows it: {"journal":..,"sequence":..}."""
    word = text.strip()
    if word.lower() in words:
        return word.lower()
    allowed = f'{", ".join(words)}, a number from 1 on, or {{"sequence": number}}'
    journal, number = "", word
    if word.startswith("{"):
        try:
            raw = json.loads(word)
            journal, number = str(raw.pop("journal", "")), str(raw.pop("sequence"))
        except (ValueError, KeyError, RecursionError):
            raise WrongValue(f"{quoted(text)} is not one of {allowed}") from None
        number = "" if raw else number
    if not re.fullmatch(r"\d{1,19}", number, re.ASCII) or not 1 <= int(number) <= NUMBER_MAX:
        raise WrongValue(f"{quoted(text)} is not one of {allowed}")
    return Position(int(number), journal)


def read_subjects(text: str) -> tuple[str, ...]:
    """A list of subjects to subscribe to; only `>` if one of them is that."""
    subjects = tuple(dict.fromkeys(word.strip() for word in text.split(",")))
    for subject in subjects:
        if not is_subject(subject):
            example = "give subjects such as orders.*.new or orders.>, separated by commas"
            raise WrongValue(f"{quoted(subject)} is not a valid subject; {example}")
        if subject.startswith("$SEQ."):
            raise WrongValue(f"{quoted(subject)}: subjects below $SEQ. are not kept")
    if len(subjects) > SUBJECTS_MAX:
        raise WrongValue(f"{len(subjects)} subjects are too many; give {SUBJECTS_MAX} at most")
    return (">",) if ">" in subjects else subjects


def read_subject(text: str) -> str:
    """One subject to publish to."""
    if not is_subject(text, wildcards=False) or text.startswith("$SEQ."):
        raise WrongValue(f"{quoted(text)} is not a subject to publish to, such as orders.eu")
    return text


def read_regex(text: str) -> str:
    """A regular expression."""
    try:
        re.compile(text)
    except (re.error, RecursionError, OverflowError) as error:
        raise WrongValue(f"{quoted(text)} is not a regular expression: {error}") from None
    return text


def _bounds(what: str, low: int, high: int) -> str:
    return f"{what} from {low}" + (f" to {high}" if high < NUMBER_MAX else " on")
