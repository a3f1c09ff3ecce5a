"""nats-py with every way to authenticate, and what it reports when it is refused.

With nats-server in our place, the same tests pass: what an application sees is the same.
"""

import asyncio
import gc
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import bcrypt
import nats
import nkeys
import pytest
from nats.aio.client import Client
from nats.errors import Error, NoRespondersError, NoServersError

from tests.clients.served import FLUSH_S, Noted, run
from tests.support.processes import STAND_IN, ServerProcess, url
from tests.support.twin_users import TwinUsers

# nats-py leaves a connection on which it was refused to the garbage collector.
LEFT_OPEN = pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning"
)

PAIR = nkeys.from_seed(nkeys.encode_seed(bytes(range(32)), nkeys.PREFIX_BYTE_USER))
KEY, SEED = PAIR.public_key.decode(), PAIR.seed.decode()
HASH = bcrypt.hashpw(b"hidden", bcrypt.gensalt(4, b"2a")).decode()
RIGHTS = {
    "publish": {"allow": ["a.>", "_INBOX.>"], "deny": "a.no"},
    "subscribe": {"allow": ["a.>", "_INBOX.>"], "deny": "a.secret"},
}
SEVERAL = TwinUsers(
    {
        "users": [
            {"user": "plain", "password": "plain"},
            {"user": "hashed", "password": HASH},
            {"nkey": KEY},
            {"user": "some", "password": "some", "permissions": RIGHTS},
            {
                "user": "service",
                "password": "service",
                "permissions": {"subscribe": "a.service", "allow_responses": True},
            },
        ]
    }
)
TOKEN = TwinUsers({"token": "t0ken"})


def started(users: TwinUsers, folder: Path, *flags: str) -> ServerProcess:
    return users.nats_server() if STAND_IN else users.ours(folder, "--auth_attempts", "0", *flags)


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, ServerProcess]]:
    with ExitStack() as stack:
        yield {
            name: stack.enter_context(started(users, tmp_path_factory.mktemp(name)))
            for name, users in (("several", SEVERAL), ("token", TOKEN))
        }


@pytest.fixture
def seed_file(tmp_path: Path) -> str:
    path = tmp_path / "user.nk"
    path.write_text(SEED)
    return str(path)


async def connected(broker: ServerProcess, **options: Any) -> Client:
    usual = {"allow_reconnect": False, "connect_timeout": 30}
    return await nats.connect(url(broker), **{**usual, **options})


async def works(client: Client) -> None:
    """It subscribes, publishes and hears itself."""
    got: asyncio.Queue[bytes] = asyncio.Queue()

    async def take(message: Any) -> None:
        got.put_nowait(message.data)

    await client.subscribe("a.works", cb=take)
    await client.publish("a.works", b"yes")
    assert await got.get() == b"yes"
    await client.close()


@pytest.mark.parametrize(
    "options",
    [
        {"user": "plain", "password": "plain"},
        {"user": "hashed", "password": "hidden"},
        {"user": "some", "password": "some"},
        {"nkeys_seed": ""},
        {"nkeys_seed_str": SEED},
    ],
)
def test_given_credentials_then_the_client_is_let_in(
    brokers: dict[str, ServerProcess], seed_file: str, options: dict[str, Any]
) -> None:
    if options.get("nkeys_seed") == "":
        options = {"nkeys_seed": seed_file}

    async def scenario() -> None:
        await works(await connected(brokers["several"], **options))

    run(scenario())


def test_given_a_token_then_the_client_is_let_in(brokers: dict[str, ServerProcess]) -> None:
    async def scenario() -> None:
        await works(await connected(brokers["token"], token="t0ken"))
        place = f"nats://t0ken@127.0.0.1:{brokers['token'].port}"
        await works(await nats.connect(place, allow_reconnect=False))

    run(scenario())


OTHER = nkeys.from_seed(nkeys.encode_seed(bytes(32), nkeys.PREFIX_BYTE_USER)).seed.decode()


