"""The broker's answers about its stream: what there is (`$SEQ.INFO`), and one message of it."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from seriatim.client.errors import BrokerError, NotABroker
from seriatim.client.peer_json import read_object
from seriatim.client.stream_message import EPOCH, STATUS_LINE, Message, read_headers, read_time

MS: Final = 1_000_000  # ns
OWN_LINES: Final = 3  # of an answer to `$SEQ.GET`: subject, number and time come first


@dataclass(frozen=True, slots=True)
class StreamInfo:
    """The journal that the broker keeps: the answer to `$SEQ.INFO`; times are in ns since 1970."""

    journal: str  # the id of the journal; with another one, number 7 is another message
    epoch: int  # how many times the journal was opened
    first: int  # the first number that can be read; `last` + 1 if there is none
    last: int  # the last number that was given; 0 if none was
    messages: int
    bytes: int
    oldest_ns: int
    newest_ns: int
    time_ns: int  # the broker's clock
    store: str  # disk, memory or none
    sync: str  # when a message is on disk: always, interval or never
    full: bool  # publishers are refused: the disk, or what is kept, is full
    restricted: bool  # the user's rights hide some messages: a hole in the numbers is then no loss
    limits: dict[str, int]

    @property
    def oldest(self) -> datetime:
        """When the first message that can be read was published, in UTC."""
        return EPOCH + timedelta(microseconds=self.oldest_ns // 1000)

    @property
    def newest(self) -> datetime:
        """When the last message was published, in UTC."""
        return EPOCH + timedelta(microseconds=self.newest_ns // 1000)


def read_info(answer: Message) -> StreamInfo:
    """Read the answer to `$SEQ.INFO`. Raises `BrokerError` for a refusal, `NotABroker`."""
    if answer.status:
        raise BrokerError(f"$SEQ.INFO: {answer.status} {answer.description}", answer.status)
    try:
        found = read_object(answer.payload)
        return StreamInfo(
            journal=str(found["journal"]),
            epoch=int(found["epoch"]),
            first=int(found["first"]),
            last=int(found["last"]),
            messages=int(found["messages"]),
            bytes=int(found["bytes"]),
            oldest_ns=int(found["oldest"] or 0) * MS,
            newest_ns=int(found["newest"] or 0) * MS,
            time_ns=int(found["time"] or 0) * MS,
            store=str(found["store"]),
            sync=str(found["sync"]),
            full=bool(found["full"]),
            restricted=bool(found["restricted"]),
            limits={str(name): int(value or 0) for name, value in found["limits"].items()},
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise NotABroker("the answer to $SEQ.INFO is not one of a Seriatim broker") from error


def read_stored(answer: Message) -> Message:
    """Return the message in an answer to `$SEQ.GET` or `$SEQ.LAST`. Raises `NotABroker`."""
    lines = answer.block.split(b"\r\n", OWN_LINES + 1)
    own = read_headers(b"\r\n".join(lines[1 : OWN_LINES + 1]))
    try:
        subject, number = own["Nats-Subject"], int(own["Nats-Sequence"])
        time_ns = read_time(own["Nats-Time-Stamp"].encode())
    except (KeyError, ValueError) as error:
        raise NotABroker("the answer has no message of a Seriatim broker") from error
    rest = lines[OWN_LINES + 1] if len(lines) > OWN_LINES + 1 else b""
    block = STATUS_LINE + rest if rest.strip() else b""
    return Message(subject, "", block, answer.payload, 0, number, time_ns)
