"""The frame in all its shapes, as subscribers get it, against a naive formatter.

A frame is edited from message to message, so these tests use runs: equal and unequal sizes,
numbers that grow a digit, lines that outgrow the margin. When compiled it is written by C and not
accessible, so the tests look at the output of the data plane.
"""

import json
from collections.abc import Sequence
from itertools import cycle

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from testkit.messages import Message, message
from testkit.model_frame import netstring_frame
from testkit.stage import HEADS, QUIET, Stage
from tests.support.depth import examples
from tests.support.places import VECTORS

many = settings(max_examples=examples(250))
STARTS = [0, 1, 7, 8, 97, 996, (1 << 32) - 3, (1 << 63) - 40, *(10**k - 3 for k in range(3, 19))]
SHAPES = [  # CONNECT, frame, whether it takes headers
    (QUIET, "netstring", False),
    (HEADS, "netstring", True),
    (QUIET, "header", False),
    (HEADS, "header", True),
    (QUIET, "stamp", False),
    (HEADS, "stamp", True),
    (QUIET, "none", False),
    (HEADS, "none", True),
]

TIME = 1_769_860_800_123_456_789
SECOND = 10**9
DAY = 86_400 * SECOND
moments = st.one_of(
    st.integers(0, 9_223_372_036 * SECOND),
    st.builds(
        lambda days, seconds, ns: days * DAY + seconds * SECOND + ns,
        st.integers(20_000, 20_002),
        st.sampled_from([0, 1, 59, 60, 3599, 3600, 86_399]),
        st.sampled_from([0, 1, 9, 10, 99_999_999, 100_000_000, 999_999_999]),
    ),
)

sizes = st.one_of(st.sampled_from([0, 1, 8, 9, 10, 11, 99, 100]), st.integers(0, 300))
header_blocks = st.sampled_from(
    [
        b"NATS/1.0\r\n\r\n",
        b"NATS/1.0\r\nA: b\r\n\r\n",
        b"NATS/1.0 503\r\n\r\n",
        b"no line",
        b"\r\n",
        b"x\r",
        b"x\r\n",
        b"N" * 700 + b"\r\n\r\n",
    ]
)


@st.composite
def messages(draw: st.DrawFn) -> Message:
    payload = draw(st.sampled_from([b"x", b"\r\n,:9"]))
    payload = (payload * 300)[: draw(sizes)]
    headers = draw(header_blocks) if draw(st.integers(0, 3)) == 0 else b""
    zeros = draw(st.sampled_from([b"", b"", b"0", b"00"]))
    total = zeros + b"%d" % (len(headers) + len(payload))
    return Message(
        draw(st.sampled_from([b"a", b"a.b", b"a." + b"long" * 150])),
        payload,
        headers,
        draw(st.sampled_from([b"", b"", b"", b"r.1", b"r" * 600])),
        zeros + b"%d " % len(headers) + total if headers else total,
    )


@st.composite
def runs(draw: st.DrawFn) -> list[Message]:
    """Messages in runs of equal ones: a run is what a frame is edited for."""
    found: list[Message] = []
    for one in draw(st.lists(messages(), min_size=1, max_size=8)):
        found += [one] * draw(st.sampled_from([1, 1, 2, 5]))
    return found


def heard(
    start: int, sent: list[Message], sids: list[bytes], times: Sequence[int] = (TIME,)
) -> list[tuple[bytes, bytes]]:
    """What a peer of every shape heard with these subscriptions, and what it should have.

    With several times, each message comes in a turn of its own, at the next of them.
    """
    stage = Stage(number=start)
    peers = [stage.join(connect, frame=frame) for connect, frame, _ in SHAPES]
    for peer in peers:
        for sid in sids:
            peer.send(b"SUB > %b\r\n" % sid)
    publisher = stage.join(HEADS)
    dated = list(zip(sent, cycle(times), strict=False))
    if len(times) == 1:
        stage.sequencer.tick(times[0])
        publisher.send(b"".join(one.wire for one in sent))
    else:
        for one, time in dated:
            stage.sequencer.tick(time)
            publisher.send(one.wire)
    assert stage.number == start + len(sent)
    pairs = []
    for peer, (_, frame, takes) in zip(peers, SHAPES, strict=True):
        numbered = enumerate(dated, start + 1)
        wanted = [
            [message(one, sid, number, frame, takes, time) for sid in reversed(sids)]
            for number, (one, time) in numbered
        ]
        pairs.append((peer.take(), b"".join(b"".join(copies) for copies in wanted)))
    return pairs


@many
@given(start=st.sampled_from(STARTS), sent=runs())
@example(start=8, sent=[Message(b"a", b"x" * size) for size in (1, 1, 1, 9, 10, 10, 99, 100, 0)])
@example(start=98, sent=[Message(b"a", b"", sizes=size) for size in (b"0", b"00", b"00", b"0")])
def test_given_any_run_of_messages_then_every_shape_is_what_a_naive_formatter_writes(
    start: int, sent: list[Message]
) -> None:
    for got, wanted in heard(start, sent, [b"1"]):
        assert got == wanted


@many
@given(
    start=st.sampled_from(STARTS),
    sent=runs(),
    sids=st.lists(
        st.sampled_from([b"1", b"22", b"sid", b"s" * 700]), min_size=1, max_size=3, unique=True
    ),
)
def test_given_several_sids_on_a_connection_then_each_copy_has_its_own_line(
    start: int, sent: list[Message], sids: list[bytes]
) -> None:
    for got, wanted in heard(start, sent, sids):
        assert got == wanted


