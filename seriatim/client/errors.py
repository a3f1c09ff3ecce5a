"""The errors between a client and a broker; each has a one-line message, and can be pickled.

BrokerError            base of all; `status` is the broker's code, or 0
|-- ConnectionLost     no broker, or the connection broke or timed out: try again
|   `-- NotABroker     the server does not speak the NATS protocol
|-- NotAuthorized      the broker rejects us
|-- NoResponders       there are no responders on this subject
|-- NoAnswer           no answer in time
|-- SlowSubscriber     too many messages are waiting to be taken
`-- InvalidArgument    an address, a subject, a header or credentials that cannot be sent
    `-- MessageTooLarge  a message larger than the broker accepts

No error text contains a password or a token.
"""

import os
import ssl
from typing import Self


class BrokerError(RuntimeError):
    """The broker refused a request; `status` is its code, or 0 if it gave none.

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
        """Return the same error, with the broker's address."""
        return type(self)(self.reason, self.status, self.address or str(address))


class ConnectionLost(BrokerError):
    """No connection to a broker, or it broke, or it timed out: try again."""


class NotABroker(ConnectionLost):
    """The server does not speak the NATS protocol."""


class NotAuthorized(BrokerError):
    """The broker rejects us; the message quotes it."""


class NoResponders(BrokerError):
    """There are no responders to requests on this subject."""


class NoAnswer(BrokerError):
    """No answer in time."""


class SlowSubscriber(BrokerError):
    """More messages arrived than may wait; the subscription has ended."""


class InvalidArgument(BrokerError, ValueError):
    """An argument cannot be sent; nothing was sent."""


class MessageTooLarge(InvalidArgument):
    """The message is larger than the broker accepts."""


def describe(error: BaseException) -> str:
    """Describe an error, in words for the user."""
    match error:
        case ConnectionRefusedError():
            return "connection refused: no broker listens there"
        case BrokerError():
            return error.reason
        case TimeoutError():
            return "no answer in time"
        case ssl.SSLError(reason="WRONG_VERSION_NUMBER"):
            return "it does not speak TLS there"
        case ssl.SSLError(strerror=str(text)) if text:  # its errno is not the operating system's
            return text.lower()
        case OSError(errno=int(number)) if number > 0:
            return os.strerror(number).lower()
        case OSError(strerror=str(text)) if text:
            return text.lower()
    return str(error) or type(error).__name__
