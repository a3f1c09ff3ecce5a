"""The re-request port: real datagrams, cold disks, broken disks, and a stop in between."""

import asyncio
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from broker.addresses import network_of
from broker.feeds import rerequests
from broker.feeds.rerequests import RerequestServer
from sequencer.feed.moldudp64 import MoldUDP64Codec, request, session_name
from sequencer.feed.rerequest import Rerequests
from sequencer.journal.segment import Segment
from sequencer.journal.store import Store
from sequencer.sequencer import Sequencer
from tests.support.stores import in_memory, open_store, put

SESSION = session_name("00c0ffee00c0ffee", 1)
WAIT_S = 30.0  # for what must come


@pytest.fixture
def store() -> Iterator[Store]:
    with in_memory() as path:
        opened = open_store(Path(path) / "store")
        put(opened, 100)
        yield opened
        opened.close()


class Peer:
    """A receiver's socket that asks one port."""

    def __init__(self, address: tuple[str, int]) -> None:
        family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self.socket = socket.socket(family, socket.SOCK_DGRAM)
        self.socket.setblocking(False)
        self.socket.connect(address)

    def ask(self, first: int, count: int = 1) -> None:
        self.socket.send(request(SESSION, first, count))

    async def numbers(self) -> list[int]:
        """Of the next answer."""
        loop = asyncio.get_running_loop()
        datagram = await asyncio.wait_for(loop.sock_recv(self.socket, 1 << 16), WAIT_S)
        return [one.number for one in MoldUDP64Codec().decode(datagram).messages]

    def close(self) -> None:
        self.socket.close()

    def hears_nothing(self) -> bool:
        try:
            self.socket.recv(1)
        except (BlockingIOError, ConnectionRefusedError):
            return True
        return False


Join = Callable[[], Peer]


def serve(
    store: Store,
    talk: Callable[[RerequestServer, Join], Awaitable[None]],
    host: str = "127.0.0.1",
    share: float = 1.0,
) -> Rerequests:
    """Have a talk beside a server of this store, and stop it; its counters."""
    limits: dict[str, Any] = {"datagram_bytes": 1472, "datagram_max": 65507, "rate": 1 << 24}
    asked = Rerequests(store, SESSION, total_rate=1 << 26, share=share, **limits)

    async def main() -> None:
        sequencer = Sequencer()
        sequencer.keep(store, False, lambda error: None)
        server = RerequestServer(asked, sequencer, asyncio.get_running_loop())
        await server.start(host, -1)
        with ExitStack() as peers:
            await talk(server, lambda: peers.enter_context(closing(Peer(server.address))))
        await server.stop()

    asyncio.run(main())
    return asked


def bind(host: str) -> None:
    """Raises `OSError` where there is no such address, as of IPv6 on many machines."""
    family, kind, _, _, address = socket.getaddrinfo(host, 0, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, kind) as one:
        one.bind(address)


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost"])
def test_given_a_receiver_that_asks_then_it_is_answered_where_it_asked_from(
    store: Store, host: str
) -> None:
    async def talk(server: RerequestServer, join: Join) -> None:
        peer, other = join(), join()
        peer.ask(5, 3)
        assert await peer.numbers() == [5, 6, 7]
        other.socket.send(b"nonsense")
        other.ask(101)
        other.ask(100, 9)
        assert await other.numbers() == [100]
        assert peer.hears_nothing()

    try:
        bind(host)
    except OSError as error:
        pytest.skip(f"no {host} on this machine: {error}")
    asked = serve(store, talk, host)
    assert (asked.requests, asked.answered, asked.malformed, asked.ahead) == (4, 2, 1, 1)


def test_given_more_requests_than_one_turn_takes_then_all_are_answered(store: Store) -> None:
    async def talk(server: RerequestServer, join: Join) -> None:
        peer = join()
        for first in range(1, 3 * rerequests.AT_ONCE):
            peer.ask(first)
        for first in range(1, 3 * rerequests.AT_ONCE):
            assert await peer.numbers() == [first]

    serve(store, talk)


def test_given_one_that_asks_without_end_then_it_waits_and_another_is_answered_yet(
    store: Store,
) -> None:
    async def talk(server: RerequestServer, join: Join) -> None:
        greedy, other = join(), join()
        sent = 0
        # Until one is not answered, and then one is not looked at.
        while not server.rerequests.limited or server.rerequests.requests == sent:
            for _ in range(20):
                greedy.ask(1)
            sent += 20
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        hearing = asyncio.create_task(other.numbers())
        while not hearing.done():  # it has no place in a full buffer
            other.ask(5)
            await asyncio.wait({hearing}, timeout=0.05)
        assert hearing.result() == [5]
        assert server.rerequests.limited > 0

    serve(store, talk, share=0.01)


