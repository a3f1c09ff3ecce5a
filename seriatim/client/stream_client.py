"""The client for asyncio: publish with numbers, read with resume, ask, subscribe, request.

    Client
    |-- Publishing       messages that wait for their numbers
    |-- Reader           of each `read`, on a connection of its own
    |-- TableReading     of each `table`, likewise
    |-- Subscription     plain NATS: what comes while we are connected
    `-- Wire             one connection; after a break `_keep_connected` makes another

After a break the client connects again, to the members that were given or that the broker has
announced, subscribes again, and sends again what has no answer yet. Requests in flight fail.
"""

import asyncio
import inspect
import logging
import random
import re
import secrets
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, Self, overload

from seriatim.client.aio_wire import Wire, WireOptions, open_wire
from seriatim.client.client_event import ClientEvent, OnEvent, tell
from seriatim.client.errors import (
    BrokerError,
    ConnectionLost,
    JournalChanged,
    Lost,
    NoAnswer,
    NoResponders,
    NotFound,
    NotSeriatim,
    Position,
    Refused,
    SlowSubscriber,
)
from seriatim.client.expect import Expect
from seriatim.client.message_table import Table, TableWish
from seriatim.client.pending_requests import PendingRequests
from seriatim.client.position import Place, PlaceKeeper
from seriatim.client.protocol import (
    NO_RESPONDERS,
    ErrorReceived,
    Headers,
    check_sendable,
    max_payload_of,
)
from seriatim.client.server_address import ServerAddress, with_announced
from seriatim.client.stream_batch import StreamBatch
from seriatim.client.stream_info import StreamInfo, read_info, read_stored
from seriatim.client.stream_message import Message
from seriatim.client.stream_publishing import Data, Outgoing, Publishing
from seriatim.client.stream_reading import (
    Losses,
    Moment,
    Reader,
    ReadWish,
    StreamReading,
    read_wish,
    yields_losses,
)
from seriatim.client.table_reading import TableReading

log = logging.getLogger("seriatim.client")

REQUEST_SECONDS: Final = 10.0
FLUSH_SECONDS: Final = 10.0
PUBLISH_SECONDS: Final = 60.0
PENDING_BYTES: Final = 64 << 20  # that may wait in a subscription
MESSAGE_BYTES: Final = 256  # of each message, besides its payload and headers
RETRY_MIN, RETRY_MAX = 0.05, 2.0  # seconds between two attempts to connect
SHORT_SECONDS: Final = 1.0  # a connection that lived no longer
SHORT_PAUSE: Final = 0.5  # seconds, at most, after such ones
ANSWER_SID, FIRST_SID = 2, 3  # of the client's own subscription to answers, and of the users'
NOT_FOUND: Final = 404
ABOUT: Final = re.compile(r'Permissions Violation for (Publish|Subscription) to "([^"]*)"')

STAMPED: Final = {"frame": "stamp"}  # a reader needs the numbers, whatever else the client takes

Callback = Callable[[Message], Awaitable[None] | None]


@dataclass(frozen=True, slots=True)
class ClientOptions:
    """How a client connects, and how long it tries; times in seconds, None: without end."""

    wire: WireOptions
    wait: float | None = 0.0  # for the first connection
    reconnect: float | None = None  # for the next one; 0: a break ends the client
    inbox_prefix: str = "_INBOX"
    on_event: OnEvent | None = None
    discover: bool = True


