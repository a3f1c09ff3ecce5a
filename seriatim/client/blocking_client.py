"""The client for programs without asyncio: the same words, which block.

An event loop in a thread of its own does the work (loop_thread.py), so PINGs are answered and
breaks are repaired while the program does something else. Messages cross between the threads in
batches.
"""

import asyncio
import inspect
import logging
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Final, Literal, Self, overload

from seriatim.client.errors import (
    BrokerError,
    ConnectionLost,
    InvalidArgument,
    JournalChanged,
    Lost,
    Position,
    Unconfirmed,
)
from seriatim.client.expect import Expect
from seriatim.client.loop_thread import WAKE_SECONDS, LoopThread, take
from seriatim.client.message_table import Table
from seriatim.client.position import Place as KeptPlace
from seriatim.client.position import PlaceKeeper
from seriatim.client.protocol import Headers
from seriatim.client.stream_batch import StreamBatch
from seriatim.client.stream_client import (
    FLUSH_SECONDS,
    PUBLISH_SECONDS,
    REQUEST_SECONDS,
    Client,
    Subscription,
)
from seriatim.client.stream_info import StreamInfo
from seriatim.client.stream_message import Message
from seriatim.client.stream_publishing import OPEN_MAX, Data, MessageGroup, Outgoing
from seriatim.client.stream_reading import (
    Got,
    Item,
    Losses,
    Moment,
    Place,
    StreamReading,
    read_wish,
    yields_losses,
)

log = logging.getLogger("seriatim.client")

STUCK_SECONDS: Final = 3.0  # for a thread that an interrupt has hit at a bad moment
NOTHING: Final = object()
PIECE_MESSAGES, PIECE_BYTES = 1 << 10, 1 << 18  # that cross between the threads together
BlockingCallback = Callable[[Message], object]


class ThreadedNumber:
    """The number of a message, or an error, for which a thread waits."""

    def __init__(self) -> None:
        self.done: SimpleQueue[tuple[int, BaseException | None]] = SimpleQueue()

    def begin(self) -> bool:
        """Begin to send it; False if it was cancelled."""
        return True

    def end(self, number: int, error: BaseException | None = None) -> None:
        """Give its number, or the error."""
        self.done.put((number, error))


class FutureNumber(ThreadedNumber):
    """The same, for a message whose number is asked for later."""

    def __init__(self) -> None:
        self.future: Future[int] = Future()

    def begin(self) -> bool:
        return self.future.set_running_or_notify_cancel()

    def end(self, number: int, error: BaseException | None = None) -> None:
        if error is None:
            self.future.set_result(number)
        else:
            self.future.set_exception(error)


