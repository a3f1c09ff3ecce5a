"""What a decoder says of a datagram that may be invalid."""

from collections.abc import Callable
from typing import TypeVar

from sequencer.feed.errors import CodecError

Read = TypeVar("Read")


def read_or_refused(read: Callable[[bytes], Read], datagram: bytes) -> Read | None:
    """What is read; None where it is refused, with a place in the datagram."""
    try:
        return read(datagram)
    except CodecError as error:
        offset = error.offset
    assert 0 <= offset <= len(datagram)
    return None
