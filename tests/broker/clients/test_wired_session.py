"""Clients through TLS and WebSocket: whatever holds for a plain client holds for them."""

import random
import re
import signal
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from websockets.client import ClientProtocol
from websockets.frames import Frame, Opcode
from websockets.uri import parse_uri

from broker.clients.wired_session import REFUSED_MAX
from tests.support.authority import Authority
from tests.support.depth import in_soak
from tests.support.processes import NotReadyError, SeriatimServer
from tests.support.raw import HEADERS, QUIET, Operation, RawClient
from tests.support.raw_secured import WAYS, Way, WebStream, WiredClient, way
from tests.support.readable import readable
from tests.support.serving import serving
from tests.support.web import get, http_port

LOOPS = ("asyncio", *in_soak("uvloop"))
SEED = 5
MEMORY = 40 << 20  # what a flood may cost, all buffers included
FLOOD = 60  # fewer than a listener keeps until they are accepted
PATIENCE_S = 30.0  # a bound for what hangs


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    made = Authority(tmp_path_factory.mktemp("authority"))
    made.issue("server")
    made.issue("alice", "/CN=alice", "email:alice@example.com")
    return made


@pytest.fixture(params=WAYS)
def entry(request: pytest.FixtureRequest, authority: Authority) -> Way:
    return way(request.param, authority)


@pytest.fixture(params=LOOPS)
def broker(request: pytest.FixtureRequest, entry: Way) -> Iterator[SeriatimServer]:
    with entry.broker("--loop", request.param) as running:
        yield running


def publish(subject: bytes, payload: bytes) -> bytes:
    return b"PUB %b %d\r\n%b\r\n" % (subject, len(payload), payload)


def stream(client: RawClient) -> WebStream:
    assert isinstance(client.socket, WebStream)
    return client.socket


def closing(client: RawClient) -> tuple[int, str] | None:
    """Code and text of the frame that has closed a WebSocket; None without one."""
    if not isinstance(client.socket, WebStream):
        return None
    close = stream(client).protocol.close_rcvd
    assert close is not None, "closed without a frame"
    return close.code, close.reason


def take(client: RawClient, count: int) -> list[bytes]:
    """The payloads of the next messages."""
    found: list[Any] = []
    while len(found) < count:
        operation = client.operation()
        assert operation.verb == "MSG", operation
        found.append(operation.payload)
    return found


@pytest.mark.parametrize("broker", ["asyncio", "uvloop"], indirect=True)
def test_given_a_client_then_it_is_served_like_any_other(
    broker: SeriatimServer, entry: Way
) -> None:
    with entry.client(broker) as client:
        verbose = client.ask(b"CONNECT {}\r\nSUB a 1\r\nPUB a 2\r\nhi\r\n")
        assert [one.verb for one in verbose] == ["+OK", "+OK", "+OK", "MSG"]
        assert verbose[3].payload == b"hi"
        assert client.ask(b"SUB a..b 2\r\n") == [Operation("-ERR", b"'Invalid Subject'")]
        said, closed = client.answer(b"NONSENSE\r\n", 1)
        assert closed
        assert said == b"-ERR 'Unknown Protocol Operation'\r\n"


def test_given_a_second_info_then_it_says_how_the_client_came_in(
    broker: SeriatimServer, entry: Way
) -> None:
    with entry.client(broker) as client:
        client.send(b'CONNECT {"verbose":false,"protocol":1}\r\nPING\r\n')
        client.until_pong()
        text = client.operation().text
        assert (b'"tls_required":true' in text) == (entry.context is not None)
        assert (b'"tls_available":true' in text) == (entry.name == "wss")
        assert b"connect_urls" not in text


def test_given_floods_both_ways_then_every_byte_arrives_in_order(
    broker: SeriatimServer, entry: Way
) -> None:
    chosen = random.Random(SEED)
    sizes = [chosen.choice((0, 1, 100, 1000, 16384, 70_000)) for _ in range(600)] + [1 << 20] * 4
    sent = [chosen.randbytes(size) for size in sizes]
    with entry.client(broker, QUIET) as subscriber, entry.client(broker, QUIET) as publisher:
        subscriber.ask(b"SUB flood 1\r\n")
        operations = b"".join(publish(b"flood", payload) for payload in sent)

        def pour() -> None:
            at = 0
            while at < len(operations):
                size = chosen.choice((1, 100, 5000, 100_000, 400_000))
                publisher.send(operations[at : at + size])
                at += size

        pouring = threading.Thread(target=pour)
        pouring.start()
        got = take(subscriber, len(sent))
        pouring.join()
        assert got == sent
        assert publisher.ask(b"") == []


