"""Bytes as a key and a value of Cardinal Streams: the result is a message, or an error with a
valid position. fastavro must read the same, and a decoded message must encode again.

    kind value            a message with a proper key, of zeros
    kind | 8 size key value
    240 or more, text     a pattern for prefixes, and a key, with a zero between them
"""

import re

from cardinal.errors import MalformedMessage
from cardinal.message_codec import decode, encode
from cardinal.messages import Batch, SubBatchMessage
from cardinal.pattern import Pattern, PatternError
from fuzz import model_cardinal
from fuzz.supply import Supply

MAX_LEN = 512
KINDS = (0, 1, 2, 3, 4, 5, 6, 0xFF)
SIZES = {1: 65, 2: 66}  # of the keys; all others have 33 bytes
WITH_KEY = 8
PATTERN = 0xF0
PATTERN_MAX, KEY_MAX = 12, 16  # longer ones may keep re busy for ever


def check_message(key: bytes, value: bytes) -> None:
    try:
        message = decode(key, value)
    except MalformedMessage as caught:
        error = caught
    else:
        assert decode(*encode(message)) == message, "what was taken can be said again"
        if isinstance(message, Batch | SubBatchMessage):
            assert model_cardinal.read(type(message), value) == model_cardinal.fields(message)
        return
    assert 0 <= error.offset <= len(key if error.part == "key" else value)
    assert error.reason


def check_pattern(text: str, key: str) -> None:
    try:
        pattern = Pattern(text)
    except PatternError:
        return
    expected = re.compile(text, re.ASCII)
    if len(text) <= PATTERN_MAX:
        assert pattern.matches(key) == bool(expected.match(key)), "as re does"


def check(data: bytes) -> None:
    """Run one input."""
    taken = Supply(data)
    choice = taken.take()
    if choice >= PATTERN:
        text, _, key = taken.rest().decode(errors="ignore").partition("\x00")
        check_pattern(text, key[:KEY_MAX])
        return
    kind = KINDS[choice % len(KINDS)]
    if choice & WITH_KEY:
        size, rest = taken.take(), taken.rest()
        check_message(bytes([kind]) + rest[:size], rest[size:])
    else:
        check_message(bytes([kind]) + bytes(SIZES.get(kind, 33) - 1), taken.rest())
