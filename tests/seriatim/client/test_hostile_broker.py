"""Brokers that lie, drip, flood and fall silent: clear errors, no crash, bounded memory."""

import asyncio
import json
import resource
import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import seriatim
from seriatim import BrokerError, ConnectionLost, Message, NoAnswer, NotABroker
from seriatim.client import aio_wire, stream_client, stream_reading
from seriatim.client.stream_info import read_stored
from tests.clients.served import run
from tests.support.depth import examples
from tests.support.scripted import Peer, Scripted

INFO = b'INFO {"server_id":"x","headers":true,"max_payload":1048576,"seriatim":"1"}\r\n'
ANSWER: dict[str, Any] = {
    "journal": "0123456789abcdef",
    "epoch": 1,
    "first": 1,
    "last": 9,
    "messages": 9,
    "bytes": 9,
    "oldest": 1,
    "newest": 2,
    "time": 3,
    "store": "disk",
    "sync": "always",
    "full": False,
    "restricted": False,
    "limits": {"dedupe_window": 120},
}
WAIT_S = 30.0  # a bound for what would never end


def greet(peer: Peer) -> None:
    peer.say(INFO)
    peer.expect(b"PING")
    peer.say(b"PONG\r\n")


def answer_info(peer: Peer, **other: Any) -> None:
    """Answer a reader's first question."""
    reply = peer.asked(b"$SEQ.INFO")
    body = json.dumps(ANSWER | other).encode()
    peer.say(b"MSG %b 2 %d\r\n%b\r\n" % (reply, len(body), body))


def numbered(number: int, payload: bytes = b"x", subject: bytes = b"a") -> bytes:
    block = (
        b"NATS/1.0\r\nNats-Sequence: %d\r\nNats-Time-Stamp: 2026-01-31T12:00:00.123456789Z\r\n\r\n"
        % number
    )
    sizes = (subject, len(block), len(block) + len(payload))
    return b"HMSG %b 1 %d %d\r\n" % sizes + block + payload + b"\r\n"


def peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


# Readers


def read_from(talk: Callable[[Peer], object], patience: float = 10) -> list[Any]:
    """What a reader says that reads from a peer, the first connection of which is the client's."""
    found: list[Any] = []
    connections = 0

    def serve(peer: Peer) -> None:
        nonlocal connections
        connections += 1
        greet(peer)
        talk(peer)

    async def scenario(port: int) -> None:
        # The client itself needs no connection for this.
        connecting = seriatim.connect(f"127.0.0.1:{port}")
        client = seriatim.Client(connecting._addresses, connecting._options)
        reader = client.read(losses="yield")
        try:
            async with asyncio.timeout(patience):
                async for item in reader:
                    found.append(item)
        except (BrokerError, TimeoutError) as error:
            found.append(error)
        finally:
            await reader.aclose()
            await client.close()

    with Scripted(serve) as peer:
        run(scenario(peer.port))
    assert connections < 100
    return found


@pytest.mark.parametrize(
    "said",
    [
        b"MSG $SEQ.LOST.5.3 1 0\r\n\r\n",
        b"MSG $SEQ.LOST.x.y 1 0\r\n\r\n",
        b"MSG $SEQ.LOST.5 1 0\r\n\r\n",
        b"MSG $SEQ.LOST.1.2.3 1 0\r\n\r\n",
        b"MSG $SEQ.LOST.-1.5 1 0\r\n\r\n",
        b"MSG $SEQ.LOST.1.99999999999999999999999 1 0\r\n\r\n",
        b"MSG $SEQ.LOST.\xff.\xfe 1 0\r\n\r\n",
        numbered(5) + b"MSG $SEQ.LOST.2.4 1 0\r\n\r\n",
        numbered(10**30),
        b"HMSG a 1 30 30\r\nNATS/1.0\r\nNats-Sequence: x\r\n\r\n\r\n",
    ],
    ids=range(10),
)
def test_given_numbers_and_losses_that_cannot_be_then_a_reader_ends_with_a_clear_error(
    said: bytes,
) -> None:
    def talk(peer: Peer) -> None:
        answer_info(peer)
        peer.expect(b"SUB $SEQ.FROM")
        peer.say(said)
        peer.expect(b"never")

    *before, error = read_from(talk)
    assert isinstance(error, NotABroker)
    assert "not a Seriatim broker" in str(error)
    assert [item.number for item in before] == ([5] if said.startswith(numbered(5)) else [])


