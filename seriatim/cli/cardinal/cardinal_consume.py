"""`seriatim cardinal consume`: the updates of a chain as lines of JSON, past and live.

Events that are not updates go to standard error; repeated ones of one kind are summarized.
Memory: that of the follower, and what the client reads ahead.
"""

import asyncio
import json
import sys
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice

from cardinal.assembler import Dropped, Evicted
from cardinal.block import Block
from cardinal.block_lines import hexed, read_hash, update_fields
from cardinal.errors import LineError
from cardinal.follower import ChainFollower, ChannelGivenUp, Event, NotOpen, Row, Step
from cardinal.messages import NUMBER_MAX
from cardinal.schema import Tracking
from cardinal.start import SECONDS as HOLD_SECONDS
from cardinal.token import BadToken, parse_token
from cardinal.transport.application_reader import (
    ApplicationReader,
    Happening,
    Interrupted,
    JournalChanged,
    NumbersLost,
    Rewound,
    Unreadable,
)
from cardinal.transport.broker_connection import Broken, open_client, refusal
from cardinal.transport.capture import CaptureReader
from cardinal.transport.errors import BadCapture, TransportError
from cardinal.update import ChainUpdate, Unlinked
from seriatim.cli.broker_access import BrokerAccess
from seriatim.cli.errors import CliError, UsageError
from seriatim.cli.printable import printable_json
from seriatim.cli.progress import Step as Shown
from seriatim.cli.progress import bar
from seriatim.client.errors import BrokerError
from seriatim.settings.amounts import read_digits

READ_SECONDS = 1.0  # how often, without messages, blocks that will not complete are given up
CAPTURE_ROWS = 4096  # read at once
SECONDS = 1.0


# Lines on standard error; many of the same kind are summarized.
#
# The first line of a kind is printed in full. Those that follow within a second are counted, and
# reported as one line that quotes the last, at most once a second per kind. `end` reports the rest.


class Kind:
    """Lines of one kind: the time of the last printed one, and the lines counted since."""

    __slots__ = ("count", "last", "reported_at")

    def __init__(self, reported_at: float) -> None:
        self.reported_at = reported_at
        self.count = 0
        self.last = ""


class Gathered:
    """Printer that prints or counts lines; the time is an argument."""

    def __init__(self) -> None:
        self._kinds: dict[Hashable, Kind] = {}

    def tell(self, kind: Hashable, text: str, now: float) -> None:
        """Print a line, or count it; a line without a kind (None) is always printed."""
        found = None if kind is None else self._kinds.get(kind)
        if found is not None and (found.count or now < found.reported_at + SECONDS):
            found.count, found.last = found.count + 1, text
            return
        say(text)
        if kind is not None:
            self._kinds[kind] = Kind(now)

    def look(self, now: float) -> None:
        """Report the counted lines of each kind whose second has passed."""
        for kind in self._kinds.values():
            if kind.count and now >= kind.reported_at + SECONDS:
                _tell_counted(kind)
                kind.reported_at, kind.count = now, 0

    def end(self) -> None:
        """Report all counted lines."""
        for kind in self._kinds.values():
            if kind.count:
                _tell_counted(kind)
        self._kinds.clear()


def _tell_counted(kind: Kind) -> None:
    more = "" if kind.count == 1 else f"{kind.count} more like this, the last one: "
    say(f"{more}{kind.last}")


def say(text: str) -> None:
    """Print a line of this program on standard error."""
    print(f"seriatim: {text}", file=sys.stderr, flush=True)


@dataclass(frozen=True, slots=True)
class Beginning:
    """The start of consuming: a block (hash or number), or the last applied block."""

    hash: bytes | None = None
    number: int | None = None
    after: bytes | None = None
    token: str = ""

    def __str__(self) -> str:
        return f"block {self.number}" if self.hash is None else f"block {hexed(self.hash)}"


@dataclass(frozen=True, slots=True)
class ConsumeOptions:
    """The options of `consume`: the chain to follow, and how to print it."""

    application: str
    tracking: Tracking | None
    beginning: Beginning
    threshold: int
    count: int
    once: bool
    brief: bool
    capture: str | None = None  # a file instead of the broker
    hold: float = HOLD_SECONDS


