"""TLS between members: whose certificate is taken, and what the log says of the others."""

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from broker.cluster.links import member_connection
from broker.cluster.links.member_connection import MemberConnection
from broker.cluster.links.member_links import STRANGERS_MAX, MemberLinks
from broker.cluster.links.member_tls import MemberTls, is_for, shown
from broker.settings.tls_settings import BrokerTlsSettings
from broker.wires.tls_contexts import TlsFault
from sequencer.replica import member_messages as m
from tests.support.keepers import view
from tests.support.member_certificates import Issued, MemberAuthority

SECRET = b"a secret of sixteen bytes"
ONE, TWO = "1" * 16, "2" * 16  # members; the first one listens
LOCAL = ("DNS:localhost", "IP:127.0.0.1")
HELLO = m.Hello((1, 1), "orders", "0" * 16, TWO, 7, "interval", 1, (), 0, (), 0)
LONG = 3 << 20  # more than a socket takes at once


class Peer:
    """One member's links, and what they report."""

    def __init__(self, hosts: dict[str, tuple[str, int]], tls: MemberTls | None) -> None:
        self.there: asyncio.Queue[MemberConnection] = asyncio.Queue()
        self.lost: asyncio.Queue[MemberConnection] = asyncio.Queue()
        self.messages: asyncio.Queue[Any] = asyncio.Queue()
        self.links = MemberLinks(SECRET, "orders", hosts.get, asyncio.get_running_loop(), tls)
        self.links.report_to(self, self)

    def joined(self, connection: MemberConnection) -> None:
        self.there.put_nowait(connection)

    def received(self, connection: MemberConnection, messages: Any) -> None:
        for message in messages:
            if isinstance(message, m.Forward):
                message = message._replace(data=bytes(message.data))
            self.messages.put_nowait(message)

    def gone(self, connection: MemberConnection) -> None:
        self.lost.put_nowait(connection)

    def dial_failed(self, member: str, refused: bool) -> None: ...

    async def stop(self) -> None:
        there = len(self.links._connections)
        self.links.stop()
        for _ in range(there):
            await self.lost.get()


Pair = Callable[[Peer, Peer, dict[str, tuple[str, int]]], Awaitable[None]]


def play(
    work: Pair,
    listener: MemberTls | None,
    dialler: MemberTls | None,
    where: str = "127.0.0.1",
) -> None:
    """Two members; `dialler` is told that the first one is at `where`, and itself on 127.0.0.1."""

    async def both() -> None:
        hosts: dict[str, tuple[str, int]] = {TWO: ("127.0.0.1", 1)}
        one, two = Peer(hosts, listener), Peer(hosts, dialler)
        hosts[ONE] = where, await one.links.listen("127.0.0.1", 0)
        try:
            await work(one, two, hosts)
        finally:
            await two.stop()
            await one.stop()

    asyncio.run(asyncio.wait_for(both(), 30))


@pytest.fixture(scope="module")
def ca(tmp_path_factory: pytest.TempPathFactory) -> MemberAuthority:
    return MemberAuthority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def good(ca: MemberAuthority) -> Issued:
    return ca.issue("good", *LOCAL)


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> Callable[[], str]:
    caplog.set_level(logging.INFO, "seriatim")
    return lambda: "\n".join(record.getMessage() for record in caplog.records)


def settings(ca: MemberAuthority, issued: Issued, **more: Any) -> BrokerTlsSettings:
    return BrokerTlsSettings(cert_file=issued.cert, key_file=issued.key, ca_file=ca.pem, **more)


def tls(ca: MemberAuthority, issued: Issued, optional: bool = False, **more: Any) -> MemberTls:
    return MemberTls(settings(ca, issued, **more), optional)


async def exchange(one: Peer, two: Peer) -> None:
    """The second member says hello, and long messages go both ways."""
    two.links.dial(ONE)
    dialled, accepted = await two.there.get(), await one.there.get()
    forwards = [m.Forward(1, bytes((at,)) * LONG) for at in range(4)]
    dialled.send(HELLO)
    for forward in forwards:
        dialled.send(forward)
    assert await one.messages.get() == HELLO
    assert [await one.messages.get() for _ in forwards] == forwards
    for forward in forwards:
        accepted.send(forward)
    assert [await two.messages.get() for _ in forwards] == forwards


