"""A WebSocket as a stream: through a broker, and with a peer that says what we choose."""

import os
import select
import socket
import struct
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path

import pytest
from websockets.frames import Opcode
from websockets.sync.server import Server, ServerConnection, serve

from seriatim.client.bulk_connection import BulkConnection, ConnectOptions
from seriatim.client.server_address import ServerAddress, read_address
from seriatim.client.tls import TlsSettings
from seriatim.client.web_stream import WebStream
from tests.support.authority import Authority
from tests.support.processes import STAND_IN
from tests.support.raw_secured import way

SCHEMES = ("ws", "wss")
WAIT_S = 30.0


@pytest.mark.skipif(STAND_IN, reason="of our own process")
@pytest.mark.parametrize("name", SCHEMES)
def test_given_a_client_through_a_websocket_then_payloads_of_any_size_come_back(
    name: str, tmp_path: Path
) -> None:
    authority = Authority(tmp_path)
    entry = way(name, authority)
    options = ConnectOptions(tls=TlsSettings(context=authority.context), timeout=WAIT_S)
    with entry.broker() as broker:
        address = read_address(f"{name}://127.0.0.1:{entry.port(broker)}", SCHEMES)
        with BulkConnection.connect([address], options) as client:
            assert client.tls_version == ("TLSv1.3" if name == "wss" else "")
            for number, size in enumerate((1, 125, 126, 1 << 16, client.max_payload), 1):
                payload = os.urandom(size)
                client.request("$SEQ.PUB.a", payload).check("a")
                answer = client.request(f"$SEQ.GET.{number}").check("a")
                assert answer.payload == payload
            assert client.is_fresh()
            broker.stop()
            assert not client.is_fresh()


def with_peer(does: Callable[[ServerConnection], None], takes: Callable[[WebStream], None]) -> None:
    """Run what the peer and the stream do, one beside the other."""
    done: Future[None] = Future()

    def run(peer: ServerConnection) -> None:
        try:
            does(peer)
        except BaseException as error:
            done.set_exception(error)
        else:
            done.set_result(None)

    server: Server
    with serve(run, "127.0.0.1", 0, compression=None) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            host, port = server.socket.getsockname()
            with socket.create_connection((host, port)) as below:
                stream = WebStream(below, ServerAddress(host, port, web_path="/"), WAIT_S)
                stream.settimeout(WAIT_S)
                takes(stream)
                stream.close()
                done.result(WAIT_S)
        finally:
            server.shutdown()
            thread.join()


def taken(stream: WebStream, size: int) -> bytes:
    """So many bytes, or all until the end, in small pieces."""
    data, piece = b"", memoryview(bytearray(3))
    while len(data) < size and (got := stream.recv_into(piece)):
        data += piece[:got]
    return data


def test_given_text_binary_and_fragments_then_they_are_one_stream_that_ends() -> None:
    def does(peer: ServerConnection) -> None:
        peer.send("text ")
        peer.send(b"binary ")
        peer.send(iter([b"in ", b"", b"parts"]))
        assert peer.recv(WAIT_S) == b"heard"
        peer.close()

    def takes(stream: WebStream) -> None:
        assert taken(stream, 20) == b"text binary in parts"
        stream.sendall(memoryview(b"heard"))
        assert taken(stream, 1) == b""
        with pytest.raises(ConnectionError, match="the WebSocket is closed"):
            stream.sendall(memoryview(b"late"))

    with_peer(does, takes)


def test_given_a_ping_of_the_websocket_then_it_is_answered_and_hides_nothing() -> None:
    def does(peer: ServerConnection) -> None:
        answered = peer.ping(b"here?")
        peer.send(b"x")
        assert answered.wait(WAIT_S)
        peer.send(b"y")

    with_peer(does, lambda stream: expect(taken(stream, 2), b"xy"))


def test_given_words_a_goodbye_and_a_reset_at_once_then_the_words_count() -> None:
    def does(peer: ServerConnection) -> None:
        peer.protocol.send_binary(b"last words")
        peer.protocol.send_close(1000)
        peer.socket.sendall(b"".join(peer.protocol.data_to_send()))
        peer.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        peer.socket.shutdown(socket.SHUT_RD)  # wakes the thread that reads, which then closes it

    def takes(stream: WebStream) -> None:
        poll = select.poll()
        poll.register(stream._below, 0)
        ((_, event),) = poll.poll(WAIT_S * 1000)
        assert event & (select.POLLERR | select.POLLHUP), "it has been reset"  # one comes first
        assert taken(stream, 10) == b"last words"

    with_peer(does, takes)


def expect(found: object, wanted: object) -> None:
    assert found == wanted


def test_given_a_long_message_then_it_is_sent_in_frames_and_closing_says_goodbye() -> None:
    sent = os.urandom(150_000)

    def does(peer: ServerConnection) -> None:
        got = [peer.recv(WAIT_S) for _ in range(3)]
        assert [len(one) for one in got] == [1 << 16, 1 << 16, 150_000 - (1 << 17)]
        assert b"".join(one for one in got if isinstance(one, bytes)) == sent
        assert list(peer) == [], "the end is a proper one"
        assert peer.protocol.close_code == 1000

    with_peer(does, lambda stream: stream.sendall(memoryview(sent)))


def test_given_a_frame_that_breaks_the_rules_then_the_stream_is_broken() -> None:
    def does(peer: ServerConnection) -> None:
        peer.socket.sendall(bytes([0x80 | 0x40 | Opcode.BINARY, 1]) + b"x")
        assert list(peer.protocol.data_to_send()) == []

    def takes(stream: WebStream) -> None:
        with pytest.raises(ConnectionError, match="the WebSocket is broken: reserved bits"):
            taken(stream, 1)

    with_peer(does, takes)
