"""One asyncio connection to a broker.

    async with await connect("nats://127.0.0.1:4222") as client:
        subscription = await client.subscribe("orders.>")
        await client.publish("orders.new", b"hello")
        async for message in subscription:
            print(message.subject, message.data)

Messages of all subscriptions arrive in the order of the wire. A callback is called at once; an
iterator yields one message after the other. With `reconnect_wait` the client reconnects after a
broken connection and subscribes again; messages in flight are lost, and pending requests fail.
Without it the client is closed when the connection breaks, and `client.error` says why.

A refused subject (-ERR 'Permissions Violation ...') does not close the client: `on_error` reports
it.
"""

import asyncio
import secrets
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

from seriatim.client.aio_wire import CONNECT_SECONDS, Wire, WireOptions, open_wire
from seriatim.client.credentials import NOBODY, Credentials
from seriatim.client.errors import (
    BrokerError,
    ConnectionLost,
    NoAnswer,
    NoResponders,
    SlowSubscriber,
)
from seriatim.client.protocol import (
    NO_RESPONDERS,
    ErrorReceived,
    MessageReceived,
    check_sendable,
    max_payload_of,
)
from seriatim.client.server_address import ServerAddress, read_addresses, with_announced
from seriatim.client.tls import DEFAULT_TLS, TlsSettings

DEFAULT_URL: Final = "nats://127.0.0.1:4222"
PING_SECONDS: Final = 120.0
PINGS_MAX: Final = 2  # unanswered; after that the connection is considered dead
REQUEST_SECONDS: Final = 10.0
FLUSH_SECONDS: Final = 10.0
PENDING_BYTES: Final = 64 << 20  # that may wait in an iterator

OnMessage = Callable[[MessageReceived], None]
OnEvent = Callable[[], None]
OnError = Callable[[BrokerError], None]


@dataclass(frozen=True, slots=True)
class ClientCallbacks:
    """The functions called when something happens to a client; they must not block."""

    on_error: OnError | None = None  # the broker refused something, or reconnecting failed
    on_disconnected: OnEvent | None = None
    on_reconnected: OnEvent | None = None


class AsyncSubscription:
    """A subscription: `async for message in subscription`, or a callback."""

    def __init__(
        self, client: "AsyncClient", subject: str, queue: str, on_message: OnMessage | None
    ) -> None:
        self.subject = subject
        self.queue = queue
        self.sid = 0
        self._client = client
        self._on_message = on_message
        self._waiting: deque[MessageReceived] = deque()
        self._bytes = 0
        self._changed = asyncio.Event()
        self._ended = False
        self._error: BrokerError | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> MessageReceived:
        """Return the next message. Raises `ConnectionLost` if it closed, and `SlowSubscriber`."""
        while not self._waiting:
            if self._error is not None:
                raise self._error
            if self._ended:
                raise StopAsyncIteration
            self._changed.clear()
            await self._changed.wait()
        message = self._waiting.popleft()
        self._bytes -= len(message.data)
        return message

    async def unsubscribe(self) -> None:
        """Stop receiving; messages that have arrived can still be taken."""
        self._client._drop(self)
        self.end(None)

    def deliver(self, message: MessageReceived) -> None:
        """Accept a message from the wire."""
        if self._on_message is not None:
            self._on_message(message)
            return
        self._waiting.append(message)
        self._bytes += len(message.data)
        self._changed.set()
        if self._bytes > PENDING_BYTES:
            self._client._drop(self)
            self.end(SlowSubscriber(f"{self.subject}: too many messages are waiting"))

    def end(self, error: BrokerError | None) -> None:
        """End the subscription: no more messages will come."""
        self._ended, self._error = True, self._error or error
        self._changed.set()


