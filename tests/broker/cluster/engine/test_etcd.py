"""etcd's gateway: which endpoint is asked, which is refused, and with which password."""

import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.cluster.engine.etcd import EtcdAccess, EtcdGateway
from broker.cluster.engine.etcd_keeper import EtcdKeeper
from broker.cluster.engine.view_keeper import EngineDown, EngineRefused, WrongEngine
from tests.support.etcd_server import EtcdServer, kept_port
from tests.support.keepers import (
    WAIT_S,
    cluster_name,
    keeper_of,
    swap_until_answered,
    view,
    watching,
)
from tests.support.secured import make_certificates


def test_given_two_endpoints_when_one_is_dead_then_all_calls_are_answered(etcd: EtcdServer) -> None:
    async def work() -> None:
        name = cluster_name()
        revision = 0
        with kept_port() as dead:  # bound, and nobody listens
            place = f"http://127.0.0.1:{dead.getsockname()[1]}"
            for epoch in range(1, 4):
                async with keeper_of(place, etcd, cluster=name) as keeper:
                    keeper._gateway._at = 0  # otherwise it begins at a random one
                    swapped = await keeper.swap(revision, view(epoch))
                    assert swapped.done, "it could not be sent, so its fate is known"
                    revision = swapped.now.revision
                async with keeper_of(place, etcd, cluster=name) as keeper:
                    keeper._gateway._at = 0
                    async with watching(keeper) as reported:
                        await reported.until(lambda: reported.views)
                        assert reported.epochs == [epoch]

    asyncio.run(work())