def test_given_messages_beyond_every_buffer_then_they_arrive_whole(entry: Way) -> None:
    sent = random.Random(SEED).randbytes(9 << 20)
    limits: dict[str, Any] = {"max_payload": 10 << 20}
    room = ("--websocket_max_frame", "16MiB") if entry.is_web else ()
    with (
        entry.broker(*room, **limits) as broker,
        entry.client(broker, QUIET) as subscriber,
        entry.client(broker, QUIET) as publisher,
    ):
        subscriber.ask(b"SUB big 1\r\n")
        publisher.send(publish(b"big", sent) * 2)
        assert take(subscriber, 2) == [sent, sent]


def test_given_a_reader_that_pauses_then_the_journal_serves_it_every_message(entry: Way) -> None:
    body, count = b"x" * 32768, 800
    with (
        entry.broker(frame="none") as broker,
        entry.client(broker, QUIET, receive_buffer=4096) as slow,
        entry.client(broker, QUIET) as publisher,
    ):
        slow.ask(b"SUB flood 1\r\n")
        before = broker.peak_memory()
        for at in range(count):
            publisher.send(publish(b"flood", b"%06d" % at + body))
        publisher.ask(b"")
        assert broker.peak_memory() - before < MEMORY
        slow.widen()
        got = take(slow, count)
        assert [int(one[:6]) for one in got] == list(range(count))
        assert {one[6:] for one in got} == {body}


def test_given_a_dead_reader_without_a_journal_then_it_is_cut_off_and_others_are_served(
    entry: Way,
) -> None:
    body = b"x" * 32768
    limits: dict[str, Any] = {"max_pending": 1 << 20, "write_deadline": "2s"}  # of a reader, too
    with (
        entry.broker("--no-journal", **limits) as broker,
        entry.client(broker, QUIET, receive_buffer=4096) as dead,
        entry.client(broker, QUIET) as reader,
        entry.client(broker, QUIET) as publisher,
    ):
        dead.ask(b"SUB flood 1\r\n")
        reader.ask(b"SUB flood 1\r\n")
        for _ in range(40):
            publisher.send(publish(b"flood", body) * 20)
            take(reader, 20)
        assert broker.await_line("Slow Consumer Detected")
        assert publisher.ask(b"") == []


def test_given_the_past_then_it_is_replayed(broker: SeriatimServer, entry: Way) -> None:
    sent = [b"%d" % at * 100 for at in range(2000)]
    with entry.client(broker, QUIET) as publisher, entry.client(broker, QUIET) as reader:
        publisher.ask(b"".join(publish(b"past", one) for one in sent))
        reader.send(b"SUB $SEQ.FROM.1.past 1\r\n")
        assert take(reader, len(sent)) == sent
        publisher.ask(publish(b"past", b"live"))
        assert take(reader, 1) == [b"live"]


def test_given_requests_then_they_are_answered(broker: SeriatimServer, entry: Way) -> None:
    with entry.client(broker, HEADERS) as client:
        (answer,) = client.ask(b"SUB r 1\r\nPUB nobody r 1\r\nx\r\n")
        assert answer.header.startswith(b"NATS/1.0 503\r\n")
        (answer,) = client.ask(b"PUB $SEQ.PUB.a r 1\r\nx\r\n")
        assert answer.payload == b"1:2,"


def test_given_a_stop_then_what_was_accepted_is_delivered_first(
    broker: SeriatimServer, entry: Way
) -> None:
    sent = [b"%d" % at * 100 for at in range(20_000)]
    with entry.client(broker, QUIET) as reader, entry.client(broker, QUIET) as publisher:
        reader.ask(b"SUB last 1\r\n")
        publisher.ask(b"".join(publish(b"last", one) for one in sent))
        broker.signal(signal.SIGTERM)
        assert take(reader, len(sent)) == sent
        assert reader.until_closed() == b""
        assert closing(reader) in (None, (1001, "Server Shutdown"))
        assert broker.wait() == 0


