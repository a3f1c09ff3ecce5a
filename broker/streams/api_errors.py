"""The errors of JetStream's API, as nats-server numbers them (its `server/errors.json`)."""

from typing import Any


class ApiError(Exception):
    """A refused request: an HTTP-like code, nats-server's own number, and what was wrong."""

    def __init__(self, code: int, number: int, description: str) -> None:
        super().__init__(description)
        self.code = code
        self.number = number
        self.description = description

    def fields(self) -> dict[str, Any]:
        """Return the error as answers show it."""
        return {"code": self.code, "err_code": self.number, "description": self.description}