def test_given_no_endpoint_that_answers_then_the_error_names_each(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def work() -> None:
        with kept_port() as one, kept_port() as two:
            places = [f"127.0.0.1:{port.getsockname()[1]}" for port in (one, two)]
            async with keeper_of(*(f"http://{place}" for place in places)) as keeper:
                for _ in range(3):
                    with pytest.raises(EngineDown, match="etcd does not answer: http") as caught:
                        await keeper.read()
                assert all(place in str(caught.value) for place in places)
                assert keeper.problem == str(caught.value)

    with caplog.at_level(logging.WARNING, "seriatim"):
        asyncio.run(work())
    assert len(caplog.records) == 1, "the log says it once, until etcd answers again"


def test_given_an_endpoint_of_another_etcd_when_asked_then_refused(etcd: EtcdServer) -> None:
    async def work() -> None:
        async with keeper_of(etcd) as keeper:
            await keeper.read()
            ours = keeper.engine_id
        assert len(ours) == 16
        with EtcdServer() as other:
            async with keeper_of(other, engine_id=ours) as keeper:
                with pytest.raises(WrongEngine, match=f"the view is kept in {ours}; correct"):
                    await keeper.swap(0, view())
            async with keeper_of(other, etcd, engine_id=ours) as keeper:
                keeper._gateway._at = 0
                assert (await keeper.read()).revision == 0
                assert keeper.engine_id == ours
            key = {"key": "AA==", "range_end": "AA=="}
            assert "kvs" not in other.call("/v3/kv/range", key), "nothing was written there"

    asyncio.run(work())


def test_given_a_port_that_is_not_etcds_when_asked_then_the_error_says_so() -> None:
    async def work() -> None:
        async def page(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")
            writer.close()

        server = await asyncio.start_server(page, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        async with server, keeper_of(f"http://127.0.0.1:{port}") as keeper:
            with pytest.raises(EngineDown, match="its answer is not etcd's"):
                await keeper.read()

    asyncio.run(work())


def test_given_an_endpoint_that_stops_when_asked_then_the_next_one_answers_in_time(
    etcd: EtcdServer,
) -> None:
    """A stopped etcd accepts connections and answers nothing, as this listener does."""

    async def work() -> None:
        async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read()
            writer.close()

        server = await asyncio.start_server(silent, "127.0.0.1", 0)
        place = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with server, keeper_of(place, etcd, timeout=3.0) as keeper:
            keeper._gateway._at = 0  # otherwise it begins at a random one
            assert (await keeper.read()).revision == 0
            swapped = await keeper.swap(0, view())
            assert swapped.done, "it stays with the one that answers"

    asyncio.run(work())


@pytest.fixture(scope="module")
def locked() -> Iterator[EtcdServer]:
    """An etcd that asks for a user, whose tokens are valid for two seconds."""
    with EtcdServer("--auth-token-ttl", "2") as server:
        server.call("/v3/auth/user/add", {"name": "root", "password": "first"})
        server.call("/v3/auth/role/add", {"name": "root"})
        server.call("/v3/auth/user/grant", {"user": "root", "role": "root"})
        server.call("/v3/auth/enable", {})
        yield server


def keeper_with(etcd: EtcdServer, user: str, file: Path) -> EtcdKeeper:
    access = EtcdAccess((etcd.endpoint,), user=user, password_file=str(file), timeout=WAIT_S)
    return EtcdKeeper(EtcdGateway(access), cluster_name())


def test_given_a_password_when_the_token_is_no_longer_valid_then_it_logs_in_again(
    locked: EtcdServer, tmp_path: Path
) -> None:
    file = tmp_path / "password"
    file.write_text("first\n")

    async def work() -> None:
        keeper = keeper_with(locked, "root", file)
        try:
            swapped = await keeper.swap(0, view(1))
            assert swapped.done
            keeper._gateway._token = "expired.1"
            swapped = await keeper.swap(swapped.now.revision, view(2))
            assert swapped.done
            async with watching(keeper) as reported:
                await reported.until(lambda: reported.epochs == [2])
        finally:
            await keeper.close()

    asyncio.run(work())


@pytest.mark.parametrize(
    ("user", "password", "said"),
    [
        ("root", "wrong", "authentication failed"),
        ("", "", "user name is empty"),
        ("root", None, "No such file"),
    ],
)
def test_given_a_wrong_password_or_none_then_the_error_says_what_etcd_says(
    locked: EtcdServer, tmp_path: Path, user: str, password: str | None, said: str
) -> None:
    file = tmp_path / "password"
    if password is not None:
        file.write_text(password)

    async def work() -> None:
        keeper = keeper_with(locked, user, file)
        try:
            with pytest.raises(EngineRefused, match=said):
                await keeper.swap(0, view(1))
        finally:
            await keeper.close()

    asyncio.run(work())


def test_given_https_when_asked_then_certificates_count_on_both_sides(tmp_path: Path) -> None:
    pem = make_certificates(tmp_path)
    server = [f"--cert-file={pem}/server.pem", f"--key-file={pem}/server.key"]
    both = tmp_path / "both.pem"  # its gateway is a client of its own, with the server's
    both.write_text((pem / "client.pem").read_text() + (pem / "server.pem").read_text())
    client = ["--client-cert-auth", f"--trusted-ca-file={both}"]

    async def read(access: EtcdAccess) -> None:
        keeper = EtcdKeeper(EtcdGateway(access), cluster_name())
        try:
            async with watching(keeper) as reported:
                await swap_until_answered(keeper, 0, view(1))  # it may still be starting
                await reported.until(lambda: reported.epochs == [1])
        finally:
            await keeper.close()

    with EtcdServer(*server, *client, scheme="https") as etcd:
        ours = EtcdAccess(
            (etcd.endpoint,),
            ca=f"{pem}/server.pem",
            certificate=f"{pem}/client.pem",
            key=f"{pem}/client.key",
            timeout=WAIT_S,
        )
        asyncio.run(read(ours))
        with pytest.raises(EngineDown, match="certificate"):
            asyncio.run(one_read(ours._replace(ca=f"{pem}/client.pem")))
        with pytest.raises(EngineDown):
            asyncio.run(one_read(ours._replace(certificate="", key="")))
        trusted = tmp_path / "trusted.pem"
        asyncio.run(read_after_renewal(ours._replace(ca=str(trusted)), trusted, pem))


async def read_after_renewal(access: EtcdAccess, trusted: Path, pem: Path) -> None:
    """The authority's file is not there, is the wrong one, and then is right."""
    keeper = EtcdKeeper(EtcdGateway(access), cluster_name())
    try:
        with pytest.raises(EngineRefused, match="must be files of PEM"):
            await keeper.read()
        trusted.write_bytes((pem / "client.pem").read_bytes())
        with pytest.raises(EngineDown, match="certificate"):
            await keeper.read()
        trusted.write_bytes((pem / "server.pem").read_bytes())
        await keeper.read()
    finally:
        await keeper.close()


async def one_read(access: EtcdAccess) -> None:
    keeper = EtcdKeeper(EtcdGateway(access), cluster_name())
    try:
        await keeper.read()
    finally:
        await keeper.close()


def test_given_an_endpoint_that_cannot_be_used_then_the_error_is_in_our_own_words() -> None:
    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.close()

    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"SSH-2.0-OpenSSH\r\n\r\n")
        await reader.read(1)
        writer.close()

    async def work() -> None:
        silent = await asyncio.start_server(hang_up, "127.0.0.1", 0)
        other = await asyncio.start_server(greet, "127.0.0.1", 0)
        with kept_port() as dead:
            ports = [one.getsockname()[1] for one in (dead, silent.sockets[0], other.sockets[0])]
            found = {
                f"http://127.0.0.1:{ports[0]}": "connection refused",
                f"http://127.0.0.1:{ports[1]}": "it closed the connection without an answer",
                f"http://127.0.0.1:{ports[2]}": "its answer is not HTTP; correct the port",
                f"https://127.0.0.1:{ports[2]}": "it does not speak TLS; write http://, or correct"
                " the port",
                "http://127.0.0.1.invalid:2379": "its name cannot be resolved (",
            }
            for endpoint, why in found.items():
                async with keeper_of(endpoint) as keeper:
                    with pytest.raises(EngineDown) as caught:
                        await keeper.read()
                assert f"etcd does not answer: {endpoint}: {why}" in str(caught.value)
        silent.close()
        other.close()

    asyncio.run(work())