@pytest.mark.parametrize("version", ["1.2", "1.3"])
def test_given_two_members_with_certificates_then_long_messages_go_both_ways(
    ca: MemberAuthority, good: Issued, version: str
) -> None:
    async def work(one: Peer, two: Peer, hosts: Any) -> None:
        await exchange(one, two)
        for peer, member in ((one, TWO), (two, ONE)):
            connection = peer.links.with_member(member)
            assert connection is not None
            assert connection.tls is not None
            assert connection.tls.version == "TLSv1.3"
            assert connection.tls.names == ["localhost", "127.0.0.1"]

    play(work, tls(ca, good, min_version=version), tls(ca, good, min_version=version))


def test_given_tls_then_nothing_of_a_message_is_readable_between_them(
    ca: MemberAuthority, good: Issued
) -> None:
    async def work(one: Peer, two: Peer, hosts: dict[str, tuple[str, int]]) -> None:
        seen = bytearray()

        async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            there = await asyncio.open_connection("127.0.0.1", port)

            async def copy(source: asyncio.StreamReader, to: asyncio.StreamWriter) -> None:
                while data := await source.read(1 << 16):
                    seen.extend(data)
                    to.write(data)
                to.close()

            await asyncio.gather(copy(reader, there[1]), copy(there[0], writer))

        port = hosts[ONE][1]
        between = await asyncio.start_server(relay, "127.0.0.1", 0)
        hosts[ONE] = "127.0.0.1", between.sockets[0].getsockname()[1]
        two.links.dial(ONE)
        (await two.there.get()).send(HELLO)
        assert await one.messages.get() == HELLO
        assert b"orders" not in seen
        assert b"SERISECR" not in seen
        assert seen
        between.close()

    play(work, tls(ca, good), tls(ca, good))


CASES = {
    # what the dialler has, where it dials; what its own log says, and what the listener's does
    "another authority": "no authority in tls.ca_file signed its certificate",
    "expired": "its certificate has expired: give that member a new one",
    "a client's": "needs both serverAuth and clientAuth",
    "a server's": "needs both serverAuth and clientAuth",
    "no name": "which is at 127.0.0.1; its certificate is for no name (subjectAltName)",
    "another name": "which is at 127.0.0.1; its certificate is for alice, bob: the certificate",
}


def bad(ca: MemberAuthority, tmp_path: Path) -> dict[str, Issued]:
    return {
        "another authority": MemberAuthority(tmp_path, "other").issue("bad", *LOCAL),
        "expired": ca.issue("expired", *LOCAL, days=-1),
        "a client's": ca.issue("client", *LOCAL, usage="clientAuth"),
        "a server's": ca.issue("server", *LOCAL, usage="serverAuth"),
        "no name": ca.issue("nameless"),
        "another name": ca.issue("named", "DNS:alice", "DNS:bob"),
    }


@pytest.mark.parametrize("case", [one for one in CASES if one != "a client's"])
def test_given_a_dialler_with_a_wrong_certificate_then_the_listener_refuses_it_and_says_why(
    ca: MemberAuthority, good: Issued, tmp_path: Path, case: str, said: Callable[[], str]
) -> None:
    issued = bad(ca, tmp_path)[case]

    async def work(one: Peer, two: Peer, hosts: Any) -> None:
        two.links.dial(ONE)
        if "name" in case:  # that comes out when it says who it is
            (await two.there.get()).send(HELLO)
        await one.lost.get()
        await two.lost.get()
        assert one.messages.empty()

    play(work, tls(ca, good), tls(ca, issued))
    assert said().count(CASES[case]) == 1


@pytest.mark.parametrize("case", [one for one in CASES if one != "a server's"])
def test_given_a_listener_with_a_wrong_certificate_then_the_dialler_refuses_it_and_says_why(
    ca: MemberAuthority, good: Issued, tmp_path: Path, case: str, said: Callable[[], str]
) -> None:
    issued = bad(ca, tmp_path)[case]

    async def work(one: Peer, two: Peer, hosts: Any) -> None:
        two.links.dial(ONE)
        await two.lost.get()
        await one.lost.get()
        assert two.there.empty()

    play(work, tls(ca, issued), tls(ca, good))
    if "name" in case:
        assert "its certificate is not for 127.0.0.1, where it was reached" in said()
    else:
        assert CASES[case] in said()
    assert "refuses this member's certificate" in said() or "name" in case, "the other one's log"


def test_given_another_members_certificate_then_it_cannot_say_that_it_is_this_one(
    ca: MemberAuthority, good: Issued, said: Callable[[], str]
) -> None:
    async def work(one: Peer, two: Peer, hosts: dict[str, tuple[str, int]]) -> None:
        hosts[TWO] = "elsewhere.example", 6222
        two.links.dial(ONE)
        (await two.there.get()).send(HELLO)
        await one.lost.get()
        assert one.messages.empty()

    play(work, tls(ca, good), tls(ca, good))
    assert (
        f"member {TWO}, which is at elsewhere.example; its certificate is for localhost" in said()
    )


