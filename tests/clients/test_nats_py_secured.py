"""nats-py through TLS and WebSocket: every way in, with users, and what is refused."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nats
import nkeys
import pytest
from nats.aio.client import Client
from nats.errors import Error

from tests.clients.served import run
from tests.support.authority import Authority
from tests.support.processes import STAND_IN, SeriatimServer

pytestmark = pytest.mark.skipif(STAND_IN, reason="nats-server has no such flags")

PAIR = nkeys.from_seed(nkeys.encode_seed(bytes(range(32)), nkeys.PREFIX_BYTE_USER))
USERS = f"""
[[authorization.users]]
user = "alice"
password = "wonderland"
permissions = {{ publish = {{ deny = ["secret"] }} }}

[[authorization.users]]
nkey = "{PAIR.public_key.decode()}"
"""
ALICE = {"user": "alice", "password": "wonderland"}
SEED = {"nkeys_seed_str": PAIR.seed.decode()}
WAIT_S = 30.0
LARGE, MANY = 64 << 10, 200


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    made = Authority(tmp_path_factory.mktemp("authority"))
    made.issue("server")
    made.issue("alice", "/CN=alice", "email:alice")
    return made


def broker(authority: Authority, folder: Path, *flags: str) -> SeriatimServer:
    """A broker with TLS and users."""
    config = folder / "broker.toml"
    config.write_text(USERS)
    arguments = ["-c", str(config), *authority.flags("server"), *flags]
    return SeriatimServer(arguments=["-a", "127.0.0.1", *arguments])


@pytest.fixture(scope="module")
def secured(
    authority: Authority, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SeriatimServer]:
    with broker(authority, tmp_path_factory.mktemp("secured")) as started:
        yield started


async def connected(server: SeriatimServer, **options: Any) -> Client:
    usual = {"allow_reconnect": False, "connect_timeout": WAIT_S}
    scheme = options.pop("scheme", "tls")
    return await nats.connect(f"{scheme}://127.0.0.1:{server.port}", **{**usual, **options})


async def works(client: Client) -> None:
    """It hears itself, whole, and is told what it may not do."""
    subscription = await client.subscribe("large")
    sent = [bytes([number % 256]) * LARGE for number in range(MANY)]
    for payload in sent:
        await client.publish("large", payload)
    got = [(await subscription.next_msg(timeout=WAIT_S)).data for _ in sent]
    assert got == sent
    past = await client.subscribe("$SEQ.FROM.1.large")
    assert (await past.next_msg(timeout=WAIT_S)).data == sent[0]


@pytest.mark.parametrize("credentials", [ALICE, SEED], ids=["password", "nkey"])
def test_given_tls_and_credentials_then_messages_of_any_size_arrive_whole(
    secured: SeriatimServer, authority: Authority, credentials: dict[str, Any]
) -> None:
    async def scenario() -> None:
        client = await connected(secured, tls=authority.context(), **credentials)
        await works(client)
        await client.close()

    run(scenario())


def test_given_tls_when_a_right_is_missing_then_the_client_is_informed(
    secured: SeriatimServer, authority: Authority
) -> None:
    told: asyncio.Queue[Exception] = asyncio.Queue()

    async def hear(error: Exception) -> None:
        told.put_nowait(error)

    async def scenario() -> None:
        client = await connected(secured, tls=authority.context(), error_cb=hear, **ALICE)
        await client.publish("secret", b"x")
        error = await asyncio.wait_for(told.get(), WAIT_S)
        assert 'permissions violation for publish to "secret"' in str(error).lower()
        await client.close()

    run(scenario())


def test_given_wrong_credentials_or_no_tls_then_the_client_is_refused(
    secured: SeriatimServer, authority: Authority
) -> None:
    async def scenario() -> None:
        wrong = {"user": "alice", "password": "looking-glass"}
        with pytest.raises(Error):
            await connected(secured, tls=authority.context(), **wrong)
        with pytest.raises(Exception, match=r"(?i)certificate|ssl|tls"):
            await connected(secured, tls=Authority(authority.folder / "x").context(), **ALICE)

    run(scenario())


def test_given_the_handshake_first_then_a_client_that_begins_with_it_is_served(
    authority: Authority, tmp_path: Path
) -> None:
    async def scenario(server: SeriatimServer) -> None:
        options = {"tls_handshake_first": True, "tls": authority.context(), **ALICE}
        client = await connected(server, **options)
        await works(client)
        await client.close()

    server = broker(authority, tmp_path, "--tls_first")
    server.tls = authority.context()
    with server:
        run(scenario(server))


def test_given_a_certificate_that_is_mapped_then_it_is_the_user_and_none_is_refused(
    authority: Authority, tmp_path: Path
) -> None:
    async def scenario(server: SeriatimServer) -> None:
        client = await connected(server, tls=authority.context("alice"))
        await works(client)
        await client.close()
        with pytest.raises(Exception):  # noqa: B017, PT011 - TLS 1.3 ends in several ways
            await connected(server, tls=authority.context(), **ALICE)

    flags = ("--tlscacert", str(authority.certificate), "--tls_map")
    with broker(authority, tmp_path, *flags) as server:
        run(scenario(server))
