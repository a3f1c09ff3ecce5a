"""Publishers above their rate: read later, nothing lost or reordered, and others not slowed."""

import asyncio
import json
import ssl
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nats
import pytest

from broker.clients.metering import Metering
from tests.support.processes import STAND_IN, SeriatimServer
from tests.support.raw import HEADERS, QUIET, RawClient
from tests.support.secured import make_certificates
from tests.support.serving import serving
from tests.support.staging import Batch
from tests.support.web import get, http_port

pytestmark = pytest.mark.skipif(STAND_IN, reason="of our own process")

USERS = """
[[authorization.users]]
user = "slow"
password = "s"
publish_rate = 100

[[authorization.users]]
user = "free"
password = "f"
"""
FOR_LONG = 10_000  # messages: a hundred seconds
SLOW = b'CONNECT {"verbose":false,"pedantic":false,"user":"slow","pass":"s"}\r\n'
FREE = b'CONNECT {"verbose":false,"pedantic":false,"user":"free","pass":"f"}\r\n'


@pytest.fixture
def with_users(tmp_path: Path) -> Iterator[SeriatimServer]:
    (tmp_path / "users.toml").write_text(USERS)
    arguments = ["-c", str(tmp_path / "users.toml"), "-m", "-1"]
    with SeriatimServer("none", arguments=arguments) as broker:
        yield broker


def numbered(subject: bytes, count: int) -> bytes:
    texts = [b"%d" % at for at in range(count)]
    return b"".join(b"PUB %b %d\r\n%b\r\n" % (subject, len(text), text) for text in texts)


def test_given_a_rate_then_all_comes_in_order_and_not_before_its_time() -> None:
    limits: dict[str, Any] = {"publish_rate": 200, "publish_burst": "100ms"}
    with (
        SeriatimServer("none", limits=limits) as broker,
        RawClient(broker.port, QUIET) as publisher,
        RawClient(broker.port, QUIET) as subscriber,
    ):
        subscriber.ask(b"SUB a 1\r\n")
        begun = time.monotonic()
        publisher.send(numbered(b"a", 200) + b"PING\r\n")
        heard = [int(subscriber.operation().payload) for _ in range(200)]
        assert publisher.until_pong() == []
        assert heard == list(range(200))
        assert time.monotonic() - begun > 0.75, "a tenth of a second's worth and a read are free"


def test_given_bytes_a_second_then_they_are_counted_as_payload_and_a_long_message_is_taken() -> (
    None
):
    limits: dict[str, Any] = {"publish_bytes": 100_000, "publish_burst": "100ms"}
    with (
        SeriatimServer("none", limits=limits) as broker,
        RawClient(broker.port, QUIET) as publisher,
    ):
        begun = time.monotonic()
        assert publisher.ask(b"PUB a 60000\r\n%b\r\n" % bytes(60_000)) == []
        assert publisher.ask(b"") == []
        assert time.monotonic() - begun > 0.45


def test_given_a_user_above_its_rate_then_its_connections_share_it_and_others_are_not_slowed(
    with_users: SeriatimServer,
) -> None:
    broker = with_users
    with (
        RawClient(broker.port, SLOW) as one,
        RawClient(broker.port, SLOW) as two,
        RawClient(broker.port, FREE) as other,
    ):
        begun = time.monotonic()
        one.send(numbered(b"a", 150) + b"PING\r\n")
        two.send(numbered(b"b", 150) + b"PING\r\n")
        assert (one.until_pong(), two.until_pong()) == ([], [])
        assert time.monotonic() - begun > 0.9
        one.send(numbered(b"a", FOR_LONG) + b"PING\r\n")
        for _ in range(50):
            assert other.ask(numbered(b"c", 200)) == []
        page = get(http_port(broker), "/varz").json["limits"]
        assert page["publishers_paused"] + page["publisher_pauses"] > 0
        assert one.so_far() == b"", "it is still slowed, so the other one did not wait for it"


def test_given_a_user_that_owes_then_coming_back_brings_nothing(
    with_users: SeriatimServer,
) -> None:
    with RawClient(with_users.port, SLOW) as one:
        begun = time.monotonic()
        assert one.ask(numbered(b"a", 100)) == []
        assert one.ask(numbered(b"a", 90)) == []
        for _ in range(3):
            with RawClient(with_users.port, SLOW) as back:
                assert back.ask(numbered(b"a", 50)) == []
        assert time.monotonic() - begun > 1.8, "a second's worth and the last read are free"