class Subscription:
    """A plain subscription: `async for message in subscription`, `next`, or a callback.

    It ends with `unsubscribe`, with the client, and when more than 64 MiB wait to be taken: then
    `SlowSubscriber` is raised. (A `read` waits instead, and loses nothing.)
    """

    def __init__(self, client: "Client", subject: str, queue: str, sid: int) -> None:
        self.subject = subject
        self.queue = queue
        self.sid = sid
        self.received = 0
        self._client = client
        self._limit = 0  # messages in all; 0: no limit
        self._waiting: deque[Message] = deque()
        self._bytes = 0
        self._changed = asyncio.Event()
        self._ended = False
        self._error: BrokerError | None = None
        self._worker: asyncio.Task[None] | None = None
        self._function: Callback | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Message:
        """Return the next message. Raises `ConnectionLost`, `SlowSubscriber`."""
        while not self._waiting:
            if self._error is not None:
                raise self._error
            if self._ended:
                raise StopAsyncIteration
            self._changed.clear()
            await self._changed.wait()
        message = self._waiting.popleft()
        self._bytes -= _size(message)
        return message

    async def next(self, timeout: float | None = None) -> Message:
        """Return the next message. Raises `NoAnswer` in time, `ConnectionLost` at the end."""
        try:
            async with asyncio.timeout(timeout):
                return await anext(self)
        except TimeoutError:
            raise NoAnswer(f"{self.subject}: no message in time") from None
        except StopAsyncIteration:
            raise ConnectionLost(f"{self.subject}: the subscription has ended") from None

    async def take_all(self) -> list[Message]:
        """Return all that have arrived, at least one; none at the end. Raises `BrokerError`."""
        try:
            found = [await anext(self), *self._waiting]
        except StopAsyncIteration:
            return []
        self._waiting.clear()
        self._bytes = 0
        return found

    async def unsubscribe(self, after: int = 0) -> None:
        """Stop receiving, now or after so many messages in all; what has arrived can be taken."""
        if after > self.received:
            self._limit = after
            self._client._unsubscribe(self, after)
        else:
            self._client._drop(self)
            self.end(None)

    async def drain(self, timeout: float = FLUSH_SECONDS) -> None:
        """Stop receiving, and wait until the callback has handled what has arrived.

        What the server had sent before arrives within the timeout, in seconds; raises `NoAnswer`.
        """
        self._client._unsubscribe(self, 0)
        await self._client.flush(timeout)
        await self.unsubscribe()
        if self._worker is not None and self._worker is not asyncio.current_task():
            await asyncio.wait({self._worker})

    def deliver(self, message: Message) -> None:
        """Accept a message from the wire."""
        if self._ended:
            return
        self.received += 1
        if self._function is not None:
            self._call(self._function, message)
            if self.received == self._limit:
                self._client._drop(self)
                self.end(None)
            return
        self._waiting.append(message)
        self._bytes += _size(message)
        self._changed.set()
        if self.received == self._limit:
            self._client._drop(self)
            self.end(None)
        elif self._bytes > PENDING_BYTES:
            error = SlowSubscriber(
                f"{self.subject}: {len(self._waiting)} messages wait to be taken; take them faster,"
                " or use read(), which waits"
            )
            self._client._drop(self)
            self._client._tell(ClientEvent("slow", error))
            self.end(error)

    def end(self, error: BrokerError | None) -> None:
        """End the subscription: no more messages will come."""
        self._ended, self._error = True, self._error or error
        self._changed.set()

    def call(self, callback: Callback) -> None:
        """Call this for each message: a function at once, coroutines one after the other."""
        if inspect.iscoroutinefunction(callback):
            self._worker = asyncio.get_running_loop().create_task(self._work(callback))
        else:
            self._function = callback

    def cancel(self) -> None:
        """Cancel the callback, unless it is the one that closes."""
        if self._worker is not None and self._worker is not asyncio.current_task():
            self._worker.cancel()

    async def _work(self, callback: Callable[[Message], Awaitable[None]]) -> None:
        try:
            async for message in self:
                try:
                    await callback(message)
                except Exception:  # a user's callback failed; the others go on
                    log.exception("A callback for %s failed", message.subject)
        except BrokerError:
            pass  # the client's event has said why

    def _call(self, callback: Callback, message: Message) -> None:
        try:
            callback(message)
        except Exception:
            log.exception("A callback for %s failed", message.subject)

    @property
    def remaining(self) -> int:
        """How many more messages it takes; 0 for no limit."""
        return max(self._limit - self.received, 0)


def _size(message: Message) -> int:
    return len(message.payload) + len(message.block) + MESSAGE_BYTES


