"""One TCP or TLS connection of the asyncio client: handshake, PINGs, and batched writes."""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, cast

from seriatim.client.credentials import Credentials
from seriatim.client.errors import BrokerError, ConnectionLost, describe
from seriatim.client.protocol import (
    ErrorReceived,
    InfoReceived,
    MessageReceived,
    NatsProtocol,
    Need,
    PongReceived,
)
from seriatim.client.server_address import ServerAddress
from seriatim.client.tls import TlsSettings, tls_failure

CONNECT_SECONDS: Final = 5.0
CLOSE_SECONDS: Final = 5.0  # to write the rest
WRITE_BYTES: Final = 1 << 16  # collected before they are written
OVERHEAD_BYTES: Final = 64  # per message, roughly
STALE: Final = "nothing was received from the broker in time"


@dataclass(frozen=True, slots=True)
class WireOptions:
    """The options for connecting, and for detecting a dead connection; times in seconds."""

    name: str
    credentials: Credentials
    tls: TlsSettings
    connect_timeout: float
    ping_interval: float
    pings_max: int


class Wire(asyncio.BufferedProtocol):
    """A connection; its events go to the three functions given to `deliver_to`."""

    def __init__(self) -> None:
        self.protocol = NatsProtocol()
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._informed: asyncio.Future[None] = self._loop.create_future()
        self._over: asyncio.Future[None] = self._loop.create_future()
        self._pongs: deque[asyncio.Future[None] | None] = deque()
        self._gathered = 0
        self._writing = False  # a call of `write` is scheduled
        self._resumed: asyncio.Event | None = None  # set when there is room to write again
        self._error: BrokerError | None = None
        self._on_message: Callable[[MessageReceived], None] | None = None
        self._on_refusal: Callable[[ErrorReceived], None] | None = None
        self._on_lost: Callable[[BrokerError], None] | None = None
        self._ping_timer: asyncio.TimerHandle | None = None

    # asyncio's callbacks

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self.protocol.get_buffer()

    def buffer_updated(self, nbytes: int) -> None:
        self.protocol.buffer_updated(nbytes)
        try:
            self._handle_events()
        except BrokerError as error:
            self.lose(error)
            return
        self.write()  # a PONG

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

    # Input

    def deliver_to(
        self,
        on_message: Callable[[MessageReceived], None],
        on_refusal: Callable[[ErrorReceived], None],
        on_lost: Callable[[BrokerError], None],
    ) -> None:
        """Deliver events to these functions from now on, and an error that came before."""
        self._on_message, self._on_refusal, self._on_lost = on_message, on_refusal, on_lost
        self.write()
        if self._error is not None:
            on_lost(self._error)

    def _handle_events(self) -> None:
        """Handle the events that came. Raises `BrokerError` for one that ends the connection."""
        while event := self.protocol.next_event():
            if isinstance(event, MessageReceived):
                if self._on_message is not None:
                    self._on_message(event)
            elif isinstance(event, PongReceived):
                pong = self._pongs.popleft() if self._pongs else None
                if pong is not None and not pong.done():
                    pong.set_result(None)
            elif isinstance(event, InfoReceived):
                if not self._informed.done():
                    self._informed.set_result(None)
            elif isinstance(event, ErrorReceived):
                if event.is_fatal:
                    raise event.error()
                if self._on_refusal is not None:
                    self._on_refusal(event)

    # Output

    def written(self, size: int) -> bool:
        """Write the protocol's queued output soon; True if the caller must `drain` before more."""
        self._gathered += size + OVERHEAD_BYTES
        if self._gathered >= WRITE_BYTES:
            self.write()
            return True
        if not self._writing:
            self._writing = True
            self._loop.call_soon(self.write)
        return False

    def write(self) -> None:
        """Write the protocol's output."""
        self._writing, self._gathered = False, 0
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

    async def ping(self) -> None:
        """Wait until the broker has processed everything sent so far. Raises `ConnectionLost`."""
        self.protocol.ping()
        await self._pong()

    async def _pong(self) -> None:
        """Write, and wait for the PONG to the PING that is queued last."""
        if self._error is not None:
            raise self._error
        pong: asyncio.Future[None] = self._loop.create_future()
        self._pongs.append(pong)
        self.write()
        await pong

    # The beginning and the end

    async def greet(self, address: ServerAddress, options: WireOptions) -> None:
        """Do what the handshake needs, and begin to watch the connection."""
        for need in self.protocol.greeting(
            address, options.tls, options.credentials, {"name": options.name}
        ):
            match need:
                case Need.TLS:
                    await self._start_tls(address, options.tls)
                case Need.INFO:
                    await self._informed
                case Need.PONG:
                    await self._pong()
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
        if self._ping_timer is not None:
            self._ping_timer.cancel()
        for waiting in (self._informed, *self._pongs):
            if waiting is not None and not waiting.done():
                waiting.set_exception(error)
                waiting.exception()  # retrieved here, in case no task is waiting for it
        self.resume_writing()
        if self._transport is not None:
            self._transport.abort()
        if self._on_lost is not None:
            self._on_lost(error)

    def close(self) -> None:
        """Close the connection when everything is written; no callback is called."""
        self.write()
        self._on_lost = None
        if self._transport is not None:
            self._transport.close()
        else:
            self._over.cancel()

    async def wait_closed(self) -> None:
        """Wait until everything is written, or the connection is gone."""
        done, _ = await asyncio.wait({self._over}, timeout=CLOSE_SECONDS)
        if not done and self._transport is not None:
            self._transport.abort()


async def open_wire(address: ServerAddress, options: WireOptions) -> Wire:
    """Open a connection, and wait until the broker accepts it. Raises `BrokerError`."""
    loop = asyncio.get_running_loop()
    wire: Wire | None = None
    try:
        async with asyncio.timeout(options.connect_timeout):
            _, wire = await loop.create_connection(Wire, address.host, address.port)
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
