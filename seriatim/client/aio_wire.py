"""One TCP or TLS connection of the client: handshake, PINGs, batched reads and batched writes.

Messages are handed over in the batches in which they came. A caller that has enough of them pauses
the reading: then the broker's socket fills, and the broker waits. A paused connection cannot see a
PING, so it sends PONGs by itself; the broker takes any of them as a sign of life.
"""

import asyncio
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, cast

from seriatim.client.credentials import Credentials
from seriatim.client.errors import BrokerError, ConnectionLost, NotABroker, describe
from seriatim.client.protocol import (
    ErrorReceived,
    Event,
    InfoReceived,
    NatsProtocol,
    Need,
    PongReceived,
)
from seriatim.client.server_address import ServerAddress
from seriatim.client.stream_message import Message
from seriatim.client.tls import TlsSettings, tls_failure

CONNECT_SECONDS: Final = 5.0
CLOSE_SECONDS: Final = 5.0  # to write the rest
WRITE_BYTES: Final = 1 << 16  # collected before they are written
OVERHEAD_BYTES: Final = 64  # per message, roughly
UNREAD_MAX: Final = 64 << 20  # bytes that wait to be written, while the broker goes on to send
ALIVE_SECONDS: Final = 2.0  # between the PONGs of a paused connection
STALE: Final = "nothing was received from the broker in time"


@dataclass(frozen=True, slots=True)
class WireOptions:
    """The options for connecting, and for detecting a dead connection; times in seconds.

    `fields` are added to CONNECT.
    """

    name: str
    credentials: Credentials
    tls: TlsSettings
    connect_timeout: float
    ping_interval: float
    pings_max: int
    fields: Mapping[str, Any] = field(default_factory=dict)


class WireUser(Protocol):
    """The owner of a connection, who gets what arrives."""

    def messages_arrived(self, messages: list[Message], size: int) -> None:
        """Take messages, which were `size` bytes on the wire."""

    def refused(self, refusal: ErrorReceived) -> None:
        """Take an -ERR that does not end the connection."""

    def wire_lost(self, wire: "Wire", error: BrokerError) -> None:
        """Go on without this connection."""


