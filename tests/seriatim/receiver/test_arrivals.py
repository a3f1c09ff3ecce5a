"""Reading a socket: every datagram as it was sent, alone or in a run, or dropped."""

import socket
from collections.abc import Iterator

import pytest

from sequencer.feed.feed import Feed
from sequencer.feed.feed_codec import DATA, Codec, Packet
from sequencer.feed.netstrings import NetstringCodec
from seriatim.receiver.arrivals import RUNS, Arrivals
from seriatim.receiver.events import NewStream
from seriatim.receiver.group import Group, join
from seriatim.receiver.order import Order
from tests.support.codecs import GOOD, MISTAKES, Wrong
from tests.support.multicast import mouth, new_group
from tests.support.receiving import batch_of, message_of

UDP_SEGMENT = 103


@pytest.fixture
def heard() -> Iterator[tuple[tuple[str, int], socket.socket]]:
    group = new_group()
    with join(Group(*group, interface="127.0.0.1")) as made:
        yield group, made


@pytest.mark.parametrize("segment", [True, False], ids=["in runs", "alone"])
@pytest.mark.parametrize(
    "sizes",
    [[100] * 150, [100] * 20 + [7] * 30, [0] * 3, [60_000, 1, 60_000], list(range(200))],
    ids=["alike", "two kinds", "empty", "long", "rising"],
)
def test_given_datagrams_of_any_sizes_then_they_are_read_as_they_were_sent(
    heard: tuple[tuple[str, int], socket.socket], sizes: list[int], segment: bool
) -> None:
    group, made = heard
    arrivals, codec, order = Arrivals(made), NetstringCodec(), Order(1)
    messages = [message_of(n, size=size) for n, size in enumerate(sizes, 1)]
    with mouth(group) as speaker:
        feed = Feed(codec, speaker, datagram_max=65_507, segment=segment)
        for _ in range(2):
            batch = batch_of(messages)
            feed.add_records(bytearray(batch.view()), batch.end)
            feed.flush(2**62)
    received: list[bytes] = []
    while len(received) < len(sizes):
        received += arrivals.datagrams()
    assert [codec.decode(one).messages[0].payload for one in received[: len(sizes)]] == [
        message.payload for message in messages
    ]
    while arrivals.read(order, codec, 0.0, 0):
        pass
    assert arrivals.count == 2 * len(sizes)
    assert (arrivals.malformed, arrivals.drops, arrivals.error) == (0, 0, 0)


@pytest.mark.skipif(not RUNS, reason="runs are read by the compiled build alone")
def test_given_a_run_then_its_last_datagram_may_be_shorter_and_each_is_offered(
    heard: tuple[tuple[str, int], socket.socket],
) -> None:
    group, made = heard
    codec = NetstringCodec()
    sent = [codec.datagram([message_of(n)], n - 1) for n in range(1, 9)]
    with mouth(group) as speaker:
        speaker.setsockopt(socket.IPPROTO_UDP, UDP_SEGMENT, 2 * len(sent[0]))
        speaker.send(b"".join(sent[:7]))  # four datagrams, of which the last has one frame
    order = Order(0)
    arrivals = Arrivals(made)
    assert arrivals.read(order, codec, 0.0, 0) == 4
    assert [message.number for message in order.drain()] == [*range(1, 8)]


def test_given_what_is_none_of_the_codec_then_it_is_counted_with_its_reason(
    heard: tuple[tuple[str, int], socket.socket],
) -> None:
    group, made = heard
    codec, order, arrivals = NetstringCodec(), Order(0), Arrivals(made)
    with mouth(group) as speaker:
        for datagram in (b"hello", codec.datagram([message_of(5)], 4), b""):
            speaker.send(datagram)
    assert arrivals.read(order, codec, 0.0, 0) == 3
    assert [message.number for message in order.drain()] == [5]
    assert arrivals.malformed == 2
    assert arrivals.fault.startswith("CodecError: at byte 0: ")


@pytest.mark.parametrize("mistake", MISTAKES)
def test_given_a_codec_of_ones_own_that_returns_what_is_no_packet_then_it_counts_as_malformed(
    heard: tuple[tuple[str, int], socket.socket], mistake: str
) -> None:
    group, made = heard
    codec: Codec = Wrong()
    codec.said = MISTAKES[mistake]  # type: ignore[attr-defined]
    order, arrivals = Order(1), Arrivals(made)
    with mouth(group) as speaker:
        for datagram in (b"bad", GOOD):
            speaker.send(datagram)
    assert arrivals.read(order, codec, 0.0, 0) == 2
    assert [message.payload for message in order.drain()] == [GOOD]
    assert (arrivals.malformed, order.malformed) == (1, 0)
    assert "Error: " in arrivals.fault, "as an exception of the codec's"


def test_given_input_that_is_no_message_among_messages_then_the_order_takes_it_for_malformed() -> (
    None
):
    for none in (None, "x"):
        order, messages = Order(1, fills=True), [message_of(1), none]
        order.offer(Packet(DATA, messages, 0, 3), 0.0)  # type: ignore[arg-type]
        order.filled(0, 1, 2, messages, 0.0)  # type: ignore[arg-type]
        assert (order.malformed, order.drain()) == (2, [])


def test_given_two_senders_then_the_one_that_begins_again_is_recognized(
    heard: tuple[tuple[str, int], socket.socket],
) -> None:
    group, made = heard
    codec, order, arrivals = NetstringCodec(), Order(0), Arrivals(made)
    with mouth(group) as one, mouth(group) as other:
        for now, speaker, numbers in ((0.0, one, (7, 8)), (1.0, other, (1,)), (9.0, other, (1, 2))):
            for number in numbers:
                speaker.send(codec.datagram([message_of(number)], number - 1))
            arrivals.read(order, codec, now, 0)
    told = [event if isinstance(event, NewStream) else event.number for event in order.drain()]
    assert told == [7, 8, NewStream(), 1, 2]
    assert order.strangers == 1


def test_given_more_than_the_kernel_holds_then_what_it_dropped_is_counted() -> None:
    group = new_group()
    with (
        join(Group(*group, interface="127.0.0.1", buffer_bytes=16_384)) as made,
        mouth(group) as speaker,
    ):
        doubled = made.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
        assert 1000 < doubled // 2 <= 16_384
        arrivals = Arrivals(made)
        for _ in range(200):
            speaker.send(bytes(1000))
        kept = len(arrivals.datagrams())
        speaker.send(b"the kernel says it with the next")
        assert arrivals.datagrams() == [b"the kernel says it with the next"]
        assert 0 < kept < 200
        assert arrivals.drops == 200 - kept
