"""What can go wrong between a producer, the broker and a consumer.

TransportError        a CardinalError
|-- BadEnvelope       a payload that is not two netstrings: `offset`, `reason`
|-- BadCapture        a file that is no capture, or is cut off: `offset`, `reason`
|-- BadTopic          a topic or an application that cannot be part of a subject
|-- BrokerRefused     the broker will not take or give this, now or later
|-- NoNumbers         the broker gives messages without their numbers
`-- Unreachable       no answer from the broker until the time was up
"""

from cardinal.errors import CardinalError


class TransportError(CardinalError):
    """Base of all; catch this to catch every trouble of transports."""


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
    """A file that is no capture, or is cut off."""


class BadTopic(TransportError):
    """A topic or an application that cannot be part of a subject."""


class BrokerRefused(TransportError):
    """The broker will not take or give this, now or later."""


class NoNumbers(TransportError):
    """The broker gives messages without their numbers."""


class Unreachable(TransportError):
    """No answer from the broker until the time was up."""