class Wire(asyncio.BufferedProtocol):
    """A connection; from `deliver_to` on, what arrives goes to its user."""

    def __init__(self, numbered_only: bool = False) -> None:
        self.protocol = NatsProtocol(numbered_only=numbered_only)
        self._numbered_only = numbered_only  # hand over each message without a number by itself
        self.address: ServerAddress | None = None
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._informed: asyncio.Future[None] = self._loop.create_future()
        self._over: asyncio.Future[None] = self._loop.create_future()
        self._pongs: deque[asyncio.Future[None] | None] = deque()
        self._gathered = 0
        self._writing = False  # a call of `write` is scheduled
        self._came = 0  # messages in the last read
        self._is_awaited = False  # one message came, and nothing was written since
        self._resumed: asyncio.Event | None = None  # set when there is room to write again
        self._error: BrokerError | None = None
        self._user: WireUser | None = None
        self._alive_timer: asyncio.TimerHandle | None = None
        self._ping_timer: asyncio.TimerHandle | None = None

    # asyncio's callbacks

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self.protocol.get_buffer()

    def buffer_updated(self, nbytes: int) -> None:
        self.protocol.buffer_updated(nbytes)
        self._came = 0
        try:
            self._handle_events(nbytes)
        except BrokerError as error:
            self.lose(error)
            return
        self.write()  # a PONG
        self._is_awaited = self._came == 1
        transport = self._transport
        if self._resumed is None or transport is None:
            return
        if transport.get_write_buffer_size() > UNREAD_MAX:
            self.lose(ConnectionLost("the broker does not read what it is sent"))

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._over.done():
            self._over.set_result(None)
        self.lose(self.protocol.closed(exc))

    def pause_writing(self) -> None:
        self._resumed = asyncio.Event()

    def resume_writing(self) -> None:
        if self._resumed is not None:
            self._resumed.set()
            self._resumed = None

    @property
    def is_lost(self) -> bool:
        """True if the connection has ended."""
        return self._error is not None

    # Input

    def deliver_to(self, user: WireUser) -> None:
        """Deliver to this user from now on, and an error that came before."""
        self._user = user
        self.write()
        if self._error is not None:
            user.wire_lost(self, self._error)

    def pause_reading(self) -> None:
        """Read no more, until `resume_reading`; the broker waits."""
        if self._transport is not None and self._alive_timer is None:
            self._transport.pause_reading()
            self._alive_timer = self._loop.call_later(ALIVE_SECONDS, self._say_alive)

    def resume_reading(self) -> None:
        """Read again."""
        if self._alive_timer is not None:
            self._alive_timer.cancel()
            self._alive_timer = None
            if self._transport is not None and not self._transport.is_closing():
                self._transport.resume_reading()

    def _say_alive(self) -> None:
        self.protocol.pong()
        self.write()
        self._alive_timer = self._loop.call_later(ALIVE_SECONDS, self._say_alive)

    def _handle_events(self, size: int) -> None:
        """Handle the events that came. Raises `BrokerError` for one that ends the connection."""
        protocol, messages = self.protocol, list[Message]()
        try:
            while True:
                protocol.take_messages(messages)
                event = protocol.next_event()
                if isinstance(event, Message) and (event.number or not self._numbered_only):
                    messages.append(event)
                    continue
                if messages:
                    whole, of_size = messages, size
                    messages, size = [], 0
                    self._hand_over(whole, of_size)
                if event is None:
                    return
                if isinstance(event, Message):
                    self._hand_over([event], 0)
                else:
                    self._handle(event)
        except NotABroker:
            if messages:
                self._hand_over(messages, size)
            raise

    def _hand_over(self, messages: list[Message], size: int) -> None:
        self._came += len(messages)
        if self._user is not None:
            self._user.messages_arrived(messages, size)

    def _handle(self, event: Event) -> None:
        """Handle an event that is no message."""
        if isinstance(event, PongReceived):
            pong = self._pongs.popleft() if self._pongs else None
            if pong is not None and not pong.done():
                pong.set_result(None)
        elif isinstance(event, InfoReceived):
            if not self._informed.done():
                self._informed.set_result(None)
        elif isinstance(event, ErrorReceived):
            if event.is_fatal:
                raise event.error()
            if self._user is not None:
                self._user.refused(event)

    # Output

    def written(self, size: int) -> bool:
        """Write the protocol's queued output soon; True if the caller must `drain` before more.

        What follows a single message, as its answer, is written at once. After more of them, as
        many answers may follow, and are written together.
        """
        self._gathered += size + OVERHEAD_BYTES
        if self._is_awaited:
            self.write()
            return False
        if self._gathered >= WRITE_BYTES:
            self.write()
            return True
        if not self._writing:
            self._writing = True
            self._loop.call_soon(self.write)
        return False

    def write(self) -> None:
        """Write the protocol's output."""
        self._writing, self._gathered, self._is_awaited = False, 0, False
        data = self.protocol.data_to_send()
        if data and self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    async def drain(self) -> None:
        """Wait for room to write; other tasks run meanwhile. Raises `ConnectionLost`."""
        if self._resumed is None:
            await asyncio.sleep(0)
        else:
            await self._resumed.wait()
        if self._error is not None:
            raise self._error

    async def drain_quietly(self) -> None:
        """Wait for room to write; a connection that breaks is reported otherwise."""
        if self._resumed is None:
            await asyncio.sleep(0)
        else:
            await self._resumed.wait()

    async def ping(self) -> None:
        """Wait until the broker has processed everything sent so far. Raises `ConnectionLost`."""
        await self.sound()

    def sound(self) -> asyncio.Future[None]:
        """Send a PING; return the future of its PONG, which may be left alone."""
        self.protocol.ping()
        return self._pong()

    def _pong(self) -> asyncio.Future[None]:
        """Write; return the future of the PONG to the PING that is queued last."""
        if self._error is not None:
            raise self._error
        pong: asyncio.Future[None] = self._loop.create_future()
        self._pongs.append(pong)
        self.write()
        return pong

    # The beginning and the end

    async def greet(self, address: ServerAddress, options: WireOptions) -> None:
        """Do what the handshake needs, and begin to watch the connection."""
        for need in self.protocol.greeting(
            *(address, options.tls, options.credentials),
            {"name": options.name, **options.fields},
        ):
            match need:
                case Need.TLS:
                    await self._start_tls(address, options.tls)
                case Need.INFO:
                    await self._informed
                case Need.PONG:
                    await self._pong()
        self.address = address
        self._watch(options.ping_interval, options.pings_max)

    async def _start_tls(self, address: ServerAddress, tls: TlsSettings) -> None:
        assert self._transport is not None
        try:
            made = await self._loop.start_tls(
                self._transport, self, tls.context(), server_hostname=address.host
            )
        except OSError as error:
            raise tls_failure(tls, error) from None
        if made is None:
            raise self.protocol.closed()
        self._transport = made

    def _watch(self, interval: float, pings_max: int) -> None:
        """PING regularly; too many unanswered ones end the connection."""

        def look() -> None:
            if self._error is not None:
                return
            if self._alive_timer is not None:  # paused: PONGs are not read
                self._ping_timer = self._loop.call_later(interval, look)
                return
            if sum(pong is None for pong in self._pongs) >= pings_max:
                self.lose(ConnectionLost(STALE))
                return
            self._pongs.append(None)
            self.protocol.ping()
            self.write()
            self._ping_timer = self._loop.call_later(interval, look)

        self._ping_timer = self._loop.call_later(interval, look)

    def lose(self, error: BrokerError) -> None:
        """End the connection for this reason; the first reason counts."""
        if self._error is not None:
            return
        self._error = error
        self._stop_timers()
        for waiting in (self._informed, *self._pongs):
            if waiting is not None and not waiting.done():
                waiting.set_exception(error)
                waiting.exception()  # retrieved here, in case no task is waiting for it
        self.resume_writing()
        if self._transport is not None:
            self._transport.abort()
        user, self._user = self._user, None
        if user is not None:
            user.wire_lost(self, error)

    def _stop_timers(self) -> None:
        for timer in (self._ping_timer, self._alive_timer):
            if timer is not None:
                timer.cancel()
        self._ping_timer = self._alive_timer = None

    def abort(self) -> None:
        """End the connection at once; its user is not called."""
        self._user = None
        self.lose(ConnectionLost("the connection is closed"))

    def close(self) -> None:
        """Close the connection when everything is written; no callback is called."""
        self.write()
        self._user = None
        self._stop_timers()
        if self._transport is not None:
            self._transport.close()
        else:
            self._over.cancel()

    async def wait_closed(self) -> None:
        """Wait until everything is written, or the connection is gone."""
        done, _ = await asyncio.wait({self._over}, timeout=CLOSE_SECONDS)
        if not done and self._transport is not None:
            self._transport.abort()


async def open_wire(
    address: ServerAddress, options: WireOptions, numbered_only: bool = False
) -> Wire:
    """Open a connection, and wait until the broker accepts it. Raises `BrokerError`."""
    loop = asyncio.get_running_loop()
    wire: Wire | None = None
    try:
        async with asyncio.timeout(options.connect_timeout):
            _, wire = await loop.create_connection(
                lambda: Wire(numbered_only), address.host, address.port
            )
            await wire.greet(address, options)
    except (OSError, UnicodeError) as error:  # includes TimeoutError
        if wire is not None:
            wire.lose(ConnectionLost(describe(error)))
        raise ConnectionLost(describe(error)).at(address) from None
    except BrokerError as error:
        if wire is not None:
            wire.lose(error)
        raise error.at(address) from None
    except BaseException:
        if wire is not None:
            wire.lose(ConnectionLost("the connection is closed"))
        raise
    return wire