class BlockingReader(Place[Got]):
    """The messages of a `read`: `for message in reader`, and where it has got to.

    Iterating yields `Message`s; with `losses="yield"` also `Lost` and `JournalChanged`. Otherwise
    these are raised, and iterating may go on behind them. `with reader`, `close`, and losing the
    last reference to it end the reading.
    """

    def __init__(
        self, reading: StreamReading, keeper: PlaceKeeper | None, yields: bool, thread: LoopThread
    ) -> None:
        super().__init__(reading, keeper, yields)
        self._thread = thread
        self._fetched: Any = NOTHING  # and not taken yet: an interrupt came
        self._fetching = asyncio.Lock()

    def __iter__(self) -> Self:
        return self

    if TYPE_CHECKING:

        def __next__(self) -> Got: ...

    def _step(self) -> Any:
        """Return the next item. Raises `BrokerError`, and `StopIteration` at the end."""
        self._note()
        if self._at < len(self._batch):
            return self._pick()
        item = self._next_item()
        if item is None:
            raise StopIteration
        return item[0] if isinstance(item, list) else item

    def batches(self) -> Iterator[list[Got]]:
        """Yield what has arrived, in lists of at least one: the fastest way to read."""
        while True:
            self._note()
            found: Any = self._rest()
            if not found:
                item = self._next_item()
                if item is None:
                    return
                found = self._all_of(item)
            yield found

    def _next_item(self) -> Item | None:
        if not self._is_loaded and self._keeper is not None:
            self._begin(_no_awaitable(self._keeper.load()))
        if self._fetched is NOTHING:
            self._thread.call(lambda: self._fetch())
        try:
            item = self._take(self._fetched)
        except (Lost, JournalChanged):
            self._fetched = NOTHING
            raise
        self._fetched = NOTHING
        if item is None:
            self.close()
        return item

    async def _fetch(self) -> None:
        # Kept where the next call finds it: an interrupt may come before it is handed over, and the
        # call that was interrupted may still be under way.
        async with self._fetching:
            if self._fetched is NOTHING:
                self._fetched = await self._reading.take()

    def _note(self) -> None:
        if not self._is_noted and self._keeper is not None:
            _no_awaitable(self._keeper.save(self.position))
            self._is_noted = True

    def close(self) -> None:
        """End the reading, in any state; a place that a file is due is written."""
        self._drop()
        self._end()

    def _drop(self) -> None:
        if not self._reading.is_closed:
            self._thread.soon(self._reading.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        try:
            if kind is None:
                self._note()
        finally:
            self.close()

    def __del__(self) -> None:
        self._drop()


class BlockingSubscription:
    """A plain subscription: `for message in subscription`, `next`, or a callback in a thread."""

    def __init__(self, subscription: Subscription, thread: LoopThread) -> None:
        self.subject = subscription.subject
        self.queue = subscription.queue
        self._subscription = subscription
        self._thread = thread
        self._batch: deque[Message] = deque()
        self._worker: threading.Thread | None = None

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Message:
        """Return the next message. Raises `ConnectionLost`, `SlowSubscriber`."""
        if not self._batch:
            found = self._thread.call(lambda: self._subscription.take_all())
            if not found:
                raise StopIteration
            self._batch.extend(found)
        return self._batch.popleft()

    def next(self, timeout: float | None = None) -> Message:
        """Return the next message. Raises `NoAnswer` in time, `ConnectionLost` at the end."""
        if self._batch:
            return self._batch.popleft()
        return self._thread.call(lambda: self._subscription.next(timeout))

    def unsubscribe(self, after: int = 0) -> None:
        """Stop receiving, now or after so many messages in all; what has arrived can be taken."""
        self._thread.call(lambda: self._subscription.unsubscribe(after))

    def drain(self, timeout: float = FLUSH_SECONDS) -> None:
        """Stop receiving, and wait until the callback has handled what has arrived."""
        self._thread.call(lambda: self._subscription.drain(timeout))
        if self._worker is not threading.current_thread():
            while self.is_working:
                self.join(WAKE_SECONDS)  # an interrupt is noticed in between, as by `take`

    def call(self, callback: BlockingCallback) -> None:
        """Call this for each message, one after the other, in a thread."""
        self._worker = threading.Thread(target=self._work, args=(callback,), daemon=True)
        self._worker.start()

    def join(self, timeout: float) -> None:
        """Wait until the callback has handled what has arrived."""
        if self._worker is not None and self._worker is not threading.current_thread():
            self._worker.join(timeout)

    @property
    def is_working(self) -> bool:
        """True while there is a callback that may be called."""
        return self._worker is not None and self._worker.is_alive()

    def _work(self, callback: BlockingCallback) -> None:
        try:
            for message in self:
                try:
                    callback(message)
                except Exception:  # a user's callback failed; the others go on
                    log.exception("A callback for %s failed", message.subject)
        except BrokerError:
            pass  # the client's event has said why


class BlockingBatch:
    """The messages of one batch: `with stream.batch() as batch`; see `StreamBatch`."""

    def __init__(self, batch: StreamBatch, thread: LoopThread) -> None:
        self._batch = batch
        self._thread = thread

    @property
    def first(self) -> int:
        """The number of the first message, when the batch is published."""
        return self._batch.first

    @property
    def last(self) -> int:
        """The number of the last message; others' messages may be between the two."""
        return self._batch.last

    @property
    def rows(self) -> int:
        """The count of its messages."""
        return self._batch.rows

    @property
    def is_repeated(self) -> bool:
        """True if it was published before."""
        return self._batch.is_repeated

    def publish(
        self,
        subject: str,
        payload: Data = b"",
        *,
        headers: Mapping[str, str] | None = None,
        reply: str = "",
    ) -> None:
        """Add a message. Raises `Refused` if the broker refuses what was added before."""
        self._thread.call(
            lambda: self._batch.publish(subject, payload, headers=headers, reply=reply)
        )

    def __enter__(self) -> Self:
        self._thread.call(lambda: self._batch.__aenter__())
        return self

    def __exit__(self, kind: object, *rest: object) -> None:
        self._thread.call(lambda: self._batch.__aexit__(kind, *rest))


class BlockingClient:
    """A client that blocks, made by `with seriatim.connect()`; threads may share it.

    Messages are published with `publish`, which returns the number, and read with `read`. All
    methods raise `BrokerError`, whose classes say what to do; a limit of time that has passed is
    one of them, not `TimeoutError`.
    """

    def __init__(self, connect: Callable[[], Coroutine[Any, Any, Client]]) -> None:
        self._thread = LoopThread()
        self._sending: deque[tuple[tuple[Any, ...], ThreadedNumber]] = deque()
        # A permit for each message in flight.
        self._room: SimpleQueue[None] = SimpleQueue()
        for _ in range(OPEN_MAX):
            self._room.put(None)
        self._is_pumping = False
        self._is_ending = False
        self._idle: asyncio.Event | None = None  # set when all was sent
        self._working: list[BlockingSubscription] = []  # with callbacks
        try:
            self._client = self._thread.call(connect)
        except BaseException:
            self._thread.stop()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None and not self.is_closed:
            self.drain()
        else:
            self.close()

    def __repr__(self) -> str:
        return repr(self._client).replace("<Client", "<BlockingClient")

    @property
    def is_connected(self) -> bool:
        """True if there is a connection at the moment."""
        return self._client.is_connected

    @property
    def is_closed(self) -> bool:
        """True if the client is closed for good."""
        return self._client.is_closed

    @property
    def server(self) -> dict[str, Any]:
        """The broker's INFO."""
        return self._client.server

    @property
    def max_payload(self) -> int:
        """The largest message that the broker accepts, in bytes, headers included."""
        return self._client.max_payload

    # Publishing

    def publish(
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
        waiting = ThreadedNumber()
        self._queue(waiting, (subject, payload, headers, id, expect, timeout))
        number, error = take(waiting.done)
        if error is not None:
            raise error
        return number

    def send(
        self,
        subject: str,
        payload: Data = b"",
        *,
        headers: Headers | None = None,
        id: str = "",
        expect: Expect | int | None = None,
        timeout: float = PUBLISH_SECONDS,
    ) -> "Future[int]":
        """Publish a message as `publish` does, and return the future of its number.

        It returns when there is room for more in flight: thousands are, in the order in which they
        were sent. Ask each future for its `result()` to know that all went well.
        """
        waiting = FutureNumber()
        self._queue(waiting, (subject, payload, headers, id, expect, timeout))
        return waiting.future

    def publish_all(
        self, messages: Iterable[Outgoing], *, timeout: float = PUBLISH_SECONDS
    ) -> list[int]:
        """Publish messages in their order, and return their numbers: the fastest way to publish.

        A message is `(subject, payload)` or `(subject, payload, headers)`. Each is published as
        `publish` does it, with thousands in flight; an id of your own is the header `Nats-Msg-Id`.
        Messages are taken from `messages` as there is room, and sent some hundreds at a time: for
        those that come slowly use `send`.

        Raises `NotAllPublished`, which has the number or the error of each, if one is refused or
        has no answer in `timeout` seconds; then no more are taken.
        """
        self._take_turn()
        group = self._client._publishing.group()
        for piece in _pieces(messages):
            self._thread.call(lambda some=piece: self._send_piece(group, some, timeout))  # type: ignore[misc]
            if group.errors:
                break
        return self._thread.call(lambda: group.all_numbers())

    async def _send_piece(self, group: MessageGroup, piece: list[Outgoing], timeout: float) -> None:
        if self._is_ending:
            group.refuse(ConnectionLost("the client is closed"))
        else:
            await self._client._publishing.send_all(group, piece, timeout)

    def _take_turn(self) -> None:
        """Return when everything that this thread has given is sent."""
        self._check_open()
        waiting = ThreadedNumber()
        self._give(waiting, ())
        _, error = take(waiting.done)
        if error is not None:
            raise error

    def _check_open(self) -> None:
        self._thread.check()
        if self._is_ending or self.is_closed:
            raise ConnectionLost("the client is closed")

    def _queue(self, waiting: ThreadedNumber, arguments: tuple[Any, ...]) -> None:
        """Have a message sent, when there is room for it."""
        self._check_open()
        try:
            take(self._room, max(arguments[-1], 0))
        except Empty:
            why = "too many messages wait for their numbers; it was not sent"
            raise Unconfirmed(why, arguments[0]) from None
        self._give(waiting, arguments)

    def _give(self, waiting: ThreadedNumber, arguments: tuple[Any, ...]) -> None:
        """Have a message sent; one without arguments is a turn, which ends then."""
        self._sending.append((arguments, waiting))
        if not self._is_pumping:
            self._is_pumping = True
            with suppress(ConnectionLost):  # then each message says so
                self._thread.begin(self._pump)
        if self._thread.is_stopped:
            self._refuse_rest()

    def _refuse_rest(self) -> None:
        """Fail what is left to be sent."""
        with suppress(IndexError):
            while True:
                _, waiting = self._sending.popleft()
                if waiting.begin():
                    waiting.end(0, ConnectionLost("the client is closed"))

    async def _pump(self) -> None:
        """Send what other threads have given, in its order."""
        send = self._client._publishing.send
        while True:
            while self._sending:
                arguments, waiting = self._sending.popleft()
                if not arguments:
                    waiting.end(0)
                    continue
                if not waiting.begin():
                    self._room.put(None)
                    continue  # the user has cancelled it
                try:
                    number = await send(*arguments)
                except asyncio.CancelledError:
                    self._settle(waiting, 0, ConnectionLost("the client was closed"))
                    raise
                except Exception as error:
                    self._settle(waiting, 0, error)
                else:
                    number.add_done_callback(lambda done, of=waiting: self._numbered(of, done))  # type: ignore[misc]
            self._is_pumping = False
            if not self._sending:
                if self._idle is not None:
                    self._idle.set()
                return
            self._is_pumping = True  # one came between the two

    def _numbered(self, waiting: ThreadedNumber, done: "asyncio.Future[int]") -> None:
        if done.cancelled():
            self._settle(waiting, 0, ConnectionLost("the client was closed"))
        elif (error := done.exception()) is not None:
            self._settle(waiting, 0, error)
        else:
            self._settle(waiting, done.result())

    def _settle(
        self, waiting: ThreadedNumber, number: int, error: BaseException | None = None
    ) -> None:
        waiting.end(number, error)
        self._room.put(None)

    def publish_unconfirmed(
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
        self._thread.call(
            lambda: self._client.publish_unconfirmed(subject, payload, reply=reply, headers=headers)
        )

    def batch(
        self, application: str = "", number: int = 0, timeout: float = PUBLISH_SECONDS
    ) -> BlockingBatch:
        """Return a batch, published as a whole or not at all: `with stream.batch() as batch`.

        Its messages are staged by the broker, and published when the block ends; if it ends with
        an error, none is. With the name of an `application`, which counts its batches upwards, a
        batch of the same `number` is published once, even by a program that was restarted.
        """
        return BlockingBatch(self._client.batch(application, number, timeout), self._thread)

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
        position: KeptPlace | None = None,
        losses: Literal["raise"] = "raise",
    ) -> BlockingReader[Message]: ...

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
        position: KeptPlace | None = None,
        losses: Literal["yield"],
    ) -> BlockingReader[Message | Lost | JournalChanged]: ...

    def read(
        self,
        subject: str = ">",
        *,
        start: int | Position | None = None,
        since: Moment | None = None,
        last: bool = False,
        until: int | Moment | None = None,
        or_now: bool = False,
        position: KeptPlace | None = None,
        losses: Losses = "raise",
    ) -> Any:
        """Read messages to `subject`, from the past on, each once and in order: `for`.

        The arguments are those of `Client.read`. The functions of `position` are called in the
        thread that iterates.
        """
        yields = yields_losses(losses)
        wish = read_wish(subject, start, since, last, until, or_now)
        reading = self._thread.call(lambda: self._reading(wish))
        keeper = None
        if position is not None:
            keeper = PlaceKeeper(position, self._later)
        return BlockingReader[Message](reading, keeper, yields, self._thread)

    async def _reading(self, wish: Any) -> StreamReading:
        return self._client._new_reading(wish)

    def _later(self, seconds: float, function: Callable[[], None]) -> None:
        self._thread.soon(lambda: self._thread.loop.call_later(seconds, function))

    def table(
        self,
        first: int | None = None,
        last: int | None = None,
        *,
        subject: str = ">",
        columns: Iterable[str] | None = None,
    ) -> Table:
        """Return the messages numbered `first` to `last` as columns: see `Client.table`."""
        return self._thread.call(
            lambda: self._client.table(first, last, subject=subject, columns=columns)
        )

    def get(self, number: int, timeout: float = REQUEST_SECONDS) -> Message:
        """Return the message with this number. Raises `NotFound`."""
        return self._thread.call(lambda: self._client.get(number, timeout))

    def last(self, subject: str, timeout: float = REQUEST_SECONDS) -> Message | None:
        """Return the last message of exactly this subject; None if there is none."""
        return self._thread.call(lambda: self._client.last(subject, timeout))

    def info(self, timeout: float = REQUEST_SECONDS) -> StreamInfo:
        """Return what the broker keeps: its journal, the first and the last number, limits."""
        return self._thread.call(lambda: self._client.info(timeout))

    # Plain NATS

    def subscribe(
        self, subject: str, callback: BlockingCallback | None = None, *, queue: str = ""
    ) -> BlockingSubscription:
        """Subscribe to what comes from now on, when the broker has agreed. Raises `Refused`.

        `callback` is called for each message, one after the other, in a thread. Without it,
        iterate over the subscription. `queue`: the name of a group, of which one member gets each
        message.
        """
        made = self._thread.call(lambda: self._client.subscribe(subject, queue=queue))
        subscription = BlockingSubscription(made, self._thread)
        if callback is not None:
            subscription.call(callback)
            self._working = [one for one in self._working if one.is_working] + [subscription]
        return subscription

    def request(
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
        return self._thread.call(
            lambda: self._client.request(subject, payload, headers=headers, timeout=timeout)
        )

    def respond(
        self, message: Message, payload: Data = b"", *, headers: Mapping[str, str] | None = None
    ) -> None:
        """Answer a request: publish to its reply subject."""
        self._thread.call(lambda: self._client.respond(message, payload, headers=headers))

    def new_inbox(self) -> str:
        """Return a unique subject for replies."""
        return self._client.new_inbox()

    # The end

    def flush(self, timeout: float = FLUSH_SECONDS) -> None:
        """Wait until the broker has processed everything sent so far. Raises `NoAnswer`."""
        self._thread.call(lambda: self._client.flush(timeout))

    def drain(self, timeout: float = FLUSH_SECONDS) -> None:
        """Wait for the numbers of what was sent, let callbacks finish, and close."""
        self._end(lambda: self._drain(timeout), timeout)

    async def _drain(self, timeout: float) -> None:
        while self._sending or self._is_pumping:
            self._idle = asyncio.Event()
            await self._idle.wait()
        await self._client.drain(timeout)

    def close(self) -> None:
        """Close at once, in any state; what has no number yet fails with `Unconfirmed`."""
        self._thread.check()
        if not self._thread.is_stopped and not self._thread.answers(STUCK_SECONDS):
            log.warning("The client's thread does not answer; it is left")
            self._thread.stop(0)
            return
        self._end(self._client.close, 0)

    def _end(self, work: Callable[[], Coroutine[Any, Any, None]], patience: float) -> None:
        """Do this, and end the thread; other threads may do the same at the same time."""
        self._thread.check()
        self._is_ending = True
        try:
            with suppress(ConnectionLost):  # it is closed already
                self._thread.call(work)
            for subscription in self._working:
                subscription.join(patience)
        finally:
            self._thread.stop()
            self._refuse_rest()


def _pieces(messages: Iterable[Outgoing]) -> Iterator[list[Outgoing]]:
    """Yield messages in pieces: each costs a turn between the threads."""
    piece, held = list[Outgoing](), 0
    for message in messages:
        piece.append(message)
        try:
            held += len(message[1])
        except (LookupError, TypeError):
            held = PIECE_BYTES  # it is none, and will be refused
        if len(piece) >= PIECE_MESSAGES or held >= PIECE_BYTES:
            yield piece
            piece, held = [], 0
    if piece:
        yield piece


def _no_awaitable(found: Any) -> Any:
    if inspect.isawaitable(found):
        if inspect.iscoroutine(found):
            found.close()
        raise InvalidArgument("the functions of a position must not be coroutine functions here")
    return found
