"""cquencer's port with netstrings: any message, any cut, any number of them before an answer."""

import random
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.cquencer.cquencer_client import CquencerClient
from broker.cquencer.cquencer_port import CquencerPort
from sequencer.netstring import Decoder, NetstringError
from testkit.model_frame import split_frame
from tests.support.cquencer_clients import Talker, calling, cquencer_of, netstring
from tests.support.depth import compiled_only, examples
from tests.support.serving import Broker, Client

MAX_PAYLOAD = 1000
STREAM = b"0:,5:hello,1:a,3:a\0b,0:,13:3:abc,1:x,0:,,2:\r\n,"
ANSWERS = [b"0", b"1", b"2", b"3", b"3", b"4", b"5"]
PAYLOADS = [b"hello", b"a", b"a\0b", b"3:abc,1:x,0:,", b"\r\n"]
WRONG = "-ERR 'Not a Netstring: at byte "


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """One broker for all: what each test looks at begins with its own first number."""
    path = tmp_path_factory.mktemp("store")
    flags: dict[str, Any] = {"limits__max_payload": str(MAX_PAYLOAD), "limits__drain_timeout": "0"}
    with calling(path, framing="netstring", **flags) as made:
        yield made


def subscriber(broker: Broker) -> Client:
    client = broker.client()
    client.ask(b"SUB cq 1\r\n")
    return client


def frames(client: Client) -> list[tuple[int, bytes]]:
    return [split_frame(one.payload) for one in client.ask(b"")]


def last(broker: Broker) -> int:
    return broker.server.last_number


@pytest.mark.parametrize("cut", range(1, len(STREAM)))
def test_given_netstrings_cut_anywhere_then_they_are_the_same_messages(
    broker: Broker, cut: int
) -> None:
    ear, before = subscriber(broker), last(broker)
    with Talker(broker) as talker:
        talker.send(STREAM[:cut], STREAM[cut:])
        assert talker.hear(len(ANSWERS)) == [b"%d" % (before + int(answer)) for answer in ANSWERS]
    assert frames(ear) == list(enumerate(PAYLOADS, before + 1))


def test_given_netstrings_byte_by_byte_then_they_are_the_same_messages(broker: Broker) -> None:
    ear, before = subscriber(broker), last(broker)
    with Talker(broker) as talker:
        talker.send(*(STREAM[at : at + 1] for at in range(len(STREAM))))
        assert talker.hear(len(ANSWERS)) == [b"%d" % (before + int(answer)) for answer in ANSWERS]
    assert frames(ear) == list(enumerate(PAYLOADS, before + 1))


@pytest.mark.parametrize(
    ("said", "at", "expected", "got"),
    [
        (b"x", 0, "a digit", "0x78"),
        (b":,", 0, "a digit", "0x3a"),
        (b"-1:a,", 0, "a digit", "0x2d"),
        (b" 1:a,", 0, "a digit", "0x20"),
        (b"1:a,\n", 4, "a digit", "0x0a"),
        (b"05:hello,", 1, "':'", "0x35"),
        (b"00:,", 1, "':'", "0x30"),
        (b"5hello,", 1, "a digit or ':'", "0x68"),
        (b"5 :hello,", 1, "a digit or ':'", "0x20"),
        (b"5:hello;", 7, "','", "0x3b"),
        (b"5:hello world,", 7, "','", "0x20"),
        (b"0:x", 2, "','", "0x78"),
        (b"1234567890123456789:", 18, "':'", "0x39"),
        (b"1001:" + b"x" * 1001 + b";", 1006, "','", "0x3b"),
    ],
)
def test_given_bytes_that_are_no_netstring_then_the_client_gets_the_reason_and_is_closed(
    broker: Broker, said: bytes, at: int, expected: str, got: str
) -> None:
    before = last(broker)
    errors = cquencer_of(broker).port.errors
    with Talker(broker) as talker:
        for piece in (b"2:ok,", said, b"5:never,"):
            talker.push(piece)
        talker.end()
        answers = talker.rest()
    assert answers[0] == b"%d" % (before + 1)
    told = f"{WRONG}{5 + at}: expected {expected}, got {got}'".encode()
    assert answers[-1] == told
    whole = said.count(b"1:a,") if said.startswith(b"1:a,") else 0
    assert last(broker) == before + 1 + whole
    assert cquencer_of(broker).port.errors == errors + (2 if said.startswith(b"1001") else 1)
    broker.until(lambda: cquencer_of(broker).clients == {})


