"""Checks a receiver's arguments: an invalid one raises `ReceiverError` before a socket is made.

Otherwise a wrong type would only show later, as an exception in the event loop.
"""

from collections.abc import Sequence
from typing import Any, Final

from sequencer.feed.codecs import codec_named
from sequencer.feed.errors import CodecNotFound
from sequencer.feed.feed_codec import Codec
from sequencer.feed.netstrings import NetstringCodec
from seriatim.receiver.errors import ReceiverError
from seriatim.receiver.filler import Filler
from seriatim.receiver.group import Group
from seriatim.receiver.order import FEEDS

START_MAX: Final = (1 << 63) - 2  # the number after the last one must be valid, too
COUNT_MAX: Final = (1 << 31) - 1
BYTES_MAX: Final = (1 << 63) - 1


def check_feeds(feeds: Any) -> None:
    """Raise `ReceiverError` unless this is a list of one or two groups."""
    if isinstance(feeds, Group):
        raise ReceiverError("feeds must be a list of groups, even of a single one: give [group]")
    if not isinstance(feeds, Sequence) or not all(isinstance(one, Group) for one in feeds):
        raise ReceiverError(f"{feeds!r} is not a list of groups; give [Group(..)]")
    if not 0 < len(feeds) <= FEEDS:
        raise ReceiverError(f"a receiver has one or two feeds, not {len(feeds)}")


def codec_of(codec: Any, subject: Any) -> Codec:
    """Return the codec, or the one of this name; by default netstring. Raises `ReceiverError`."""
    if not isinstance(subject, str):
        raise ReceiverError(
            f"{subject!r} is not a valid subject; give the feed's filter as a string"
        )
    if codec is None:
        return NetstringCodec()
    if isinstance(codec, Codec):
        return codec
    if not isinstance(codec, str):
        raise ReceiverError(f"{codec!r} is not a codec; give one's name, or an object of its class")
    try:
        return codec_named(codec, filtered=subject != ">")
    except CodecNotFound as error:
        raise ReceiverError(str(error)) from error


def check_fill(fill: Any) -> None:
    """Raise `ReceiverError` unless this is a server that missing messages can be requested from."""
    if fill is not None and not isinstance(fill, str | Filler):
        raise ReceiverError(
            f"{fill!r} is not a valid fill; give nats://HOST:PORT, mold://HOST:PORT, or None"
        )


def first_of(start: Any) -> int:
    """Return the first number wanted; 0 for the first to arrive. Raises `ReceiverError`."""
    if isinstance(start, str) and start == "live":
        return 0
    if not _is_whole(start) or not 1 <= start <= START_MAX:
        raise ReceiverError(
            f'{start!r} is not a valid start; give a number from 1 to {START_MAX}, or "live"'
        )
    return int(start)


def check_seconds(**seconds: Any) -> None:
    """Raise `ReceiverError` for an invalid time to wait."""
    for name, value in seconds.items():
        if not (_is_whole(value) or isinstance(value, float)) or not value >= 0:
            raise ReceiverError(f"{name} is {value!r}; give seconds, 0 or more")


def check_idle(idle: Any) -> None:
    """Raise `ReceiverError` unless this is more than 0 seconds."""
    check_seconds(idle=idle)
    if idle == 0:
        raise ReceiverError("idle is 0; give seconds, more than 0")


def check_counts(most: int, **counts: Any) -> None:
    """Raise `ReceiverError` for an invalid count; `most` is the maximum."""
    for name, value in counts.items():
        if not _is_whole(value) or not 0 <= value <= most:
            raise ReceiverError(f"{name} is {value!r}; give a whole number, 0 to {most}")


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
