"""Errors in what a member sent: the connection is closed, and the process continues.

BadRecords      records that are damaged, or that are not what they must be
BadFrame        bytes that are not a frame of the members' protocol
"""


class BadRecords(ValueError):
    """The records cannot be taken; `str()` says which, and what is wrong with it."""


class BadFrame(ValueError):
    """The bytes are not what a member sends; `str()` says what is wrong with them."""


class StageRefused(Exception):
    """A request for staging that cannot be carried out; `expected`: where the stage goes on."""

    def __init__(self, status: int, why: str, expected: int | None = None) -> None:
        super().__init__(why)
        self.status = status
        self.expected = expected

    @property
    def facts(self) -> dict[str, object]:
        """The fields of the answer to the client."""
        facts: dict[str, object] = {"why": str(self)}
        return facts if self.expected is None else facts | {"expected": self.expected}
