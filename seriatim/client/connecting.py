"""`seriatim.connect`: one function, for asyncio and for programs without it.

async with seriatim.connect("nats://a,b,c") as stream: ...      a Client
with seriatim.connect("nats://a,b,c") as stream: ...            a BlockingClient, same words
stream = await seriatim.connect()                               to be closed by you
stream = seriatim.connect().open()
"""

import asyncio
import math
import os
import re
import ssl
import sys
from collections.abc import Generator, Sequence
from typing import Any, Final

from seriatim.client.aio_wire import CONNECT_SECONDS, WireOptions
from seriatim.client.blocking_client import BlockingClient
from seriatim.client.client_event import OnEvent
from seriatim.client.credentials import NOBODY, Credentials
from seriatim.client.errors import InvalidArgument
from seriatim.client.server_address import read_addresses
from seriatim.client.stream_client import Client, ClientOptions
from seriatim.client.tls import DEFAULT_TLS, TlsSettings

DEFAULT_URL: Final = "nats://127.0.0.1:4222"
PING_SECONDS: Final = 120.0
PINGS_MAX: Final = 2  # unanswered; after that the connection is considered dead
INBOX_PREFIX: Final = re.compile(r"[^\s\0.*>$][^\s\0.*>]*(\.[^\s\0.*>]+)*")


class Connecting:
    """A connection to be: enter it with `async with` or `with`, await it, or `open` it."""

    def __init__(self, servers: str | Sequence[str], options: ClientOptions) -> None:
        listed = [servers] if isinstance(servers, str) else servers
        self._addresses = [one for text in listed for one in read_addresses(text)]
        if not self._addresses:
            raise InvalidArgument("give at least one address of a broker")
        self._options = options
        self._client: Client | None = None
        self._blocking: BlockingClient | None = None

    async def _connect(self) -> Client:
        client = Client(self._addresses, self._options)
        try:
            await client.open()
        except BaseException:
            await client.close()
            raise
        return client

    def __await__(self) -> Generator[Any, None, Client]:
        return self._connect().__await__()

    async def __aenter__(self) -> Client:
        self._client = await self._connect()
        return self._client

    async def __aexit__(self, *exc: object) -> None:
        assert self._client is not None, "it was entered"
        await self._client.__aexit__(*exc)

    def open(self) -> BlockingClient:
        """Connect, and return a blocking client. Raises `BrokerError`."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return BlockingClient(self._connect)
        raise InvalidArgument(
            "a blocking client would stop the event loop of this thread: use `async with`"
        )

    def __enter__(self) -> BlockingClient:
        self._blocking = self.open()
        return self._blocking

    def __exit__(self, *exc: object) -> None:
        assert self._blocking is not None, "it was entered"
        self._blocking.__exit__(*exc)


def connect(
    servers: str | Sequence[str] = DEFAULT_URL,
    *,
    wait: bool | float = False,
    reconnect: bool | float = True,
    user: str = "",
    password: str = "",
    token: str = "",
    creds: str | os.PathLike[str] = "",
    nkey: str | os.PathLike[str] = "",
    credentials: Credentials | None = None,
    tls: ssl.SSLContext | TlsSettings | bool = False,
    name: str = "",
    on_event: OnEvent | None = None,
    discover: bool = True,
    frame: str | None = "stamp",
    connect_timeout: float = CONNECT_SECONDS,
    ping_interval: float = PING_SECONDS,
    pings_max: int = PINGS_MAX,
    inbox_prefix: str = "_INBOX",
) -> Connecting:
    """Connect to the first of `servers` that accepts us: `nats://host:port`, or several.

        async with seriatim.connect("nats://a,b,c", user="me", password=secret) as stream:
            number = await stream.publish("orders.eu", b"10 apples")
            async for message in stream.read("orders.>"):
                print(message.number, message.subject, message.payload)

    With `with` instead of `async with` the same words block. Several servers are the members of a
    cluster; others that these announce are tried as well. Times are in seconds.

    wait            for the broker, if it is not there yet: so long, or True: without end
    reconnect       after a break: so long, True: without end, or False
    user, password  or `token`, or `creds` or `nkey`: files with the seed of a key; or all of it as
                    `Credentials`. An address may hold them: nats://user:password@host
    tls             True, or a context; a broker that asks for TLS gets it in any case
    on_event        a function called with each `ClientEvent`: breaks of the connection
                    and of readers, refusals, slow subscriptions. It must not block
    discover        try the other members of a cluster too, as the broker announces them
    frame           how a subscription gets payloads (docs/protocol.md); with another one than
                    "stamp", messages have no number and no time; None: as the broker is set
    name            in the broker's list of connections; by default that of the program

    Raises, when it is entered or awaited, `ConnectionLost` if none can be reached, `NotAuthorized`,
    and `InvalidArgument`.
    """
    check_times(connect_timeout=connect_timeout, ping_interval=ping_interval)
    if pings_max < 1:
        raise InvalidArgument(f"pings_max={pings_max}: at least one PING may be unanswered")
    if not INBOX_PREFIX.fullmatch(inbox_prefix):
        raise InvalidArgument(f"inbox_prefix={inbox_prefix!r:.60} is not the beginning of subjects")
    if credentials is None:
        credentials = NOBODY
        if user or password or token or creds or nkey:
            credentials = Credentials(user, password, token, os.fspath(creds), os.fspath(nkey))
    if isinstance(tls, ssl.SSLContext):
        context = tls
        settings = TlsSettings(lambda: context, wanted=True)
    elif isinstance(tls, TlsSettings):
        settings = tls
    else:
        settings = TlsSettings(wanted=True) if tls else DEFAULT_TLS
    wire = WireOptions(
        name or program_name(),
        credentials,
        settings,
        connect_timeout,
        ping_interval,
        pings_max,
        {} if frame is None else {"frame": frame},
    )
    options = ClientOptions(
        *(wire, seconds("wait", wait), seconds("reconnect", reconnect)),
        *(inbox_prefix, on_event, discover),
    )
    return Connecting(servers, options)


def seconds(name: str, given: bool | float) -> float | None:
    """Return a time to wait: None for True, which is without end, and 0 for False."""
    if given is True or given == math.inf:
        return None
    if not given >= 0:  # nor NaN
        raise InvalidArgument(f"{name}={given}: give seconds, True or False")
    return float(given)


def check_times(**given: float) -> None:
    """Raise `InvalidArgument` unless these are seconds, and more than none."""
    for name, value in given.items():
        if not value > 0:  # nor NaN
            raise InvalidArgument(f"{name}={value}: give more than 0 seconds")


def program_name() -> str:
    """Return the name of the running program."""
    return os.path.basename(sys.argv[0] if sys.argv else "") or "seriatim"
