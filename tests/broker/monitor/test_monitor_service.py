"""The monitoring service around a broker that does not listen: a busy loop, rude peers, a stop."""

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.monitor import Monitor
from broker.monitor.http import PEER_SECONDS_MAX, REQUESTS_MAX
from broker.monitor.views import round_trip, span
from broker.server import Server
from broker.settings.journal_settings import JournalSettings
from broker.settings.settings import Settings
from tests.support.raw import QUIET, RawClient
from tests.support.web import get, http_port, monitored

WAIT_S = 30.0  # for what must come


@contextmanager
def running() -> Iterator[asyncio.AbstractEventLoop]:
    """A loop that runs on a thread of its own, as the broker's does on the main thread."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield loop
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def server(loop: asyncio.AbstractEventLoop) -> Server:
    """A broker within this loop, not started: it has no listeners and no clients."""

    async def make() -> Server:
        return Server(Settings(journal=JournalSettings(enabled=False)))

    return asyncio.run_coroutine_threadsafe(make(), loop).result(WAIT_S)


@contextmanager
def monitor(
    loop: asyncio.AbstractEventLoop, patience: float = WAIT_S, broker: Server | None = None
) -> Iterator[int]:
    made = Monitor(broker or server(loop), loop, "127.0.0.1", -1, patience)
    _, port = made.start()
    try:
        yield port
    finally:
        made.stop()
        made.stop()


def test_given_a_stop_then_it_does_not_wait_for_another_attempt_to_accept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(seconds: float) -> None:
        waited.append(seconds)

    waited: list[float] = []
    monkeypatch.setattr("broker.monitor.http.time.sleep", fail)
    with running() as loop, monitor(loop) as port:
        socket.create_connection(("127.0.0.1", port)).close()
    assert waited == []


def handlers() -> list[threading.Thread]:
    """The threads that serve a request each, the oldest first; one may end behind its answer."""
    return [thread for thread in threading.enumerate() if "process_request" in thread.name]


def test_given_a_loop_that_is_busy_when_asked_then_unhealthy_and_healthy_again_after() -> None:
    busy, free = threading.Event(), threading.Event()

    def occupy() -> None:
        busy.set()
        free.wait()

    with running() as loop, monitor(loop, patience=0.2) as port:
        loop.call_soon_threadsafe(occupy)
        busy.wait()
        for path in ("/healthz", "/varz", "/metrics"):
            page = get(port, path)
            assert page.status == 503
            assert page.json["status"] == "unavailable"
            assert page.json["error"] == "the broker did not answer within 0.2 s"
        free.set()
        while (page := get(port, "/healthz")).status == 503:
            pass  # a loop that is free may be late all the same
        assert page.json == {"status": "ok"}


def test_given_a_loop_that_has_ended_when_asked_then_unhealthy() -> None:
    with running() as loop:
        broker = server(loop)
    with monitor(loop, broker=broker) as port:
        page = get(port, "/healthz")
    assert (page.status, page.json["error"]) == (503, "the broker has stopped")


def test_given_peers_that_say_nothing_when_many_then_the_oldest_go_and_the_next_is_served(
    capfd: pytest.CaptureFixture[str],
) -> None:
    soon = PEER_SECONDS_MAX * 0.9  # before they would go by themselves
    with running() as loop, monitor(loop) as port, ExitStack() as stack:
        silent = [
            stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=soon))
            for _ in range(REQUESTS_MAX + 4)
        ]
        for early in silent[:4]:
            assert early.recv(1) == b""
        assert get(port, "/healthz").status == 200
        threads = handlers()
        for thread in threads[:-REQUESTS_MAX]:
            thread.join(soon)
            assert not thread.is_alive(), "it was hung up on"
        for peer in silent:
            peer.close()
        for thread in threads:
            thread.join(WAIT_S)
        assert get(port, "/healthz").status == 200
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    "rude",
    [
        b"",
        b"\r\n\r\n",
        b"GET\r\n\r\n",
        b"\x16\x03\x01\x00\xa5\x01\x00",
        b"GET / HTTP/9.9\r\n\r\n",
        b"G" * 70_000,
        b"GET /" + b"a" * 70_000,
        b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 200 + b"\r\n",
        b"GET /%00%ff?%zz=%&&&= HTTP/1.0\r\n\r\n",
        b"GET http://other/varz HTTP/1.1\r\nHost: x\r\n\r\n",
        b"PUB a 1\r\nx\r\n",
    ],
    ids=["nothing", "blank", "short", "tls", "version", "verb", "path", "headers", "query", "proxy",
         "nats"],
)  # fmt: skip
def test_given_input_that_is_no_proper_request_when_sent_then_the_next_one_is_served(
    rude: bytes, capfd: pytest.CaptureFixture[str]
) -> None:
    with running() as loop, monitor(loop) as port:
        with (
            socket.create_connection(("127.0.0.1", port), timeout=WAIT_S) as peer,
            suppress(ConnectionResetError, BrokenPipeError),
        ):
            peer.sendall(rude)
            peer.shutdown(socket.SHUT_WR)
            while peer.recv(65536):
                pass
        assert get(port, "/healthz").status == 200
    assert capfd.readouterr() == ("", "")


def test_given_a_peer_that_goes_away_when_answered_then_nothing_is_reported(
    capfd: pytest.CaptureFixture[str],
) -> None:
    with running() as loop, monitor(loop) as port:
        for _ in range(REQUESTS_MAX - 1):
            with socket.create_connection(("127.0.0.1", port), timeout=WAIT_S) as peer:
                peer.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        assert get(port, "/healthz").status == 200
    assert capfd.readouterr() == ("", "")


def test_given_a_request_in_the_making_when_stopped_then_the_stop_does_not_wait() -> None:
    with running() as loop:
        made = Monitor(server(loop), loop, "127.0.0.1", -1)
        _, port = made.start()
        with socket.create_connection(("127.0.0.1", port), timeout=WAIT_S) as peer:
            peer.sendall(b"GET /va")
            started = time.monotonic()
            made.stop()
            assert time.monotonic() - started < PEER_SECONDS_MAX * 0.9
            with pytest.raises(OSError, match="refused"):
                get(port, "/healthz")
        again = Monitor(server(loop), loop, "127.0.0.1", port)
        assert again.start() == ("127.0.0.1", port), "the port is free at once"
        again.stop()


def test_given_a_thread_that_notices_the_stop_first_when_stopped_then_it_is_stopped() -> None:
    with running() as loop:
        made = Monitor(server(loop), loop, "127.0.0.1", -1)
        _, port = made.start()
        http = made._http
        assert http is not None
        http._stopping = True  # as a stop does first
        assert get(port, "/healthz").status == 200
        http._thread.join(WAIT_S)
        made.stop()
        with pytest.raises(OSError, match="refused"):
            get(port, "/healthz")


def test_given_an_address_that_is_taken_when_started_then_the_error_names_it() -> None:
    with running() as loop, socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        made = Monitor(server(loop), loop, "127.0.0.1", port)
        with pytest.raises(OSError, match=f"cannot listen on 127.0.0.1:{port} for monitoring: Add"):
            made.start()
        made.stop()


def test_given_ipv6_when_started_then_it_listens_there() -> None:
    with running() as loop:
        made = Monitor(server(loop), loop, "::1", -1)
        try:
            host, port = made.start()
        except OSError as error:
            pytest.skip(f"no IPv6 on this machine: {error}")
        try:
            with socket.create_connection((host, port), timeout=WAIT_S) as peer:
                peer.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
                assert peer.recv(100).startswith(b"HTTP/1.0 200 OK\r\n")
        finally:
            made.stop()


def test_given_many_askers_at_once_when_answered_then_each_gets_a_whole_answer() -> None:
    with running() as loop, monitor(loop) as port:
        answers: list[int] = []

        def ask() -> None:
            for _ in range(2):
                answers.append(get(port, "/varz").status)

        for _ in range(5):
            askers = [threading.Thread(target=ask) for _ in range(REQUESTS_MAX // 2)]
            for thread in askers:
                thread.start()
            for thread in askers:
                thread.join()
            for thread in handlers():  # whoever has answered has its place until it ends
                thread.join()
    assert answers == [200] * (10 * REQUESTS_MAX // 2)


def test_given_clients_that_were_heard_of_at_different_times_when_sorted_then_connz_obeys() -> None:
    with ExitStack() as stack:
        broker = stack.enter_context(monitored())
        clients = [stack.enter_context(RawClient(broker.port, QUIET)) for _ in range(3)]
        for at in (1, 2, 0):
            assert clients[at].ask(b"") == []

        def cids(query: str) -> list[int]:
            page = get(http_port(broker), f"/connz?{query}").json
            return [one["cid"] for one in page["connections"]]

        assert cids("sort=idle") == [2, 3, 1]
        assert cids("sort=last") == [1, 3, 2]
        assert cids("sort=last&offset=1&limit=1") == [3]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (-1, "0s"),
        (59.9, "59s"),
        (60, "1m0s"),
        (3_601, "1h0m1s"),
        (86_400 * 4, "4d0h0m0s"),
        (31_536_000 + 61, "1y0d0h1m1s"),
    ],
)
def test_given_a_span_when_shown_then_as_nats_server_does(seconds: float, text: str) -> None:
    assert span(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.000693, "693µs"), (0.0012345, "1.234ms"), (0.25, "250ms"), (1.5, "1.5s"), (2, "2s")],
)
def test_given_a_round_trip_when_shown_then_as_go_does(seconds: float, text: str) -> None:
    assert round_trip(seconds) == text


@given(st.floats(0, 1e9))
def test_given_any_span_when_shown_then_it_adds_up_to_its_whole_seconds(seconds: float) -> None:
    sizes = {"y": 31_536_000, "d": 86_400, "h": 3_600, "m": 60, "s": 1}
    total, digits = 0, ""
    for character in span(seconds):
        if character.isdigit():
            digits += character
        else:
            total += int(digits) * sizes[character]
            digits = ""
    assert total == int(seconds)
