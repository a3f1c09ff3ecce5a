"""The fields of a frame, read one after another from unchecked bytes.

    integers          little-endian, as in the journal
    text16            u16, so many bytes of UTF-8
    json32, json      u32, so many bytes of JSON; JSON up to the frame's end
    numbers           u64 of at most 2^63-1

A field that is missing or invalid raises BadFrame.
"""

import json
import math
import struct
from typing import Any, Final

from sequencer.replica.errors import BadFrame
from sequencer.replica.view import BadView, View, view_from_json

NUMBER_MAX: Final = (1 << 63) - 1
EPOCHS: Final = struct.Struct("<IQ")


class FrameFields:
    """A reader of one frame; `name` is the frame's, for errors."""

    __slots__ = ("at", "body", "name", "start", "stop")

    def __init__(self, name: str, body: memoryview, start: int) -> None:
        self.name = name
        self.body = body
        self.at = self.start = start
        self.stop = len(body)

    def bad(self, why: str) -> BadFrame:
        return BadFrame(f"{self.name}: {why}")

    def left(self) -> int:
        return self.stop - self.at

    def unpack(self, layout: struct.Struct) -> tuple[Any, ...]:
        """Read the fields of this layout."""
        at = self.at
        self.at = after = at + layout.size
        if after > self.stop:
            self.at = at
            raise self._short(layout.size)
        return layout.unpack_from(self.body, at)

    def bytes_of(self, size: int) -> bytes:
        if self.left() < size:
            raise self._short(size)
        self.at += size
        return bytes(self.body[self.at - size : self.at])

    def rest(self) -> memoryview:
        """Return the rest of the frame, without a copy."""
        at, self.at = self.at, self.stop
        return self.body[at:]

    def numbers(self, *numbers: int) -> None:
        """Check that these are numbers of messages or notes, or 0."""
        for number in numbers:
            if number > NUMBER_MAX:
                raise self.bad(f"{number} is given as a number")

    def bytes16(self) -> bytes:
        return self.bytes_of(int.from_bytes(self.bytes_of(2), "little"))

    def text16(self) -> str:
        return self._text(self.bytes16())

    def text_left(self) -> str:
        return self._text(bytes(self.rest()))

    def epochs(self, count: int) -> tuple[tuple[int, int], ...]:
        """Read a table of epochs, oldest first."""
        if self.left() < count * EPOCHS.size:
            raise self.bad(f"{count} epochs do not fit")
        stop = self.at + count * EPOCHS.size
        found = tuple(EPOCHS.iter_unpack(self.body[self.at : stop]))
        self.at = stop
        before = (-1, 1)  # numbers begin with 1
        for epoch, first in found:
            if epoch <= before[0] or first < before[1] or first > NUMBER_MAX:
                raise self.bad(f"epoch {epoch} from {first} on does not follow {before}")
            before = epoch, first
        return found

    def json32(self) -> Any:
        return self._json(self.bytes_of(int.from_bytes(self.bytes_of(4), "little")))

    def headers(self) -> dict[str, str]:
        found = self.json32()
        if not isinstance(found, dict) or not all(isinstance(x, str) for x in found.values()):
            raise self.bad("its headers are not texts")
        return found

    def view(self) -> View:
        """Read a view, up to the frame's end."""
        data = bytes(self.rest())
        self._json(data)
        try:
            return view_from_json(data)
        except BadView as error:
            raise self.bad(f"its view: {str(error)[:300]}") from None

    def _short(self, size: int) -> BadFrame:
        at, left = self.at - self.start, self.left()
        return self.bad(f"{size} bytes are to come at byte {at}, not {left}")

    def _text(self, data: bytes) -> str:
        try:
            return data.decode()
        except UnicodeDecodeError:
            raise self.bad(f"not UTF-8: {data[:100]!r}") from None

    def _json(self, data: bytes) -> Any:
        try:
            found = json.loads(data, parse_constant=_finite, parse_float=_finite)
            if b"\\ud" in data or b"\\uD" in data:  # halves of characters are not text
                json.dumps(found, ensure_ascii=False).encode()
        except (ValueError, RecursionError):
            raise self.bad(f"not JSON: {data[:100]!r}") from None
        return found


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is not a number in JSON")
    return value


def text16(text: str | bytes) -> bytes:
    """Encode a text as `FrameFields.text16` reads it."""
    data = text if isinstance(text, bytes) else text.encode()
    assert len(data) < 1 << 16, "a text of a frame is short"
    return len(data).to_bytes(2, "little") + data


def json32(value: Any) -> bytes:
    data = json.dumps(value, separators=(",", ":")).encode()
    return len(data).to_bytes(4, "little") + data