class Client:
    """A client of a broker, made by `seriatim.connect`, for one event loop.

    Messages are published with `publish`, which returns the number, and read with `read`. All
    methods raise `BrokerError`, whose classes say what to do; a limit of time that has passed is
    one of them, not `TimeoutError`.
    """

    def __init__(self, servers: Sequence[ServerAddress], options: ClientOptions) -> None:
        self.error: BrokerError | None = None  # why it closed, unless the user closed it
        self.closed = asyncio.Event()
        self.server: dict[str, Any] = {}  # the broker's INFO
        self._servers = servers
        self._options = options
        self._loop = asyncio.get_running_loop()
        self._current: ServerAddress | None = None  # to which we are, or were, connected
        self._wire: Wire | None = None
        self._up = asyncio.Event()  # set while there is a connection
        self._inbox = f"{options.inbox_prefix}.{secrets.token_hex(11)}"
        self._requests = PendingRequests(self._loop)
        self._asked = 0
        self._answered_on: Wire | None = None  # the connection that brings answers to requests
        self._sid = FIRST_SID
        self._subscriptions: dict[int, Subscription] = {}
        self._subscribing: list[tuple[str, asyncio.Future[None]]] = []  # in their order
        self._connecting: asyncio.Task[None] | None = None
        self._connected_at = 0.0
        self._short = 0  # how many connections, one after the other, were short
        self._publishing = Publishing(f"{self._inbox}.p", self._ask_info, self._find_ids)
        self._readers: set[StreamReading | TableReading] = set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: object, *_: object) -> None:
        if kind is None and not self.closed.is_set():
            await self.drain()
        else:
            await self.close()

    def __repr__(self) -> str:
        state = "closed" if self.closed.is_set() else "connected" if self._wire else "disconnected"
        return f"<Client {self._current or self._servers[0]}, {state}>"

    @property
    def is_connected(self) -> bool:
        """True if there is a connection at the moment."""
        return self._wire is not None

    @property
    def is_closed(self) -> bool:
        """True if the client is closed for good."""
        return self.closed.is_set()

    @property
    def max_payload(self) -> int:
        """The largest message that the broker accepts, in bytes, headers included."""
        return max_payload_of(self.server)

    @property
    def inbox(self) -> str:
        """The prefix of the reply subjects of this client."""
        return self._inbox

    # Publishing

    async def publish(
        self,
        subject: str,
        payload: Data = b"",
        *,
        headers: Headers | None = None,
        id: str = "",
        expect: Expect | int | None = None,
        timeout: float = PUBLISH_SECONDS,
    ) -> int:
        """Publish a message, and return its number when it is as safe as the broker promises.

        The message is repeated until it has its number, over broken connections and restarts, and
        gets it once. `headers`: a dict, or a block as bytes, such as another message's
        `own_block`. `id`: yours, such as the id of an order: a message with an id that was
        published in the last minutes returns the number of that one. `expect`: publish only if
        this is the last number of the subject (an `Expect` says more).

        Raises `Refused` and `WrongLastNumber`: nothing was published. `Unconfirmed`: no answer in
        `timeout` seconds. `InvalidArgument`: it cannot be sent.
        """
        sent = await self._publishing.send(subject, payload, headers, id, expect, timeout)
        return await sent

    def send(
        self,
        subject: str,
        payload: Data = b"",
        *,
        headers: Headers | None = None,
        id: str = "",
        expect: Expect | int | None = None,
        timeout: float = PUBLISH_SECONDS,
    ) -> "Coroutine[Any, Any, asyncio.Future[int]]":
        """Publish a message as `publish` does, and return the future of its number.

        It returns when there is room for more in flight: thousands are, in the order in which they
        were sent. Await the futures, later and in any order, to know that all went well.
        """
        return self._publishing.send(subject, payload, headers, id, expect, timeout)

    async def publish_all(
        self, messages: Iterable[Outgoing], *, timeout: float = PUBLISH_SECONDS
    ) -> list[int]:
        """Publish messages in their order, and return their numbers: the fastest way to publish.

        A message is `(subject, payload)` or `(subject, payload, headers)`. Each is published as
        `publish` does it, with thousands in flight; an id of your own is the header `Nats-Msg-Id`.
        Messages are taken from `messages` as there is room.

        Raises `NotAllPublished`, which has the number or the error of each, if one is refused or
        has no answer in `timeout` seconds; then no more are taken.
        """
        group = self._publishing.group()
        await self._publishing.send_all(group, messages, timeout)
        return await group.all_numbers()

    async def publish_unconfirmed(
        self,
        subject: str,
        payload: Data = b"",
        *,
        reply: str = "",
        headers: Headers | None = None,
    ) -> None:
        """Publish as plain NATS does: without an answer, and lost if the connection breaks now.

        Raises `ConnectionLost` without a connection, `InvalidArgument`, `MessageTooLarge`.
        """
        wire = self._alive()
        if wire.written(wire.protocol.publish(subject, payload, reply, headers)):
            await wire.drain()

    def batch(
        self, application: str = "", number: int = 0, timeout: float = PUBLISH_SECONDS
    ) -> StreamBatch:
        """Return a batch, published as a whole or not at all: `async with stream.batch() as batch`.

        Its messages are staged by the broker, and published when the block ends; if it ends with
        an error, none is. With the name of an `application`, which counts its batches upwards, a
        batch of the same `number` is published once, even by a program that was restarted.
        """
        return StreamBatch(self, application, number, timeout)

    # Reading

    @overload
    def read(
        self,
        subject: str = ">",
        *,
        start: int | Position | None = None,
        since: Moment | None = None,
        last: bool = False,
        until: int | Moment | None = None,
        or_now: bool = False,
        position: Place | None = None,
        losses: Literal["raise"] = "raise",
    ) -> Reader[Message]: ...

    @overload
    def read(
        self,
        subject: str = ">",
        *,
        start: int | Position | None = None,
        since: Moment | None = None,
        last: bool = False,
        until: int | Moment | None = None,
        or_now: bool = False,
        position: Place | None = None,
        losses: Literal["yield"],
    ) -> Reader[Message | Lost | JournalChanged]: ...

    def read(
        self,
        subject: str = ">",
        *,
        start: int | Position | None = None,
        since: Moment | None = None,
        last: bool = False,
        until: int | Moment | None = None,
        or_now: bool = False,
        position: Place | None = None,
        losses: Losses = "raise",
    ) -> Any:
        """Read messages to `subject`, from the past on, each once and in order: `async for`.

        It begins with the first message there is, or

        start     with this number, or behind this `Position`
        since     with the first message at or after this time: a datetime, a timedelta (ago), or
                  text such as `10m` or `2026-01-31T09:30:00`
        last      with the last message of each subject that matches, then goes on live
        or_now    with what is published from now on, if no position is known

        and goes on without end, or up to

        until     this number, this time, or `"now"`: the last message there is

        `position`: a file, or two functions that load and save a `Position` (save gets it when the
        message is processed, and may be where you commit). Reading begins behind it, if there is
        one. A connection that breaks is made again, and reading goes on with the next number.
        Numbers that do not exist any more raise `Lost`, and another journal `JournalChanged`; with
        `losses="yield"` these are items, and reading goes on behind them.
        """
        yields = yields_losses(losses)
        reading = self._new_reading(read_wish(subject, start, since, last, until, or_now))
        keeper = None if position is None else PlaceKeeper(position, self._loop.call_later)
        return Reader[Message](reading, keeper, yields)

    def _new_reading(self, wish: ReadWish) -> StreamReading:
        options = self._options
        reading = StreamReading(
            *(wish, self._open_for_reading, options.reconnect, options.inbox_prefix),
            options.on_event,
        )
        reading.begin_at(wish.position)
        self._readers = {one for one in self._readers if not one.is_closed} | {reading}
        return reading

    async def table(
        self,
        first: int | None = None,
        last: int | None = None,
        *,
        subject: str = ">",
        columns: Iterable[str] | None = None,
    ) -> Table:
        """Return the messages numbered `first` to `last` as columns: millions of them a second.

        Without `first` it begins with the first message there is; without `last` it ends with the
        last one now. `columns`: those wanted of number (always there), time, subject, reply,
        headers and payload. All of it is held in memory: ask for long ranges in parts, each from
        `table.next` on. A connection that breaks is made again, and reading goes on. Numbers that
        do not exist any more are in `table.lost`; another journal raises `JournalChanged`.
        """
        options = self._options
        reading = TableReading(
            TableWish(first, last, subject, columns),
            *(self._open_for_reading, options.reconnect, options.inbox_prefix),
        )
        self._readers.add(reading)
        try:
            return await reading.read()
        finally:
            self._readers.discard(reading)

    async def get(self, number: int, timeout: float = REQUEST_SECONDS) -> Message:
        """Return the message with this number. Raises `NotFound`."""
        return read_stored(await self._ask(f"$SEQ.GET.{number}", timeout, f"number {number}"))

    async def last(self, subject: str, timeout: float = REQUEST_SECONDS) -> Message | None:
        """Return the last message of exactly this subject; None if there is none."""
        check_sendable(subject)
        try:
            return read_stored(await self._ask(f"$SEQ.LAST.{subject}", timeout, subject))
        except NotFound:
            return None

    async def info(self, timeout: float = REQUEST_SECONDS) -> StreamInfo:
        """Return what the broker keeps: its journal, the first and the last number, limits."""
        return read_info(await self._ask("$SEQ.INFO", timeout, "$SEQ.INFO"))

    # Plain NATS

    async def subscribe(
        self,
        subject: str,
        callback: Callback | None = None,
        *,
        queue: str = "",
        confirm: bool = True,
    ) -> Subscription:
        """Subscribe to what comes from now on, when the broker has agreed. Raises `Refused`.

        `callback` is called for each message: a coroutine function for one after the other, so that
        a slow one delays nothing else; a plain function at once, so it must not block. Without it,
        iterate over the subscription. `queue`: the name of a group, of which one member gets each
        message. Without `confirm` it does not wait for the broker, and `on_event` tells a refusal.
        """
        check_sendable(subject)
        if queue:
            check_sendable(queue, "the name of a queue group")
        await self._connected()
        self._sid += 1
        made = Subscription(self, subject, queue, self._sid)
        if callback is not None:
            made.call(callback)
        refused: asyncio.Future[None] = self._loop.create_future()
        self._subscriptions[made.sid] = made
        self._subscribing.append((subject, refused))
        try:
            await self._confirm(made, confirm)
            if refused.done():
                refused.result()
        except BaseException:
            self._drop(made)
            made.end(None)
            raise
        finally:
            self._subscribing.remove((subject, refused))
            refused.cancel()
        return made

    async def _confirm(self, made: Subscription, confirm: bool) -> None:
        """Subscribe, and wait until the broker has seen it, on this connection or another one."""
        wire = self._alive()
        wire.protocol.subscribe(made.subject, made.queue, made.sid)
        wire.written(0)
        while confirm:
            try:
                await wire.ping()
                return
            except ConnectionLost:
                wire = await self._connected()  # it has subscribed there to all that we had

    async def request(
        self,
        subject: str,
        payload: Data = b"",
        *,
        headers: Mapping[str, str] | None = None,
        timeout: float = REQUEST_SECONDS,
    ) -> Message:
        """Send a request and return its answer, whatever its status is.

        Raises `NoResponders`, `NoAnswer` after the timeout, and `ConnectionLost`.
        """
        self._asked += 1
        reply = f"{self._inbox}.r.{self._asked}"
        end = self._loop.time() + timeout
        try:
            if self._wire is None:
                async with asyncio.timeout_at(end):
                    await self._connected()
            wire = self._alive()
            answer = self._requests.add(reply, subject, end)
            if self._answered_on is not wire:
                wire.protocol.subscribe(f"{self._inbox}.r.*", sid=ANSWER_SID)
                self._answered_on = wire
            if wire.written(wire.protocol.publish(subject, payload, reply, headers)):
                async with asyncio.timeout_at(end):
                    await wire.drain()
            message = await answer
        except TimeoutError:
            raise NoAnswer(f"{subject}: no answer in time") from None
        finally:
            self._requests.drop(reply)
        if message.status == NO_RESPONDERS and not (message.payload or message.description):
            raise NoResponders(f"{subject}: no responders", NO_RESPONDERS)
        return message

    async def respond(
        self, message: Message, payload: Data = b"", *, headers: Mapping[str, str] | None = None
    ) -> None:
        """Answer a request: publish to its reply subject."""
        await self.publish_unconfirmed(message.reply, payload, headers=headers)

    def new_inbox(self) -> str:
        """Return a unique subject for replies."""
        return f"{self._inbox}.{secrets.token_hex(4)}"

    # The end

    async def flush(self, timeout: float = FLUSH_SECONDS) -> None:
        """Wait until the broker has processed everything sent so far. Raises `NoAnswer`."""
        try:
            async with asyncio.timeout(timeout):
                await (await self._connected()).ping()
        except TimeoutError:
            raise NoAnswer("no answer in time") from None

    async def drain(self, timeout: float = FLUSH_SECONDS) -> None:
        """Wait for the numbers of what was sent, let callbacks finish, and close.

        Messages that were sent have their own time to wait for their numbers.
        """
        try:
            await self._publishing.wait_empty()
            if self._wire is not None:
                for subscription in self._subscriptions.values():
                    self._wire.protocol.unsubscribe(subscription.sid)
                await self.flush(timeout)
            mine = asyncio.current_task()  # it may be a callback that drains
            workers = [one._worker for one in self._subscriptions.values() if one._worker]
            workers = [one for one in workers if one is not mine]
            for subscription in self._subscriptions.values():
                subscription.end(None)
            if workers:
                await asyncio.wait(workers, timeout=timeout)
        except (ConnectionLost, NoAnswer) as error:
            log.warning("The client closes before all was delivered: %s", error)
        finally:
            await self.close()

    async def close(self) -> None:
        """Close at once, in any state; what has no number yet fails with `Unconfirmed`."""
        wire, self._wire = self._wire, None
        self._end(ConnectionLost("the client was closed"), None)
        if self._connecting is not None and self._connecting is not asyncio.current_task():
            self._connecting.cancel()
            await asyncio.wait({self._connecting})
        if wire is not None:
            wire.close()
            await wire.wait_closed()

    def _end(self, why: BrokerError, error: BrokerError | None) -> None:
        """Fail what waits; `error`, if the user did not end it, is what subscriptions raise."""
        self._up.set()  # those that wait for a connection find that there will be none
        self.closed.set()
        self._requests.close(why)
        self._publishing.close(why)
        for subscription in list(self._subscriptions.values()):
            subscription.end(error)
            if error is None:
                subscription.cancel()
        for reading in self._readers:
            reading.fail(error) if error is not None else reading.close()

    # For the subscriptions and the wire

    def _unsubscribe(self, subscription: Subscription, after: int) -> None:
        if self._wire is not None and subscription.sid in self._subscriptions:
            self._wire.protocol.unsubscribe(subscription.sid, after)
            self._wire.written(0)

    def _drop(self, subscription: Subscription) -> None:
        self._unsubscribe(subscription, 0)
        self._subscriptions.pop(subscription.sid, None)

    def _alive(self) -> Wire:
        if self._wire is None:
            if self.closed.is_set():
                raise self.error or ConnectionLost("the client is closed")
            raise ConnectionLost("there is no connection to a broker at the moment")
        return self._wire

    async def _connected(self) -> Wire:
        """Return the connection, as soon as there is one."""
        while self._wire is None and not self.closed.is_set():
            await self._up.wait()
        return self._alive()

    def messages_arrived(self, messages: list[Message], size: int) -> None:
        """Take what has arrived: numbers of messages, answers, messages of subscriptions."""
        for message in self._publishing.answered(messages):
            sid = message.sid
            if sid == ANSWER_SID:
                self._requests.answered(message)
            else:
                subscription = self._subscriptions.get(sid)
                if subscription is not None:
                    subscription.deliver(message)

    def refused(self, refusal: ErrorReceived) -> None:
        """Tell what the broker has refused to those whom it concerns."""
        found = ABOUT.match(refusal.words)
        subject = found[2] if found else ""
        error = Refused(refusal.words, subject=subject)
        is_concern = False
        if found and found[1] == "Subscription":
            waiting_for = [one for name, one in self._subscribing if name == subject]
            for waiting in [one for one in waiting_for if not one.done()][:1]:  # each has its -ERR
                waiting.set_exception(error)
                waiting.exception()  # retrieved, in case its task was cancelled
                is_concern = True
            if subject == f"{self._inbox}.r.*":
                is_concern = self._requests.fail(error)
                self._answered_on = None  # the next one tries again
            elif subject == f"{self._inbox}.p.*":
                self._publishing.unheard(refusal.words)
        elif found:
            is_concern = self._requests.fail(error, subject)
        if not is_concern:
            self._tell(ClientEvent("refused", error))

    def wire_lost(self, wire: Wire, error: BrokerError) -> None:
        """Connect again, or end, after the connection broke."""
        if self._wire is not wire:
            return
        is_short = self._loop.time() - self._connected_at < SHORT_SECONDS
        self._short = min(self._short + 1, 8) if is_short else 0
        self._wire = None
        self._up.clear()
        self._publishing.disconnected()
        self._requests.fail(error)
        self._tell(ClientEvent("disconnected", error, str(self._current)))
        if self._options.reconnect == 0:
            self.error = error
            self._end(error, error)
        elif self._connecting is None or self._connecting.done():
            self._connecting = self._loop.create_task(self._keep_connected())

    def _tell(self, event: ClientEvent) -> None:
        tell(self._options.on_event, event)

    # Connecting

    async def open(self) -> None:
        """Connect for the first time. Raises `BrokerError`."""
        await self._connect_within(self._options.wait)

    async def _connect_within(self, patience: float | None) -> None:
        """Connect to one of the servers, trying for so many seconds."""
        begun, pause = self._loop.time(), RETRY_MIN
        while True:
            try:
                wire = await self._open_one()
                break
            except ConnectionLost:
                if patience is not None and self._loop.time() - begun >= patience:
                    raise
            left = patience - (self._loop.time() - begun) if patience is not None else pause
            await asyncio.sleep(min(pause, max(left, 0)) * random.uniform(0.5, 1))
            pause = min(pause * 2, RETRY_MAX)
        await self._settle_in(wire)

    async def _open_one(
        self, fields: Mapping[str, Any] | None = None, numbered_only: bool = False
    ) -> Wire:
        """Connect to the first server that accepts us. Raises `BrokerError`."""
        problems: list[ConnectionLost] = []
        options = self._options.wire
        if fields is not None:
            options = replace(options, fields=fields)
        known = self.server if self._options.discover else {}
        for server in with_announced(self._servers, self._current, known):
            try:
                return await open_wire(server, options, numbered_only)
            except ConnectionLost as error:
                problems.append(error)
        if len(problems) == 1:
            raise problems[0]
        raise ConnectionLost("; ".join(map(str, problems)))

    async def _open_for_reading(self) -> Wire:
        if self.closed.is_set():
            raise self.error or BrokerError("the client is closed")
        return await self._open_one(STAMPED, numbered_only=True)

    async def _settle_in(self, wire: Wire) -> None:
        """Subscribe on a new connection to all that we had, and send what has no answer."""
        self.server = wire.protocol.info
        self._current = wire.address
        protocol = wire.protocol
        for sid, subscription in self._subscriptions.items():
            protocol.subscribe(subscription.subject, subscription.queue, sid)
            if subscription.remaining:
                protocol.unsubscribe(sid, subscription.remaining)
        self._wire, self._connected_at = wire, self._loop.time()
        self._up.set()
        wire.deliver_to(self)
        if self._wire is wire:
            self._tell(ClientEvent("connected", None, str(self._current)))
            try:
                await self._publishing.connected(wire)
            except BrokerError as error:
                wire.lose(
                    error if isinstance(error, ConnectionLost) else ConnectionLost(str(error))
                )

    async def _keep_connected(self) -> None:
        """Connect again, until it succeeds, or is given up."""
        while self._wire is None and not self.closed.is_set():
            try:
                # A broker that closes each connection soon is not asked in a hurry.
                await asyncio.sleep(min(RETRY_MIN * (2**self._short - 1), SHORT_PAUSE))
                await self._connect_within(self._options.reconnect)
            except BrokerError as error:
                if self.closed.is_set():
                    return
                self.error = error
                self._end(error, error)

    # For publishing, and the requests to the broker itself

    async def _ask(self, subject: str, timeout: float, about: str) -> Message:
        """Ask the broker itself, again after a break. Raises `NotFound`, `Refused`."""
        end = self._loop.time() + timeout
        while True:
            try:
                answer = await self.request(subject, timeout=max(end - self._loop.time(), 0.001))
                break
            except NoResponders:
                raise NotSeriatim("the server has no numbers: it is not Seriatim") from None
            except ConnectionLost:
                if self.closed.is_set():
                    raise
        if answer.status == NOT_FOUND:
            raise NotFound(answer.description, answer.status, subject=about)
        if answer.status:
            raise Refused(answer.description or f"status {answer.status}", answer.status, "", about)
        return answer

    async def _ask_info(self) -> StreamInfo:
        answer = await self.request("$SEQ.INFO")
        return read_info(answer)

    async def _find_ids(
        self, wanted: set[str], subject: str, first: int, last: int
    ) -> dict[str, int]:
        """Return the numbers of the messages with these ids, between these numbers."""
        found: dict[str, int] = {}
        if first <= last:
            async with self.read(subject, start=first, until=last) as reader:
                async for message in reader:
                    id = message.headers.get("Nats-Msg-Id", "")
                    if id in wanted:
                        found[id] = message.number
        return found