def test_given_messages_that_are_not_ours_then_a_reader_ignores_them() -> None:
    def talk(peer: Peer) -> None:
        answer_info(peer)
        peer.expect(b"SUB $SEQ.FROM")
        peer.say(
            b"MSG a 7 1\r\nx\r\n"  # of no subscription of ours
            b"MSG a 1 1\r\nx\r\n"  # without a number
            b"MSG _INBOX.other 2 1\r\nx\r\n"
            b"MSG $SEQ.END.5 9 0\r\n\r\n"  # of another one
            b"PONG\r\nPONG\r\n+OK\r\nPING\r\n" + numbered(1) + numbered(1) + numbered(2)
        )
        peer.say(b"MSG $SEQ.END.2 1 0\r\n\r\n")
        peer.expect(b"never")

    assert [item.number for item in read_from(talk)] == [1, 2]


@pytest.mark.parametrize(
    "wrong",
    [
        {"last": "x"},
        {"first": None},
        {"limits": 5},
        {"journal": None, "last": -5},
        {"last": 10**40},
        {"time": "soon"},
    ],
    ids=str,
)
def test_given_an_info_that_is_none_then_a_reader_says_so_or_goes_on(
    wrong: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_reading, "RETRY_MIN", 0.05)

    def talk(peer: Peer) -> None:
        answer_info(peer, **wrong)
        peer.expect(b"SUB $SEQ.FROM")
        peer.say(b"MSG $SEQ.END.2 1 0\r\n\r\n")

    found = read_from(talk, patience=0.5)
    assert all(isinstance(one, BrokerError | TimeoutError) for one in found)


@pytest.mark.parametrize("kind", ["messages", "losses"])
def test_given_a_flood_that_nobody_takes_then_a_reader_holds_little_of_it(kind: str) -> None:
    sent = [0]

    def talk(peer: Peer) -> None:
        answer_info(peer)
        peer.expect(b"SUB $SEQ.FROM")
        number = 0
        while True:
            numbers = range(number + 1, number + 1001)
            if kind == "messages":
                said = [numbered(at, bytes(1000)) for at in numbers]
            else:
                said = [b"MSG $SEQ.LOST.%d.%d 1 0\r\n\r\n" % (at, at) for at in numbers]
            peer.say(b"".join(said))
            sent[0] += len(b"".join(said))
            number += 1000

    async def scenario(port: int) -> None:
        connecting = seriatim.connect(f"127.0.0.1:{port}")
        client = seriatim.Client(connecting._addresses, connecting._options)
        reader = client.read(losses="yield")
        await anext(reader)
        before, before_peak = -1, peak()
        while sent[0] != before:  # it stops when everything is full
            before = sent[0]
            await asyncio.sleep(0.2)  # no event to await: nothing happens
        # One more read may come on top, and a loss takes several times the bytes of its line.
        assert reader._reading._held < 3 * stream_reading.HELD_BYTES
        assert len(reader._reading._items) < 20_000
        assert peak() - before_peak < 40 << 20
        assert before < 32 << 20  # what waits is in the buffers of the sockets
        await reader.aclose()
        await client.close()

    def serve(peer: Peer) -> None:
        greet(peer)
        talk(peer)

    with Scripted(serve) as peer:
        run(scenario(peer.port))


# The client


@pytest.mark.parametrize(
    "info",
    [
        b'INFO {"max_payload":-5}\r\n',
        b'INFO {"max_payload":"x","headers":5,"connect_urls":5,"nonce":[],"ldm":true}\r\n',
        b'INFO {"connect_urls":[5,null,"","a b","[::",{"x":1},"nats://u:p@h:99999"]}\r\n',
        b"INFO {}\r\n",
        b'INFO {"auth_required":true,"tls_available":1}\r\n',
    ],
    ids=range(5),
)
def test_given_odd_fields_in_info_then_the_client_works_all_the_same(info: bytes) -> None:
    def talk(peer: Peer) -> None:
        peer.say(info)
        while line := peer.file.readline():
            if line.startswith(b"PING"):
                peer.say(b"PONG\r\n" + info)

    async def scenario(port: int) -> None:
        async with seriatim.connect(f"127.0.0.1:{port}", reconnect=False) as client:
            await client.subscribe("a")
            await client.publish_unconfirmed("a", b"x")
            await client.flush()
            assert client.max_payload > 0
            client._wire.lose(ConnectionLost("for this test"))
            await client.closed.wait()

    with Scripted(talk) as peer:
        run(scenario(peer.port))


