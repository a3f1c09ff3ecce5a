"""The errors between a producer, the broker and a consumer.

TransportError        a CardinalError
|-- BadEnvelope       a payload that is not two netstrings: `offset`, `reason`
|-- BadCapture        a file that is not a capture, or is truncated: `offset`, `reason`
|-- BadTopic          a topic or an application that cannot be part of a subject
|-- BrokerRefused     the broker will never accept or deliver this
|-- NoNumbers         the broker delivers messages without their numbers
`-- Unreachable       no answer from the broker in time
"""

from cardinal.errors import CardinalError


class TransportError(CardinalError):
    """Base of all; catch this for every error of transports."""


class _BadBytes(TransportError):
    def __init__(self, offset: int, reason: str) -> None:
        super().__init__(offset, reason)
        self.offset = offset
        self.reason = reason

    def __str__(self) -> str:
        return f"byte {self.offset}: {self.reason}"


class BadEnvelope(_BadBytes):
    """A payload that is not two netstrings."""


class BadCapture(_BadBytes):
    """A file that is not a capture, or is truncated."""


class BadTopic(TransportError):
    """A topic or an application that cannot be part of a subject."""


class BrokerRefused(TransportError):
    """A request or message that the broker will never accept or deliver."""


class NoNumbers(TransportError):
    """A broker that delivers messages without their numbers."""


class Unreachable(TransportError):
    """No answer from the broker in time."""
