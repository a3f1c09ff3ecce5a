"""`seriatim play`: publishes a recording again, at its own pace or another one.

With numbers (the default) each message has an id, made of the recording's journal and the number
in it. A message that is played again within the broker's `journal.dedupe_window` is not published
again.
Memory: a chunk of the file, and what the client has in flight.
"""

import asyncio
import os
import secrets
import stat
import sys
import time
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from math import inf
from typing import Final

from seriatim.cli.broker_access import BrokerAccess
from seriatim.cli.errors import CliError, UsageError
from seriatim.cli.progress import Step, bar
from seriatim.cli.pubsub.broker_client import CommandConnection, connected
from seriatim.cli.pubsub.piped import chunks
from seriatim.cli.pubsub.pub import CONFIRM_EVERY
from seriatim.cli.pubsub.sub import tell
from seriatim.cli.recording.message_recorder import interrupted_by_sigterm
from seriatim.cli.recording.playing_pace import Pace
from seriatim.cli.recording.recording_format import (
    BadRecording,
    Item,
    RecordedLoss,
    RecordedMessage,
    RecordingReader,
    decode_record,
)
from seriatim.client.errors import (
    BrokerError,
    InvalidArgument,
    NotSeriatim,
    Refused,
)

STDIN: Final = 0
TOLD_PAUSE: Final = 10.0  # seconds: a longer pause is announced
CONDITION: Final = b"nats-expected-"
NO_NUMBERS: Final = "the server there does not number messages; give --no-ack"


@dataclass(frozen=True, slots=True)
class PlayOptions:
    """The options of `play`: what to publish, where to, and how fast; times in ns since 1970."""

    path: str
    subject: str = ""  # for all messages; empty: their own
    prefix: str = ""  # of their own subjects
    first: int = 0
    last: int | None = None
    since: int = 0
    until: int | None = None
    speed: float = 1.0
    rate: float = 0.0
    ack: bool = True
    again: bool = False
    timeout: float = 60.0


def read_speed(text: str) -> float:
    """Return how many times faster to play; "max" is infinite. Raises `UsageError`."""
    if text == "max":
        return inf
    try:
        speed = float(text)
    except ValueError:
        speed = 0.0
    if not 0 < speed < inf:
        raise UsageError(f'--speed: "{text}" is neither a number above 0 nor max')
    return speed


def play(access: BrokerAccess, options: PlayOptions) -> bool:
    """Publish a recording; return whether it is whole. Raises `CliError`."""
    with interrupted_by_sigterm():
        return asyncio.run(_play(access, options))


async def _play(access: BrokerAccess, options: PlayOptions) -> bool:
    descriptor, size = _opened(options.path)
    begun = time.monotonic()
    try:
        async with connected(access, options.timeout if options.ack else False) as link:
            player = RecordingPlayer(link, options, descriptor)
            try:
                with bar("playing", size, "bytes") as player.step:
                    await link.during(player.play())
            except CliError as error:
                raise CliError(f"{error}{player.words()}") from error
            except asyncio.CancelledError:  # Ctrl-C
                tell(f"interrupted{player.words()}")
                raise
    finally:
        if descriptor != STDIN:
            os.close(descriptor)
    tell(player.summary(time.monotonic() - begun))
    return player.is_whole


def _opened(path: str) -> tuple[int, int | None]:
    """Open a recording; return the descriptor, and the size of a file. Raises `CliError`."""
    if path == "-":
        if sys.stdin is None or sys.stdin.isatty():
            raise UsageError("a recording is not typed; give its file, or a pipe")
        return STDIN, None
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise CliError(f"{path}: {(error.strerror or str(error)).lower()}") from None
    found = os.fstat(descriptor)
    return descriptor, found.st_size if stat.S_ISREG(found.st_mode) else None


