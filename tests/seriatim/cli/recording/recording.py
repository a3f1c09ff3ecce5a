"""What tests of recordings share: a file that is read, `seriatim record` as a process."""

import time
from pathlib import Path

from seriatim.cli.recording.recording_format import (
    Item,
    RecordedMessage,
    RecordingReader,
    decode_record,
)
from tests.seriatim.cli.command import Listener
from tests.support.raw import QUIET, RawClient

WAIT_S = 60.0


class Recorder(Listener):
    """`seriatim record`."""

    greets = "seriatim: recording "

    def __init__(self, *arguments: str) -> None:
        super().__init__("record", *arguments)

    def said(self) -> str:
        """The next line on its standard error."""
        assert self.process.stderr is not None
        return self.process.stderr.readline().decode()


def items_of(data: bytes | Path) -> list[Item]:
    """Everything in a recording, which is whole."""
    reader = RecordingReader()
    whole = data if isinstance(data, bytes) else data.read_bytes()
    found = [decode_record(content) for content in reader.feed(whole)]
    assert reader.head is not None
    assert reader.finish() == 0
    return found


def await_numbers(path: Path, numbers: list[int]) -> None:
    """Wait until a file that is being written has these messages."""
    end, found = time.monotonic() + WAIT_S, None
    while found != numbers:
        assert time.monotonic() < end, f"recorded: {found}"
        time.sleep(0.005)  # no event to await
        data = path.read_bytes() if path.exists() else b""
        items = map(decode_record, RecordingReader().feed(data))
        found = [item.number for item in items if isinstance(item, RecordedMessage)]


def await_growth(path: Path, size: int) -> None:
    """Wait until a file is larger than this."""
    end = time.monotonic() + WAIT_S
    while not path.exists() or path.stat().st_size <= size:
        assert time.monotonic() < end, "nothing was recorded"
        time.sleep(0.005)  # no event to await


def messages_of(data: bytes | Path) -> list[RecordedMessage]:
    return [one for one in items_of(data) if isinstance(one, RecordedMessage)]


def numbers_of(data: bytes | Path) -> list[int]:
    return [message.number for message in messages_of(data)]


def publish(port: int, *subjects: str) -> None:
    """A message for each; its payload is its subject."""
    with RawClient(port, QUIET) as client:
        sent = b"".join(b"PUB %b %d\r\n%b\r\n" % (s, len(s), s) for s in map(str.encode, subjects))
        assert client.ask(sent) == []