def test_given_a_lame_duck_then_clients_are_informed_and_closed(entry: Way) -> None:
    with (
        entry.broker(lame_duck="1s") as broker,
        entry.client(broker, b'CONNECT {"verbose":false,"protocol":1}\r\n') as client,
    ):
        client.ask(b"SUB a 1\r\n")
        client.operation()  # the second INFO
        broker.signal(signal.SIGUSR2)
        assert b'"ldm":true' in client.operation().text
        assert client.until_closed() == b""
        assert closing(client) in (None, (1001, "Server Shutdown"))
        assert broker.wait() == 0


def test_given_a_silent_client_then_it_is_pinged_and_closed_as_stale(entry: Way) -> None:
    with (
        entry.broker(ping_interval="200ms", ping_max=1) as broker,
        entry.client(broker, QUIET, pings=True) as client,
    ):
        assert client.until_closed() == b"PING\r\n-ERR 'Stale Connection'\r\n"
        assert closing(client) in (None, (1001, "Stale Connection"))


def test_given_the_trace_then_it_shows_what_was_decoded_without_secrets(entry: Way) -> None:
    with entry.broker("-DV") as broker, entry.client(broker) as client:
        client.ask(b'CONNECT {"verbose":false,"user":"u","pass":"s3cr3t"}\r\nSUB trace.me 1\r\n')
        assert broker.await_line("SUB trace.me 1")
        assert not broker.said("s3cr3t")


def test_given_no_room_then_a_client_is_turned_away(entry: Way) -> None:
    with entry.broker(max_connections=1) as broker, entry.client(broker, QUIET) as first:
        refusal = b"-ERR 'maximum connections exceeded'\r\n"
        if entry.name == "tls":  # in plain text, before the handshake
            with RawClient(broker.port) as second:
                assert second.until_closed() == refusal
        else:
            with entry.client(broker) as second:
                assert second.until_closed() == refusal
                assert closing(second) in (None, (1008, "Maximum Connections Exceeded"))
        assert first.ask(b"") == []


def test_given_too_many_that_find_no_room_then_only_a_few_may_shake_hands(
    authority: Authority,
) -> None:
    entry = way("ws", authority)
    with entry.broker(max_connections=1) as broker, entry.client(broker, QUIET) as first:
        silent = [socket.create_connection(("127.0.0.1", entry.port(broker))) for _ in range(80)]
        for one in silent:
            one.settimeout(30)
        for one in silent[REFUSED_MAX:]:
            assert _received(one) == b""
            one.close()
        assert first.ask(b"") == []
        for one in silent[:REFUSED_MAX]:
            one.close()
        with entry.client(broker) as next_one:  # the places of those that have gone are free
            assert next_one.until_closed() == b"-ERR 'maximum connections exceeded'\r\n"


def test_given_a_flood_of_handshakes_of_one_address_then_another_address_is_served_first(
    tmp_path: Path,
) -> None:
    request = ClientProtocol(parse_uri("ws://localhost/")).connect().serialize()
    with ExitStack() as stack:
        broker = stack.enter_context(serving(tmp_path, flags={"websocket.port": "-1"}))
        (place,) = [one for one in broker.server.addresses if one != broker.server.addresses[0]]

        def shake_hands(source: str) -> socket.socket:
            made = stack.enter_context(socket.create_connection(place, 30, (source, 0)))
            made.sendall(request)  # the broker's loop does not run yet: all of them are in time
            made.setblocking(False)
            return made

        flood = [shake_hands("127.0.0.2") for _ in range(FLOOD)]
        late = shake_hands("127.0.0.3")
        answer = broker.run(broker.server.loop.sock_recv(late, 4096))
        answered = readable(flood, 0)
        assert answer.startswith(b"HTTP/1.1 101 ")
        assert answered < FLOOD / 2
        broker.until(lambda: readable(flood, 0) == FLOOD)


def _received(client: socket.socket) -> bytes:
    try:
        return client.recv(65536)
    except ConnectionResetError:
        return b""


@contextmanager
def _half_handshakes(entry: Way, broker: SeriatimServer) -> Iterator[list[socket.socket]]:
    """Clients that open a connection and go no further, or not to the end."""
    with ExitStack() as stack:
        pending = []
        for at in range(300):
            one = stack.enter_context(
                socket.create_connection(("127.0.0.1", entry.port(broker)), PATIENCE_S)
            )
            if at % 3 == 1:
                one.sendall(b"\x16\x03\x01\x02\x00\x01\x00" if entry.context else b"GET / HT")
            pending.append(one)
        yield pending