class RecordingPlayer:
    """The player of one recording over one client."""

    def __init__(self, link: CommandConnection, options: PlayOptions, descriptor: int) -> None:
        self.step: Step = lambda done: None
        self.is_whole = True
        self._link = link
        self._options = options
        self._shown = "standard input" if options.path == "-" else options.path
        self._descriptor = descriptor
        self._pace = Pace(options.speed, options.rate)
        self._reader = RecordingReader()
        self._salt = f".{secrets.token_hex(4)}" if options.again else ""
        self._open: deque[tuple[int, asyncio.Future[int]]] = deque()  # with recorded numbers
        self._unsettled = 0  # bytes published without an answer that the broker may not have
        self._floor = 0  # the broker's last number before we began
        self._sent = 0  # the last recorded number that was sent
        self._confirmed = 0  # and that the broker has
        self._count = self._repeated = 0
        self._numbers = (0, 0)  # the lowest and the highest that were given

    async def play(self) -> None:
        """Publish everything. Raises `CliError`, `BrokerError`."""
        if self._options.ack:
            await self._learn_floor()
        try:
            async with aclosing(self._wanted()) as messages:
                async for message in messages:
                    await self._wait_until_due(message)
                    await self._publish(message)
            await self._settle()
        finally:
            for _, future in self._open:  # their results are not used
                if not future.cancel() and not future.cancelled():
                    future.exception()

    async def _learn_floor(self) -> None:
        """Learn the last number: smaller ones were given to messages that were there already."""
        try:
            self._floor = (await self._link.client.info()).last
        except NotSeriatim:
            raise CliError(f"{self._link.shown}: {NO_NUMBERS}") from None
        except Refused:
            pass  # this user may publish and not ask; what was there already is not counted

    async def _wanted(self) -> AsyncGenerator[RecordedMessage, None]:
        """The messages in the wanted range. Raises `CliError`."""
        options = self._options
        last = inf if options.last is None else options.last
        until = inf if options.until is None else options.until
        async with aclosing(self._items()) as items:
            async for item in items:
                if isinstance(item, RecordedMessage):
                    if item.number > last:
                        return
                    if item.number >= options.first and options.since <= item.time_ns < until:
                        yield item
                elif isinstance(item, RecordedLoss):
                    if options.first <= item.last and item.first <= last:
                        self._tell_loss(item)
                else:
                    raise CliError(f"{self._shown}: another recording follows; play it by itself")
        if torn := self._reader.finish():
            self.is_whole = False
            tell(f"{self._shown}: the last record is cut short: {torn} bytes are left out")
        if self._reader.head is None:
            raise CliError(f"{self._shown}: nothing was recorded")

    async def _items(self) -> AsyncGenerator[Item, None]:
        try:
            async with aclosing(chunks(self._descriptor)) as pieces:
                async for chunk in pieces:
                    for content in self._reader.feed(chunk):
                        yield decode_record(content)
                    self.step(self._reader.end)
        except BadRecording as error:
            raise CliError(f"{self._shown}: {error}") from None
        except OSError as error:
            raise CliError(f"{self._shown}: {(error.strerror or str(error)).lower()}") from None

    def _tell_loss(self, loss: RecordedLoss) -> None:
        what = f"number {loss.first} was lost before it"
        if loss.last > loss.first:
            what = f"numbers {loss.first} to {loss.last} were lost before they"
        tell(f"{self._shown}: {what} could be recorded")

    async def _wait_until_due(self, message: RecordedMessage) -> None:
        due = self._pace.due(message.time_ns, time.monotonic())
        if due - time.monotonic() > TOLD_PAUSE:
            tell(f"number {message.number} follows in {due - time.monotonic():,.0f} s")
        while (left := due - time.monotonic()) > 0:
            self.step(self._reader.end)
            if self._open:
                await asyncio.wait({self._open[0][1]}, timeout=left)
                self._take_answers()
            else:
                await asyncio.sleep(left)

    async def _publish(self, message: RecordedMessage) -> None:
        options, client = self._options, self._link.client
        subject = self._subject_of(message)
        block = without_conditions(message.headers) or None
        try:
            if options.ack:
                sent = await client.send(
                    subject,
                    message.payload,
                    headers=block,
                    id=self._id_of(message, subject),
                    timeout=options.timeout,
                )
                self._open.append((message.number, sent))
            else:
                reply = message.reply.decode("utf-8", "surrogateescape")
                await client.publish_unconfirmed(
                    subject, message.payload, reply=reply, headers=block
                )
                self._unsettled += len(message.payload) + len(message.headers) + 100
        except InvalidArgument as error:
            raise CliError(f"{self._of(message.number)}: {error.reason}") from None
        self._count += 1
        self._sent = message.number
        self._take_answers()
        if self._unsettled > CONFIRM_EVERY:
            await self._settle()

    def _subject_of(self, message: RecordedMessage) -> str:
        """Return the subject to publish to. Raises `CliError`."""
        if self._options.subject:
            return self._options.subject
        if not message.subject:
            raise CliError(f"{self._of(message.number)}: has no subject; give --subject")
        own = message.subject.decode("utf-8", "surrogateescape")
        return f"{self._options.prefix}.{own}" if self._options.prefix else own

    def _id_of(self, message: RecordedMessage, subject: str) -> str:
        """Return the id: of another subject it is another one, for an id counts for all."""
        assert self._reader.head is not None, "it precedes all messages"
        is_mapped = self._options.subject or self._options.prefix
        mapped = f".{subject}" if is_mapped else ""
        return f"{self._reader.head.journal}.{message.number}{self._salt}{mapped}"

    def _take_answers(self) -> None:
        """Take the numbers that have come. Raises `CliError` for a message that was refused."""
        while self._open and self._open[0][1].done():
            recorded, future = self._open.popleft()
            try:
                number = future.result()
            except NotSeriatim:
                raise CliError(f"{self._link.shown}: {NO_NUMBERS}") from None
            except Refused as error:
                raise CliError(
                    f"{self._of(recorded)}: {self._link.shown} refused: {error.reason}"
                ) from None
            self._confirmed = recorded
            self._repeated += number <= self._floor
            low, high = self._numbers
            self._numbers = (min(low or number, number), max(high, number))

    async def _settle(self) -> None:
        """Wait until the broker has everything that was sent."""
        while self._open:
            await asyncio.wait({self._open[0][1]})
            self._take_answers()
        if not self._options.ack:
            try:
                await self._link.settle(self._options.timeout)
            except BrokerError as error:
                raise self._link.failure(error) from None
            self._unsettled = 0
            if not self._link.is_refused:  # one of them, and it is not known which
                self._confirmed = self._sent

    def _of(self, number: int) -> str:
        return f"number {number} of {self._shown}"

    def words(self) -> str:
        """Say how far it is, and how to go on, for the end of an error message."""
        if not self._sent:
            return ""
        may = f" and may have up to number {self._sent}" if self._sent > self._confirmed else ""
        upto = f"up to number {self._confirmed}" if self._confirmed else "nothing for sure"
        on = f"; go on with --from {self._confirmed + 1}" if self._confirmed else ""
        return f"; the broker has {upto} of the recording{may}{on}"

    def summary(self, seconds: float) -> str:
        """Say what was published."""
        many = f"{self._count:,} message{'s' * (self._count != 1)}"
        low, high = self._numbers
        as_numbers = (
            f", as numbers {low} to {high}" if low < high else f", as number {low}" * bool(low)
        )
        text = f"published {many} of {self._shown} in {seconds:.1f} s{as_numbers}"
        if self._repeated:
            text += f"; {self._repeated:,} of them were there already"
        return text


def without_conditions(block: bytes) -> bytes:
    """Return headers without `Nats-Expected-*`: conditions of the first time, not of this one."""
    if CONDITION not in block.lower():
        return block
    lines = block.split(b"\r\n")
    return b"\r\n".join(one for one in lines if not one.lower().startswith(CONDITION))