def chill(patch: pytest.MonkeyPatch, let: Callable[[], Any]) -> None:
    """Have every read go to a thread, which waits for `let` before it reads."""
    read = Segment.read

    def cold(piece: Segment, offset: int, into: memoryview, wait: bool) -> int:
        if not wait:
            raise BlockingIOError
        let()
        return read(piece, offset, into, wait)

    patch.setattr(Segment, "read", cold)


def test_given_what_the_disk_must_bring_then_a_thread_reads_it_for_a_few_and_others_ask_again(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = threading.Event()
    chill(monkeypatch, gate.wait)

    async def talk(server: RerequestServer, join: Join) -> None:
        peer = join()
        for first in range(1, rerequests.FETCHES + 4):
            peer.ask(first)
        while server.rerequests.limited < 3:
            await asyncio.sleep(0)
        gate.set()
        found = [(await peer.numbers())[0] for _ in range(rerequests.FETCHES)]
        assert sorted(found) == list(range(1, rerequests.FETCHES + 1))
        peer.ask(9)
        assert await peer.numbers() == [9]

    asked = serve(store, talk)
    assert (asked.limited, asked.answered) == (3, rerequests.FETCHES + 1)


@pytest.mark.parametrize("wait", [False, True], ids=["at once", "in a thread"])
def test_given_a_disk_that_fails_then_it_is_counted_said_once_and_others_are_answered(
    store: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, wait: bool
) -> None:
    read, broken = Segment.read, [True]

    def fail(piece: Segment, offset: int, into: memoryview, patient: bool) -> int:
        if broken and patient == wait:
            raise OSError(5, "Input/output error")
        if broken:
            raise BlockingIOError
        return read(piece, offset, into, patient)

    monkeypatch.setattr(Segment, "read", fail)

    async def talk(server: RerequestServer, join: Join) -> None:
        peer = join()
        for first in (1, 2, 3):
            peer.ask(first)
        while server.rerequests.failed < 3:
            await asyncio.sleep(0)
        broken.clear()
        peer.ask(4)
        assert await peer.numbers() == [4]

    assert serve(store, talk).failed == 3
    assert caplog.text.count("Input/output error") == 1
    assert [piece.holders for piece in store.segments()] == [0]


def test_given_a_defect_while_a_thread_reads_then_it_is_shown_and_nothing_is_held(
    store: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def defect() -> None:
        raise ZeroDivisionError("a defect")

    chill(monkeypatch, defect)

    async def talk(server: RerequestServer, join: Join) -> None:
        join().ask(1)
        while "a defect" not in caplog.text:
            await asyncio.sleep(0)

    serve(store, talk)
    assert [piece.holders for piece in store.segments()] == [0]


def test_given_a_stop_while_a_thread_reads_then_it_is_waited_for_and_nothing_is_held(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, gate = threading.Event(), threading.Event()

    def let() -> None:
        begun.set()
        gate.wait()

    chill(monkeypatch, let)

    async def talk(server: RerequestServer, join: Join) -> None:
        peer = join()
        peer.ask(1)
        await asyncio.to_thread(begun.wait)
        stopping = asyncio.create_task(server.stop())
        await asyncio.sleep(0)
        assert not stopping.done()
        gate.set()
        await stopping
        assert peer.hears_nothing()
        assert [piece.holders for piece in store.segments()] == [0]

    serve(store, talk)


@pytest.mark.parametrize(
    ("host", "words"),
    [
        ("127.0.0.1", "Address already in use"),
        ("192.0.2.1", "Cannot assign requested address"),
        ("no.such.host.invalid", "cannot answer re-requests on no.such.host.invalid:"),
    ],
)
def test_given_an_address_that_cannot_be_bound_then_the_error_names_it(
    store: Store, host: str, words: str
) -> None:
    async def talk(server: RerequestServer, join: Join) -> None:
        port = server.address[1]
        second = RerequestServer(server.rerequests, Sequencer(), asyncio.get_running_loop())
        with pytest.raises(OSError, match=words) as caught:
            await second.start(host, port)
        assert f"cannot answer re-requests on {host}:{port}: " in str(caught.value)
        await second.stop()

    serve(store, talk)


def test_given_any_free_port_of_a_wrong_address_then_that_is_what_is_said(store: Store) -> None:
    async def talk(server: RerequestServer, join: Join) -> None:
        second = RerequestServer(server.rerequests, Sequencer(), asyncio.get_running_loop())
        with pytest.raises(OSError, match=r"on any free port of 192.0.2.1: Cannot assign"):
            await second.start("192.0.2.1", -1)

    serve(store, talk)


def test_given_an_address_then_it_is_known_who_has_it() -> None:
    assert network_of("192.0.2.7") != network_of("192.0.2.8")
    assert network_of("2001:db8::1") == network_of("2001:db8:0:0:ffff::2")
    assert network_of("2001:db8::1") != network_of("2001:db8:0:1::1")
    assert network_of("fe80::1%lo") == network_of("fe80::2%lo")
