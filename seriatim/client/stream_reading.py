"""Reads the stream: the past, then live messages, each number once, over any number of connections.

    Reader               what the user iterates over: positions, losses as errors or items
    `-- StreamReading    the state that the connection knows; nothing else knows the Reader
        `-- Wire         a connection of its own: its socket is the back-pressure

A reader has its own connection, so that one that stops to think delays no answers of others. The
flow is pulled: nothing happens, and no task runs, unless the user asks for the next message. When
too much waits, the reading pauses, the socket fills, and the broker keeps the rest in its journal.

After a break:

    1. what has arrived is handed over first;
    2. `$SEQ.INFO` says whether it is still the same journal (id, last number), and `$SEQ.GET`
       whether the message of our last number still has the time that we saw;
    3. `$SEQ.FROM.<last + 1>` goes on.

A new connection begins with the subscription and ends with it, so no message of an old one can
be among the messages of the next. A reader without references closes its connection.
"""

import asyncio
import inspect
import random
import secrets
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, Self, TypeVar

from seriatim.client.aio_wire import Wire
from seriatim.client.client_event import ClientEvent, OnEvent, tell
from seriatim.client.errors import (
    BrokerError,
    ConnectionLost,
    InvalidArgument,
    JournalChanged,
    Lost,
    NoAnswer,
    NotABroker,
    NotSeriatim,
    Position,
    Refused,
)
from seriatim.client.position import PlaceKeeper, read_position
from seriatim.client.protocol import NO_RESPONDERS, ErrorReceived, check_sendable, read_number
from seriatim.client.stepping import BatchStepper
from seriatim.client.stream_info import StreamInfo, read_info, read_stored
from seriatim.client.stream_message import Message
from seriatim.settings.checked import WrongValue
from seriatim.settings.moments import read_moment

HELD_BYTES: Final = 1 << 20  # that wait to be taken, before the reading pauses
LOST_BYTES: Final = 256  # of a loss that waits
ANSWER_SECONDS: Final = 10.0
BEHIND_SECONDS: Final = 5.0  # for a member of a cluster to come up to what another one showed
BEHIND_STEP: Final = 0.1
RETRY_MIN, RETRY_MAX = 0.05, 2.0  # seconds between two attempts to connect
MS: Final = 1_000_000  # ns
SUBSCRIBED_MAX: Final = (1 << 63) - 1  # the largest number that there can be
GET: Final = "$SEQ.GET."
DATA_SID, ANSWER_SID, PROBE_SID = 1, 2, 3

Moment = datetime | timedelta | str
Losses = Literal["raise", "yield"]
Item = list[Message] | Lost | JournalChanged
Open = Callable[[], Awaitable[Wire]]
Got = TypeVar("Got", bound=Message | Lost | JournalChanged)


@dataclass(frozen=True, slots=True)
class ReadWish:
    """The arguments of `read`, checked; times in ns since 1970, 0 or None: not given."""

    subject: str
    start: int = 0
    since: int = 0
    last: bool = False
    until: int = 0
    until_time: int = 0
    until_now: bool = False
    or_now: bool = False
    position: Position | None = None


def read_wish(
    subject: str,
    start: int | Position | None,
    since: Moment | None,
    last: bool,
    until: int | Moment | None,
    or_now: bool,
) -> ReadWish:
    """Check what a user wants to read. Raises `InvalidArgument`."""
    check_sendable(subject)
    for name, given, kinds in (
        ("start", start, (int, Position)),
        ("since", since, (datetime, timedelta, str)),
        ("until", until, (int, datetime, timedelta, str)),
    ):
        if given is not None and (not isinstance(given, kinds) or isinstance(given, bool)):
            raise InvalidArgument(f"{name}={given!r:.60} is none of the things that it can be")
        if isinstance(given, int) and not 1 <= given <= SUBSCRIBED_MAX:
            raise InvalidArgument(f"{name}={given}: the first number is 1, the last 2^63-1")
    if (start is not None) + (since is not None) + last > 1:
        raise InvalidArgument("give one of start=, since= and last=True: each says where to begin")
    if last and until is not None:
        raise InvalidArgument("last=True goes on with live messages, so it cannot have until=")
    if or_now and (since is not None or last or isinstance(start, int)):
        raise InvalidArgument("or_now=True is for a position that may not be there yet")
    position = start if isinstance(start, Position) else None
    number = start if isinstance(start, int) else 0
    until_number = until_time = 0
    if isinstance(until, int):
        until_number = until
    elif until is not None and until != "now":
        until_time = nanoseconds(until)
    return ReadWish(
        subject,
        number,
        nanoseconds(since) if since is not None else 0,
        last,
        until_number,
        until_time,
        until == "now",
        or_now,
        position,
    )