def test_given_half_handshakes_in_number_then_nobody_waits_for_them(entry: Way) -> None:
    times = ("--tls_timeout", "5m", "--websocket_handshake_timeout", "5m")  # beyond all patience
    with (
        entry.broker(*times) as broker,
        entry.client(broker, QUIET) as good,
        _half_handshakes(entry, broker),
    ):
        assert good.ask(b"") == []
        with entry.client(broker, QUIET) as newcomer:
            assert newcomer.ask(b"") == []


def test_given_half_handshakes_in_number_then_they_end_in_time(entry: Way) -> None:
    times = ("--tls_timeout", "1s", "--websocket_handshake_timeout", "1s")
    with entry.broker(*times) as broker, entry.client(broker, QUIET) as good:
        files = len(_descriptors(broker))
        with _half_handshakes(entry, broker) as pending:
            for one in pending:
                while _received(one):
                    pass
        assert good.ask(b"") == []
        deadline = time.monotonic() + PATIENCE_S
        while len(_descriptors(broker)) > files and time.monotonic() < deadline:
            time.sleep(0.01)  # no event to await
        assert len(_descriptors(broker)) == files
        refusals = [line for line in broker.log if "no handshake within" in line]
        assert len(refusals) == 10, "limits.closings_logged"


def _descriptors(broker: SeriatimServer) -> list[Path]:
    return list(Path(f"/proc/{broker.pid}/fd").iterdir())


def test_given_a_slow_handshake_then_the_time_to_authenticate_begins_after_it(
    authority: Authority,
) -> None:
    entry = way("ws", authority)
    users = ("--user", "alice", "--pass", "sesame", "--auth_timeout", "100ms")
    with (
        entry.broker(*users, "--websocket_handshake_timeout", "1m") as broker,
        socket.create_connection(("127.0.0.1", entry.port(broker))) as slow,
    ):
        slow.settimeout(30)
        with RawClient(broker.port) as plain:  # which came later, and has nothing to do before
            assert plain.until_closed() == b"-ERR 'Authentication Timeout'\r\n"
        request = ClientProtocol(parse_uri("ws://localhost/")).connect().serialize()
        known = b'CONNECT {"verbose":false,"user":"alice","pass":"sesame"}\r\nPING\r\n'
        # With the handshake's end, or a busy machine may take the time to authenticate for itself.
        slow.sendall(request + Frame(Opcode.BINARY, known).serialize(mask=True))
        said = b""
        while not said.endswith(b"PONG\r\n"):
            came = slow.recv(65536)
            assert came, said
            said += came


def test_given_a_client_that_never_opens_then_it_hears_no_ping(authority: Authority) -> None:
    entry = way("tls", authority)
    with (
        entry.broker("--tls_timeout", "1s", ping_interval="100ms") as broker,
        socket.create_connection(("127.0.0.1", broker.port)) as silent,
    ):
        silent.settimeout(30)
        said = b""
        while came := _received(silent):
            said += came
        assert said.startswith(b"INFO {")
        assert said.count(b"\r\n") == 1


def test_given_plain_text_on_a_port_with_tls_then_it_is_closed_with_a_reason(
    authority: Authority,
) -> None:
    with way("tls", authority).broker() as broker:
        with RawClient(broker.port) as client:
            assert client.info["tls_required"] is True
            assert "tls_verify" not in client.info
            client.send(b'CONNECT {"user":"u","pass":"s3cr3t"}\r\nPING\r\n')
            assert client.until_closed() == b""
        assert broker.await_line("TLS handshake error: what it sent is not TLS")
        assert not broker.said("s3cr3t")


