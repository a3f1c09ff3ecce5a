"""`seriatim sub`: shows what arrives on some subjects, in the one order.

With `--from`, `--since` or `--last` it reconnects when the connection breaks, and resumes after the
last message shown: none is repeated, none left out. Otherwise it ends when the connection does.
"""

import asyncio
import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from seriatim.cli.broker_access import BrokerAccess
from seriatim.cli.errors import CliError
from seriatim.cli.printable import printable_lines
from seriatim.cli.pubsub import journal_state
from seriatim.cli.pubsub.broker_client import BrokerGone, CommandConnection, connected
from seriatim.cli.pubsub.message_view import ShownMessage, understand
from seriatim.cli.pubsub.sub_start import (
    OWN_PREFIX,
    Past,
    common,
    is_end,
    last_lost,
    lost,
    takes_in,
)
from seriatim.client.protocol import MessageReceived

SETTLE_SECONDS_MAX = 5.0
PAUSE_SECONDS_MIN, PAUSE_SECONDS_MAX = 0.1, 2.0  # between two attempts to reconnect
ANSWER_SECONDS_MAX = 10.0
FILTERS_MAX = 64  # per request
BYTES_MAX = 16 << 20  # of messages scanned for one answer


# The times when messages were published, from the broker, for `seriatim sub --json`.
#
# A message reaches a subscriber without its time. `$SEQ.READ` gives the times of consecutive
# numbers, 16 bytes a message, so there is one request for each batch. A message without a number,
# or one that is not kept, gets the time at which it was received.


async def dated(
    link: CommandConnection, batch: list[ShownMessage], subjects: list[str]
) -> list[ShownMessage]:
    """The messages, with the broker's times if it has them. Raises `CliError`."""
    numbers = [message.number for message in batch if message.number is not None]
    if not numbers or not link.frame:
        return batch
    filters = subjects if len(subjects) <= FILTERS_MAX else [common(subjects)]
    times: dict[int, int] = {}
    at, last = min(numbers), max(numbers)
    while at <= last:
        query = {
            **{"from": at, "to": last, "subject": filters, "format": "times"},
            **{"max_bytes": BYTES_MAX, "chunk_bytes": BYTES_MAX},
        }
        request = link.client.request(
            "$SEQ.READ", json.dumps(query).encode(), timeout=ANSWER_SECONDS_MAX
        )
        answer = await link.during(request)
        times |= _times(answer)
        following = answer.headers.get("Seriatim-Next", "")
        if not following.isdigit() or int(following) <= at:
            break  # refused: this broker keeps nothing
        at = int(following)
    return [
        replace(message, time=times.get(message.number or 0, message.time)) for message in batch
    ]


def _times(answer: MessageReceived) -> dict[int, int]:
    """The times by number: an array of numbers, followed by one of times."""
    if len(answer.data) % 16:
        return {}
    values = memoryview(answer.data).cast("q")
    rows = len(values) // 2
    return dict(zip(values[:rows], values[rows:], strict=True))


@dataclass(frozen=True, slots=True)
class SubscribeOptions:
    """The options of `sub`: show `count` messages (0: no limit), from the `past` on if given."""

    subjects: list[str]
    queue: str = ""
    count: int = 0
    past: Past | None = None
    dated: bool = False  # with the broker's times
    reconnect: float | None = None  # seconds; None: for ever


def subscribe(
    access: BrokerAccess,
    options: SubscribeOptions,
    show: Callable[[ShownMessage], None],
    ready: Callable[[str], None],
) -> None:
    """Show messages until `count` is reached, or the end. Raises `CliError`.

    Calls `ready` with a text about the start, once the broker has accepted the subscription.
    """
    asyncio.run(_subscribe(access, options, show, ready))


async def _subscribe(
    access: BrokerAccess,
    options: SubscribeOptions,
    show: Callable[[ShownMessage], None],
    ready: Callable[[str], None],
) -> None:
    stream = MessageStream(options, show)
    if options.past is not None:
        await Resuming(access, options, options.past, stream, ready).run()
        return
    async with connected(access) as link:
        try:
            await stream.follow(link, options.subjects, lambda: ready(""))
        except BrokerGone as error:
            if not stream.reported or options.queue:
                raise
            raise CliError(f"{error}; resume with --from {stream.reported + 1}") from error


