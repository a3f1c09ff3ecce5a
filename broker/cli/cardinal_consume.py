"""`seriatim cardinal consume`: the updates of a chain as lines of JSON, from the replay on.

What a consumer must know and is no update goes to standard error, a line each. Memory: that of
the follower, and one window of the reader.
"""

import asyncio
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from broker.cli.client import broker_url
from broker.cli.errors import CliError
from broker.cli.progress import Step as Shown
from broker.cli.progress import bar
from cardinal.block import Block
from cardinal.chain import ChainUpdate
from cardinal.errors import LineError
from cardinal.follower import ChannelGivenUp, Event, Follower, Step
from cardinal.lines import hexed, read_hash, update_fields
from cardinal.message import NUMBER_MAX
from cardinal.schema import Tracking
from cardinal.token import BadToken, parse_token
from cardinal.transport.connection import Broken, Connection
from cardinal.transport.errors import TransportError
from cardinal.transport.reader import (
    Happening,
    Interrupted,
    JournalChanged,
    Lost,
    Reader,
    Rewound,
    Unreadable,
)

READ_SECONDS = 1.0  # without messages, how often blocks that will not come are given up


@dataclass(frozen=True, slots=True)
class Beginning:
    """Where to begin: print from a block on (hash or number), or behind the last one applied."""

    hash: bytes | None = None
    number: int | None = None
    after: bytes | None = None
    token: str = ""

    def __str__(self) -> str:
        return f"block {self.number}" if self.hash is None else f"block {hexed(self.hash)}"


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to follow, and how to print it."""

    application: str
    tracking: Tracking | None
    beginning: Beginning
    threshold: int
    count: int
    once: bool
    brief: bool


def read_beginning(from_block: str | None, after_block: str | None, token: str) -> Beginning:
    """Where the flags say to begin. Raises `CliError`."""
    if token and after_block is None:
        raise CliError("--token goes with --after-block: it belongs to the block it came with")
    try:
        parse_token(token)
        if after_block is not None:
            if from_block is not None:
                raise CliError("give --from-block or --after-block, not both")
            return Beginning(after=read_hash(after_block, "--after-block"), token=token)
        if from_block is None:
            return Beginning()
        if from_block.startswith("0x"):
            return Beginning(hash=read_hash(from_block, "--from-block"))
    except LineError as error:
        raise CliError(str(error)) from error
    except BadToken as error:
        raise CliError(f"--token: {error}") from error
    if not (from_block.isascii() and from_block.isdigit()) or int(from_block) > NUMBER_MAX:
        raise CliError(f'--from-block: "{from_block}" is no number of a block, and no hash (0x...)')
    return Beginning(number=int(from_block))


def consume(url: str, wanted: Wanted) -> bool:
    """Print updates until there is no more to come; False if messages were lost on the way."""
    return asyncio.run(_consumed(broker_url(url), wanted))


class Printer:
    """Prints updates from the wanted block on."""

    def __init__(self, wanted: Wanted) -> None:
        self.wanted = wanted
        self.begun = wanted.beginning.hash is None and wanted.beginning.number is None
        self.count = 0  # of blocks added
        self._out = sys.stdout  # the one there was before the bar, which shows what is printed

    @property
    def done(self) -> bool:
        return 0 < self.wanted.count <= self.count

    def update(self, update: ChainUpdate, token: str) -> None:
        """Print an update, or the part of it that is wanted."""
        if not self.begun:
            at = next((at for at, one in enumerate(update.added) if self._is_wanted(one)), None)
            if at is None:
                return
            self.begun = True
            ancestor = update.added[at].parent
            update = ChainUpdate(update.added[at:], [], ancestor, update.unlinked)
        fields = update_fields(update, self.wanted.brief) | {"token": token}
        print(json.dumps(fields, ensure_ascii=False), file=self._out, flush=True)
        self.count += len(update.added)

    def _is_wanted(self, block: Block) -> bool:
        begin = self.wanted.beginning
        return block.hash == begin.hash or block.number >= (
            NUMBER_MAX + 1 if begin.number is None else begin.number
        )


async def _consumed(url: str, wanted: Wanted) -> bool:
    begin = wanted.beginning
    follower = Follower(wanted.tracking, start=begin.after, threshold=wanted.threshold)
    printer, whole = Printer(wanted), True
    try:
        now = await _last(url)
        last = now if wanted.once else None
        streams = parse_token(begin.token)
        async with Reader(wanted.application, url, streams=streams, last=last) as reader:
            if not wanted.once:
                print("seriatim: following the chain", file=sys.stderr, flush=True)
            with _progress(now) as shown:
                while not (printer.done or reader.ended):
                    rows, happened = await reader.read(READ_SECONDS)
                    for one in happened:
                        whole &= not isinstance(one, Lost)
                        if isinstance(one, Rewound):
                            follower.rewind(reader.stream, one.last + 1)
                        _say(_told(one))
                    clock = asyncio.get_running_loop().time()
                    _print(follower.take(rows, reader.stream, clock), printer)
                    shown(min(reader.next - 1, now))
    except (Broken, TransportError) as error:
        raise CliError(str(error)) from error
    if wanted.once and not printer.done:
        _say_what_lacks(follower)
        if not printer.begun:
            raise CliError(f"{begin} is not in the stream, or not whole")
    return whole


def _print(events: list[Event], printer: Printer) -> None:
    for event in events:
        if isinstance(event, Step):
            if not printer.done:
                printer.update(event.update, event.token)
        elif isinstance(event, ChannelGivenUp):
            _say(f"the reorg on {event.topic} was never completed, and is given up ({event.why})")
        else:
            _say(str(event))


async def _last(url: str) -> int:
    """The last number that the broker has given."""
    connection = await Connection.open(url)
    try:
        return int((await connection.info())["last"])
    finally:
        await connection.close()


@contextmanager
def _progress(last: int) -> Iterator[Shown]:
    """A bar over the past, where it does not stand between the lines of a terminal."""
    if sys.stdout is None or sys.stdout.isatty():
        yield lambda done: None
        return
    with bar("catching up", last, "messages") as shown:
        yield shown


def _say(text: str) -> None:
    print(f"seriatim: {text}", file=sys.stderr, flush=True)


def _say_what_lacks(follower: Follower) -> None:
    for hash, block in list(follower.assembler.pending.items()):
        name = "a block" if block.batch is None else f"block {block.batch.number}"
        _say(f"{name} {hexed(hash)} is not whole: without {follower.assembler.missing(hash)}")
    if waiting := follower.chain.waiting:
        lowest = min(waiting, key=lambda block: block.number)
        _say(f"whole, but without their parents: {len(waiting)}, the lowest is {lowest}")


def _told(event: Happening) -> str:
    match event:
        case Interrupted(why):
            return f"{why}; trying again"
        case JournalChanged(old, new):
            return f"the broker has another journal ({new}, and not {old}); from its beginning"
        case Rewound(wanted, last):
            return f"the journal was cut: it ends at {last}, and {wanted} was to come"
        case Lost(first, last):
            return f"messages {first} to {last} are not kept any more"
        case Unreadable(number, subject, error):
            return f"message {number} on {subject} is none of Cardinal Streams: {error}"