def test_given_an_old_version_of_tls_then_it_is_refused(authority: Authority) -> None:
    old = authority.context()
    old.set_ciphers("DEFAULT:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning, match="TLSv1"):
        old.minimum_version = ssl.TLSVersion.TLSv1
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        old.maximum_version = ssl.TLSVersion.TLSv1_1
    entry = way("tls", authority)
    with entry.broker() as broker:
        with pytest.raises(ssl.SSLError):
            WiredClient(broker.port, way=Way("old", entry.flags, old))
        assert broker.await_line("TLS handshake error: its version of TLS is too old")


@pytest.mark.parametrize("name", ["tls", "tls first", "wss"])
def test_given_verify_then_clients_need_a_certificate(name: str, authority: Authority) -> None:
    own, stranger = way(name, authority, own="alice"), way(name, authority)
    with own.broker(*authority.verifying()) as broker:
        with own.client(broker, QUIET) as client:
            assert client.ask(b"") == []
        refused = pytest.raises((ssl.SSLError, ConnectionError, AssertionError))
        with refused, stranger.client(broker, QUIET) as client:
            client.ask(b"")
        assert broker.await_line("TLS handshake error: it sent no certificate")
        if name == "tls":
            with RawClient(broker.port) as before:
                assert before.info["tls_verify"] is True


def test_given_a_listener_without_tls_then_its_clients_are_plain(authority: Authority) -> None:
    entry = way("tls", authority)
    plain = ("--listen", "127.0.0.1:-1,tls=false")
    with entry.broker(*plain) as broker, RawClient(broker.ports[1], QUIET) as client:
        assert "tls_required" not in client.info
        client.ask(b"SUB a 1\r\n")
        with entry.client(broker, QUIET) as secured:
            secured.ask(publish(b"a", b"x"))
        assert take(client, 1) == [b"x"]


def test_given_a_new_certificate_then_new_clients_get_it_and_old_ones_stay(
    tmp_path: Path,
) -> None:
    authority = Authority(tmp_path)
    entry = way("tls", authority)
    with entry.broker() as broker, entry.client(broker, QUIET) as old:
        old.ask(b"SUB a 1\r\n")
        before = _serial(entry, broker)
        (tmp_path / "server.key").rename(tmp_path / "kept.key")
        broker.signal(signal.SIGHUP)
        assert broker.await_line("server.key: cannot be read")
        assert _serial(entry, broker) == before, "the old one stays"
        authority.issue("server")
        begun = len(broker.log)
        broker.signal(signal.SIGHUP)
        assert broker.await_lines(begun, ("Reloaded",))
        assert _serial(entry, broker) != before
        with entry.client(broker, QUIET) as new:
            new.ask(publish(b"a", b"x"))
        assert take(old, 1) == [b"x"]


def _serial(entry: Way, broker: SeriatimServer) -> str:
    with entry.client(broker) as client:
        assert isinstance(client.socket, ssl.SSLSocket)
        found = client.socket.getpeercert()
    assert found is not None
    return str(found["serialNumber"])


def test_given_monitoring_then_connz_shows_how_each_client_came_in(entry: Way) -> None:
    with entry.broker("-m", "-1") as broker, entry.client(broker, QUIET) as client:
        client.ask(b"")
        (shown,) = get(http_port(broker), "/connz").json["connections"]
        assert shown["type"] == ("websocket" if entry.is_web else "nats")
        if entry.context is None:
            assert "tls_version" not in shown
        else:
            assert shown["tls_version"] == "1.3"
            assert re.fullmatch(r"TLS_[A-Z0-9_]+", shown["tls_cipher_suite"])
        assert get(http_port(broker), "/varz").json["tls_required"] == (entry.context is not None)


def test_given_bytes_that_break_a_layer_then_only_that_client_is_closed(
    broker: SeriatimServer, entry: Way
) -> None:
    chosen = random.Random(SEED)
    with entry.client(broker, QUIET) as good:
        for _ in range(40):
            bad = entry.client(broker, QUIET)
            bad.ask(b"")
            below: socket.socket = bad.socket
            if entry.is_web:
                below = bad.socket._below  # type: ignore[attr-defined]
            if isinstance(below, ssl.SSLSocket):
                below = socket.socket(fileno=below.detach())
            below.settimeout(30)
            below.sendall(chosen.randbytes(chosen.choice((1, 50, 3000))) + b"\xff" * 20)
            below.shutdown(socket.SHUT_WR)
            while _received(below):
                pass
            below.close()
        assert good.ask(b"") == []


@pytest.mark.parametrize(
    ("sent", "said", "close"),
    [
        (b"NONSENSE\r\n", b"-ERR 'Unknown Protocol Operation'\r\n", (1002, "Protocol Violation")),
        (b"CONNECT nonsense\r\n", b"", (1002, "Protocol Violation")),
        (
            b"PUB a 9999999\r\n",
            b"-ERR 'Maximum Payload Violation'\r\n",
            (1009, "Maximum Message Payload Exceeded"),
        ),
        (
            b"PUB %b\r\n" % (b"a" * 5000),
            b"-ERR 'maximum control line exceeded'\r\n",
            (1008, "Maximum Control Line Exceeded"),
        ),
    ],
    ids=["operation", "connect", "payload", "line"],
)
def test_given_a_client_that_breaks_the_protocol_then_the_close_frame_says_how(
    authority: Authority, sent: bytes, said: bytes, close: tuple[int, str]
) -> None:
    entry = way("ws", authority)
    with entry.broker() as broker, entry.client(broker, QUIET) as client:
        client.send(b"PING\r\n" + sent)
        assert client.until_closed() == b"PONG\r\n" + said
        assert closing(client) == close


def test_given_a_stranger_then_the_close_frame_says_that_it_is_not_let_in(
    authority: Authority,
) -> None:
    entry = way("ws", authority)
    users = ("--user", "alice", "--pass", "sesame", "--auth_timeout")
    wrong = b'CONNECT {"user":"alice","pass":"wrong"}\r\n'
    with entry.broker(*users, "60s") as broker, entry.client(broker, wrong) as client:
        assert client.until_closed() == b"-ERR 'Authorization Violation'\r\n"
        assert closing(client) == (1008, "Authentication Failure")
    with entry.broker(*users, "200ms") as broker, entry.client(broker) as silent:
        assert silent.until_closed() == b"-ERR 'Authentication Timeout'\r\n"
        assert closing(silent) == (1008, "Authentication Timeout")


@pytest.mark.parametrize("name", ["ws", "wss"])
def test_given_a_websocket_that_asks_and_closes_then_its_answers_come_first(
    authority: Authority, name: str
) -> None:
    entry = way(name, authority)
    with entry.broker() as broker, entry.client(broker, QUIET) as client:
        client.send(b"SUB a 1\r\nPUB a 2\r\nhi\r\nPING\r\n")
        stream(client).close_politely(1000, "bye")
        assert client.until_closed() == b"MSG a 1 2\r\nhi\r\nPONG\r\n"
        assert closing(client) == (1000, "bye")


@pytest.mark.parametrize("name", ["ws", "wss"])
def test_given_a_frame_that_breaks_the_rules_then_what_came_before_is_answered(
    authority: Authority, name: str
) -> None:
    entry = way(name, authority)
    with entry.broker() as broker, entry.client(broker, QUIET) as client:
        ping = Frame(Opcode.BINARY, b"PING\r\n").serialize(mask=True)
        stream(client).send_raw(ping + b"\x83\x80\0\0\0\0")
        assert client.until_closed() == b"PONG\r\n"
        assert closing(client) == (1002, "invalid opcode")


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"HEAD / HTTP/1.1\r\nHost: x\r\n\r\n", b"HTTP/1.1 405 "),
        (
            b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 90000\r\n\r\n" + b"x" * 90_000,
            b"HTTP/1.1 405 ",
        ),
        (b"hello\r\n" + b"x" * 90_000, b"HTTP/1.1 400 "),
    ],
    ids=["HEAD", "POST", "garbage"],
)
def test_given_what_opens_no_websocket_then_it_is_answered_over_http(
    authority: Authority, sent: bytes, status: bytes
) -> None:
    entry = way("ws", authority)
    with (
        entry.broker() as broker,
        socket.create_connection(("127.0.0.1", entry.port(broker))) as client,
    ):
        client.settimeout(30)
        client.sendall(sent)
        said = b""
        while came := client.recv(65536):  # no reset: it can be read
            said += came
        assert said.startswith(status)
        assert broker.await_line("WebSocket handshake error")


def test_given_a_websocket_port_that_is_taken_then_no_client_gets_in_meanwhile(
    authority: Authority,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        flags = ("--websocket_port", str(taken.getsockname()[1]))
        with pytest.raises(NotReadyError) as caught:
            way("ws", authority).broker(*flags).start()
        assert "choose another address with --websocket_port" in str(caught.value)
        assert "Listening for client connections" not in str(caught.value)
