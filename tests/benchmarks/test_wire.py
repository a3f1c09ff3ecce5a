"""The benchmark's bytes: what it expects must be exactly what a broker sends."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.errors import BenchmarkError
from benchmarks.wire import (
    Frame,
    body,
    digits,
    from_next_message,
    message,
    numbers_of,
    payload_of,
    publication,
    publications,
    stream_bytes,
)

FRAMES = ["netstring", "header", "stamp", "none"]
frames = st.sampled_from(FRAMES)


def test_given_the_known_vector_when_framed_then_the_bytes_are_the_vector() -> None:
    assert body("netstring", 88485, b"hello world") == b"23:5:88485,11:hello world,,"


def test_given_each_frame_when_a_message_is_made_then_it_reads_as_the_protocol_says() -> None:
    assert message("netstring", b"a", b"1", 7, b"hi") == b"MSG a 1 12\r\n9:1:7,2:hi,,\r\n"
    assert message("none", b"a", b"1", 7, b"hi") == b"MSG a 1 2\r\nhi\r\n"
    assert message("header", b"a", b"1", 7, b"hi") == (
        b"HMSG a 1 30 32\r\nNATS/1.0\r\nNats-Sequence: 7\r\n\r\nhi\r\n"
    )
    assert message("stamp", b"a", b"1", 7, b"hi") == (
        b"HMSG a 1 79 81\r\nNATS/1.0\r\nNats-Sequence: 7\r\n"
        b"Nats-Time-Stamp: 2026-01-31T12:00:00.123456789Z\r\n\r\nhi\r\n"
    )


def test_given_headers_when_a_message_is_made_then_they_come_before_the_frame() -> None:
    headers = b"NATS/1.0\r\nA: b\r\n\r\n"
    assert message("netstring", b"a", b"1", 7, b"hi", headers) == (
        b"HMSG a 1 18 30\r\n%b9:1:7,2:hi,,\r\n" % headers
    )
    assert publication(b"a", b"hi", headers) == b"HPUB a 18 20\r\n%bhi\r\n" % headers


@given(
    frame=frames, size=st.integers(0, 200), rounds=st.integers(1, 60), subjects=st.integers(1, 40)
)
def test_given_any_run_when_its_length_is_computed_then_it_is_the_length_of_its_messages(
    frame: Frame, size: int, rounds: int, subjects: int
) -> None:
    names = [b"bench.%d" % number for number in range(subjects)]
    payload = payload_of(size)
    stream = b"".join(
        message(frame, names[number % subjects], b"1", number + 1, payload)
        for number in range(rounds * subjects)
    )
    assert stream_bytes(frame, names, b"1", payload, rounds * subjects) == len(stream)


@given(first=st.integers(0, 2000), count=st.integers(0, 2000))
def test_given_any_numbers_when_their_digits_are_counted_then_it_is_their_written_length(
    first: int, count: int
) -> None:
    written = "".join(map(str, range(first, first + count)))
    assert digits(first, first + count - 1) == len(written)


@given(frame=frames, count=st.integers(1, 30), cut=st.integers(0, 400))
def test_given_a_stream_cut_anywhere_when_checked_then_its_whole_messages_are_numbered(
    frame: Frame, count: int, cut: int
) -> None:
    payload = payload_of(16)
    messages = [message(frame, b"bench", b"1", number, payload) for number in range(1, count + 1)]
    stream = b"PING\r\n" + b"".join(messages)
    whole = numbers_of(frame, stream, payload)
    assert whole == (list(range(1, count + 1)) if frame != "none" else [0] * count)
    first = numbers_of(frame, stream[:cut], payload)
    assert first == whole[: len(first)]
    rest = numbers_of(frame, from_next_message(stream[cut:]), payload)
    assert rest == whole[len(whole) - len(rest) :]


@pytest.mark.parametrize("frame", FRAMES)
def test_given_a_damaged_payload_when_checked_then_it_is_an_error(frame: Frame) -> None:
    stream = message(frame, b"bench", b"1", 3, b"abcdefgx")
    with pytest.raises(BenchmarkError, match="damaged"):
        numbers_of(frame, stream, b"abcdefgh")


def test_given_many_subjects_when_a_block_is_made_then_each_occurs_equally_often() -> None:
    subjects = [b"a", b"b.c", b"d"]
    block = publications(subjects, b"xy", 30)
    assert (block.messages, block.repeats) == (30, 1)
    assert {block.data.count(b"PUB %b 2\r\nxy\r\n" % subject) for subject in subjects} == {10}


def test_given_fewer_messages_than_subjects_when_a_block_is_made_then_each_occurs_once() -> None:
    block = publications([b"a", b"b", b"c"], b"", 1)
    assert block == (b"PUB a 0\r\n\r\nPUB b 0\r\n\r\nPUB c 0\r\n\r\n", 3, 1)


@given(size=st.integers(0, 5000), subjects=st.integers(1, 300), messages=st.integers(1, 50_000))
def test_given_any_run_when_its_block_is_made_then_nearly_all_messages_are_sent(
    size: int, subjects: int, messages: int
) -> None:
    names = [b"bench.%d" % number for number in range(subjects)]
    block = publications(names, payload_of(size), messages)
    sent = block.messages * block.repeats
    assert messages - subjects * block.repeats < sent <= max(messages, subjects)
    assert block.data.count(b"PUB ") == block.messages