def test_given_a_member_that_etcd_does_not_list_yet_then_it_is_let_go_and_comes_again(
    ca: MemberAuthority, good: Issued, said: Callable[[], str]
) -> None:
    async def work(one: Peer, two: Peer, hosts: dict[str, tuple[str, int]]) -> None:
        address = hosts.pop(TWO)
        two.links.dial(ONE)
        (await two.there.get()).send(HELLO)
        await one.lost.get()
        await two.lost.get()
        await one.there.get()
        assert one.messages.empty()
        hosts[TWO] = address
        await exchange(one, two)

    play(work, tls(ca, good), tls(ca, good))
    assert "no connection" not in said(), "that happens at each start of a new member"


@pytest.mark.parametrize(
    ("with_hello", "message"),
    [
        (False, m.Leave(1)),
        (False, m.HandOver(1, view())),
        (True, m.HandOver(1, view())),
        (False, m.NotCoordinator("", 1, None)),
        (True, m.NotCoordinator("", 1, None)),
    ],
)
def test_given_who_connects_when_it_says_what_only_others_may_then_it_is_closed(
    ca: MemberAuthority, good: Issued, message: Any, with_hello: bool
) -> None:
    async def work(one: Peer, two: Peer, hosts: Any) -> None:
        two.links.dial(ONE)
        connection = await two.there.get()
        if with_hello:
            connection.send(HELLO)
            assert await one.messages.get() == HELLO
        connection.send(message)
        await one.lost.get()
        assert one.messages.empty()

    play(work, tls(ca, good), tls(ca, good))