@pytest.mark.parametrize(
    "said",
    [
        b"INFO [1]\r\n",
        b"INFO " + b"[" * 100_000 + b"\r\n",
        b"INFO {\r\n",
        b'INFO {"tls_required":true}\r\n',
        b"\x16\x03\x01\x02\x00",
        b"x" * 2_000_000,
        b"\0" * 100 + b"\r\n",
        b"MSG a 1 5\r\nhelloXX",
        b"-ERR 'Authorization Violation'\r\n",
        b"-ERR\r\n",
        b"-ERR ''\r\n",
        b"-ERR 'Permissions Violation'\r\n",
        b"INFO {}\r\n" * 3 + b"MSG a 99999999999 1\r\n",
        b"INFO {}\r\nHMSG a 1 5 3\r\n",
        b"INFO {}\r\nHMSG a 1 2000000 3000000\r\n",
        b"INFO {}\r\nMSG a 1 9999999999\r\n",
    ],
    ids=range(16),
)
def test_given_a_beginning_that_is_none_then_connecting_fails_with_one_clear_line(
    said: bytes,
) -> None:
    async def scenario(port: int) -> None:
        before = peak()
        with pytest.raises(BrokerError) as told:
            await seriatim.connect(f"127.0.0.1:{port}", connect_timeout=1)
        text = str(told.value)
        assert text.startswith(f"127.0.0.1:{port}: ")
        assert "\n" not in text
        assert len(text) < 250
        assert peak() - before < 64 << 20

    def talk(peer: Peer) -> None:
        peer.say(said)

    with Scripted(talk) as peer:
        run(scenario(peer.port))


def test_given_a_peer_that_drips_then_connecting_takes_no_longer_than_it_may() -> None:
    """Without a bound in all it would take as long as the peer drips, which is up to the peer."""

    def talk(peer: Peer) -> None:
        peer.say(b"INFO {")
        while True:  # until the client has gone
            peer.say(b" ")
            time.sleep(0.05)  # no event to await: it drips

    async def scenario(port: int) -> None:
        async with asyncio.timeout(WAIT_S):
            with pytest.raises(ConnectionLost, match="no answer in time"):
                await seriatim.connect(f"127.0.0.1:{port}", connect_timeout=0.4)

    with Scripted(talk) as peer:
        run(scenario(peer.port))


def test_given_a_peer_that_drips_later_then_each_call_takes_its_own_time_and_pings_find_out() -> (
    None
):
    def talk(peer: Peer) -> None:
        greet(peer)
        for byte in b"INFO {" + b" " * 10_000:
            peer.say(bytes([byte]))
            time.sleep(0.02)  # no event to await: it drips

    async def scenario(port: int) -> None:
        client = await seriatim.connect(
            f"127.0.0.1:{port}", ping_interval=0.5, pings_max=3, reconnect=False
        )
        for call in (
            client.request("a", timeout=0.05),
            client.info(timeout=0.05),
            client.get(1, timeout=0.05),
            client.flush(timeout=0.05),
        ):
            with pytest.raises(NoAnswer):
                await call
        with pytest.raises(seriatim.Unconfirmed):
            await client.publish("a", timeout=0.05)
        await client.closed.wait()
        assert "nothing was received from the broker in time" in str(client.error)
        await client.close()

    with Scripted(talk) as peer:
        run(scenario(peer.port))


@pytest.mark.parametrize(
    "said",
    [
        b"MSG $SEQ 1 3\r\n1:x\r\n",
        b"MSG _INBOX.p.99999999999999999999999 1 0\r\n\r\n",
        b"MSG _INBOX.p.x 1 3\r\nabc\r\n",
        b"MSG a 2 0\r\n\r\nMSG a 1 0\r\n\r\nMSG a 0 0\r\n\r\nMSG a 77 0\r\n\r\n",
        b"HMSG a 1 12 12\r\nNATS/1.0\r\n\r\n\r\n",
        b"-ERR 'Permissions Violation for Publish to \"x'\r\n-ERR 'Permissions Violation'\r\n",
        b"-ERR 'Permissions Violation for Subscription to \"\"'\r\n",
        b"PONG\r\n" * 1000 + b"PING\r\n" * 1000,
    ],
    ids=range(8),
)
def test_given_answers_that_nobody_asked_for_then_they_are_ignored(said: bytes) -> None:
    def talk(peer: Peer) -> None:
        greet(peer)
        peer.say(said)
        while line := peer.file.readline():
            if line.startswith(b"PING"):
                peer.say(b"PONG\r\n")
            if line.startswith(b"HPUB"):
                peer.say(said)
                peer.say(b"MSG %b 1 4\r\n1:7,\r\n" % line.split()[2])

    async def scenario(port: int) -> None:
        async with seriatim.connect(f"127.0.0.1:{port}") as client:
            assert await client.publish("a", timeout=5) == 7
            await client.flush()
            assert client.is_connected

    with Scripted(talk) as peer:
        run(scenario(peer.port))


