"""`seriatim sub`: shows what arrives on some subjects, in the one order.

With `--from`, `--since` or `--last` it is a `read` of the client, which connects again when the
connection breaks, and goes on after the last message: none is repeated, none left out. Otherwise it
is a subscription, and ends when the connection does.
"""

import asyncio
import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Protocol

from seriatim.cli.broker_access import BrokerAccess
from seriatim.cli.errors import CliError
from seriatim.cli.printable import printable_lines
from seriatim.cli.progress import Step, bar
from seriatim.cli.pubsub.broker_client import BrokerGone, CommandConnection, connected
from seriatim.cli.pubsub.message_view import ShownMessage, understand
from seriatim.cli.pubsub.sub_start import Past, common, lost, takes_in
from seriatim.client.client_event import ClientEvent
from seriatim.client.errors import (
    BrokerError,
    ConnectionLost,
    JournalChanged,
    Lost,
    NoAnswer,
    NotSeriatim,
    describe,
)
from seriatim.client.stream_info import StreamInfo
from seriatim.client.stream_message import Message

SETTLE_SECONDS_MAX = 5.0


@dataclass(frozen=True, slots=True)
class SubscribeOptions:
    """The options of `sub`: show `count` messages (0: no limit), from the `past` on if given."""

    subjects: list[str]
    queue: str = ""
    count: int = 0
    past: Past | None = None
    reconnect: float | None = None  # seconds; None: for ever


Show = Callable[[ShownMessage], None]
Ready = Callable[[str], None]


class MessageSink(Protocol):
    """A taker of messages from the past. What it raises ends the command."""

    done: str  # what was done with messages: "shown"
    anew: str  # what to do when their numbers belong to other messages now

    def begin(self, kept: StreamInfo) -> None:
        """Get ready for messages of this journal."""

    def take(self, messages: list[Message]) -> bool:
        """Take messages; return whether that was the end."""

    def lose(self, item: Lost) -> None:
        """Note that these numbers are lost."""

    def resume(self, number: int) -> str:
        """Say how to go on with this number, for the end of an error; or nothing."""


def subscribe(access: BrokerAccess, options: SubscribeOptions, show: Show, ready: Ready) -> None:
    """Show messages until `count` is reached, or the end. Raises `CliError`.

    Calls `ready` with a text about the start, once the broker has accepted the subscription.
    """
    if options.past is None:
        asyncio.run(LiveMessages(options, show).follow(access, ready))
    else:
        sink = ShownMessages(options, show)
        with sink.bar:
            asyncio.run(PastMessages(access, options, options.past, sink, ready).follow())


class ShownMessages:
    """The messages that were shown: how many, and the highest number."""

    done = "shown"
    anew = "start again with --from 1"

    def __init__(self, options: SubscribeOptions, show: Show) -> None:
        self._options = options
        self._show = show
        self._count = 0
        self.last = 0
        self.bar = ExitStack()  # shown from the first messages on, if the end is known
        self._step: Step | None = None
        self._before = self._ends = 0  # the number before the first, and the last; 0: none

    def take(self, messages: list[Message]) -> bool:
        """Show these messages; return whether that was the end."""
        for message in messages:
            self._show(understand(message))
            self._count += 1
            self.last = max(self.last, message.number)
            if self._count == self._options.count:
                return True
        if self._ends and messages:
            self._show_progress(messages[0].number)
        return False

    def begin(self, kept: StreamInfo) -> None:
        """Note the end, if there is one; messages of any journal are shown."""
        if self._options.past is not None:
            last = self._options.past.last
            until_now = self._options.past.until_now
            self._ends = min(last or kept.last, kept.last) if until_now else last

    def _show_progress(self, first: int) -> None:
        """Show how many numbers have passed, unless messages go to the same terminal."""
        if self._step is None:
            past = self._options.past
            self._before = ((past and past.begin) or first) - 1
            if sys.stdout is None or sys.stdout.isatty():
                self._ends = 0
                return
            total = self._ends - self._before
            self._step = self.bar.enter_context(bar("reading", total, "numbers"))
        self._step(self.last - self._before)

    def lose(self, item: Lost) -> None:
        """Say what is lost."""
        tell(lost(item))

    def resume(self, number: int) -> str:
        """Say how to go on with this number."""
        return f"; resume with --from {number}" if number else ""