@pytest.mark.parametrize("said", [b"5", b"5:", b"5:hell", b"5:hello", b"2000:", b"2000:xyz"])
def test_given_an_end_in_the_middle_of_a_message_then_it_is_not_taken_and_the_client_is_informed(
    broker: Broker, said: bytes
) -> None:
    before = last(broker)
    with Talker(broker) as talker:
        talker.push(b"2:ok," + said)
        talker.end()
        answers = talker.rest()
    assert answers[0] == b"%d" % (before + 1)
    told = f"{WRONG}{5 + len(said)}: expected the rest of it, got the end'"
    assert answers[-1] == told.encode()
    assert last(broker) == before + 1


def test_given_a_message_that_is_too_long_then_it_is_refused_and_the_others_are_not(
    broker: Broker,
) -> None:
    ear, before = subscriber(broker), last(broker)
    stream = b"2:ok,1001:" + b"x" * 1001 + b",3:yes,3000000:" + b"x" * 3_000_000 + b",4:more,"
    with Talker(broker) as talker:
        talker.send(stream)
        numbers = [b"%d" % (before + n) for n in (1, 2, 3)]
        refused = b"-ERR 'Maximum Payload Violation'"
        assert talker.hear(5) == [numbers[0], refused, numbers[1], refused, numbers[2]]
    assert [payload for _, payload in frames(ear)] == [b"ok", b"yes", b"more"]


def test_given_many_messages_before_an_answer_then_each_is_answered_in_order(
    broker: Broker,
) -> None:
    ear, before = subscriber(broker), last(broker)
    messages = [b"%d" % at * (1 + at % 50) for at in range(5000)]
    with Talker(broker) as talker:
        talker.send(b"".join(netstring(message) for message in messages))
        assert talker.hear(5000) == [b"%d" % n for n in range(before + 1, before + 5001)]
    assert frames(ear) == list(enumerate(messages, before + 1))


pieces = st.one_of(
    st.binary(max_size=40).map(netstring),
    st.integers(900, 1100).map(lambda size: netstring(b"y" * size)),
    st.binary(max_size=3),
)


@settings(max_examples=examples(150))
@given(parts=st.lists(pieces, max_size=8), cuts=st.lists(st.integers(0, 1 << 14), max_size=12))
def test_given_any_stream_in_any_pieces_then_what_is_taken_is_what_a_decoder_finds(
    broker: Broker, parts: list[bytes], cuts: list[int]
) -> None:
    stream = b"".join(parts)
    decoder, before = Decoder(1 << 40), last(broker)
    found: list[bytes] = []
    broken = False
    try:
        found += decoder.feed(stream)
        decoder.finish()
    except NetstringError:
        broken = True
        found = whole_ones(stream)
    wanted, number = [], before
    for payload in found:
        number += 0 < len(payload) <= MAX_PAYLOAD
        fits = len(payload) <= MAX_PAYLOAD
        wanted.append(b"%d" % number if fits else b"-ERR 'Maximum Payload Violation'")
    ear = subscriber(broker)
    edges = sorted({0, len(stream), *(cut % (len(stream) + 1) for cut in cuts)})
    with Talker(broker) as talker:
        for start, end in pairwise(edges):
            talker.push(stream[start:end])
        talker.end()
        answers = talker.rest()
    assert answers[: len(wanted)] == wanted
    assert bool(answers[len(wanted) :]) == broken
    kept = [payload for payload in found if 0 < len(payload) <= MAX_PAYLOAD]
    assert frames(ear) == list(enumerate(kept, before + 1))
    ear.close()


def whole_ones(stream: bytes) -> list[bytes]:
    """The netstrings before the place where the stream is none any more."""
    found: list[bytes] = []
    decoder = Decoder(1 << 40)
    try:
        for at in range(len(stream)):
            found += decoder.feed(stream[at : at + 1])
    except NetstringError:
        pass
    return found


def test_given_long_messages_in_pieces_then_they_are_whole_and_short_ones_around_them(
    tmp_path: Path,
) -> None:
    source = random.Random(5)
    sizes = [15, 16_400, 70_000, 1, 300_000, 65_536, 1_048_576, 3]
    messages = [source.randbytes(size) for size in sizes]
    stream = b"".join(netstring(message) for message in messages)
    with calling(tmp_path, framing="netstring") as broker:
        ear = subscriber(broker)
        with Talker(broker) as talker:
            at = 0
            while at < len(stream):
                at += talker.push(stream[at : at + source.choice((1, 700, 5000, 40_000, 200_000))])
            assert talker.hear(len(sizes)) == [b"%d" % n for n in range(1, len(sizes) + 1)]
        assert [payload for _, payload in frames(ear)] == messages


