"""What a receiver tells beside messages: what is lost, where a stream ends, where one begins."""


class MessagesLost:
    """Numbers `first` to `last` cannot be had: they stand here, where their messages would."""

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
    """The sender has said that nothing more comes; `after` would be the next number.

    The stream may go on all the same, when a broker is started again.
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
    """Numbers begin anew, with other messages: the journal is another one.

    `session` names it as the codec does, and is empty where the codec does not.
    """

    def __init__(self, session: bytes = b"") -> None:
        self.session = session

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NewStream) and self.session == other.session

    def __hash__(self) -> int:
        return hash(self.session)

    def __repr__(self) -> str:
        return f"NewStream({self.session!r})"
