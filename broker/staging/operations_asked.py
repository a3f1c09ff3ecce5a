"""Parses requests of staging: the headers of `$SEQ.STAGE`, and the JSON of the others.

A wrong request raises `BadRequest`, whose text says what to write instead.
"""

import json
import re
from dataclasses import dataclass
from typing import Any, Final

from broker.dataplane.connection import Connection
from broker.replay.requests import BadRequest, quote_value

BATCH_MAX: Final = (1 << 63) - 1
ANY: Final = -1  # not a batch number: after any last batch
CRC_MAX: Final = (1 << 32) - 1
APPLICATION: Final = re.compile(r"[!-~](?:[ -~]{0,253}[!-~])?")
STAGE: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")
PREFIX: Final = b"seriatim-"
HEADERS_MAX: Final = 16 << 10  # bytes of a piece's headers: ours, and some for tracing
Key = tuple[str, int, str]  # application, batch, name: identify a stage
Asker = tuple[Connection, bytes]  # who asked, and the reply subject for the answer


class Refusal(Exception):
    """A refused request. `expected`: the offset at which the stage continues."""

    def __init__(self, status: int, why: str, expected: int | None = None) -> None:
        super().__init__(why)
        self.status = status
        self.expected = expected

    def header(self) -> bytes:
        """Encode the answer: a status with the reason, and the offset where a stage continues."""
        words = str(self)
        text = f"NATS/1.0 {self.status} {words[0].upper()}{words[1:]}\r\n"
        if self.expected is not None:
            text += f"Seriatim-Offset: {self.expected}\r\n"
        return f"{text}\r\n".encode()


@dataclass(frozen=True, slots=True)
class StagedPiece:
    """The place of a piece in a stage."""

    key: Key
    offset: int


@dataclass(frozen=True, slots=True)
class Named:
    """A stage as a commit names it."""

    name: str
    bytes: int
    crc: int


@dataclass(frozen=True, slots=True)
class CommitRequest:
    """A request to publish stages, in this order, after a batch (None: it is the first)."""

    application: str
    batch: int
    stages: tuple[Named, ...]
    remember: bool
    after: int | None = ANY


@dataclass(frozen=True, slots=True)
class AbortRequest:
    """A request to drop stages: all of a batch if `stages` is None."""

    application: str
    batch: int
    stages: frozenset[str] | None


def read_piece(headers: bytes) -> StagedPiece:
    """Parse the headers of `$SEQ.STAGE`. Raises `BadRequest`."""
    if len(headers) > HEADERS_MAX:
        raise BadRequest(f"there are {len(headers)} bytes of headers; {HEADERS_MAX} are allowed")
    found: dict[str, str] = {}
    for line in headers.split(b"\r\n")[1:]:
        name, colon, value = line.partition(b":")
        word = name.strip().lower()
        if colon and word.startswith(PREFIX):
            found[word[len(PREFIX) :].decode("ascii", "replace")] = value.strip().decode("latin-1")
    for wanted in ("application", "batch", "stage", "offset"):
        if wanted not in found:
            raise BadRequest(f"the header Seriatim-{wanted.capitalize()} is missing")
    batch = _digits(found["batch"], "Seriatim-Batch")
    offset = _digits(found["offset"], "Seriatim-Offset")
    application = _application(found["application"])
    return StagedPiece((application, batch, _stage(found["stage"])), offset)


def read_commit(payload: bytes | bytearray, max_stages: int) -> CommitRequest:
    """Parse the payload of `$SEQ.COMMIT`. Raises `BadRequest`."""
    raw = _object(payload, ("application", "batch", "stages", "remember", "after"))
    application, batch = _identity(raw)
    entries = raw.get("stages")
    if not isinstance(entries, list):
        raise BadRequest('"stages" is a list of {"stage": name, "bytes": n, "crc32": n}')
    if len(entries) > max_stages:
        raise BadRequest(
            f"{len(entries)} stages are named; at most {max_stages} are allowed"
            " (staging.max_stages)"
        )
    stages = tuple(_named(entry) for entry in entries)
    if len({one.name for one in stages}) < len(stages):
        raise BadRequest("a stage is named twice")
    remember = raw.get("remember", True)
    if not isinstance(remember, bool):
        raise BadRequest('"remember" is true or false')
    after = raw.get("after", ANY)
    if "after" in raw and after is not None:
        after = _whole(after, "after", BATCH_MAX)
    return CommitRequest(application, batch, stages, remember, after)


def read_abort(payload: bytes | bytearray) -> AbortRequest:
    """Parse the payload of `$SEQ.ABORT`. Raises `BadRequest`."""
    raw = _object(payload, ("application", "batch", "stages"))
    application, batch = _identity(raw)
    names = raw.get("stages")
    if names is None:
        return AbortRequest(application, batch, None)
    if not isinstance(names, list):
        raise BadRequest('"stages" is a list of names; all of the batch where it is left out')
    return AbortRequest(application, batch, frozenset(_stage(name) for name in names))


def read_application(payload: bytes | bytearray) -> str:
    """Parse the payload of `$SEQ.BATCH`. Raises `BadRequest`."""
    return _application(_object(payload, ("application",)).get("application"))


def _object(payload: bytes | bytearray, keys: tuple[str, ...]) -> dict[str, Any]:
    try:
        raw = json.loads(payload)
    except (ValueError, RecursionError) as error:
        raise BadRequest('the payload is not JSON; write {"application": "name"}') from error
    if not isinstance(raw, dict):
        raise BadRequest('the payload is not a JSON object; write {"application": "name"}')
    for key in raw:
        if key not in keys:
            raise BadRequest(
                f"{quote_value(key)} is not a valid key; the keys are {', '.join(keys)}"
            )
    return raw


def _identity(raw: dict[str, Any]) -> tuple[str, int]:
    return _application(raw.get("application")), _whole(raw.get("batch"), "batch", BATCH_MAX)


def _named(entry: object) -> Named:
    if not isinstance(entry, dict) or set(entry) != {"stage", "bytes", "crc32"}:
        raise BadRequest('a stage is {"stage": name, "bytes": n, "crc32": n}')
    size = _whole(entry["bytes"], "bytes", BATCH_MAX)
    return Named(_stage(entry["stage"]), size, _whole(entry["crc32"], "crc32", CRC_MAX))


def _application(word: object) -> str:
    if not isinstance(word, str) or not APPLICATION.fullmatch(word):
        raise BadRequest(
            "the application is 1 to 255 printable characters of ASCII, without a blank at an end"
        )
    return word


def _stage(word: object) -> str:
    if not isinstance(word, str) or not STAGE.fullmatch(word):
        raise BadRequest("the name of a stage is 1 to 64 letters, digits, dots, _ and -")
    return word


def _whole(value: object, key: str, most: int) -> int:
    if type(value) is not int or not 0 <= value <= most:
        raise BadRequest(f'"{key}" is a whole number from 0 to {most}')
    return value


def _digits(text: str, header: str) -> int:
    if not (text.isascii() and text.isdigit()) or len(text) > 19 or int(text) > BATCH_MAX:
        raise BadRequest(f"{header} is a whole number from 0 to {BATCH_MAX}")
    return int(text)
