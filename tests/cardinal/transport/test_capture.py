"""Captures: written and read, cut anywhere, damaged, and as the source of a follower."""

import io
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cardinal.follower import ChainFollower, Row, Step
from cardinal.producer import Producer
from cardinal.transport.capture import CaptureReader, CaptureWriter
from cardinal.transport.errors import BadCapture, BadTopic
from tests.cardinal.chains import GENESIS, SCHEMA, branch, messages_of, rows_of, state_of

rows = st.lists(
    st.tuples(
        st.from_regex(r"[a-z-]{1,5}(\.[0-9]{1,3})?", fullmatch=True),
        st.binary(max_size=70),
        st.binary(max_size=40),
        st.integers(0, 2**63 - 1),
    ),
    max_size=6,
)


def written(some: list[Row], stream: str = "1141c2c3a6b8558d") -> bytes:
    file = io.BytesIO()
    CaptureWriter(file, stream).write(some)
    return file.getvalue()


@given(rows)
def test_given_any_rows_when_written_and_read_then_they_are_the_same(some: list[Row]) -> None:
    data = written(some)
    reader = CaptureReader(io.BytesIO(data))
    assert reader.stream == "1141c2c3a6b8558d"
    assert list(reader) == some
    assert reader.offset == len(data)


@given(rows, st.data())
def test_given_a_capture_cut_anywhere_when_read_then_what_is_whole_comes_first(
    some: list[Row], data: st.DataObject
) -> None:
    whole = written(some)
    head = len(written([]))
    ends = {len(written(some[:count])): count for count in range(len(some) + 1)}
    cut = data.draw(st.integers(head, len(whole)))
    reader = CaptureReader(io.BytesIO(whole[:cut]))
    got: list[Any] = []
    last = max(end for end in ends if end <= cut)
    if cut in ends:
        assert list(reader) == some[: ends[cut]]
        return
    with pytest.raises(BadCapture, match="the file ends inside a record") as caught:
        got.extend(row for row in reader)
    assert got == some[: ends[last]]
    assert caught.value.offset == reader.offset == last


@given(rows, st.data())
def test_given_a_damaged_capture_when_read_then_nothing_worse_than_an_error_happens(
    some: list[Row], data: st.DataObject
) -> None:
    damaged = bytearray(written(some))
    at = data.draw(st.integers(0, len(damaged) - 1))
    damaged[at] = data.draw(st.integers(0, 255))
    try:
        list(CaptureReader(io.BytesIO(bytes(damaged))))
    except BadCapture as caught:
        error = caught
    else:
        return
    assert 0 <= error.offset <= len(damaged)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "this is not a capture"),
        (b"netsniff", "a record has no length"),
        (b"5:hello,", "this is not a capture"),
        (b"05:hello,", "a record has no length"),
        (b":x", "a record has no length"),
        (b"99999999999999", "a record has no length"),
        (b"999999999:", "a record has no length"),
        (b"21:cardinal capture 1 a=", "ends inside"),
        (b"21:cardinal capture 1 a=,", "'a=' is not a valid name of a stream"),
        (b"20:cardinal capture 1 \xff,", "not ASCII"),
        (b"20:cardinal capture 1 ax", "a record does not end with a comma"),
    ],
)
def test_given_a_file_that_is_no_capture_when_opened_then_it_is_reported(
    data: bytes, reason: str
) -> None:
    with pytest.raises(BadCapture, match=reason):
        CaptureReader(io.BytesIO(data))


@pytest.mark.parametrize(
    "record",
    [
        b"",
        b"1:1,",
        b"1:1,1:t,1:k,",
        b"1:1,1:t,1:k,1:v,x",
        b"1:x,1:t,1:k,1:v,",
        b"1:1,3:a b,1:k,1:v,",
        b"19:9223372036854775808,1:t,1:k,1:v,",
        b"5000:" + b"1" * 5000 + b",1:t,1:k,1:v,",
    ],
)
def test_given_a_record_that_is_no_message_when_read_then_the_error_says_where(
    record: bytes,
) -> None:
    head = written([])
    reader = CaptureReader(io.BytesIO(head + b"%d:%b," % (len(record), record)))
    with pytest.raises(BadCapture, match="a damaged record") as caught:
        list(reader)
    assert caught.value.offset == len(head)


def test_given_a_large_record_when_read_then_it_is_whole(tmp_path: Path) -> None:
    some: list[Row] = [("t", b"k" * 100, b"v" * 5_000_000, 1), ("t", b"", b"", 2)]
    file = tmp_path / "large"
    file.write_bytes(written(some))
    with file.open("rb") as opened:
        assert list(CaptureReader(opened)) == some


def test_given_names_that_cannot_be_when_written_then_they_are_refused() -> None:
    with pytest.raises(BadCapture, match="is not a valid name of a stream"):
        CaptureWriter(io.BytesIO(), "a b")
    with pytest.raises(BadTopic):
        CaptureWriter(io.BytesIO(), "a").write([("a b", b"", b"", 1)])


def test_given_a_capture_of_a_chain_when_followed_then_its_state_is_the_producers(
    tmp_path: Path,
) -> None:
    producer, blocks = Producer(SCHEMA), branch(GENESIS, "x", 20)
    sent = [messages for block in blocks for messages in messages_of(producer, block)]
    file = tmp_path / "capture"
    with file.open("wb") as opened:
        CaptureWriter(opened, "somewhere").write(rows_of(sent))
    state: dict[str, bytes] = {}
    with file.open("rb") as opened:
        reader = CaptureReader(opened)
        for event in ChainFollower().take(list(reader), reader.stream, 0.0):
            assert isinstance(event, Step)
            for block in event.update.added:
                state = {k: v for k, v in state.items() if k not in block.deletes} | block.updates
    assert state == state_of(blocks)