def yields_losses(losses: str) -> bool:
    """True if losses are items, and not raised. Raises `InvalidArgument`."""
    if losses not in ("raise", "yield"):
        raise InvalidArgument(f'losses={losses!r:.60}: give "raise" or "yield"')
    return losses == "yield"


def nanoseconds(moment: Moment) -> int:
    """Return a time in ns since 1970: a datetime, a timedelta (ago), or text. `InvalidArgument`.

    Text is as on the command line: `10m` (ago), or an ISO 8601 date, in UTC if it has no zone.
    """
    now = datetime.now(UTC)
    if isinstance(moment, timedelta):
        moment = now - moment
    if isinstance(moment, datetime):
        if moment.tzinfo is None:
            raise InvalidArgument(
                f"{moment} has no time zone; give datetime(..., tzinfo=UTC), or astimezone()"
            )
        return (
            max(int((moment - datetime(1970, 1, 1, tzinfo=UTC)) / timedelta(microseconds=1)), 1)
            * 1000
        )
    try:
        return max(read_moment(moment, int(now.timestamp() * 1e9)), 1)
    except WrongValue as error:
        raise InvalidArgument(str(error)) from None


class StreamReading:
    """The state of one `read`: what is reached, what has arrived, and the connection."""

    def __init__(
        self,
        wish: ReadWish,
        opened: Open,
        patience: float | None,
        inbox_prefix: str = "_INBOX",
        on_event: OnEvent | None = None,
    ) -> None:
        self.journal = ""  # the id of the journal that is being read
        self.reached = 0  # the number up to which all was handed over
        self._is_placed = False  # it is clear where to go on: behind `reached`
        self.reached_time = 0  # ns, of the message of that number; 0: not known
        self.ended = False  # nothing more will arrive
        self.is_closed = False
        self._wish = wish
        self._open = opened
        self._patience = patience  # seconds to wait for a broker; None: for ever
        self._on_event = on_event
        self._broken: BrokerError | None = (
            None  # why the last connection ended, until `on_event` has it
        )
        self._is_interrupted = False  # and that was told
        self._until = wish.until
        self._wire: Wire | None = None
        self._items: deque[tuple[Item, int]] = deque()
        self._held = 0  # bytes on the wire of what waits
        self._changed = asyncio.Event()
        self._answer: asyncio.Future[Message] | None = None
        self._probed: asyncio.Future[int] | None = None
        self._error: BrokerError | None = None  # with which it ends
        self._inbox = f"{inbox_prefix}.{secrets.token_hex(11)}"
        self._arrived = 0  # the last number that has arrived
        self._seen = 0  # the highest number that we know to have been given
        self._skip_until = wish.since  # ns; a subscription knows milliseconds
        self._ahead_ns = 0  # the broker's clock, against ours

    def begin_at(self, position: Position | None) -> None:
        """Go on behind this place, if there is one."""
        if position is not None and position.journal:
            self.journal, self.reached, self.reached_time = position
            self._seen, self._is_placed = self.reached, True

    async def take(self) -> Item | None:
        """Return what is next: messages, or a loss; None at the end. Raises `BrokerError`."""
        while not self._items:
            if self._error is not None:
                raise self._error
            if self.ended:
                return None
            if self._wire is None:
                event = await self._begin()
                if event is not None:
                    return event
                continue
            self._changed.clear()
            if self._wish.until_time and not self._until:
                await self._wait_until()
            else:
                await self._changed.wait()
        item, size = self._items.popleft()
        self._held -= size
        if self._held <= HELD_BYTES // 2 and self._wire is not None:
            self._wire.resume_reading()
        if isinstance(item, list):
            self.reached, self.reached_time = item[-1].number, item[-1].time_ns
        elif isinstance(item, Lost):
            self.reached, self.reached_time = item.last, 0
        self._seen, self._is_placed = self.reached, True
        return item

    def close(self) -> None:
        """End it; what has arrived is dropped."""
        self.ended = self.is_closed = True
        self._items.clear()
        self._drop_wire()
        self._changed.set()

    def _drop_wire(self) -> None:
        wire, self._wire = self._wire, None
        if wire is not None:
            wire.abort()

    async def _wait_until(self) -> None:
        """Wait for something, or until the end has come; then read up to the last number."""
        left = (self._wish.until_time - self._ahead_ns - time.time_ns()) / 1e9
        try:
            async with asyncio.timeout(max(left, 0) + 0.01):
                await self._changed.wait()
        except TimeoutError:
            self._drop_wire()  # the next one asks for a range, which has an end

    # From the connection

    def messages_arrived(self, messages: list[Message], size: int) -> None:
        """Take messages: numbered ones, or one of the broker's own."""
        try:
            if messages[0].sid != DATA_SID:
                self._take_answers(messages)
            elif messages[0].number:
                self._take_numbered(messages, size)
            else:
                self._take_own(messages)
        except (ValueError, NotABroker):
            # Not repeated on another connection: the broker would say the same again.
            subject = messages[0].subject
            self.fail(NotABroker(f"this is not a Seriatim broker: it says {subject:.60}"))
        self._changed.set()

    def _take_numbered(self, messages: list[Message], size: int) -> None:
        first, last = messages[0].number, messages[-1].number
        if first <= self._arrived or last - first < len(messages) - 1:
            messages = self._rising(messages)  # no broker does that; each comes once in any case
            if not messages:
                return
        self._arrived = messages[-1].number
        if self._skip_until:
            messages = [one for one in messages if one.time_ns >= self._skip_until]
            self._skip_until = 0 if messages else self._skip_until
        until = self._wish.until_time
        if until and messages and messages[-1].time_ns >= until:
            messages = messages[: sum(one.time_ns < until for one in messages)]
            self._finish()
        if messages:
            self._hold(messages, size)

    def _hold(self, item: Item, size: int) -> None:
        self._items.append((item, size))
        self._held += size
        if self._held > HELD_BYTES and self._wire is not None:
            self._wire.pause_reading()

    def _rising(self, messages: list[Message]) -> list[Message]:
        """Return those that come for the first time."""
        fresh, last = [], self._arrived
        for one in messages:
            if one.number > last:
                fresh.append(one)
                last = one.number
        return fresh

    def _take_own(self, messages: list[Message]) -> None:
        """Take what the broker says on the subscription, and skip messages without a number."""
        for message in messages:
            if message.subject.startswith("$SEQ.LOST."):
                lost = _read_lost(message.subject)
                if not self._arrived < lost.first <= lost.last:
                    raise ValueError
                self._arrived = lost.last
                self._hold(lost, LOST_BYTES)
            elif message.subject.startswith("$SEQ.END."):
                self._finish()

    def _finish(self) -> None:
        self.ended = True
        self._drop_wire()

    def _take_answers(self, messages: list[Message]) -> None:
        for message in messages:
            if message.sid == ANSWER_SID and self._answer is not None and not self._answer.done():
                self._answer.set_result(message)
            elif message.sid == PROBE_SID and self._probed is not None and not self._probed.done():
                lost = message.subject.startswith("$SEQ.LOST.")
                self._probed.set_result(
                    _read_lost(message.subject).first if lost else message.number
                )

    def refused(self, refusal: ErrorReceived) -> None:
        """Take what the broker refused: a question of ours, or the subscription, which ends it."""
        error = Refused(refusal.words, subject=self._wish.subject)
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error)
        elif GET not in refusal.words:  # that one may come behind an answer
            self.fail(error)

    def wire_lost(self, wire: Wire, error: BrokerError) -> None:
        """Note that there is no connection; `take` makes another one."""
        if self._wire is wire:
            self._wire = None
        self._fail_questions(error)
        if self._patience == 0 or not isinstance(error, ConnectionLost):
            self.fail(error)
        self._broken = error
        self._changed.set()

    def _fail_questions(self, error: BrokerError) -> None:
        for waiting in (self._answer, self._probed):
            if waiting is not None and not waiting.done():
                waiting.set_exception(error)
                waiting.exception()  # retrieved, in case its task was cancelled

    def fail(self, error: BrokerError) -> None:
        """End with this error, when what has arrived is taken."""
        self._error = self._error or error
        self._fail_questions(error)
        self._drop_wire()
        self._changed.set()

    # The beginning of a connection

    async def _begin(self) -> JournalChanged | None:
        """Connect, check the journal, and subscribe; return a change that the user must know of."""
        loop = asyncio.get_running_loop()
        begun, pause = loop.time(), RETRY_MIN
        if self._broken is not None:
            self._interrupt(self._broken)
        while True:
            try:
                return await self._begin_once()
            except (ConnectionLost, NoAnswer) as error:
                self._drop_wire()
                self._answer = self._probed = None
                if self.ended:
                    return None
                if self._error is not None:
                    raise self._error from None
                if self._patience is not None and loop.time() - begun >= self._patience:
                    raise
                self._interrupt(error)
            except BaseException:
                self._drop_wire()
                raise
            await asyncio.sleep(pause * random.uniform(0.5, 1))
            pause = min(pause * 2, RETRY_MAX)

    async def _begin_once(self) -> JournalChanged | None:
        wire = await self._open()
        if self.ended:  # closed meanwhile
            wire.abort()
            return None
        self._wire = wire
        wire.protocol.subscribe(self._inbox, sid=ANSWER_SID)
        wire.deliver_to(self)
        if "seriatim" not in wire.protocol.info:
            raise NotSeriatim("the server has no numbers to read by: it is not Seriatim").at(
                wire.address
            )
        info = await self._same_journal()
        if isinstance(info, JournalChanged):
            self._drop_wire()
            self.journal = info.now.journal
            self.reached = self.reached_time = self._seen = self._skip_until = 0
            self._is_placed = False
            wish = self._wish
            self._until = wish.until
            self._wish = ReadWish(
                wish.subject,
                until=wish.until,
                until_time=wish.until_time,
                until_now=wish.until_now,
            )
            return info
        self._ahead_ns = info.time_ns - time.time_ns()
        if self._wish.until_now or self._wish.until_time:
            past = self._wish.until_now or self._wish.until_time <= info.time_ns
            self._until = self._until or (info.last if past else 0)
            if past and not self._until:
                self._finish()  # there is nothing at all
                return None
        subject = await self._subscription(info)
        if subject and self._wire is not None:
            self._arrived = self.reached
            self._wire.protocol.subscribe(subject, sid=DATA_SID)
            event = self._event("reading", None, str(wire.address))
            self._wire.sound().add_done_callback(lambda pong: self._agreed(pong, event))
        elif not subject:
            self._finish()
        return None

    def _event(
        self, kind: Literal["interrupted", "reading"], error: BrokerError | None, server: str = ""
    ) -> ClientEvent:
        number = self.reached + 1 if self._is_placed else self._wish.start
        return ClientEvent(kind, error, server, self._wish.subject, number)

    def _interrupt(self, error: BrokerError) -> None:
        """Tell that there is no connection, once until there is one."""
        self._broken = None
        if not self._is_interrupted:
            self._is_interrupted = True
            tell(self._on_event, self._event("interrupted", error))

    def _agreed(self, pong: "asyncio.Future[None]", event: ClientEvent) -> None:
        """Tell that the broker has the subscription, unless the connection broke before."""
        if not pong.cancelled() and pong.exception() is None:
            self._is_interrupted = False
            tell(self._on_event, event)

    async def _same_journal(self) -> StreamInfo | JournalChanged:
        """Ask what there is, and compare it with what we saw."""
        info = await self._info()
        if self.journal and info.journal == self.journal and info.last < self._seen:
            patient_until = asyncio.get_running_loop().time() + BEHIND_SECONDS
            while info.last < self._seen and asyncio.get_running_loop().time() < patient_until:
                await asyncio.sleep(BEHIND_STEP)  # a member of a cluster may be behind another
                info = await self._info()
        if self.journal and self._seen:
            same = info.journal == self.journal and info.last >= self._seen
            if same and self.reached_time:
                same = await self._is_same_message()
            if not same:
                before = Position(self.journal, self._seen, self.reached_time)
                return JournalChanged(before, Position(info.journal, info.last))
        if info.journal != self.journal and not self._seen:
            self.reached, self._is_placed = 0, False  # nothing was seen: it begins there instead
        self.journal = info.journal
        return info

    async def _is_same_message(self) -> bool:
        """True unless our last number is now another message."""
        try:
            answer = await self._ask(f"$SEQ.GET.{self.reached}")
        except Refused:
            return True  # not ours to ask: nothing says otherwise
        if answer.status:
            return True  # deleted by now
        return read_stored(answer).time_ns == self.reached_time

    async def _info(self) -> StreamInfo:
        return read_info(await self._ask("$SEQ.INFO"))

    async def _ask(self, subject: str) -> Message:
        wire = self._wire
        if wire is None:
            raise ConnectionLost("the connection broke")
        self._answer = asyncio.get_running_loop().create_future()
        wire.protocol.publish(subject, b"", self._inbox)
        wire.write()
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                answer = await self._answer
        except TimeoutError:
            raise NoAnswer(f"{subject}: no answer in time").at(wire.address) from None
        finally:
            self._answer = None
        if answer.status == NO_RESPONDERS:
            raise NotSeriatim("the server has no numbers to read by: it is not Seriatim")
        return answer

    async def _subscription(self, info: StreamInfo) -> str:
        """Return what to subscribe to from here on; empty at the end."""
        wish = self._wish
        if not self._is_placed:
            if wish.last:
                return f"$SEQ.LAST.{wish.subject}"
            if wish.since:
                if not self._until:
                    return f"$SEQ.SINCE.{wish.since // MS}.{wish.subject}"
                first = await self._first_since(info)
            else:
                first = wish.start or (info.last + 1 if wish.or_now else max(info.first, 1))
            self.reached, self._is_placed = first - 1, True
            self._seen = min(self.reached, info.last)  # it may begin in the future
        first = self.reached + 1
        if not self._until:
            return f"$SEQ.FROM.{first}.{wish.subject}"
        return f"$SEQ.RANGE.{first}.{self._until}.{wish.subject}" if first <= self._until else ""

    async def _first_since(self, info: StreamInfo) -> int:
        """Return the number of the first message, on any subject, at or after the time."""
        if not info.last or info.newest_ns // MS < self._wish.since // MS:
            return info.last + 1
        wire = self._wire
        if wire is None:
            raise ConnectionLost("the connection broke")
        self._probed = asyncio.get_running_loop().create_future()
        wire.protocol.subscribe(f"$SEQ.SINCE.{self._wish.since // MS}.>", sid=PROBE_SID)
        wire.protocol.unsubscribe(PROBE_SID, 1)
        wire.write()
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return await self._probed
        except TimeoutError:
            raise NoAnswer("no answer in time").at(wire.address) from None
        finally:
            self._probed = None