def test_given_a_paused_client_then_it_is_not_stale_and_its_subscriptions_are_served() -> None:
    limits: dict[str, Any] = {"publish_bytes": 16_000, "ping_interval": "100ms", "ping_max": 2}
    with (
        SeriatimServer("none", limits=limits) as broker,
        RawClient(broker.port, QUIET, pings=True) as client,
    ):
        client.ask(b"SUB b 1\r\nPUB a 50000\r\n%b\r\n" % bytes(50_000))
        client.send(b"PUB a 1\r\nx\r\n")  # which is not read for two seconds
        pings, heard = 0, b""
        while pings < 8:  # far more than would make it stale
            operation = client.operation()
            pings += operation.verb == "PING"
            if pings == 4 and not heard:
                with RawClient(broker.port, QUIET) as other:
                    other.ask(b"PUB b 5\r\nhello\r\n")
                heard = b"asked for"
            if operation.verb == "MSG":
                heard = operation.payload
        assert heard == b"hello"


def test_given_a_client_that_goes_while_it_is_paused_then_nothing_is_left_of_it(
    tmp_path: Path,
) -> None:
    flags = {"limits.publish_rate": "1"}
    with serving(tmp_path, flags=flags) as broker:
        metering: Metering = broker.server.roster.metering
        client = broker.client()
        client.send(numbered(b"a", 50))
        broker.until(lambda: metering.pauses.now == 1)
        client.close()
        for session in list(broker.server.sessions.values()):
            session.close()
        broker.until(lambda: not broker.server.sessions)
        assert metering.pauses.now == 0


def test_given_staged_rows_then_they_count_as_messages() -> None:
    batch = Batch("app", 1, 300, width=20)
    with (
        SeriatimServer(limits={"publish_rate": 200}) as broker,
        RawClient(broker.port, HEADERS) as client,
    ):
        client.ask(b"SUB in 1\r\n")
        head = (
            b"NATS/1.0\r\nSeriatim-Application: app\r\nSeriatim-Batch: 1\r\n"
            b"Seriatim-Stage: s\r\nSeriatim-Offset: 0\r\n\r\n"
        )
        rows = b"".join(b"PUB a %d\r\n%b\r\n" % (len(p), p) for p in map(batch.payload, range(300)))
        sizes = (len(head), len(head) + len(rows))
        begun = time.monotonic()
        client.send(b"HPUB $SEQ.STAGE in %d %d\r\n%b%b\r\n" % (*sizes, head, rows))
        answer = client.operation()
        assert json.loads(answer.payload)["rows"] == 300
        assert client.ask(b"") == []
        assert time.monotonic() - begun > 0.4


def test_given_nats_py_then_a_client_above_its_rate_stays_connected(
    with_users: SeriatimServer,
) -> None:
    async def publish() -> list[bytes]:
        errors: list[Exception] = []

        async def note(error: Exception) -> None:
            errors.append(error)

        where = f"nats://slow:s@127.0.0.1:{with_users.port}"
        client = await nats.connect(where, error_cb=note, allow_reconnect=False)
        found = await client.subscribe("a")
        for at in range(180):
            await client.publish("a", b"%d" % at)
        await client.flush(timeout=20)
        heard = [(await found.next_msg(timeout=20)).data for _ in range(180)]
        await client.close()
        assert errors == []
        return heard

    assert asyncio.run(publish()) == [b"%d" % at for at in range(180)]


def test_given_tls_then_a_client_above_its_rate_is_paused_too(tmp_path: Path) -> None:
    folder = make_certificates(tmp_path)
    arguments = ["--tls", "--tlscert", str(folder / "server.pem")]
    arguments += ["--tlskey", str(folder / "server.key"), "-m", "-1"]
    limits: dict[str, Any] = {"publish_rate": 200, "publish_burst": "100ms"}
    with SeriatimServer("none", arguments=arguments, limits=limits) as broker:
        context = ssl.create_default_context(cafile=str(folder / "server.pem"))

        async def publish() -> float:
            client = await nats.connect(f"tls://127.0.0.1:{broker.port}", tls=context)
            begun = time.monotonic()
            for at in range(150):
                await client.publish("a", b"%d" % at)
            await client.flush(timeout=20)
            await client.close()
            return time.monotonic() - begun

        assert asyncio.run(publish()) > 0.4
        assert get(http_port(broker), "/varz").json["limits"]["publisher_pauses"] > 0