def read_beginning(from_block: str | None, after_block: str | None, token: str) -> Beginning:
    """Read the beginning from the flags. Raises `CliError`."""
    if token and after_block is None:
        raise UsageError("--token goes with --after-block: it belongs to the block it came with")
    try:
        parse_token(token)
        if after_block is not None:
            if from_block is not None:
                raise UsageError("give --from-block or --after-block, not both")
            return Beginning(after=read_hash(after_block, "--after-block"), token=token)
        if from_block is None:
            return Beginning()
        if from_block.startswith("0x"):
            return Beginning(hash=read_hash(from_block, "--from-block"))
    except LineError as error:
        raise CliError(str(error)) from error
    except BadToken as error:
        raise UsageError(f"--token: {error}") from error
    number = read_digits(from_block, NUMBER_MAX)
    if number is None:
        raise CliError(
            f'--from-block: "{from_block}" is neither the number of a block nor a hash (0x...)'
        )
    return Beginning(number=number)


def consume(access: BrokerAccess, wanted: ConsumeOptions) -> bool:
    """Print updates until the end; False if messages were lost on the way."""
    if wanted.capture is not None:
        return _of_capture(wanted.capture, wanted)
    return asyncio.run(_consumed(access, wanted))


class BlockPrinter:
    """Printer of updates from the wanted block on.

    Only blocks with its number or a higher one are printed. What a deeper reorg adds below is left
    out, and so is the removal of blocks that were never printed.
    """

    def __init__(self, wanted: ConsumeOptions) -> None:
        self.wanted = wanted
        begin = wanted.beginning
        self.lowest = 0 if begin.hash is None and begin.number is None else None
        self.count = 0  # of blocks added
        self._out = sys.stdout  # standard output itself, before the progress bar wraps it

    @property
    def begun(self) -> bool:
        return self.lowest is not None

    @property
    def done(self) -> bool:
        return 0 < self.wanted.count <= self.count

    def update(self, update: ChainUpdate, token: str) -> None:
        """Print an update, or the part of it that is wanted."""
        removed = update.removed
        if self.lowest is None:
            first = next((one for one in update.added if self._is_wanted(one)), None)
            if first is None:
                return
            begin = self.wanted.beginning.number
            self.lowest, removed = (first.number if begin is None else begin), []
        update = replace(
            update,
            added=[one for one in update.added if one.number >= self.lowest],
            removed=[one for one in removed if one.number >= self.lowest],
        )
        if not (update.added or update.removed):
            return
        if update.added:
            update = replace(update, ancestor=update.added[0].parent)
        fields = update_fields(update, self.wanted.brief) | {"token": token}
        print(printable_json(json.dumps(fields, ensure_ascii=False)), file=self._out, flush=True)
        self.count += len(update.added)

    def _is_wanted(self, block: Block) -> bool:
        begin = self.wanted.beginning
        return block.hash == begin.hash or block.number >= (
            NUMBER_MAX + 1 if begin.number is None else begin.number
        )


class Following:
    """The follower, with the outputs for its updates and events."""

    def __init__(self, wanted: ConsumeOptions) -> None:
        begin = wanted.beginning
        self.follower = ChainFollower(
            wanted.tracking,
            start=begin.after,
            threshold=wanted.threshold,
            hold_seconds=wanted.hold,
        )
        self.follower.resume(begin.token)
        self.printer = BlockPrinter(wanted)
        self.whole = True  # nothing was lost on the way
        self.gathered = Gathered()

    def happened(self, happened: list[Happening], stream: str, now: float) -> None:
        """Handle events of the reader."""
        for one in happened:
            self.whole &= not isinstance(one, NumbersLost)
            if isinstance(one, Rewound):
                self.follower.rewind(stream, one.last + 1)
            elif isinstance(one, JournalChanged):
                for name in one.old.split(","):
                    self.follower.forget(name)
            kind = (Unreadable, type(one.error)) if isinstance(one, Unreadable) else None
            self.gathered.tell(kind, _text_of(one), now)

    def handle_rows(self, rows: Sequence[Row], stream: str, now: float) -> None:
        """Handle rows; print the updates and report the events."""
        self._show(self.follower.take(rows, stream, now), now)
        self.gathered.look(now)

    def _show(self, events: Sequence[Event], now: float) -> None:
        for event in events:
            if isinstance(event, Step):
                if not self.printer.done:
                    self.printer.update(event.update, event.token)
            else:
                self.gathered.tell(*_given_up(event), now)

    def end(self, all_read: bool, now: float) -> None:
        """Report what is incomplete; raises `CliError` if the wanted block did not come."""
        if all_read:
            self._show(self.follower.flush(), now)
        self.gathered.end()
        if all_read and not self.printer.done:
            _say_what_lacks(self.follower)
            if not self.printer.begun:
                raise CliError(
                    f"{self.printer.wanted.beginning} is not in the stream, or is incomplete"
                )


