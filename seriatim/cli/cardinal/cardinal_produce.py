"""`seriatim cardinal produce`: publishes blocks, given as lines of JSON.

A file is read twice: first to its end without a broker, so nothing of a bad file is published. A
pipe is read once; a bad line is not published at all. Memory: one line, the messages of its
block, and what `Lineage` keeps of earlier blocks.
"""

import asyncio
import os
import stat
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import BinaryIO

from cardinal.block_lines import read
from cardinal.draft import ReorgDraft
from cardinal.errors import CardinalError
from cardinal.lineage import Lineage
from cardinal.message_codec import decode
from cardinal.messages import Batch, SubBatchMessage, Update
from cardinal.producer import Messages, Producer
from cardinal.schema import Schema
from cardinal.transport.envelope import packed_bytes
from cardinal.transport.errors import TransportError
from cardinal.transport.publisher import Publisher
from seriatim.cli.broker_access import BrokerAccess
from seriatim.cli.errors import CliError
from seriatim.cli.progress import Step, bar
from seriatim.cli.pubsub import piped

LINE_BYTES_MAX = 256 << 20  # hex doubles the size of a block, and no block has 128 MiB
KEY_SHOWN = 60


@dataclass(frozen=True, slots=True)
class ProduceOptions:
    """The options of `produce`: the blocks, the application, and the rate."""

    file: str
    application: str
    schema: Schema
    rate: float

    @property
    def name(self) -> str:
        return "standard input" if self.file == "-" else self.file


@dataclass(slots=True)
class ProducedCounts:
    """Counts of published blocks and messages; `last` is the number of the last message."""

    blocks: int = 0
    messages: int = 0
    last: int = 0


@dataclass(frozen=True, slots=True)
class Largest:
    """The largest message so far: its bytes, its line, and what it is."""

    bytes: int = 0
    line: int = 0
    what: str = ""


class Maker:
    """Maker of the messages for the blocks on lines."""

    def __init__(self, wanted: ProduceOptions) -> None:
        self.largest = Largest()
        self._wanted = wanted
        self._producer = Producer(wanted.schema)
        self._lineage = Lineage()
        self._line = 0

    def parse_line(self, line: bytes) -> tuple[int, list[Messages]]:
        """The number of blocks on a line, and all their messages. Raises `CliError`."""
        self._line += 1
        if not line.strip():
            return 0, []
        try:
            draft = read(line)
            self._lineage.check(draft, self._line)
            parts = list(draft.messages(self._producer))
        except CardinalError as error:
            raise CliError(f"{self._wanted.name}: line {self._line}: {error}") from error
        for part in parts:
            for messages in part.values():
                for key, value in messages:
                    size = packed_bytes(key, value)
                    if size > self.largest.bytes:
                        self.largest = Largest(size, self._line, _named(key, value))
        return len(draft.blocks) if isinstance(draft, ReorgDraft) else 1, parts

    def check(self, bytes_max: int | None) -> None:
        """Raise `CliError` if a message so far is larger than the broker accepts."""
        found = self.largest
        if bytes_max is not None and found.bytes > bytes_max:
            raise CliError(
                f"{self._wanted.name}: line {found.line}: {found.what} makes a message of"
                f" {found.bytes} bytes; the broker accepts at most {bytes_max}"
            )


def produce(access: BrokerAccess, wanted: ProduceOptions) -> ProducedCounts:
    """Publish the blocks of the file. Raises `CliError`."""
    with _opened(wanted.file) as file:
        size, checked = _size(file), Maker(wanted)
        if size:
            start = file.tell()
            with bar(f"checking {wanted.file}", size, "bytes") as step:
                at = start
                for line in _lines(file):
                    at += len(line)
                    step(at)
                    checked.parse_line(line)
            file.seek(start)
        with bar(f"publishing {wanted.file}", size, "bytes") as step:
            return asyncio.run(_published(access, file, wanted, checked, step))


async def _published(
    access: BrokerAccess, file: BinaryIO, wanted: ProduceOptions, checked: Maker, step: Step
) -> ProducedCounts:
    done, maker, at = ProducedCounts(), Maker(wanted), 0
    clock = asyncio.get_running_loop().time
    begin = clock()
    try:
        async with Publisher(
            wanted.application, access.full_url, **access.connect_options()
        ) as publisher:
            checked.check(publisher.payload_max)
            async for line in _each(file):
                at += len(line)
                step(at)
                blocks, parts = maker.parse_line(line)
                maker.check(publisher.payload_max)
                if blocks and wanted.rate:
                    await asyncio.sleep(begin + done.blocks / wanted.rate - clock())
                for part in parts:
                    done.last = await publisher.send(part)
                    done.messages += sum(map(len, part.values()))
                done.blocks += blocks
    except TransportError as error:
        raise CliError(f"{error}{access.origin}{_so_far(done)}") from error
    except CliError as error:
        raise CliError(f"{error}{_so_far(done)}") from error
    return done


def _so_far(done: ProducedCounts) -> str:
    if not done.blocks:
        return ""
    blocks = "1 block was" if done.blocks == 1 else f"{done.blocks} blocks were"
    return f"; {blocks} published before that"


def _named(key: bytes, value: bytes) -> str:
    """Describe a message for the author of the line."""
    message = decode(key, value)
    match message:
        case Batch():
            return "the Batch, with all keys that match no pattern,"
        case Update(_, name, _):
            return f"the key {name!r:.{KEY_SHOWN}}"
        case SubBatchMessage(_, _, _, [], updates):
            return f"the key {next(iter(updates))!r:.{KEY_SHOWN}} of a sub-batch"
        case SubBatchMessage():
            return "the deletes of a sub-batch"
    return f"the {type(message).__name__}"


async def _each(file: BinaryIO) -> AsyncIterator[bytes]:
    """Yield the lines of a file or a pipe; for a pipe, wait until they come."""
    if not _size(file):
        async for line in piped.lines(file.fileno(), LINE_BYTES_MAX):
            yield line
        return
    for line in _lines(file):
        yield line


def _lines(file: BinaryIO) -> Iterator[bytes]:
    while line := file.readline(LINE_BYTES_MAX):
        if len(line) == LINE_BYTES_MAX:
            raise CliError(
                f"a line is longer than {LINE_BYTES_MAX} bytes: this is not a file of blocks"
            )
        yield line


@contextmanager
def _opened(name: str) -> Iterator[BinaryIO]:
    if name == "-":
        if sys.stdin is None:
            raise CliError("standard input is closed")
        yield sys.stdin.buffer
        return
    try:
        file = open(name, "rb")  # noqa: SIM115
    except OSError as error:
        raise CliError(f"{name}: cannot be read: {error.strerror}") from error
    with file:
        yield file


def _size(file: BinaryIO) -> int:
    """The bytes of a file that can be read twice, else 0."""
    found = os.fstat(file.fileno())
    return found.st_size if stat.S_ISREG(found.st_mode) else 0
