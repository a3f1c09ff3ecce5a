"""The format of a recording: what is written is read, and a cut at any byte is noticed."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seriatim.cli.recording.recording_format import (
    BadRecording,
    Item,
    RecordedLoss,
    RecordedMessage,
    RecordingHead,
    RecordingReader,
    decode_record,
    encode_head,
    encode_loss,
    encode_message,
)
from tests.support.places import ROOT

numbers = st.integers(1, (1 << 63) - 1)
texts = st.binary(max_size=20)  # holds netstrings, zeros and line ends, too
messages = st.builds(RecordedMessage, numbers, numbers, texts, texts, texts, st.binary(max_size=80))
losses = st.builds(RecordedLoss, numbers, numbers)
items = st.lists(messages | losses, max_size=6)
HEAD = RecordingHead("00c0ffee00c0ffee", ("orders.>", "prices.*"))


def encoded(found: list[RecordedMessage | RecordedLoss]) -> list[bytes]:
    return [
        encode_head(HEAD),
        *(
            encode_message(one) if isinstance(one, RecordedMessage) else encode_loss(one)
            for one in found
        ),
    ]


def read(reader: RecordingReader, *chunks: bytes) -> list[Item]:
    return [decode_record(content) for chunk in chunks for content in reader.feed(chunk)]


@given(found=items, cuts=st.data())
def test_given_any_records_in_chunks_of_any_size_then_they_are_read_as_they_were(
    found: list[RecordedMessage | RecordedLoss], cuts: st.DataObject
) -> None:
    data, at, chunks = b"".join(encoded(found)), 0, []
    while at < len(data):
        size = cuts.draw(st.integers(1, len(data) - at))
        chunks.append(data[at : at + size])
        at += size
    reader = RecordingReader()
    assert read(reader, *chunks) == found
    assert (reader.head, reader.end, reader.finish()) == (HEAD, len(data), 0)


@given(found=items, cuts=st.data(), zeros=st.sampled_from([0, 1, 4096]))
def test_given_a_cut_at_any_byte_then_whole_records_are_read_and_the_rest_is_counted(
    found: list[RecordedMessage | RecordedLoss], cuts: st.DataObject, zeros: int
) -> None:
    records = encoded(found)
    data = b"".join(records)
    kept = cuts.draw(st.integers(0 if zeros == 0 else len(records[0]), len(data)))
    whole, end = 0, 0
    while whole < len(records) and end + len(records[whole]) <= kept:
        end += len(records[whole])
        whole += 1
    reader = RecordingReader()
    if zeros > 1 and end < kept:
        # A record may be filled up by zeros that a crash has left, but never completed.
        data = data[:kept] + bytes(zeros)
    elif end == kept:
        data = data[:kept] + bytes(zeros)
    else:
        data = data[:kept]
    assert read(reader, data) == found[: max(whole - 1, 0)]
    assert (reader.end, reader.finish()) == (end, len(data) - end)


@pytest.mark.parametrize(
    "data",
    [
        b"hello",
        b"5:hello,",
        b"12345678901",
        b"20:5:hello,7:1234567,,",
        encode_message(RecordedMessage(1, 2, b"a", b"", b"", b"")),
        b"\0\0\0\0",
    ],
    ids=["text", "a netstring", "digits", "netstrings", "no head", "zeros"],
)
def test_given_another_file_then_it_is_no_recording(data: bytes) -> None:
    with pytest.raises(BadRecording, match="not a recording"):
        read(RecordingReader(), data)


def test_given_a_changed_byte_in_the_middle_then_it_is_damage_and_not_an_end() -> None:
    message = encode_message(RecordedMessage(1, 2, b"a", b"", b"", b"payload"))
    data = encode_head(HEAD) + message
    damaged = data + message[:-1] + b"x" + message
    reader = RecordingReader()
    with pytest.raises(
        BadRecording, match=f"damaged in the record that begins at byte {len(data)}"
    ):
        read(reader, damaged)
    assert reader.end == len(data)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "an empty record"),
        (b"1:1,", "a record of an unknown kind"),
        (b"4:lost,1:1,", "a record of an unknown kind"),
        (b"5:hello,x", "a record without fields"),
        (b"9:hello,", "a record whose fields do not fit it"),
        (b"4:lost,1:1,2:-1,", "b'-1' is not a number"),
        (b"4:lost,1:1,19:9999999999999999999,", "is not a number"),
        (b"18:seriatim recording,1:2,0:,", "a recording of version '2'; this Seriatim reads vers"),
    ],
)
def test_given_a_record_that_says_nothing_then_the_error_says_why(content: bytes, why: str) -> None:
    with pytest.raises(BadRecording, match=re.escape(why)):
        decode_record(content)


def test_given_the_page_then_its_bytes_are_those_that_are_written(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "recording.md").read_text()
    shown = page.split("```\n57:")[1].split("```")[0]
    headers = b"NATS/1.0\r\nDesk: 7\r\n\r\n"
    written = [
        encode_head(RecordingHead("00c0ffee00c0ffee", ("orders.>",))),
        encode_message(
            RecordedMessage(88485, 1700000000000000000, b"orders.new", b"", headers, b"hello world")
        ),
        encode_loss(RecordedLoss(88486, 88490)),
    ]
    text = b"".join(written).decode().replace("\r\n", "\\r\\n")
    assert "57:" + shown.replace("\n", "") == text


def test_given_the_ten_lines_of_the_page_when_run_then_they_read_a_recording(
    tmp_path: Path,
) -> None:
    page = (ROOT / "docs" / "recording.md").read_text()
    program = page.split("```python\n")[1].split("```")[0]
    assert len([line for line in program.splitlines() if line.strip()]) <= 18
    found: list[RecordedMessage | RecordedLoss] = [
        RecordedMessage(7, 8, b"orders.new", b"", b"NATS/1.0\r\nA: b\r\n\r\n", b"one"),
        RecordedLoss(8, 10),
        RecordedMessage(11, 9, b"orders.old", b"_INBOX.1", b"", b"1:,\0"),
    ]
    (tmp_path / "orders.rec").write_bytes(b"".join(encoded(found)))
    printed: list[tuple[object, ...]] = []
    exec(
        program.replace('"orders.rec"', repr(str(tmp_path / "orders.rec"))),
        {"print": lambda *values: printed.append(values)},
    )
    assert printed == [
        (b"00c0ffee00c0ffee", [b"orders.>", b"prices.*"]),
        (7, 8, b"orders.new", b"one"),
        ("lost:", 8, 10),
        (11, 9, b"orders.old", b"1:,\0"),
    ]
