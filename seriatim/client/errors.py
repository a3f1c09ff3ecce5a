"""What can go wrong between a client and a broker; each error is one message, and can be pickled.

BrokerError            catch this to catch every one; `status` is the broker's code, 0 for none
|-- ConnectionLost     no broker, or it went away, or it was not heard in time: try again
|   `-- NotABroker     what listens there does not speak the NATS protocol
|-- NotAuthorized      the broker does not let us in
|-- NoResponders       nobody answers requests on this subject
|-- NoAnswer           no answer in time
|-- SlowSubscriber     more arrived than may wait to be taken
`-- InvalidArgument    what was to be sent cannot be: an address, a subject, a header, credentials
    `-- MessageTooLarge  a message larger than the broker accepts

No message holds a password or a token.
"""

import os
import ssl
from typing import Self


class BrokerError(RuntimeError):
    """The broker refused what was asked of it; `status` is its code, 0 where it gave none.

    `reason` is the message without the `address` of the broker, which `str()` puts in front.
    """

    def __init__(self, reason: str, status: int = 0, address: str = "") -> None:
        super().__init__(reason, status, address)
        self.reason = reason
        self.status = status
        self.address = address

    def __str__(self) -> str:
        return f"{self.address}: {self.reason}" if self.address else self.reason

    def at(self, address: object) -> Self:
        """The same error, of a broker with this address."""
        return type(self)(self.reason, self.status, self.address or str(address))


class ConnectionLost(BrokerError):
    """No connection to a broker, or it ended, or nothing was heard in time: try again."""


class NotABroker(ConnectionLost):
    """What listens there does not speak the NATS protocol."""


class NotAuthorized(BrokerError):
    """The broker does not let us in; the message has its words."""


class NoResponders(BrokerError):
    """Nobody answers requests on this subject."""


class NoAnswer(BrokerError):
    """No answer in time."""


class SlowSubscriber(BrokerError):
    """More messages arrived than may wait to be taken; the subscription has ended."""


class InvalidArgument(BrokerError, ValueError):
    """What was to be sent cannot be; nothing was sent."""


class MessageTooLarge(InvalidArgument):
    """The message is larger than the broker accepts."""


def describe(error: BaseException) -> str:
    """What went wrong, in words for a person."""
    match error:
        case ConnectionRefusedError():
            return "connection refused: no broker listens there"
        case BrokerError():
            return error.reason
        case TimeoutError():
            return "no answer in time"
        case ssl.SSLError(strerror=str(text)) if text:  # its errno is not the system's
            return text.lower()
        case OSError(errno=int(number)) if number > 0:
            return os.strerror(number).lower()
        case OSError(strerror=str(text)) if text:
            return text.lower()
    return str(error) or type(error).__name__
