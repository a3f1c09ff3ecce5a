"""One connection of the asyncio client: peers that misbehave, credentials, and TLS."""

import asyncio
import os
import ssl
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

import seriatim
from seriatim.client.credentials import Credentials
from seriatim.client.errors import BrokerError, ConnectionLost, NotABroker, NotAuthorized
from seriatim.client.tls import TlsSettings
from tests.clients.served import run
from tests.support.processes import NatsServer, SeriatimServer, ServerProcess
from tests.support.scripted import INFO, Peer, Scripted
from tests.support.secured import Vouching, make_certificates, nats_server, tls

PATIENT = ", timeout: 60"  # nats-server gives a client two seconds for CONNECT


@pytest.fixture
def serve(tmp_path: Path) -> Callable[[str], ServerProcess]:
    """A nats-server with this configuration."""
    return partial(nats_server, tmp_path)


# Peers that misbehave


def scripted(talk: Callable[[Peer], object], check: Callable[[seriatim.Client], object]) -> None:
    """Connect to such a peer, and check what the client says when it is closed."""

    async def scenario(port: int) -> None:
        client = await seriatim.connect(f"127.0.0.1:{port}", ping_interval=0.02, reconnect=False)
        await client.closed.wait()
        check(client)
        await client.close()

    with Scripted(lambda peer: talk(peer) and None) as peer:
        run(scenario(peer.port))


def test_given_a_peer_that_answers_no_ping_then_the_connection_is_over() -> None:
    def talk(peer: Peer) -> None:
        peer.greet()
        peer.expect(b"never")

    def check(client: seriatim.Client) -> None:
        assert str(client.error) == "nothing was received from the broker in time"

    scripted(talk, check)


def test_given_nonsense_later_then_the_connection_is_over() -> None:
    def talk(peer: Peer) -> None:
        peer.greet()
        peer.say(b"MSG x\r\n")
        peer.expect(b"never")

    def check(client: seriatim.Client) -> None:
        assert isinstance(client.error, NotABroker)

    scripted(talk, check)


def test_given_an_error_that_ends_the_connection_then_its_words_are_the_reason() -> None:
    def talk(peer: Peer) -> None:
        peer.greet()
        peer.say(b"-ERR 'Maximum Control Line Exceeded'\r\n")

    def check(client: seriatim.Client) -> None:
        assert str(client.error) == "Maximum Control Line Exceeded"

    scripted(talk, check)


@pytest.mark.parametrize(
    ("said", "error", "why"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n", NotABroker, "this is not a NATS broker: it says"),
        (b"INFO [1]\r\n", NotABroker, "this is not a NATS broker: it says INFO"),
        (b"", NotABroker, "the broker closed the connection"),
        (INFO, ConnectionLost, "the broker closed the connection"),
        (
            INFO + b"-ERR 'Authorization Violation'\r\n",
            NotAuthorized,
            "the broker refuses the login: Auth",
        ),
        (
            INFO + b"-ERR 'maximum connections exceeded'\r\n",
            ConnectionLost,
            "maximum connections exceeded",
        ),
    ],
    ids=["http", "list", "mute", "gone", "unknown", "full"],
)
def test_given_a_peer_that_refuses_us_then_it_is_reported(
    said: bytes, error: type[BrokerError], why: str
) -> None:
    async def scenario(port: int) -> None:
        with pytest.raises(error, match=f"^127.0.0.1:{port}: {why}") as caught:
            await seriatim.connect(f"127.0.0.1:{port}")
        assert caught.value.address == f"127.0.0.1:{port}"

    def talk(peer: Peer) -> None:
        peer.say(said)
        if said.startswith(INFO):
            peer.expect(b"PING")

    with Scripted(talk) as peer:
        run(scenario(peer.port))


def test_given_a_peer_that_says_nothing_then_the_time_is_up() -> None:
    async def scenario(port: int) -> None:
        with pytest.raises(ConnectionLost, match="no answer in time"):
            await seriatim.connect(f"127.0.0.1:{port}", connect_timeout=0.05)

    with Scripted(lambda peer: peer.expect(b"never") and None) as peer:
        run(scenario(peer.port))


# Who we are, and TLS


async def enter(port: int, address: str = "localhost:{}", **options: object) -> None:
    async with seriatim.connect(address.format(port), **options) as client:  # type: ignore[arg-type]
        await client.flush()


def test_given_a_user_then_only_the_right_one_is_let_in(
    serve: Callable[[str], ServerProcess],
) -> None:
    async def scenario(port: int) -> None:
        await enter(port, "nats://me:s3cret@127.0.0.1:{}")
        await enter(port, credentials=Credentials(user="me", password="s3cret"))
        for wrong in ("nats://me:n0pe@127.0.0.1:{}", "127.0.0.1:{}"):
            with pytest.raises(NotAuthorized) as refused:
                await enter(port, wrong)
            assert "n0pe" not in str(refused.value)

    with serve('authorization { user: me, password: "s3cret", timeout: 60 }') as server:
        run(scenario(server.port))


def test_given_a_broker_with_tls_then_its_certificate_is_looked_at(
    serve: Callable[[str], ServerProcess], tmp_path_factory: pytest.TempPathFactory
) -> None:
    certificates = make_certificates(tmp_path_factory.mktemp("certificates"))
    trusted = TlsSettings(
        partial(ssl.create_default_context, cafile=str(certificates / "server.pem"))
    )

    async def scenario(port: int) -> None:
        await enter(port, tls=trusted)
        await enter(port, "tls://127.0.0.1:{}", tls=trusted)
        with pytest.raises(BrokerError, match="certificate is not trusted"):
            await enter(port)

    with serve(tls(certificates, PATIENT)) as server:
        run(scenario(server.port))