class AsyncClient:
    """A client with one connection, made by `connect`, for one event loop."""

    def __init__(
        self,
        servers: Sequence[ServerAddress],
        options: WireOptions,
        callbacks: ClientCallbacks,
        inbox_prefix: str,
        reconnect_wait: float | None,
    ) -> None:
        self.error: BrokerError | None = None  # why it closed, unless the user closed it
        self.closed = asyncio.Event()
        self.info: dict[str, Any] = {}  # the broker's INFO
        self._servers = servers
        self._server: ServerAddress | None = None  # the one we are, or were, connected to
        self._options = options
        self._callbacks = callbacks
        self._reconnect_wait = reconnect_wait
        self._wire: Wire | None = None
        self._inbox = f"{inbox_prefix}.{secrets.token_hex(11)}"
        self._answers: AsyncSubscription | None = None
        self._requests: dict[str, asyncio.Future[MessageReceived]] = {}
        self._asked = 0
        self._sid = 0
        self._subscriptions: dict[int, AsyncSubscription] = {}
        self._reconnecting: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

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
        """The largest payload that the broker accepts, headers included."""
        return max_payload_of(self.info)

    @property
    def inbox(self) -> str:
        """The prefix of the reply subjects of this client."""
        return self._inbox

    def new_inbox(self) -> str:
        """Return a unique subject for replies."""
        return f"{self._inbox}.{secrets.token_hex(4)}"

    async def publish(
        self,
        subject: str,
        payload: bytes = b"",
        reply: str = "",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Publish a message; waits while too much is still to be written.

        Raises `ConnectionLost`, `InvalidArgument`, `MessageTooLarge`.
        """
        wire = self._alive()
        wire.protocol.publish(subject, payload, reply, headers)
        if wire.written(len(payload)):
            await wire.drain()

    async def subscribe(
        self, subject: str, queue: str = "", on_message: OnMessage | None = None
    ) -> AsyncSubscription:
        """Subscribe. If the broker refuses it, `on_error` is called before `flush` returns."""
        wire = self._alive()
        made = AsyncSubscription(self, subject, queue, on_message)
        check_sendable(subject)
        self._sid += 1
        made.sid = self._sid
        wire.protocol.subscribe(subject, queue, made.sid)
        self._subscriptions[made.sid] = made
        wire.written(0)
        return made

    async def request(
        self,
        subject: str,
        payload: bytes = b"",
        timeout: float = REQUEST_SECONDS,
        headers: Mapping[str, str] | None = None,
    ) -> MessageReceived:
        """Send a request and return its answer, whatever its status is.

        Raises `NoResponders`, `NoAnswer` after the timeout, and `ConnectionLost`.
        """
        if self._answers is None:
            self._answers = await self.subscribe(f"{self._inbox}.*", on_message=self._on_answer)
        self._asked += 1
        reply = f"{self._inbox}.{self._asked}"
        answer: asyncio.Future[MessageReceived] = asyncio.get_running_loop().create_future()
        self._requests[reply] = answer
        try:
            async with asyncio.timeout(timeout):
                await self.publish(subject, payload, reply, headers)
                message = await answer
        except TimeoutError:
            raise NoAnswer("no answer in time") from None
        finally:
            del self._requests[reply]
        if message.status == NO_RESPONDERS and not (message.data or message.description):
            raise NoResponders(f"{subject}: no responders", NO_RESPONDERS)
        return message

    async def flush(self, timeout: float = FLUSH_SECONDS) -> None:
        """Wait until the broker has processed everything sent so far. Raises `NoAnswer`."""
        try:
            async with asyncio.timeout(timeout):
                await self._alive().ping()
        except TimeoutError:
            raise NoAnswer("no answer in time") from None

    async def drain(self, timeout: float = FLUSH_SECONDS) -> None:
        """End every subscription, let messages in flight arrive, and close."""
        for subscription in list(self._subscriptions.values()):
            if subscription is not self._answers and self._wire is not None:
                self._wire.protocol.unsubscribe(subscription.sid)
        await self.flush(timeout)
        for subscription in self._subscriptions.values():
            subscription.end(None)
        await self.close()

    async def close(self) -> None:
        """Close the client, in any state."""
        wire, self._wire = self._wire, None
        self._fail_requests(ConnectionLost("the connection is closed"))
        for subscription in self._subscriptions.values():
            subscription.end(None)
        self.closed.set()
        if self._reconnecting is not None:
            self._reconnecting.cancel()
            await asyncio.wait({self._reconnecting})
        if wire is not None:
            wire.close()
            await wire.wait_closed()

    # For the subscriptions and the wire

    def _drop(self, subscription: AsyncSubscription) -> None:
        known = self._subscriptions.pop(subscription.sid, None)
        if known is not None and self._wire is not None:
            self._wire.protocol.unsubscribe(subscription.sid)
            self._wire.written(0)

    def _alive(self) -> Wire:
        if self._wire is None:
            raise self.error or ConnectionLost("the connection is closed")
        return self._wire

    def _on_message(self, message: MessageReceived) -> None:
        subscription = self._subscriptions.get(message.sid)
        if subscription is None:
            return
        try:
            subscription.deliver(message)
        except Exception as error:  # a user's callback failed; the connection goes on
            context = {"message": f"a callback for {message.subject} failed", "exception": error}
            asyncio.get_running_loop().call_exception_handler(context)

    def _on_answer(self, message: MessageReceived) -> None:
        answer = self._requests.get(message.subject)
        if answer is not None and not answer.done():
            answer.set_result(message)

    def _on_refusal(self, refusal: ErrorReceived) -> None:
        if self._callbacks.on_error is not None:
            self._callbacks.on_error(BrokerError(refusal.words))

    def _on_lost(self, error: BrokerError) -> None:
        """Reconnect or close, after the connection broke."""
        if self._wire is None:
            return
        self._wire = None
        if self._reconnect_wait is None:
            self.error = error
            self._end(error)
        self._fail_requests(error)
        if self._callbacks.on_disconnected is not None:
            self._callbacks.on_disconnected()
        if self._reconnect_wait is not None:
            self._reconnecting = asyncio.ensure_future(self._reconnect(self._reconnect_wait))

    def _fail_requests(self, error: BrokerError) -> None:
        for answer in self._requests.values():
            if not answer.done():
                answer.set_exception(error)

    def _end(self, error: BrokerError) -> None:
        self._fail_requests(error)
        for subscription in list(self._subscriptions.values()):
            subscription.end(error)
        self.closed.set()

    # Connecting

    async def _open(self) -> None:
        """Connect to the first server that accepts us. Raises `BrokerError`."""
        problems: list[ConnectionLost] = []
        for server in with_announced(self._servers, self._server, self.info):
            try:
                wire = await open_wire(server, self._options)
            except ConnectionLost as error:
                problems.append(error)
                continue
            self.info = wire.protocol.info
            self._server = server
            for sid, subscription in self._subscriptions.items():
                wire.protocol.subscribe(subscription.subject, subscription.queue, sid)
            self._wire = wire
            wire.deliver_to(self._on_message, self._on_refusal, self._on_lost)
            return
        if len(problems) == 1:
            raise problems[0]
        raise ConnectionLost("; ".join(map(str, problems)))

    async def _reconnect(self, wait: float) -> None:
        """Try to connect until it succeeds, or `close` ends it."""
        while True:
            try:
                await self._open()
            except BrokerError as error:
                if self._callbacks.on_error is not None:
                    self._callbacks.on_error(error)
                await asyncio.sleep(wait)
                continue
            if self._callbacks.on_reconnected is not None:
                self._callbacks.on_reconnected()
            return


async def connect(
    servers: str | Sequence[str] = DEFAULT_URL,
    *,
    name: str = "seriatim",
    credentials: Credentials = NOBODY,
    tls: TlsSettings = DEFAULT_TLS,
    connect_timeout: float = CONNECT_SECONDS,
    ping_interval: float = PING_SECONDS,
    pings_max: int = PINGS_MAX,
    inbox_prefix: str = "_INBOX",
    reconnect_wait: float | None = None,
    callbacks: ClientCallbacks | None = None,
) -> AsyncClient:
    """Connect to the first of `servers` that accepts us; times are in seconds.

    A reconnecting client tries those, and then other members of the broker's cluster.

    Raises `ConnectionLost` if none can be reached, `NotAuthorized`, and `InvalidArgument`.
    """
    listed = [servers] if isinstance(servers, str) else servers
    addresses = [address for text in listed for address in read_addresses(text)]
    options = WireOptions(name, credentials, tls, connect_timeout, ping_interval, pings_max)
    client = AsyncClient(
        addresses, options, callbacks or ClientCallbacks(), inbox_prefix, reconnect_wait
    )
    await client._open()
    return client
