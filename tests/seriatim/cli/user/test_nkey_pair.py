"""Keys that the command makes, in the hands of NATS' own clients and server."""

import asyncio
from pathlib import Path

import nats
import nkeys
import pytest
from nats.aio.client import Client

from broker.settings.public_key import public_key_of
from seriatim.cli.user.nkey_pair import new_pair
from tests.clients.served import silent
from tests.seriatim.cli.user.users_files import done
from tests.support.processes import SeriatimServer, ServerProcess
from tests.support.secured import nats_server

TEST_S = 60.0


def test_given_two_key_pairs_when_made_then_they_differ() -> None:
    pairs = [new_pair() for _ in range(20)]
    assert len({pair.seed for pair in pairs}) == 20
    for pair in pairs:
        keys = nkeys.from_seed(pair.seed.encode())
        assert keys.public_key.decode() == pair.public
        assert len(public_key_of(pair.public)) == 32


def echo(url: str, seed: Path) -> bytes:
    """What a client with this seed gets of a message that it sends to itself."""

    async def run() -> bytes:
        client = Client()
        try:
            await client.connect(url, nkeys_seed=str(seed), allow_reconnect=False, error_cb=silent)
            subscription = await client.subscribe("x")
            await client.publish("x", b"hello")
            return (await subscription.next_msg(timeout=TEST_S)).data
        finally:
            await client.close()

    return asyncio.run(asyncio.wait_for(run(), TEST_S))


def served(folder: Path, whose: str, public: str) -> ServerProcess:
    """A broker that knows the key: ours by the users' file, or NATS' own."""
    if whose == "ours":
        return SeriatimServer("none", arguments=["--users_file", str(folder / "users.toml")])
    return nats_server(folder, f"authorization {{ users: [{{ nkey: {public} }}] }}\n")


@pytest.mark.parametrize("whose", ["ours", "NATS'"])
def test_given_a_seed_file_when_a_client_of_nats_logs_in_with_it_then_it_may(
    tmp_path: Path, whose: str
) -> None:
    seed, other = tmp_path / "own.nk", tmp_path / "other.nk"
    given = ("-f", str(tmp_path / "users.toml"))
    public = done("nkey", "own", *given, "--seed", str(seed))[0].strip()
    done("nkey", "--seed", str(other))
    with served(tmp_path, whose, public) as process:
        url = f"nats://127.0.0.1:{process.port}"
        assert echo(url, seed) == b"hello"
        with pytest.raises(nats.errors.Error, match=r"(?i)authorization violation"):
            echo(url, other)