@pytest.mark.parametrize("listens", [True, False])
def test_given_tls_at_one_member_alone_then_both_logs_say_so(
    ca: MemberAuthority,
    good: Issued,
    listens: bool,
    said: Callable[[], str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def work(one: Peer, two: Peer, hosts: Any) -> None:
        two.links.dial(ONE)
        await one.lost.get()
        await two.lost.get()
        assert one.there.empty()
        assert two.there.empty()

    monkeypatch.setattr(member_connection, "HANDSHAKE_SECONDS", 0.3)
    made = tls(ca, good)
    play(work, *((made, None) if listens else (None, made)))
    words = "may be on at one side alone" if listens else "it does not speak TLS, and this member"
    assert words in said()


@pytest.mark.parametrize(("listens", "dials"), [(0, 1), (1, 0), (1, 1), (1, 2), (2, 1)])
def test_given_a_change_to_tls_when_it_is_optional_then_old_and_new_members_are_connected(
    ca: MemberAuthority, good: Issued, listens: int, dials: int, said: Callable[[], str]
) -> None:
    """0: none; 1: optional; 2: required."""
    ways = (None, tls(ca, good, optional=True), tls(ca, good))

    async def work(one: Peer, two: Peer, hosts: Any) -> None:
        await exchange(one, two)
        both = one.links.with_member(TWO), two.links.with_member(ONE)
        speaks = [one is not None and one.tls is not None for one in both]
        assert speaks == [bool(listens and dials)] * 2, "TLS where both can"

    play(work, ways[listens], ways[dials])
    lines = said()
    assert ("does not speak TLS" in lines) == (not listens), "the dialler has tried it"


def test_given_strangers_that_never_finish_tls_then_they_are_few_and_keep_no_member_out(
    ca: MemberAuthority, good: Issued
) -> None:
    hello = bytes.fromhex("160301020001")  # the beginning of a long ClientHello

    async def work(one: Peer, two: Peer, hosts: dict[str, tuple[str, int]]) -> None:
        loop = asyncio.get_running_loop()
        with ExitStack() as stack:
            strangers = []
            for _ in range(STRANGERS_MAX + 20):
                made = stack.enter_context(socket.socket())
                made.setblocking(False)
                await loop.sock_connect(made, ("127.0.0.1", hosts[ONE][1]))
                await loop.sock_sendall(made, hello)
                strangers.append(made)
            for stranger in strangers[:20]:  # the oldest
                with suppress(ConnectionResetError):
                    assert await loop.sock_recv(stranger, 100) == b"", "it is closed"
                await one.lost.get()
            await exchange(one, two)

    play(work, tls(ca, good), tls(ca, good))


def test_given_a_stranger_that_stops_within_tls_then_it_is_closed_in_time(
    ca: MemberAuthority, good: Issued, monkeypatch: pytest.MonkeyPatch, said: Callable[[], str]
) -> None:
    async def work(one: Peer, two: Peer, hosts: dict[str, tuple[str, int]]) -> None:
        _, writer = await asyncio.open_connection("127.0.0.1", hosts[ONE][1])
        writer.write(bytes.fromhex("160301020001"))
        await one.lost.get()
        writer.close()

    monkeypatch.setattr(member_connection, "HANDSHAKE_SECONDS", 0.1)
    play(work, tls(ca, good), tls(ca, good))
    assert "it did not finish its handshake in time" in said()


@pytest.mark.parametrize(
    "garbage", [b"GET / HTTP/1.1\r\n\r\n", bytes(100), b"\x16\x03\x01\x00\x05abcde"]
)
def test_given_garbage_in_place_of_tls_then_only_that_connection_ends(
    ca: MemberAuthority, good: Issued, garbage: bytes
) -> None:
    async def work(one: Peer, two: Peer, hosts: dict[str, tuple[str, int]]) -> None:
        _, writer = await asyncio.open_connection("127.0.0.1", hosts[ONE][1])
        writer.write(garbage)
        await one.lost.get()
        writer.close()
        await exchange(one, two)

    play(work, tls(ca, good), tls(ca, good))


def test_given_a_member_that_reads_nothing_then_what_waits_is_bounded(
    ca: MemberAuthority, good: Issued, monkeypatch: pytest.MonkeyPatch, said: Callable[[], str]
) -> None:
    async def work(one: Peer, two: Peer, hosts: Any) -> None:
        two.links.dial(ONE)
        dialled, accepted = await two.there.get(), await one.there.get()
        accepted._transport.pause_reading()  # as if that process were stopped
        for _ in range(12):
            dialled.send(m.Forward(1, bytes(1 << 20)))
        assert await two.lost.get() is dialled
        accepted.abort()

    monkeypatch.setattr(member_connection, "UNSENT_MAX", 4 << 20)
    play(work, tls(ca, good), tls(ca, good))
    assert "its send buffer is full and it is not reading" in said()


def test_given_new_certificates_when_read_again_then_they_are_for_new_connections(
    ca: MemberAuthority, good: Issued, tmp_path: Path
) -> None:
    newer = ca.issue("newer", "IP:127.0.0.1")
    other = ca.issue("other", "DNS:other.example")
    made = tls(ca, good)

    async def work(one: Peer, two: Peer, hosts: Any) -> None:
        await exchange(one, two)
        with pytest.raises(TlsFault, match=r"the certificate is not for 127\.0\.0\.1"):
            made.reload(settings(ca, other), "127.0.0.1")
        made.reload(settings(ca, newer), "127.0.0.1")
        before = two.links.with_member(ONE)
        assert before is not None
        assert before.tls is not None
        assert "localhost" in before.tls.names, "the old one goes on"
        before.close()
        await two.lost.get()
        await exchange(one, two)
        after = two.links.with_member(ONE)
        assert after is not None
        assert after.tls is not None
        assert after.tls.names == ["127.0.0.1"]

    play(work, made, tls(ca, good))


@pytest.mark.parametrize("case", CASES)
def test_given_a_member_with_a_wrong_certificate_when_it_starts_then_it_says_so(
    ca: MemberAuthority, good: Issued, tmp_path: Path, case: str
) -> None:
    tls(ca, good).try_at("127.0.0.1")
    with pytest.raises(TlsFault, match=r"other members would refuse this one: .*certificate"):
        tls(ca, bad(ca, tmp_path)[case]).try_at("127.0.0.1")


@pytest.mark.parametrize(
    ("names", "host", "is_so"),
    [
        (["one.example"], "One.Example.", True),
        (["one.example"], "two.example", False),
        (["*.example.org"], "one.example.org", True),
        (["*.example.org"], "a.one.example.org", False),
        (["*.example.org"], "example.org", False),
        (["*.org"], "example.org", False),
        (["*"], "localhost", False),
        (["10.0.0.1"], "10.0.0.1", True),
        (["*.0.0.1"], "10.0.0.1", False),
        (["0:0:0:0:0:0:0:1"], "::1", True),
        (["10.0.0.1"], "10.0.0.2", False),
        ([], "one", False),
    ],
)
def test_given_a_certificates_names_then_they_are_for_a_host_or_not(
    names: list[str], host: str, is_so: bool
) -> None:
    assert is_for(names, host) == is_so


def test_given_names_with_any_characters_when_shown_then_they_stay_on_their_line() -> None:
    assert shown(["a\n\x1b[2J", "b"]) == r"a\n\x1b[2J, b"
    assert shown(list("abcdef")) == "a, b, c, d ..."