def _read_lost(subject: str) -> Lost:
    """Read `$SEQ.LOST.<first>.<last>`. Raises `ValueError`."""
    first, last = subject.split(".")[2:]
    return Lost(read_number(first), read_number(last))


class Place(BatchStepper, Generic[Got]):
    """The place of a reader: what it has handed over, and what is noted as processed."""

    def __init__(self, reading: StreamReading, keeper: PlaceKeeper | None, yields: bool) -> None:
        super().__init__(keeper is not None)
        self._reading = reading
        self._keeper = keeper
        self._yields = yields
        self._is_loaded = keeper is None

    @property
    def position(self) -> Position:
        """The place behind what was handed over last; to be kept with its effect."""
        current, journal = self._current, self._reading.journal
        if current is None:
            return Position(journal, self._reading.reached, self._reading.reached_time)
        if isinstance(current, Lost):
            return Position(journal, current.last)
        return Position(journal, current.number, current.time_ns)

    def _begin(self, found: Any) -> None:
        """Begin where the keeper has said, if it knows a place. Raises `InvalidArgument`."""
        try:
            self._reading.begin_at(read_position(found))
        except ValueError as error:
            raise InvalidArgument(f"the position that was loaded is wrong: {error}") from None
        self._is_loaded = True

    def _pick(self) -> Message:
        """Hand over the next message of the batch."""
        message: Message = self._batch[self._at]
        self._at += 1
        self._current, self._is_noted = message, False
        return message

    def _rest(self) -> list[Message]:
        """Hand over what is left of the batch."""
        rest = self._batch[self._at :]
        if rest:
            self._at, self._current, self._is_noted = len(self._batch), rest[-1], False
        return rest

    def _all_of(self, item: Item) -> list[Any]:
        """Hand over all of an item that was taken."""
        if not isinstance(item, list):
            return [item]
        self._at, self._current = len(item), item[-1]
        return item

    def _take(self, item: Item | None) -> Item | None:
        """Hold what came next. Raises a loss, if losses are to be raised."""
        self._is_noted = item is None
        self._batch, self._at = [], 0
        if isinstance(item, Lost | JournalChanged):
            self._current = item if isinstance(item, Lost) else None
            if not self._yields:
                raise item
        elif item is not None:
            self._batch, self._at, self._current = item, 1, item[0]
        return item

    def _end(self) -> None:
        """Hold nothing any more; a place that a file is due is written."""
        self._batch, self._at = [], 0
        if self._keeper is not None:
            self._keeper.flush()


