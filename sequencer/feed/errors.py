"""What is wrong with a datagram, and with the name of a codec."""


class CodecError(ValueError):
    """These bytes are no datagram of this codec: what was expected, and at which byte."""

    def __init__(self, offset: int, reason: str) -> None:
        super().__init__(offset, reason)
        self.offset = offset
        self.reason = reason

    def __str__(self) -> str:
        return f"at byte {self.offset}: {self.reason}"


class CodecNotFound(ValueError):
    """There is no codec of this name; `str()` says what is wrong with it."""