@pytest.mark.parametrize(
    "answer",
    [
        *(b"", b"{}", b"[]", b"x", b'{"first":"x","last":1,"repeated":1}', b"\xff", b"null", b"5"),
        b"[" * 100_000,
    ],
)
def test_given_nonsense_as_an_answer_then_each_question_says_that_this_is_no_broker(
    answer: bytes,
) -> None:
    def talk(peer: Peer) -> None:
        greet(peer)
        while line := peer.file.readline():
            words = line.split()
            if line.startswith(b"PING"):
                peer.say(b"PONG\r\n")
            elif line.startswith((b"PUB", b"HPUB")):
                peer.file.read(int(words[-1]) + 2)
                peer.say(b"MSG %b 2 %d\r\n%b\r\n" % (words[2], len(answer), answer))

    async def scenario(port: int) -> None:
        async with seriatim.connect(f"127.0.0.1:{port}") as client:

            async def publish() -> None:
                async with client.batch(timeout=1) as batch:
                    await batch.publish("a", b"x")

            for call in (client.info(), client.get(1), client.last("a"), publish()):
                with pytest.raises(NotABroker):
                    await call

    with Scripted(talk) as peer:
        run(scenario(peer.port))


@settings(max_examples=examples(60))
@given(
    st.lists(
        st.one_of(
            st.binary(max_size=30),
            st.sampled_from(
                [
                    b"\r\n",
                    b"MSG a 3 1\r\nx\r\n",
                    b"MSG a 2 1\r\nx\r\n",
                    b"MSG a 1 1\r\nx\r\n",
                    b"HMSG a 3 12 13\r\nNATS/1.0\r\n\r\nx\r\n",
                    b"PING\r\n",
                    b"PONG\r\n",
                    b"+OK\r\n",
                    b"-ERR 'x'\r\n",
                    b"INFO {}\r\n",
                    numbered(3),
                ]
            ),
        ),
        max_size=6,
    )
)
def test_given_any_bytes_then_the_client_goes_on_or_ends_with_an_error_of_its_own(
    pieces: list[bytes],
) -> None:
    said = b"".join(pieces)

    def talk(peer: Peer) -> None:
        greet(peer)
        peer.say(said)

    async def scenario(port: int) -> None:
        problems: list[object] = []
        asyncio.get_running_loop().set_exception_handler(
            lambda loop, context: problems.append(context)
        )
        client = await seriatim.connect(f"127.0.0.1:{port}", reconnect=False)
        await client.closed.wait()
        assert isinstance(client.error, ConnectionLost)
        await client.close()
        assert problems == []

    with Scripted(talk) as peer:
        run(scenario(peer.port))


def test_given_infos_without_end_then_they_are_too_many() -> None:
    def talk(peer: Peer) -> None:
        greet(peer)
        for number in range(10_000):
            peer.say(b'INFO {"%d":"%b"}\r\n' % (number, b"x" * 10_000))

    async def scenario(port: int) -> None:
        client = await seriatim.connect(f"127.0.0.1:{port}", reconnect=False)
        await client.closed.wait()
        assert "its INFO has 257 fields" in str(client.error)

    with Scripted(talk) as peer:
        run(scenario(peer.port))


def test_given_pings_without_end_and_nobody_who_reads_then_the_connection_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(aio_wire, "UNREAD_MAX", 1 << 20)

    def talk(peer: Peer) -> None:
        greet(peer)
        while True:
            peer.say(b"PING\r\n" * 10_000)

    async def scenario(port: int) -> None:
        client = await seriatim.connect(f"127.0.0.1:{port}", reconnect=False)
        await client.closed.wait()
        assert str(client.error) == "the broker does not read what it is sent"

    with Scripted(talk) as peer:
        run(scenario(peer.port))


def test_given_headers_that_end_early_then_a_stored_message_is_none() -> None:
    for block in (
        b"NATS/1.0\r\n",
        b"NATS/1.0\r\nNats-Subject: a\r\nNats-Sequence: x\r\nNats-Time-Stamp: y\r\n\r\n",
        b"NATS/1.0\r\nNats-Subject: a\r\nNats-Sequence: 1",
    ):
        with pytest.raises(NotABroker):
            read_stored(Message("_INBOX", "", block, b""))
    block = b"NATS/1.0\r\nNats-Subject: a\r\nNats-Sequence: 1\r\nNats-Time-Stamp: y"
    assert read_stored(Message("_INBOX", "", block, b"x")).number == 1


def test_given_a_broker_that_closes_at_once_then_the_client_does_not_hurry() -> None:
    connections = [0]

    def talk(peer: Peer) -> None:
        connections[0] += 1
        greet(peer)

    async def scenario(port: int) -> None:
        begun = time.monotonic()
        client = await seriatim.connect(f"127.0.0.1:{port}")
        await asyncio.sleep(1)  # no event to await: it tries, again and again
        async with asyncio.timeout(WAIT_S):
            while connections[0] < 2:
                await asyncio.sleep(0.01)  # no event to await: the peer counts
        await client.close()
        assert connections[0] <= 12 * (time.monotonic() - begun)

    assert stream_client.SHORT_PAUSE >= 0.2
    with Scripted(talk) as peer:
        run(scenario(peer.port))