def test_given_a_broker_without_tls_when_it_is_asked_for_then_no_password_is_sent() -> None:
    async def scenario(port: int) -> None:
        with pytest.raises(
            BrokerError, match="TLS is required, but the broker does not support it"
        ):
            await enter(port, "tls://me:s3cret@127.0.0.1:{}")

    with NatsServer() as server:
        run(scenario(server.port))


def test_given_a_credentials_file_then_who_is_vouched_for_is_let_in(
    serve: Callable[[str], ServerProcess], tmp_path: Path
) -> None:
    nkeys = pytest.importorskip("nkeys", reason="a credentials file needs it")
    vouching, path = Vouching(nkeys), tmp_path / "user.creds"
    file = Credentials(file=str(vouching.credentials(path, vouching.account)))

    async def scenario(port: int) -> None:
        await enter(port, credentials=file)

    with serve(vouching.config) as server:
        run(scenario(server.port))


def test_given_credentials_in_any_way_then_the_client_and_its_readers_are_let_in(
    tmp_path: Path,
) -> None:
    nkeys = pytest.importorskip("nkeys", reason="an nkey needs it")
    pair = nkeys.from_seed(nkeys.encode_seed(os.urandom(32), nkeys.PREFIX_BYTE_USER))
    seed = tmp_path / "seed.nk"
    seed.write_bytes(pair.seed + b"\n")
    users = f"""
[[authorization.users]]
user = "me"
password = "s3cret"
[[authorization.users]]
nkey = "{pair.public_key.decode()}"
"""
    (tmp_path / "users.toml").write_text(users)
    (tmp_path / "token.toml").write_text('[authorization]\ntoken = "t0ken"\n')
    cases: dict[str, list[tuple[str, dict[str, object]]]] = {
        "users.toml": [
            ("127.0.0.1:{}", {"user": "me", "password": "s3cret"}),
            ("nats://me:s3cret@127.0.0.1:{}", {}),
            ("127.0.0.1:{}", {"nkey": seed}),
            ("127.0.0.1:{}", {"credentials": Credentials(user="me", password="s3cret")}),
        ],
        "token.toml": [
            ("127.0.0.1:{}", {"token": "t0ken"}),
            ("nats://t0ken@127.0.0.1:{}", {}),
        ],
    }

    async def scenario(port: int, name: str) -> None:
        for address, options in cases[name]:
            async with seriatim.connect(address.format(port), **options) as stream:  # type: ignore[arg-type]
                number = await stream.publish("a", b"x")
                assert (await anext(stream.read(start=number))).number == number
        for wrong in ({}, {"user": "me", "password": "n0pe"}, {"token": "n0pe"}):
            with pytest.raises(NotAuthorized) as refused:
                await seriatim.connect(f"127.0.0.1:{port}", **wrong)  # type: ignore[arg-type]
            assert "n0pe" not in str(refused.value)
        with pytest.raises(BrokerError, match="cannot be read"):
            await seriatim.connect(f"127.0.0.1:{port}", nkey=tmp_path / "none")

    for name in cases:
        with SeriatimServer(arguments=["-c", str(tmp_path / name)]) as server:
            run(scenario(server.port, name))


def test_given_a_broker_with_tls_then_publishing_and_reading_are_encrypted(tmp_path: Path) -> None:
    certificates = make_certificates(tmp_path)
    context = ssl.create_default_context(cafile=str(certificates / "server.pem"))
    arguments = ["--tls", "--tlscert", str(certificates / "server.pem")]
    arguments += ["--tlskey", str(certificates / "server.key")]

    async def scenario(port: int) -> None:
        async with seriatim.connect(f"tls://localhost:{port}", tls=context) as stream:
            sent = [await stream.send("a", b"%d" % at + bytes(3000)) for at in range(2000)]
            await asyncio.gather(*sent)
            reader = stream.read(until="now")
            numbers = [(await anext(reader)).number]
            numbers += [message.number async for message in reader]  # it was paused meanwhile
            assert numbers == list(range(1, 2001))
        with pytest.raises(BrokerError, match="certificate is not trusted"):
            await seriatim.connect(f"localhost:{port}")

    with SeriatimServer(arguments=arguments) as server:
        run(scenario(server.port))


# Members of a cluster


@pytest.mark.parametrize("discover", [True, False])
def test_given_members_that_are_announced_then_a_client_goes_to_them_if_it_may(
    discover: bool,
) -> None:
    def talk(peer: Peer) -> None:
        peer.say(b'INFO {"connect_urls":["127.0.0.1:%d"]}\r\n' % other.port)
        peer.expect(b"PING")
        peer.say(b"PONG\r\n")

    async def scenario() -> None:
        with Scripted(talk) as peer:
            client = await seriatim.connect(
                f"127.0.0.1:{peer.port}", discover=discover, reconnect=0.3
            )
        if not discover:
            await client.closed.wait()
            assert isinstance(client.error, ConnectionLost)
            assert str(other.port) not in str(client.error)
            return
        assert await client.publish("a", timeout=30) > 0
        assert client.server["port"] == other.port
        await client.close()

    with SeriatimServer() as other:
        run(scenario())