class Reader(Place[Got]):
    """The messages of a `read`: `async for message in reader`, and where it has got to.

    Iterating yields `Message`s; with `losses="yield"` also `Lost` and `JournalChanged`. Otherwise
    these are raised, and iterating may go on behind them. `async with reader`, `aclose`, and
    losing the last reference to it end the reading.
    """

    def __init__(self, reading: StreamReading, keeper: PlaceKeeper | None, yields: bool) -> None:
        super().__init__(reading, keeper, yields)
        self._loop = asyncio.get_running_loop()

    def __aiter__(self) -> Self:
        return self

    if TYPE_CHECKING:

        async def __anext__(self) -> Got: ...

    async def _step(self) -> Any:
        """Return the next item. Raises `BrokerError`, and `StopAsyncIteration` at the end."""
        await self._note()
        if self._at < len(self._batch):
            return self._pick()
        item = await self._next_item()
        if item is None:
            raise StopAsyncIteration
        return item[0] if isinstance(item, list) else item

    async def batches(self) -> AsyncIterator[list[Got]]:
        """Yield what has arrived, in lists of at least one: the fastest way to read."""
        while True:
            await self._note()
            found: Any = self._rest()
            if not found:
                item = await self._next_item()
                if item is None:
                    return
                found = self._all_of(item)
            yield found

    async def _next_item(self) -> Item | None:
        """Return what is next; what was handed over before has been processed."""
        if not self._is_loaded and self._keeper is not None:
            found = self._keeper.load()
            self._begin(await found if inspect.isawaitable(found) else found)
        item = self._take(await self._reading.take())
        if item is None:
            await self.aclose()
        return item

    async def _note(self) -> None:
        """Note that what was handed over last has been processed."""
        if not self._is_noted and self._keeper is not None:
            said = self._keeper.save(self.position)
            if inspect.isawaitable(said):
                await said
            self._is_noted = True

    async def aclose(self) -> None:
        """End the reading, in any state; a place that a file is due is written."""
        self._reading.close()
        self._end()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: object, *_: object) -> None:
        try:
            if kind is None:
                await self._note()
        finally:
            await self.aclose()

    def __del__(self) -> None:
        if not self._reading.is_closed and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._reading.close)
