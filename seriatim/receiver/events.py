"""The events of a receiver besides messages: losses, the end of a stream, a new stream."""


class MessagesLost:
    """Numbers `first` to `last` are lost: the event takes the place of their messages."""

    def __init__(self, first: int, last: int) -> None:
        self.first = first
        self.last = last

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MessagesLost) and (self.first, self.last) == (
            other.first,
            other.last,
        )

    def __hash__(self) -> int:
        return hash((self.first, self.last))

    def __repr__(self) -> str:
        return f"MessagesLost({self.first}, {self.last})"


class Ended:
    """The sender has announced the end; `after` would be the next number.

    The stream may still go on, when a broker is started again.
    """

    def __init__(self, after: int) -> None:
        self.after = after

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ended) and self.after == other.after

    def __hash__(self) -> int:
        return hash(self.after)

    def __repr__(self) -> str:
        return f"Ended({self.after})"


class NewStream:
    """Numbers begin again, with other messages, from another journal.

    `session` is its name in the codec, or empty if the codec has none.
    """

    def __init__(self, session: bytes = b"") -> None:
        self.session = session

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NewStream) and self.session == other.session

    def __hash__(self) -> int:
        return hash(self.session)

    def __repr__(self) -> str:
        return f"NewStream({self.session!r})"