class MessageStream:
    """The messages shown, over one connection or several, with the last reported number."""

    def __init__(self, options: SubscribeOptions, show: Callable[[ShownMessage], None]) -> None:
        self._options = options
        self._show = show
        self.shown = 0
        self.reported = 0  # the highest number that was shown, skipped, or reported lost

    async def follow(
        self, link: CommandConnection, subjects: list[str], ready: Callable[[], None]
    ) -> None:
        """Show messages on `subjects`, to the end. Raises `BrokerGone`, and `CliError`."""
        inbox = SubscriptionInbox(link)
        for subject in subjects:
            await inbox.subscribe(subject, self._options.queue)
        try:
            await link.during(link.settle(SETTLE_SECONDS_MAX))
            ready()
            over = False
            while not over:
                batch = await link.during(inbox.next_messages())
                if self._options.dated:
                    batch = await dated(link, batch, self._options.subjects)
                over = self._take(batch)
        except BrokerGone:
            # A connection may be short: show its messages without times, so that each connection
            # makes progress.
            if self._options.dated or not self._take(inbox.left()):
                raise

    def _take(self, batch: list[ShownMessage]) -> bool:
        """Show these messages; return whether that was the end."""
        options = self._options
        for message in batch:
            number = message.number
            if options.past is not None and message.subject.startswith(OWN_PREFIX):
                self._note(message.subject)
                if is_end(message.subject) and (options.past.last or options.past.until_now):
                    return True
                continue
            if options.past is None or takes_in(options.subjects, message.subject):
                self._show(message)
                self.shown += 1
            self.reported = max(self.reported, number or 0)
            if self.shown and self.shown == options.count:
                return True
        return False

    def _note(self, subject: str) -> None:
        """Report a `$SEQ.LOST` event; ignore all else from the broker itself."""
        text = lost(subject)
        if text:
            tell(text)
            self.reported = max(self.reported, last_lost(subject))


class Resuming:
    """The past, then live messages, over as many connections as it takes."""

    def __init__(
        self,
        access: BrokerAccess,
        options: SubscribeOptions,
        past: Past,
        stream: MessageStream,
        ready: Callable[[str], None],
    ) -> None:
        self._access = access
        self._options = options
        self._past = past
        self._stream = stream
        self._ready = ready
        self._kept: journal_state.JournalExtent | None = None
        self._listened = False
        self._numbered = True
        self._broken_at = 0.0  # since when there is no connection; 0: connected
        self._pause = PAUSE_SECONDS_MIN

    async def run(self) -> None:
        """Show everything. Raises `CliError`."""
        while True:
            before = self._stream.reported
            try:
                async with connected(self._access) as link:
                    await self._follow(link)
                return
            except BrokerGone as error:
                if not (self._listened or self._stream.reported):
                    raise  # no broker even at the start
                if self._stream.reported > before:
                    self._pause = PAUSE_SECONDS_MIN
                left = (
                    self._past.after(self._stream.reported) if self._stream.reported else self._past
                )
                if left is None:
                    return
                self._past = left
                await self._wait(error)

    async def _follow(self, link: CommandConnection) -> None:
        now = await journal_state.read_state(link)
        self._numbered = link.frame != "none"
        if self._kept is None:
            self._kept = now
        else:
            journal_state.check_same(link, self._kept, now, self._stream.reported)
        if self._past.until_now:
            ended = await journal_state.until_now(link, self._past, now)
            if ended is None:
                tell(f"nothing is there{self._past.words}: the last number given is {now.last}")
                return
            self._past = ended
        await self._stream.follow(
            link, [self._past.subject(self._options.subjects)], lambda: self._listening(now)
        )

    def _listening(self, now: journal_state.JournalExtent) -> None:
        """Report that it listens, and how many messages remain."""
        self._broken_at = 0.0
        if self._listened:
            tell(f"connected again: listening{self._past.words}")
        else:
            self._ready(self._past.words)
            self._listened = True
        text = journal_state.waits_for(self._past, now)
        if text:
            tell(text)

    async def _wait(self, error: BrokerGone) -> None:
        """Wait a moment before the next attempt. Raises `CliError` if there is no point."""
        if self._stream.shown and not self._numbered:
            raise CliError(f"{error}; messages have no numbers there, so it cannot resume")
        now = time.monotonic()
        patience = self._options.reconnect
        if not self._broken_at:
            self._broken_at = now
            if patience != 0:
                tell(f"{error}; resuming{self._past.words} when the broker is back")
        if patience is not None and now - self._broken_at >= patience:
            on = f"; resume with --from {self._past.first}" if self._past.first else ""
            raise CliError(f"{error}{on}")
        await asyncio.sleep(self._pause)
        self._pause = min(2 * self._pause, PAUSE_SECONDS_MAX)


def tell(text: str) -> None:
    """Print one line on standard error."""
    print(f"seriatim: {printable_lines(text)}", file=sys.stderr, flush=True)


class SubscriptionInbox:
    """Messages that arrived, of all subscriptions."""

    def __init__(self, link: CommandConnection) -> None:
        self._link = link
        self._messages: list[ShownMessage] = []
        self._arrived = asyncio.Event()

    async def subscribe(self, subject: str, queue: str) -> None:
        """Receive messages on `subject`, too."""
        await self._link.during(self._link.client.subscribe(subject, queue, self._on_message))

    async def next_messages(self) -> list[ShownMessage]:
        """Wait for at least one message; return all that have arrived, in the order of the wire."""
        await self._arrived.wait()
        return self.left()

    def left(self) -> list[ShownMessage]:
        """Messages that arrived but were not taken."""
        batch, self._messages = self._messages, []
        self._arrived.clear()
        return batch

    def _on_message(self, message: MessageReceived) -> None:
        understood = understand(message, self._link.frame)
        if understood.number is None and message.subject.startswith(self._link.client.inbox):
            return  # an answer to our own request, which the pattern `>` matches, too
        self._messages.append(understood)
        self._arrived.set()
