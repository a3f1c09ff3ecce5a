"""cquencer's port in the broker: who may connect, for how long, and how it ends."""

import asyncio
import logging
import socket
from pathlib import Path
from typing import Any

import pytest

from broker.server import Server
from broker.settings.journal_settings import JournalSettings
from broker.settings.settings import SequencerSettings, Settings
from tests.support.cquencer_clients import Talker, calling, cquencer_of, netstring
from tests.support.descriptors import no_descriptors
from tests.support.processes import SeriatimServer

FULL_HOUSE = b"-ERR 'maximum connections exceeded'"
OTHER_HOST = "127.98.76.53"
OWN_HOST = "127.98.76.54"  # where nobody else listens: a port that is free here stays so


def test_given_no_port_then_there_is_none(tmp_path: Path) -> None:
    async def start() -> None:
        settings = Settings(port=-1, host="127.0.0.1", journal=JournalSettings(enabled=False))
        server = Server(settings)
        await server.start()
        assert server.cquencer is None
        await server.stop()

    asyncio.run(start())


@pytest.mark.parametrize("port", [0, -1], ids=["without", "with"])
def test_given_settings_of_the_port_without_it_then_the_log_says_that_they_do_nothing(
    port: int,
) -> None:
    arguments = ["--no-journal", "--sequencer_framing", "netstring", "--sequencer_subject", "a"]
    with SeriatimServer(arguments=[*arguments, "--sequencer_port", str(port)]) as process:
        said = [line for line in process.log if "does nothing" in line]
    if port:
        assert said == []
        return
    assert len(said) == 2
    for line, name in zip(said, ("framing", "subject"), strict=True):
        assert line.endswith(
            f"sequencer.{name} does nothing without sequencer.port (--sequencer_port)"
        )


def test_given_no_nats_clients_then_the_port_is_all_there_is() -> None:
    async def start() -> None:
        server = Server(
            Settings(
                port=0,
                host="127.0.0.1",
                journal=JournalSettings(enabled=False),
                sequencer=SequencerSettings(port=-1),
            )
        )
        await server.start()
        assert server.addresses == []
        assert server.cquencer is not None
        reader, writer = await asyncio.open_connection(*server.cquencer.addresses[0])
        writer.write(b"hello")
        assert await reader.readexactly(4) == b"1:1,"
        writer.close()
        await server.stop()

    asyncio.run(start())


def test_given_a_taken_port_then_it_is_reported_with_what_to_do(tmp_path: Path) -> None:
    async def start(port: int) -> None:
        sequencer = SequencerSettings(port=port, host="127.0.0.1")
        server = Server(
            Settings(port=0, journal=JournalSettings(enabled=False), sequencer=sequencer)
        )
        await server.start()

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match="cannot listen on") as caught:
            asyncio.run(start(port))
    assert str(caught.value) == (
        f"cannot listen on 127.0.0.1:{port} for cquencer's clients: Address already in use:"
        " another process has the port; choose another address with"
        " --sequencer_port and --sequencer_host (of seriatim cq: TCP_PORT and --host)"
    )


def test_given_a_name_of_two_addresses_then_both_have_the_port(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hosts, lookup = [OWN_HOST, OTHER_HOST], socket.getaddrinfo

    def found(host: str, port: int, **how: Any) -> list[Any]:
        return [one for address in hosts for one in lookup(address, port, **how)]

    with monkeypatch.context() as patch:
        patch.setattr(socket, "getaddrinfo", found)
        with calling(tmp_path, sequencer__host="localhost") as broker:
            addresses = cquencer_of(broker).addresses
    assert [host for host, _ in addresses] == hosts
    assert len({port for _, port in addresses}) == 1


def test_given_more_clients_than_are_allowed_then_the_last_is_informed_and_closed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with calling(tmp_path, limits__max_connections="2") as broker:
        nats = broker.client()
        with Talker(broker) as first:
            assert first.ask(b"hello") == b"1"
            with Talker(broker) as second:
                assert second.rest() == [FULL_HOUSE]
            assert cquencer_of(broker).accepted == 2
        broker.until(lambda: not cquencer_of(broker).clients)
        with Talker(broker) as third:
            assert third.ask(b"hello") == b"2"
        nats.close()
    assert "maximum connections exceeded" in caplog.text


def test_given_no_descriptors_then_clients_wait_and_are_served_when_there_are_some(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with calling(tmp_path) as broker:
        loop, door = broker.server.loop, broker.server.roster.acceptor
        with Talker(broker) as first, socket.socket() as waiting:
            with no_descriptors():
                waiting.setblocking(False)
                broker.run(loop.sock_connect(waiting, cquencer_of(broker).addresses[0]))
                broker.until(lambda: not door.accepting)
                assert first.ask(b"hello") == b"1", "who is there already goes on"
            waiting.send(b"me too")
            assert broker.run(loop.sock_recv(waiting, 10)) == b"1:2,"
        assert caplog.text.count("clients wait until others have left") == 1


def test_given_a_peer_that_takes_nothing_then_it_is_hung_up_on(tmp_path: Path) -> None:
    flags: dict[str, Any] = {"limits__write_deadline": "300ms"}
    with (
        calling(tmp_path, framing="netstring", **flags) as broker,
        Talker(broker, receive_buffer=4096) as dead,
        Talker(broker) as other,
    ):
        (caller, _) = cquencer_of(broker).clients.values()
        caller.connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 17)
        caller.connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 17)
        batch = netstring(b"x") * 2000
        while dead.push(batch):
            pass
        broker.until(lambda: len(cquencer_of(broker).clients) == 1)
        number = broker.server.last_number
        assert other.ask(b"0:,") == b"%d" % number


