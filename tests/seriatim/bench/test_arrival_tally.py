"""What a subscriber counts: every message once, in any pieces, and nothing that is no message."""

import time

from hypothesis import given
from hypothesis import strategies as st

from sequencer.netstring import encode_frame
from seriatim.bench.arrival_tally import ArrivalTally
from seriatim.bench.latency_table import LatencyTable
from seriatim.bench.message_block import key_of

RUN = 77
SIZE = 20


def stamped(sequence: int, publisher: int = 0, run: int = RUN, due: int = 0) -> bytes:
    stamp = (key_of(run, publisher) + sequence).to_bytes(8) + due.to_bytes(8)
    return stamp + b"x" * (SIZE - 16)


def plain(payload: bytes, subject: str = "bench") -> bytes:
    return f"MSG {subject} 9 {len(payload)}\r\n".encode() + payload + b"\r\n"


def framed(number: int, payload: bytes) -> bytes:
    return plain(encode_frame(number, payload))


def counted(
    data: bytes, is_framed: bool = True, run: int = RUN, publishers: int = 3
) -> ArrivalTally:
    """The tally of data that it takes to the end."""
    tally = ArrivalTally(run, publishers, SIZE, is_framed)
    assert tally.scan(bytearray(data), 0, len(data), 0) == len(data)
    return tally


def test_given_messages_of_several_publishers_then_all_are_counted_in_order() -> None:
    order = [(0, 0), (1, 0), (0, 1), (2, 0), (1, 1), (0, 2)]
    data = b"".join(framed(5 + at, stamped(seq, who)) for at, (who, seq) in enumerate(order))
    tally = counted(data)
    assert (tally.messages, tally.reached, tally.payload_bytes) == (6, 6, 6 * SIZE)
    assert (tally.repeated, tally.foreign, tally.disordered) == (0, 0, 0)
    assert (tally.first, tally.last) == (5, 10)


def test_given_a_gap_a_repetition_and_a_late_one_then_each_is_told() -> None:
    tally = counted(b"".join(plain(stamped(seq)) for seq in (0, 1, 1, 4, 3)), is_framed=False)
    assert (tally.messages, tally.reached, tally.repeated) == (5, 5, 2)
    assert tally.messages - tally.repeated == 3  # of five: two are missing


def test_given_numbers_that_do_not_rise_then_they_are_told() -> None:
    numbers = (7, 8, 8, 6, 9)
    tally = counted(b"".join(framed(one, stamped(at)) for at, one in enumerate(numbers)))
    assert (tally.messages, tally.disordered) == (5, 2)


def test_given_what_others_publish_then_it_is_not_ours() -> None:
    head = b"NATS/1.0\r\nA: b\r\n\r\n"
    frame = encode_frame(4, stamped(0))
    sizes = f"{len(head)} {len(head) + len(frame)}".encode()
    others = [
        framed(1, stamped(0, run=RUN + 1)),
        framed(2, stamped(0, publisher=3)),  # there are three: 0, 1 and 2
        framed(3, stamped(0)[:-1]),
        framed(3, b""),
        plain(b"no frame at all"),
        plain(b""),
    ]
    ours = b"HMSG bench 9 reply " + sizes + b"\r\n" + head + frame + b"\r\n"
    tally = counted(b"".join(others) + ours)
    assert (tally.messages, tally.foreign, tally.last) == (1, 6, 4)


def test_given_no_run_then_every_message_counts_with_its_payload() -> None:
    tally = counted(framed(1, b"hello") + framed(2, b"") + plain(b"12:x"), run=0)
    assert (tally.messages, tally.payload_bytes, tally.last) == (3, 9, 2)


def test_given_latencies_then_each_message_is_timed_from_when_it_was_due() -> None:
    latencies = LatencyTable()
    now = time.monotonic_ns()
    data = b"".join(plain(stamped(at, due=now - us * 1000)) for at, us in enumerate((5, 9, 5)))
    tally = ArrivalTally(RUN, 1, SIZE, False, latencies)
    assert tally.scan(bytearray(data), 0, len(data), now) == len(data)
    assert latencies.pairs() == [(5, 2), (9, 1)]


def test_given_anything_else_then_the_scan_stops_before_it() -> None:
    message = framed(1, stamped(0))
    for other in (
        b"PING\r\n",
        b"-ERR 'Slow Consumer'\r\n",
        b"MSG $SEQ.END.9 9 0\r\n\r\n",
        b"MSG bench 9 4\r\nab",
        b"MSG bench 9 2\r\nabc\r\n",
        b"MSG bench 9 -2\r\n\r\n",
        b"MSG bench 9 x\r\n\r\n",
        b"MSG \r\n",
        b"HMSG 3\r\nabc\r\n",
        b"HMSG a 9 9 3\r\nabc\r\n",
        b"MSG bench 9 9999999999999999999999\r\nabc\r\n",
        b"MSG bench 9 999999999999999999\r\nabc\r\n",
        b"MSG bench",
        b"M",
    ):
        data = bytearray(message + other)
        tally = ArrivalTally(RUN, 1, SIZE, True)
        assert tally.scan(data, 0, len(data), 0) == len(message), other
        assert tally.messages == 1


@given(cuts=st.lists(st.integers(1, 60), min_size=1), numbers=st.lists(st.integers(1, 10**17)))
def test_given_any_chunking_then_the_figures_are_the_same(
    cuts: list[int], numbers: list[int]
) -> None:
    data = b"".join(framed(one, stamped(at)) for at, one in enumerate(numbers))
    whole = counted(data)
    tally, buffer, at, step = ArrivalTally(RUN, 3, SIZE, True), bytearray(), 0, 0
    while len(buffer) < len(data):
        size = cuts[step % len(cuts)]
        buffer += data[len(buffer) : len(buffer) + size]
        at = tally.scan(buffer, at, len(buffer), 0)
        step += 1
    assert at == len(data)
    for name in ("messages", "reached", "repeated", "disordered", "first", "last"):
        assert getattr(tally, name) == getattr(whole, name)
    assert tally.messages == len(numbers)


@given(
    data=st.binary(max_size=200), head=st.sampled_from([b"MSG ", b"HMSG a 1 2 ", b"MSG a 1 ", b""])
)
def test_given_any_bytes_then_the_scan_ends_within_them(data: bytes, head: bytes) -> None:
    buffer = bytearray(head + data)
    tally = ArrivalTally(RUN, 1, SIZE, True)
    assert 0 <= tally.scan(buffer, 0, len(buffer), 0) <= len(buffer)
