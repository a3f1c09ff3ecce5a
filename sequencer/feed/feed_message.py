"""One message, as received from a feed."""


class FeedMessage:
    """A message of a feed. Fields that its codec does not carry are empty; the time is then 0."""

    def __init__(
        self,
        number: int,
        payload: bytes,
        subject: bytes = b"",
        headers: bytes = b"",
        time: int = 0,
    ) -> None:
        self.number = number
        self.payload = payload
        self.subject = subject
        self.headers = headers
        self.time = time  # ns since 1970

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FeedMessage) and self._fields() == other._fields()

    def __hash__(self) -> int:
        return hash(self._fields())

    def __repr__(self) -> str:
        number, payload, subject, headers, time = self._fields()
        return f"FeedMessage({number}, {payload!r}, {subject!r}, {headers!r}, {time})"

    def _fields(self) -> tuple[int, bytes, bytes, bytes, int]:
        return self.number, self.payload, self.subject, self.headers, self.time
