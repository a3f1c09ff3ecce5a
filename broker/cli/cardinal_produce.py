"""`seriatim cardinal produce`: blocks as lines of JSON, to messages at the broker.

A file is read twice: first to its end, without a broker, so that nothing is published of one that
is wrong; a pipe once. Memory: one line, and what its block makes.
"""

import asyncio
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import BinaryIO

from broker.cli.client import broker_url
from broker.cli.errors import CliError
from broker.cli.progress import Step, bar
from cardinal.draft import Draft, ReorgDraft
from cardinal.errors import CardinalError
from cardinal.lines import read
from cardinal.producer import Messages, Producer
from cardinal.schema import Schema
from cardinal.transport.errors import TransportError
from cardinal.transport.publisher import Publisher

LINE_BYTES_MAX = 256 << 20  # hex doubles a block, and no block has 128 MiB


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to publish, as whose, how fast."""

    file: str
    application: str
    schema: Schema
    rate: float


@dataclass(slots=True)
class Done:
    """What was published; `last` is the number of the last message."""

    blocks: int = 0
    messages: int = 0
    last: int = 0


def produce(url: str, wanted: Wanted) -> Done:
    """Publish the blocks of the file. Raises `CliError`."""
    with _opened(wanted.file) as file:
        size = _size(file)
        if size:
            with bar(f"checking {wanted.file}", size, "bytes") as step:
                for _ in _parts(file, wanted, step):
                    pass
            file.seek(0)
        with bar(f"publishing {wanted.file}", size, "bytes") as step:
            return asyncio.run(_published(broker_url(url), file, wanted, step))


async def _published(url: str, file: BinaryIO, wanted: Wanted, step: Step) -> Done:
    done = Done()
    clock = asyncio.get_running_loop().time
    begin = clock()
    try:
        async with Publisher(wanted.application, url) as publisher:
            for blocks, part in _parts(file, wanted, step):
                if blocks and wanted.rate:
                    await asyncio.sleep(begin + done.blocks / wanted.rate - clock())
                done.last = await publisher.send(part)
                done.blocks += blocks
                done.messages += sum(map(len, part.values()))
    except TransportError as error:
        raise CliError(f"{error}{_so_far(done)}") from error
    except CliError as error:
        raise CliError(f"{error}{_so_far(done)}") from error
    return done


def _so_far(done: Done) -> str:
    return f"; {done.blocks} blocks were published before it" if done.blocks else ""


def _parts(file: BinaryIO, wanted: Wanted, step: Step) -> Iterator[tuple[int, Messages]]:
    """Messages to be sent one behind the other, and how many blocks begin with them."""
    producer, at = Producer(wanted.schema), 0
    for number, line in enumerate(_lines(file), 1):
        at += len(line)
        step(at)
        if not line.strip():
            continue
        try:
            draft = read(line)
            yield from _counted(draft, producer)
        except CardinalError as error:
            if isinstance(error, TransportError):
                raise
            name = "standard input" if wanted.file == "-" else wanted.file
            raise CliError(f"{name}: line {number}: {error}") from error


def _counted(draft: Draft | ReorgDraft, producer: Producer) -> Iterator[tuple[int, Messages]]:
    blocks = len(draft.blocks) if isinstance(draft, ReorgDraft) else 1
    for part in draft.messages(producer):
        yield blocks, part
        blocks = 0


def _lines(file: BinaryIO) -> Iterator[bytes]:
    while line := file.readline(LINE_BYTES_MAX):
        if len(line) == LINE_BYTES_MAX:
            raise CliError(
                f"a line is longer than {LINE_BYTES_MAX} bytes: this is no file of blocks"
            )
        yield line


@contextmanager
def _opened(name: str) -> Iterator[BinaryIO]:
    if name == "-":
        if sys.stdin is None:
            raise CliError("there is no standard input")
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