@many
@given(start=st.sampled_from(STARTS), sent=runs(), times=st.lists(moments, min_size=2, max_size=6))
def test_given_any_times_also_of_a_clock_that_jumps_then_each_message_has_its_own(
    start: int, sent: list[Message], times: list[int]
) -> None:
    for got, wanted in heard(start, sent, [b"1"], times):
        assert got == wanted


def test_given_a_stamped_message_then_these_are_its_bytes() -> None:
    stage = Stage(number=88_484)
    stage.sequencer.tick(TIME)
    peer = stage.join(HEADS + b"SUB a 1\r\n", frame="stamp")
    publisher = stage.join(HEADS)
    publisher.send(Message(b"a", b"hello").wire)
    stamp = b"Nats-Time-Stamp: 2026-01-31T12:00:00.123456789Z\r\n"
    head = b"HMSG a 1 83 88\r\nNATS/1.0\r\nNats-Sequence: %d\r\n%b\r\nhello\r\n"
    assert peer.take() == head % (88_485, stamp)
    stage.sequencer.tick(TIME + 1)
    publisher.send(Message(b"a", b"hello").wire)
    assert peer.take() == head % (88_486, stamp.replace(b"789Z", b"790Z"))
    publisher.send(Message(b"a", b"hello", b"NATS/1.0\r\nA: b\r\n\r\n").wire)
    assert peer.take() == (
        b"HMSG a 1 89 94\r\nNATS/1.0\r\nNats-Sequence: 88487\r\n"
        b"Nats-Time-Stamp: 2026-01-31T12:00:00.123456790Z\r\nA: b\r\n\r\nhello\r\n"
    )


@pytest.mark.parametrize("digits", range(1, 19))
def test_given_a_number_that_grows_a_digit_then_the_whole_frame_grows(digits: int) -> None:
    start = 10**digits - 3
    sent = [Message(b"a", b"hello")] * 5
    for got, wanted in heard(start, sent, [b"1"]):
        assert got == wanted


def test_given_the_last_numbers_there_are_then_they_are_written_in_full() -> None:
    start = (1 << 63) - 3
    sent = [Message(b"a", b"hello")] * 2
    for got, wanted in heard(start, sent, [b"1"]):
        assert got == wanted
    stage = Stage(number=start)
    ear = stage.join(QUIET + b"SUB a 1\r\n")
    stage.join(QUIET).send(sent[0].wire * 2)
    assert ear.take().endswith(b"19:9223372036854775807,5:hello,,\r\n")


CASES = json.loads((VECTORS / "netstring_frames.json").read_text())


@pytest.mark.parametrize("vector", CASES["good"], ids=lambda vector: vector["seq"])
def test_given_the_contracts_vectors_then_the_broker_and_the_judge_write_them(
    vector: dict[str, str],
) -> None:
    number, payload = int(vector["seq"]), bytes.fromhex(vector["payload_hex"])
    frame = bytes.fromhex(vector["frame_hex"])
    assert netstring_frame(number, payload) == frame
    if number >= 1 << 63:
        return  # the format goes on, our numbers do not
    stage = Stage(number=number - 1)
    ear = stage.join(QUIET + b"SUB a 1\r\n")
    stage.join(QUIET).send(b"PUB a %d\r\n%b\r\n" % (len(payload), payload))
    assert ear.take() == b"MSG a 1 %d\r\n%b\r\n" % (len(frame), frame)


def test_given_every_payload_size_up_to_a_kibibyte_then_lengths_are_right_at_each_border() -> None:
    sent = [Message(b"a", b"z" * size) for size in range(1024)]
    for got, wanted in heard(9_500, sent, [b"1"]):
        assert got == wanted


@pytest.mark.parametrize("reply", [0, 1000])
@pytest.mark.parametrize("size", [480, 512, 1400])
def test_given_a_line_longer_than_the_margin_when_a_short_one_follows_then_both_are_right(
    size: int, reply: int
) -> None:
    long = Message(b"s" * size, b"x", reply=b"r" * reply)
    headed = Message(b"s" * size, b"x", b"NATS/1.0\r\n" + b"h" * 3000 + b"\r\n\r\n")
    short = Message(b"a", b"x")
    sent = [short, long, short, short, headed, short, long, headed, headed, short]
    for got, wanted in heard(96, sent, [b"1", b"s" * 500]):
        assert got == wanted


def test_given_sizes_as_written_then_only_undisturbed_payloads_relay_them() -> None:
    sent = [
        Message(b"a", b"hello", sizes=b"005"),
        Message(b"a", b"hello", sizes=b"5"),
        Message(b"a", b"hello", sizes=b"000000005"),
        Message(b"a", b"lo", b"hel", sizes=b"03 0005"),
        Message(b"a", b"hello", headed=True, sizes=b"00 05"),
    ]
    stage = Stage()
    plain = stage.join(QUIET + b"SUB a 1\r\n", frame="none")
    heads = stage.join(HEADS + b"SUB a 1\r\n", frame="none")
    framed = stage.join(HEADS + b"SUB a 1\r\n")
    stage.join(HEADS).send(b"".join(one.wire for one in sent))
    lines = [line for line in plain.take().split(b"\r\n") if line.startswith(b"MSG")]
    assert lines == [
        b"MSG a 1 005",
        b"MSG a 1 5",
        b"MSG a 1 000000005",
        b"MSG a 1 2",
        b"MSG a 1 05",
    ]
    lines = [line for line in heads.take().split(b"\r\n") if b"MSG" in line]
    assert lines[3:] == [b"HMSG a 1 03 0005", b"MSG a 1 05"]
    assert framed.take().startswith(b"MSG a 1 16\r\n12:1:1,5:hello,,\r\n")
