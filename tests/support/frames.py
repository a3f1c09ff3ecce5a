"""The frame as a subscriber undoes it, written apart from the product so that it can judge it.

L:<n>:<number>,<m>:<payload>,,
"""


def _netstring(data: bytes, at: int) -> tuple[bytes, int]:
    colon = data.index(b":", at)
    text = data[at:colon]
    assert text.isdigit(), f"length is not a number: {text!r}"
    assert text == b"0" or not text.startswith(b"0"), f"leading zero: {text!r}"
    end = colon + 1 + int(text)
    assert data[end : end + 1] == b",", f"no comma after {data[at : end + 1]!r}"
    return data[colon + 1 : end], end + 1


def split_frame(frame: bytes) -> tuple[int, bytes]:
    """The number and the payload of one whole frame."""
    inner, end = _netstring(frame, 0)
    assert end == len(frame), f"bytes after the frame: {frame[end:]!r}"
    number, at = _netstring(inner, 0)
    payload, end = _netstring(inner, at)
    assert end == len(inner), f"bytes after the payload: {inner[end:]!r}"
    assert number.isdigit(), f"no number: {number!r}"
    assert not number.startswith(b"0"), f"numbers begin with 1 and have no leading zero: {number!r}"
    return int(number), payload


def unframe(data: bytes, mode: str) -> bytes:
    """The payload a publisher sent, out of what a subscriber got in this frame mode."""
    return split_frame(data)[1] if mode == "netstring" else data
