"""nats-py over WebSocket, with TLS and without: what works over TCP works there."""

import asyncio
import gc
import ssl
from collections.abc import Iterator
from typing import Any

import pytest
from nats.aio.client import Client
from nats.errors import Error

from tests.clients.served import FLUSH_S, Noted, run
from tests.clients.test_nats_py_users import LEFT_OPEN, SEED, SEVERAL, works
from tests.support.authority import Authority
from tests.support.processes import STAND_IN
from tests.support.raw_secured import Way, way

pytestmark = [
    pytest.mark.skipif(STAND_IN, reason="nats-server has no such flags"),
    # nats-py passes aiohttp a number; as an error it would be tried again for ever.
    pytest.mark.filterwarnings("ignore:parameter 'timeout' of type 'float':DeprecationWarning"),
    LEFT_OPEN,  # aiohttp ends TLS a moment after it has said so
]

SOME = {"user": "some", "password": "some"}  # with permissions


class Served:
    """A broker with users, and a way to it."""

    def __init__(self, entry: Way, port: int) -> None:
        scheme = "wss" if entry.context is not None else "ws"
        self.url = f"{scheme}://localhost:{port}"
        self.tls: ssl.SSLContext | None = entry.context

    async def connected(self, **options: Any) -> Client:
        client = Client()
        await self.connect(client, **options)
        return client

    async def connect(self, client: Client, **options: Any) -> None:
        usual: dict[str, Any] = {"allow_reconnect": False, "connect_timeout": 30, "tls": self.tls}
        await client.connect(self.url, **{**usual, **options})


@pytest.fixture(params=["ws", "wss"], scope="module")
def served(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("websocket")
    entry = way(request.param, Authority(folder))
    with SEVERAL.ours(folder, "--auth_attempts", "0", *entry.flags) as broker:
        yield Served(entry, entry.port(broker))


@pytest.fixture(autouse=True)
def collected() -> Iterator[None]:
    """What is left open is reported at once, not in another test."""
    yield
    gc.collect()


@pytest.mark.parametrize(
    "options",
    [
        {"user": "plain", "password": "plain"},
        {"user": "hashed", "password": "hidden"},
        {"nkeys_seed_str": SEED},
    ],
)
def test_given_credentials_then_the_client_is_let_in(
    served: Served, options: dict[str, Any]
) -> None:
    async def scenario() -> None:
        await works(await served.connected(**options))

    run(scenario())


@pytest.mark.parametrize("options", [{}, {"user": "plain", "password": "wrong"}])
def test_given_wrong_credentials_then_the_client_is_refused(
    served: Served, options: dict[str, Any]
) -> None:
    async def scenario() -> None:
        client = Client()
        with pytest.raises(Error, match="Authorization Violation"):
            await served.connect(client, **options)
        await client.close()  # nats-py would leave it open

    run(scenario())


def test_given_a_request_and_many_large_messages_then_all_arrive_in_order(served: Served) -> None:
    count, size = 200, 100_000  # 20 MB: far more than sockets hold

    async def scenario() -> None:
        service, asker = await served.connected(**SOME), await served.connected(**SOME)

        async def respond(message: Any) -> None:
            await message.respond(b"pong " + message.data)

        await service.subscribe("a.service", cb=respond)
        got: asyncio.Queue[bytes] = asyncio.Queue()

        async def take(message: Any) -> None:
            got.put_nowait(message.data)

        await service.subscribe("a.large", cb=take)
        await service.flush(FLUSH_S)
        answer = await asker.request("a.service", b"1", timeout=30)
        assert answer.data == b"pong 1"
        for number in range(count):
            await asker.publish("a.large", b"%d." % number + bytes(size))
        for number in range(count):
            assert await got.get() == b"%d." % number + bytes(size)
        await service.close()
        await asker.close()

    run(scenario())


def test_given_no_right_then_the_client_reports_it_and_goes_on(served: Served) -> None:
    async def scenario() -> None:
        noted = Noted()
        client = await served.connected(**SOME, **noted.options())
        for refused in (client.publish("other", b""), client.subscribe("a.secret")):
            noted.failed.clear()
            await refused
            await client.flush(FLUSH_S)
            await noted.failed.wait()
        first, second = (str(error).lower() for error in noted.errors)
        assert 'permissions violation for publish to "other"' in first
        assert 'permissions violation for subscription to "a.secret"' in second
        await works(client)

    run(scenario())