async def _consumed(access: BrokerAccess, wanted: ConsumeOptions) -> bool:
    following = Following(wanted)
    clock = asyncio.get_running_loop().time
    streams = parse_token(wanted.beginning.token)
    try:
        journal, now = await _place(access)
        if wanted.once:
            _check_token(streams, journal, now)
        last = now if wanted.once else None
        async with ApplicationReader(
            wanted.application,
            access.full_url,
            streams=streams,
            last=last,
            **access.connect_options(),
        ) as reader:
            if not wanted.once:
                print("seriatim: following the chain", file=sys.stderr, flush=True)
            with _progress(now) as shown:
                while not (following.printer.done or reader.ended):
                    rows, happened = await reader.read(READ_SECONDS)
                    following.happened(happened, reader.stream, clock())
                    following.handle_rows(rows, reader.stream, clock())
                    shown(min(reader.next - 1, now))
    except (Broken, TransportError) as error:
        raise CliError(f"{error}{access.origin}") from error
    finally:
        following.gathered.end()
    following.end(wanted.once, clock())
    return following.whole


def _of_capture(path: str, wanted: ConsumeOptions) -> bool:
    """Print the updates of a capture, to its end."""
    following = Following(wanted)
    try:
        with open(path, "rb") as file:
            reader = CaptureReader(file)
            first = parse_token(wanted.beginning.token).get(reader.stream, 0)
            rows = (row for row in reader if row[3] >= first)
            while not following.printer.done and (some := list(islice(rows, CAPTURE_ROWS))):
                following.handle_rows(some, reader.stream, 0.0)
    except BadCapture as error:
        raise CliError(f"{path}: {error}") from error
    except OSError as error:
        raise CliError(f"{path}: cannot be read: {error.strerror}") from error
    finally:
        following.gathered.end()
    following.end(all_read=True, now=0.0)
    return following.whole


def _check_token(streams: Mapping[str, int], journal: str, last: int) -> None:
    """Refuse a token that is beyond the journal's end; one after the last number is the end."""
    wanted = streams.get(journal, 0)
    if wanted > last + 1:
        raise CliError(
            f"--token: it continues at number {wanted}, but the journal {journal} ends at {last}:"
            " the journal was cut, or the token belongs to another"
        )


def _given_up(event: Event) -> tuple[Hashable, str]:
    """An event's kind, and its line."""
    match event:
        case Dropped():
            return (Dropped, type(event.error)), str(event)
        case ChannelGivenUp(topic, why):
            text = f"the reorg on {topic} was never completed and is given up ({why})"
            return (ChannelGivenUp, why), text
        case NotOpen():
            return NotOpen, str(event)
        case Evicted(why=why) | Unlinked(why=why):
            return (type(event), why), str(event)
    return None, str(event)


async def _place(access: BrokerAccess) -> tuple[str, int]:
    """The journal, and the last number that the broker assigned."""
    client = await open_client(access.full_url, **access.connect_options())
    try:
        info = await client.info()
    except BrokerError as error:
        raise refusal(access.full_url, error) from None
    finally:
        await client.close()
    return info.journal, info.last


@contextmanager
def _progress(last: int) -> Iterator[Shown]:
    """A progress bar over the past, unless the lines go to the same terminal."""
    if sys.stdout is None or sys.stdout.isatty():
        yield lambda done: None
        return
    with bar("catching up", last, "messages") as shown:
        yield shown


def _say_what_lacks(follower: ChainFollower) -> None:
    for hash, block in list(follower.assembler.pending.items()):
        name = "a block" if block.batch is None else f"block {block.batch.number}"
        say(f"{name} {hexed(hash)} is incomplete; missing: {follower.assembler.missing(hash)}")
    if waiting := follower.chain.waiting:
        lowest = min(waiting, key=lambda block: block.number)
        say(f"complete blocks without a parent: {len(waiting)}, the lowest is {lowest}")
    for topic in follower.channels:
        say(f"the reorg of topic {topic} was announced but is not complete")


def _text_of(event: Happening) -> str:
    match event:
        case Interrupted(why):
            return f"{why}; trying again"
        case JournalChanged(old, new):
            return (
                f"the broker has another journal ({new}, not {old}); reading it from the beginning"
            )
        case Rewound(wanted, last):
            return f"the journal was cut: it ends at {last}, but number {wanted} was expected"
        case NumbersLost(first, last):
            return f"messages {first} to {last} are no longer kept"
        case Unreadable(number, subject, error):
            return f"message {number} on {subject} is not a message of Cardinal Streams: {error}"
