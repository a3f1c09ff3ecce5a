"""The errors of a client; each has a one-line message that says what to do, and can be pickled.

BrokerError            base of all; `status` is the broker's code, or 0
|-- ConnectionLost     no broker, or the connection broke or timed out: try again
|   `-- NotABroker     the server does not speak the NATS protocol
|-- NotAuthorized      the broker refuses the login: credentials, or a user's rights
|-- Refused            the broker refused what we published or asked for; `subject`, `reason`
|   |-- WrongLastNumber  another message came first; `last` is the true number
|   `-- NotFound       there is no such message (any more)
|-- Unconfirmed        a message may have been published or not; `id` to publish it again
|-- NotAllPublished    of many messages, some have no number; `numbers`, `errors`
|-- Lost               numbers that were asked for and do not exist any more; `first`, `last`
|-- JournalChanged     the numbers seen so far belong to other messages now; `before`, `now`
|-- NotSeriatim        the server has no numbers
|-- NoResponders       there are no responders on this subject
|-- NoAnswer           no answer in time
|-- SlowSubscriber     too many messages are waiting to be taken
`-- InvalidArgument    an address, a subject, a header or credentials that cannot be sent
    `-- MessageTooLarge  a message larger than the broker accepts

No error text contains a password or a token.
"""

import os
import ssl
from typing import Any, NamedTuple, Self


class Position(NamedTuple):
    """A place in the order: the id of a journal, and the number of the last message processed.

    `time_ns` is when that message was published. If it is given, a journal that has lost its end
    and has grown again is recognised: its message of that number has another time.
    """

    journal: str
    number: int
    time_ns: int = 0


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
    """The broker refuses the login; the message quotes it."""


class Refused(BrokerError):
    """The broker refused a message or a request to `subject`; nothing was published."""

    def __init__(self, reason: str, status: int = 0, address: str = "", subject: str = "") -> None:
        super().__init__(reason, status, address)
        self.subject = subject

    def __str__(self) -> str:
        about = f"{self.subject}: " if self.subject not in self.reason else ""
        return f"{self.address}: {about}{self.reason}" if self.address else about + self.reason

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.reason, self.status, self.address, self.subject)

    def at(self, address: object) -> Self:
        return type(self)(self.reason, self.status, self.address or str(address), self.subject)


class WrongLastNumber(Refused):
    """The last number is not the expected one: another program was faster.

    Read what came since, and decide again.
    """

    @property
    def last(self) -> int:
        """The true last number; 0 if there is no message."""
        digits = self.reason.rpartition(" ")[2]
        return int(digits) if digits.isdigit() else 0


class NotFound(Refused):
    """There is no such message, or not any more."""


class Unconfirmed(BrokerError):
    """A message to `subject` may have been published, or not: no answer came.

    Publish it again with the same `id`: it then gets its number once, if that is within the
    broker's `journal.dedupe_window`.
    """

    def __init__(self, reason: str, subject: str = "", id: str = "") -> None:
        super().__init__(reason)
        self.subject = subject
        self.id = id

    def __str__(self) -> str:
        return f"{self.subject}: {self.reason}"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.reason, self.subject, self.id)


class NotAllPublished(BrokerError):
    """Of messages that were published together, some have no number.

    `numbers` are those of the messages, in their order; 0 for one without. It is shorter than the
    messages if the last of them were not sent. `errors` says why, by the place of each message;
    `index` is the first of these places.
    """

    def __init__(self, numbers: list[int], errors: dict[int, BrokerError]) -> None:
        self.numbers = numbers
        self.errors = errors
        self.index = min(errors)
        first, done = errors[self.index], len(numbers) - numbers.count(0)
        super().__init__(
            f"messages[{self.index}]: {first}; confirmed: {done} of {len(numbers)}",
            first.status,
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.numbers, self.errors)


class Lost(BrokerError):
    """The numbers `first` to `last` were asked for, and do not exist any more.

    Retention deleted them, or a disk is damaged. Whoever catches it may go on reading: the next
    message is one behind them.
    """

    def __init__(self, first: int, last: int) -> None:
        super().__init__(f"numbers {first} to {last} do not exist any more")
        self.first = first
        self.last = last

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.first, self.last)


class JournalChanged(BrokerError):
    """The broker has another journal than the one whose numbers were seen, or lost its end.

    `before` is the position reached, `now` where the journal that is there ends; both are
    `Position(journal, number)`. Number 7 may now be another message. If you go on reading, it
    begins with the first message that is there.
    """

    def __init__(self, before: Position, now: Position) -> None:
        if before.journal != now.journal:
            why = f"its id is {now.journal or 'none'}, not {before.journal}"
        elif now.number < before.number:
            why = f"its last number is {now.number}, but number {before.number} was seen"
        else:
            why = f"number {before.number} is another message now"
        super().__init__(f"the broker's journal is not the one that was read: {why}")
        self.before = before
        self.now = now

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.before, self.now)


class NotSeriatim(BrokerError):
    """The server has no numbers: it is not a Seriatim broker."""


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