def test_given_a_client_that_was_told_what_is_wrong_and_stays_then_it_is_hung_up_on(
    tmp_path: Path,
) -> None:
    flags: dict[str, Any] = {"limits__write_deadline": "100ms"}
    with calling(tmp_path, framing="netstring", **flags) as broker, Talker(broker) as talker:
        talker.send(b"no netstring")
        assert talker.rest()[0].startswith(b"-ERR 'Not a Netstring")
        talker.push(b"1:x,")  # it is read, and counts no more
        broker.until(lambda: not cquencer_of(broker).clients)
        assert broker.server.last_number == 0


def test_given_a_stop_while_messages_come_then_all_that_were_taken_are_answered(
    tmp_path: Path,
) -> None:
    flags: dict[str, Any] = {"limits__drain_timeout": "20s"}
    with calling(tmp_path, framing="netstring", journal=True, **flags) as broker:
        talkers = [Talker(broker) for _ in range(4)]
        server = broker.server
        stopping = None
        for at in range(40):
            for talker in talkers:
                talker.push(netstring(b"hello") * 50)
            if at == 20:
                stopping = server.loop.create_task(server.stop())
        assert stopping is not None
        numbers = [int(number) for talker in talkers for number in talker.rest()]
        broker.run(stopping)
        assert sorted(numbers) == list(range(1, server.last_number + 1))
        assert 0 < server.last_number < 4 * 40 * 50
        broker.stopped = True
        for talker in talkers:
            talker.close()


def test_given_a_stop_then_nobody_is_let_in_any_more(tmp_path: Path) -> None:
    with calling(tmp_path, sequencer__host=OWN_HOST) as broker:
        address = cquencer_of(broker).addresses[0]
        with Talker(broker) as talker:
            talker.ask(b"hello")
            broker.stop()
            assert talker.rest() == []
        with socket.socket() as late, pytest.raises(ConnectionRefusedError):
            late.connect(address)


def test_given_debug_lines_then_they_say_who_comes_and_goes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "seriatim")
    with calling(tmp_path) as broker:
        with Talker(broker) as talker:
            talker.ask(b"hello")
            address, port = talker.socket.getsockname()
        broker.until(lambda: not cquencer_of(broker).clients)
    assert f"{address}:{port} - cid:1 - cquencer's client connected" in caplog.text
    assert f"{address}:{port} - cid:1 - cquencer's client closed" in caplog.text
    assert "Listening for cquencer's clients on 127.0.0.1:" in caplog.text


def test_given_clients_of_both_kinds_then_their_cids_and_origins_differ(tmp_path: Path) -> None:
    with calling(tmp_path, journal=True) as broker:
        nats = broker.client()
        with Talker(broker) as talker, Talker(broker) as other:
            talker.ask(b"hello")
            other.ask(b"hello")
            clients = cquencer_of(broker).clients
            assert list(clients) == [2, 3]
            (session,) = broker.server.sessions.values()
            origins = {session.connection.origin, *(caller.origin for caller in clients.values())}
            assert len(origins) == 3
            assert {origin & 0xFFFFFFFF for origin in origins} == {1, 2, 3}
        nats.close()


def test_given_messages_then_they_are_counted_as_those_of_other_clients(tmp_path: Path) -> None:
    with calling(tmp_path) as broker, Talker(broker) as talker:
        nats = broker.client()
        nats.publish(b"a", b"1234")
        talker.ask(b"hello")
        talker.ask(b"hi\0")
        talker.ask(b"\n")
        traffic = broker.server.traffic()
        assert (traffic.in_msgs, traffic.in_bytes) == (3, 4 + 5 + 2)
        (caller,) = cquencer_of(broker).clients.values()
        assert (caller.messages, caller.bytes, caller.queries, caller.errors) == (2, 7, 1, 0)
        assert caller.heard > 10**18
