"""Faulty codecs, as users may write them; `codec=tests.support.codecs:Nothing` in settings."""

from typing import Any

from sequencer.feed.feed_codec import DATA, HEARTBEAT, Codec, Packet
from sequencer.feed.feed_message import FeedMessage

GOOD = b"good"


class Wrong(Codec):
    """Reads `GOOD` as number 1, and anything else as `said` says."""

    said: Any = None

    def decode(self, datagram: bytes) -> Packet:
        if datagram == GOOD:
            return Packet(DATA, [FeedMessage(1, GOOD)], -1, 2)
        return self.said()  # type: ignore[no-any-return]


class Nothing(Wrong):
    """Returns None, as a method does that has no return."""

    said = staticmethod(lambda: None)


class Closed(Codec):
    """Cannot be opened for any stream."""

    def open(self, journal: str, epoch: int) -> None:
        raise ValueError("no such stream")

    def encode(self, message: FeedMessage) -> bytes:
        return message.payload


def _packet(messages: Any, kind: Any = DATA, session: Any = b"") -> Packet:
    return Packet(kind, messages, -1, 2, session)


def _message(*fields: Any) -> Packet:
    return _packet([FeedMessage(*fields)])


# What a `decode` may return: each is told as malformed, whichever build it is.
MISTAKES: dict[str, Any] = {
    "None": lambda: None,
    "a tuple": lambda: (1, 2),
    "no messages": lambda: _packet(None),
    "messages in a tuple": lambda: _packet((FeedMessage(1, b"x"),)),
    "None among the messages": lambda: _packet([FeedMessage(1, b"x"), None]),
    "a text among the messages": lambda: _packet(["x"]),
    "a kind there is not": lambda: _packet([], kind=7),
    "a session that is None": lambda: _packet([], HEARTBEAT, None),
    "a session of text": lambda: _packet([], HEARTBEAT, "session"),
    "a payload that is None": lambda: _message(1, None),
    "a payload of text": lambda: _message(1, "x"),
    "a subject that is None": lambda: _message(1, b"x", None),
    "headers that are None": lambda: _message(1, b"x", b"a", None),
    "a number that is None": lambda: _message(None, b"x"),
    "a number of text": lambda: _message("1", b"x"),
    "a number below 0": lambda: _message(-5, b"x"),
    "a number of 70 bits": lambda: _message(1 << 70, b"x"),
    "a time that is None": lambda: _message(1, b"x", b"a", b"", None),
}