def test_given_a_long_message_that_is_only_announced_then_little_is_held_for_it(
    tmp_path: Path,
) -> None:
    with calling(tmp_path, framing="netstring") as broker, Talker(broker) as talker:
        talker.push(b"1000000:" + b"x" * 20_000)
        clients = cquencer_of(broker).clients
        broker.until(lambda: any(one.kept is not None for one in clients.values()))
        (caller,) = clients.values()
        assert caller.kept is not None
        assert len(caller.kept) <= 2 * 20_008
        talker.send(b"x" * 980_000)
        assert talker.ask(b",") == b"1"
        assert caller.kept is None


@compiled_only
def test_given_more_fan_out_than_a_turn_may_take_then_it_is_done_in_several(
    tmp_path: Path,
) -> None:
    with calling(tmp_path, framing="netstring", limits__drain_timeout="0") as broker:
        crowd = broker.client()
        crowd.ask(b"".join(b"SUB cq %d\r\n" % sid for sid in range(2000)))
        ear = subscriber(broker)
        with Talker(broker) as talker, Talker(broker) as other:
            talker.socket.send(netstring(b"x") * 300)  # 600 000 offers
            other.socket.send(b"0:,")
            assert int(other.hear()[0]) < 300, "it is served between two turns"
            assert talker.hear(300) == [b"%d" % number for number in range(1, 301)]
        heard: list[tuple[int, bytes]] = []
        while len(heard) < 300:
            heard += frames(ear)
        assert [number for number, _ in heard] == list(range(1, 301))


@compiled_only
@pytest.mark.parametrize(
    "said", [b"1:x,", b"0:,", b"2:xy,"], ids=["messages", "queries", "refused"]
)
def test_given_clients_that_never_pause_then_a_turn_ends_and_each_has_its_share(
    tmp_path: Path, said: bytes
) -> None:
    flags: dict[str, Any] = {"limits__max_payload": "1", "limits__drain_timeout": "0"}
    with calling(tmp_path, framing="netstring", **flags) as broker, ExitStack() as talkers:
        crowd = [talkers.enter_context(Talker(broker)) for _ in range(8)]
        cquencer = cquencer_of(broker)
        broker.until(lambda: len(cquencer.clients) == len(crowd))
        for talker in crowd:
            assert talker.socket.send(said * 100_000) > 200_000, "four reads"
        for _ in range(6):
            before = answered(broker)
            cquencer.port.turn()
            assert 0 < answered(broker) - before < 100_000
        shares = [answers_of(caller) for caller in cquencer.clients.values()]
        assert min(shares) > 0, shares


def answers_of(one: CquencerClient | CquencerPort) -> int:
    return one.messages + one.queries + one.errors


def answered(broker: Broker) -> int:
    return answers_of(cquencer_of(broker).port)


@compiled_only
def test_given_a_client_that_reads_no_answers_then_it_is_not_read_and_gets_all_of_them_later(
    tmp_path: Path,
) -> None:
    flags: dict[str, Any] = {"limits__max_payload": "1"}
    with (
        calling(tmp_path, framing="netstring", **flags) as broker,
        Talker(broker, receive_buffer=1 << 17) as talker,
        Talker(broker) as other,
    ):
        clients = cquencer_of(broker).clients
        broker.until(lambda: len(clients) == 2)
        first = min(clients.values(), key=lambda caller: caller.cid)
        first.connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 17)
        first.connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 17)
        sent = 0
        unit = b"2:xx," * 7 + b"1:x,"  # seven long answers and a number
        while (took := talker.push((unit * 1000)[sent % len(unit) :])) > 0:
            sent += took
        stuck, whole = broker.server.last_number, sent // len(unit)
        assert stuck < whole
        others = int(other.ask(b"1:y,"))
        assert stuck < others <= whole, "others are served"
        numbers = [int(answer) for answer in talker.hear(8 * whole) if answer[:1] != b"-"]
        assert numbers == sorted(numbers)
        assert sorted({others, *numbers}) == list(range(1, whole + 2))
