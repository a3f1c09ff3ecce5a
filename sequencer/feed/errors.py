"""Errors in a datagram, and in the name of a codec."""


class CodecError(ValueError):
    """The bytes are not a valid datagram of this codec: what is wrong, and at which byte."""

    def __init__(self, offset: int, reason: str) -> None:
        super().__init__(offset, reason)
        self.offset = offset
        self.reason = reason

    def __str__(self) -> str:
        return f"at byte {self.offset}: {self.reason}"


class CodecNotFound(ValueError):
    """There is no codec with this name; `str()` says why."""