@LEFT_OPEN
@pytest.mark.parametrize(
    ("broker", "options"),
    [
        ("several", {}),
        ("several", {"user": "plain", "password": "wrong"}),
        ("several", {"user": "hashed", "password": "wrong"}),
        ("several", {"user": "nobody", "password": "plain"}),
        ("several", {"token": "plain"}),
        ("several", {"nkeys_seed_str": OTHER}),
        ("token", {}),
        ("token", {"token": "wrong"}),
        ("token", {"user": "t0ken", "password": "t0ken"}),
    ],
)
def test_given_wrong_credentials_then_the_client_says_authorization_violation(
    brokers: dict[str, ServerProcess], broker: str, options: dict[str, Any]
) -> None:
    async def scenario() -> None:
        noted = Noted()
        with pytest.raises((Error, NoServersError)) as raised:
            await connected(brokers[broker], **options, **noted.options())
        said = " ".join(str(one) for one in (raised.value, *noted.errors))
        assert "authorization violation" in said.lower()

    run(scenario())
    gc.collect()


@pytest.mark.parametrize(
    ("verb", "what", "subjects"),
    [
        ("publish", "publish to", ("other", "a.no")),
        ("subscribe", "subscription to", ("other", ">", "a.secret")),
    ],
)
def test_given_no_right_then_the_client_reports_it_and_goes_on(
    brokers: dict[str, ServerProcess], verb: str, what: str, subjects: tuple[str, ...]
) -> None:
    async def scenario() -> None:
        noted = Noted()
        client = await connected(
            brokers["several"], user="some", password="some", **noted.options()
        )
        for subject in subjects:
            noted.failed.clear()
            await getattr(client, verb)(subject)
            await client.flush(FLUSH_S)
            await noted.failed.wait()
            wanted = f'permissions violation for {what} "{subject}"'
            assert wanted in str(noted.errors[-1]).lower()
        assert client.is_connected
        await works(client)

    run(scenario())


def test_given_a_service_that_may_only_respond_then_requests_are_answered(
    brokers: dict[str, ServerProcess],
) -> None:
    async def scenario() -> None:
        service = await connected(brokers["several"], user="service", password="service")
        asker = await connected(brokers["several"], user="some", password="some")

        async def respond(message: Any) -> None:
            await message.respond(b"pong " + message.data)

        await service.subscribe("a.service", cb=respond)
        await service.flush(FLUSH_S)
        for number in range(20):
            answer = await asker.request("a.service", b"%d" % number, timeout=30)
            assert answer.data == b"pong %d" % number
        with pytest.raises(NoRespondersError):
            await asker.request("a.nobody", b"", timeout=30)
        await service.close()
        await asker.close()

    run(scenario())


@LEFT_OPEN
def test_given_a_login_that_is_refused_after_a_restart_then_the_client_is_let_in_once_it_may(
    tmp_path: Path,
) -> None:
    """As an operator would: a wrong password is rolled out, and then the right one again."""
    if STAND_IN:
        pytest.skip("its configuration is not in a file that stays")

    async def scenario() -> None:
        noted = Noted()
        right, wrong = (
            TwinUsers({"users": [{"user": "u", "password": one}]}) for one in ("right", "wrong")
        )
        with right.ours(tmp_path) as broker:
            client = await nats.connect(
                url(broker),
                user="u",
                password="right",
                max_reconnect_attempts=-1,
                reconnect_time_wait=0.2,
                **noted.options(),
            )
            port = broker.port
            (tmp_path / "users.toml").write_text(wrong.toml())
            await asyncio.to_thread(broker.restart)
            await noted.disconnected.wait()
            while not any("uthorization" in str(one) for one in noted.errors):
                noted.failed.clear()
                await noted.failed.wait()
            (tmp_path / "users.toml").write_text(right.toml())
            await asyncio.to_thread(broker.restart)
            assert broker.port == port
            await noted.reconnected.wait()
            await works(client)

    run(scenario())
    gc.collect()