class LiveMessages:
    """The messages that are published while the one connection lasts."""

    def __init__(self, options: SubscribeOptions, show: Show) -> None:
        self._options = options
        self._shown = ShownMessages(options, show)
        self._arrived: list[Message] = []  # of all subscriptions, in the order of the wire
        self._changed = asyncio.Event()

    async def follow(self, access: BrokerAccess, ready: Ready) -> None:
        """Show messages to the end. Raises `CliError`."""
        async with connected(access) as link:
            try:
                await self._follow(link, ready)
            except BrokerGone as error:
                if self._shown.take(self._arrived):
                    return
                if not self._shown.last or self._options.queue:
                    raise
                raise CliError(f"{error}; resume with --from {self._shown.last + 1}") from error

    async def _follow(self, link: CommandConnection, ready: Ready) -> None:
        for subject in self._options.subjects:
            subscribing = link.client.subscribe(subject, self._note, queue=self._options.queue)
            await link.during(subscribing)
        await link.during(link.settle(SETTLE_SECONDS_MAX))
        ready("")
        is_over = False
        while not is_over:
            await link.during(self._changed.wait())
            self._changed.clear()
            arrived, self._arrived = self._arrived, []
            is_over = self._shown.take(arrived)

    def _note(self, message: Message) -> None:
        self._arrived.append(message)
        self._changed.set()


class PastMessages:
    """The past, then live messages, over as many connections as it takes."""

    def __init__(
        self,
        access: BrokerAccess,
        options: SubscribeOptions,
        past: Past,
        sink: MessageSink,
        ready: Ready,
    ) -> None:
        self._access = access
        self._options = options
        self._past = past
        self._sink = sink
        self._ready = ready
        self._waits_for = ""
        self._is_listening = False
        self._broken: BrokerError | None = None  # why there is no connection at the moment
        self._next = past.begin

    async def follow(self) -> None:
        """Take everything to the sink. Raises `CliError`."""
        patience = self._options.reconnect
        again = True if patience is None else patience
        async with connected(self._access, again, self._happened) as link:
            try:
                kept = await link.client.info()
                self._sink.begin(kept)
                if self._past.until_now:
                    past = self._past.with_end(kept)
                    if past is None:
                        there = f"the last number given is {kept.last}"
                        tell(f"nothing is there{self._past.words()}: {there}")
                        return
                    self._past = past
                self._waits_for = self._past.waits_for(kept)
                await self._read(link)
            except NotSeriatim:
                raise CliError(f"{link.shown}: the server there keeps no messages") from None
            except (ConnectionLost, NoAnswer) as error:
                on = self._sink.resume(self._next)
                raise CliError(f"{link.failure(self._broken or error)}{on}") from None
            except BrokerError as error:
                raise link.failure(error) from error

    async def _read(self, link: CommandConnection) -> None:
        subjects = self._options.subjects
        is_filtered = len(set(subjects)) > 1
        reading = link.client.read(common(subjects), **self._past.arguments(), losses="yield")
        async with reading as reader:
            async for items in reader.batches():
                self._listen()
                messages: list[Message] = []
                for item in items:
                    if isinstance(item, JournalChanged):
                        raise CliError(await _another_journal(link, item, self._sink))
                    if isinstance(item, Lost):
                        self._sink.lose(item)
                    elif not is_filtered or takes_in(subjects, item.subject):
                        messages.append(item)
                if self._sink.take(messages):
                    return
                self._next = reader.position.number + 1
        self._listen()

    def _happened(self, event: ClientEvent) -> None:
        """Say what happens to the connection."""
        if event.kind == "interrupted" and event.error is not None:
            self._broken = event.error
            on = f"resuming{self._past.words(event.number)} when the broker is back"
            tell(f"{self._access.shown}: {describe(event.error)}; {on}")
        elif event.kind == "reading":
            if self._is_listening and self._broken is not None:
                tell(f"connected again: listening{self._past.words(event.number)}")
            self._broken = None
            self._listen()

    def _listen(self) -> None:
        """Say once that it listens."""
        if not self._is_listening:
            self._is_listening = True
            self._ready(self._past.words())
            if self._waits_for:
                tell(self._waits_for)


async def _another_journal(
    link: CommandConnection, change: JournalChanged, sink: MessageSink
) -> str:
    """Say why the numbers that were taken are no longer those messages."""
    before, now = change.before, change.now
    if now.journal != before.journal:
        in_memory = (await link.client.info()).store == "memory"
        why = ": it keeps messages only in memory, and was restarted" if in_memory else ""
        return (
            f"{link.shown}: the broker has another journal now, {now.journal} instead of"
            f" {before.journal}{why}; its numbers belong to other messages; {sink.anew}"
        )
    if now.number < before.number:
        return (
            f"{link.shown}: number {before.number} was {sink.done}, but the broker's last number is"
            f" now {now.number}: its journal was cut, and will give those numbers to other messages"
        )
    return (
        f"{link.shown}: number {before.number} is another message now than the one that was"
        f" {sink.done}: the broker's journal was cut, and has grown again; {sink.anew}"
    )


def tell(text: str) -> None:
    """Print one line on standard error."""
    print(f"seriatim: {printable_lines(text)}", file=sys.stderr, flush=True)
