"""The bytes of an input, taken one by one to make decisions."""


class Supply:
    """The input, byte by byte; zeros when it is exhausted."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def __bool__(self) -> bool:
        return self._at < len(self._data)

    def take(self) -> int:
        byte = self._data[self._at] if self else 0
        self._at += 1
        return byte

    def rest(self) -> bytes:
        """Return the remaining bytes."""
        rest, self._at = self._data[self._at :], len(self._data)
        return rest
