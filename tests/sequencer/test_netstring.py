"""Netstrings and frames: every vector, every fault with its place, and any chunking the same."""

import array
import itertools
import json
import pickle
from collections.abc import Iterator
from typing import Any, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sequencer import netstring
from sequencer.netstring import (
    NUMBER_MAX,
    BadLength,
    BadNumber,
    Decoder,
    FrameDecoder,
    LeadingZero,
    MissingColon,
    MissingComma,
    NetstringError,
    TooLong,
    TrailingBytes,
    Truncated,
)
from tests.support.places import VECTORS

FRAMES: dict[str, Any] = json.loads((VECTORS / "netstring_frames.json").read_text())
CQUENCER: dict[str, Any] = json.loads((VECTORS / "cq_session.json").read_text())

numbers = st.integers(0, NUMBER_MAX)
payloads = st.binary(max_size=80)  # holds digits, colons, commas and NUL too
# Bytes that look like netstrings, so that faults are met inside of them and not at byte 0.
almost_netstrings = st.lists(
    st.one_of(
        payloads.map(netstring.encode),
        st.builds(netstring.encode_frame, numbers, payloads),
        st.text("0123456789:,-+ x", max_size=6).map(str.encode),
    ),
    max_size=6,
).map(b"".join)
cuts = st.lists(st.integers(0, 500), max_size=12)

Item = TypeVar("Item")


def taken(items: Iterator[Item]) -> tuple[list[Item], str]:
    """Return what an iterator gives and the error it ends with, as text that names its class."""
    got: list[Item] = []
    try:
        for item in items:
            got.append(item)
    except NetstringError as error:
        return got, f"{type(error).__name__} {error}"
    return got, ""


def streamed(decoder: Decoder | FrameDecoder, chunks: list[bytes]) -> tuple[list[Any], str]:
    """Feed all of a stream and end it; return all that it gave and the error it ended with."""
    seen: list[Any] = []
    for chunk in chunks:
        items, error = taken(iter(decoder.feed(chunk)))
        seen += items
        if error:
            return seen, error
    try:
        decoder.finish()
    except NetstringError as end:
        return seen, f"{type(end).__name__} {end}"
    return seen, ""


def pieces(wire: bytes, at: list[int]) -> list[bytes]:
    borders = [0, *sorted(cut % (len(wire) + 1) for cut in at), len(wire)]
    return [wire[a:b] for a, b in itertools.pairwise(borders)]


# The vectors


@pytest.mark.parametrize("vector", FRAMES["good"], ids=lambda v: v["frame_hex"])
def test_given_a_good_vector_when_encoded_and_decoded_then_both_sides_agree(
    vector: dict[str, Any],
) -> None:
    number, payload = int(vector["seq"]), bytes.fromhex(vector["payload_hex"])
    frame = bytes.fromhex(vector["frame_hex"])
    assert netstring.encode_frame(number, payload) == frame
    assert netstring.decode_frame(frame) == (number, payload)
    assert list(FrameDecoder().feed(frame)) == [(number, payload)]


BAD_AS: dict[str, tuple[type[NetstringError], int]] = {
    "leading zero in length": (LeadingZero, 0),
    "no trailing comma": (Truncated, 7),
    "wrong terminator": (MissingComma, 7),
    "no length": (BadLength, 0),
    "sign": (BadLength, 0),
    "leading space": (BadLength, 0),
    "space before colon": (MissingColon, 1),
    "double zero": (LeadingZero, 0),
    "inner length beyond content": (Truncated, 11),
    "cq truncated frame: outer says 7, the second child has no comma": (Truncated, 9),
    "cq frame for a payload that starts with NUL": (Truncated, 7),
    "20 digits but above 2**64-1 (as a sequence number)": (BadNumber, 3),
    "length too large: reject before buffering": (TooLong, 0),
}


@pytest.mark.parametrize("vector", FRAMES["bad"], ids=lambda v: v["why"])
def test_given_a_bad_vector_when_decoded_then_it_is_refused_and_class_and_place_are_reported(
    vector: dict[str, Any],
) -> None:
    bad = bytes.fromhex(vector["hex"])
    kind, offset = BAD_AS[vector["why"]]
    if kind is BadNumber:
        with pytest.raises(kind) as caught:
            netstring.decode_number(bad)
        assert caught.value.offset == offset
        bad = netstring.encode(bad + b"1:a,")  # as the first child of a frame
        offset += len(b"28:")
    error = streamed(FrameDecoder(), [bad])[1]
    assert error.startswith(f"{kind.__name__} at byte {offset}: expected ")
    with pytest.raises(NetstringError):
        netstring.decode_frame(bad)


@pytest.mark.parametrize("step", CQUENCER["session"], ids=lambda v: v["case"])
def test_given_what_the_old_sequencer_sent_when_decoded_then_only_its_faulty_frames_are_refused(
    step: dict[str, Any],
) -> None:
    last = netstring.decode_number(bytes.fromhex(step["tcp_reply_hex"]))
    sent = bytes.fromhex(step["send_hex"])
    for frame in map(bytes.fromhex, step["udp_hex"]):
        payload = sent.partition(b"\0")[0]  # it cut its messages there, and wrote
        if len(payload) < 2:  # a frame without its end for what was this short then
            with pytest.raises(NetstringError):
                netstring.decode_frame(frame)
        else:
            assert netstring.decode_frame(frame) == (last, payload)
            assert netstring.encode_frame(last, payload) == frame


# What is encoded


@given(number=numbers, payload=payloads)
def test_given_any_number_and_payload_when_encoded_then_decoding_gives_them_back(
    number: int, payload: bytes
) -> None:
    frame = netstring.encode_frame(number, payload)
    assert netstring.decode_frame(frame) == (number, payload)
    assert netstring.decode(netstring.encode(payload)) == payload
    assert netstring.decode_number(netstring.encode_number(number)) == number
    children = netstring.encode_number(number) + netstring.encode(payload)
    assert frame == netstring.encode(children), "a frame is a netstring that holds two"


@given(wire=almost_netstrings)
def test_given_any_bytes_when_a_frame_is_decoded_then_encoding_gives_the_same_bytes(
    wire: bytes,
) -> None:
    try:
        number, payload = netstring.decode_frame(wire)
    except NetstringError:
        return
    assert netstring.encode_frame(number, payload) == wire, "there is only one spelling"


@pytest.mark.parametrize("number", [-1, NUMBER_MAX + 1], ids=["below", "above"])
def test_given_a_number_out_of_bounds_when_encoded_then_refused(number: int) -> None:
    with pytest.raises(ValueError, match=f"{number} is outside 0 to {NUMBER_MAX}"):
        netstring.encode_frame(number, b"")


@pytest.mark.parametrize("kind", [bytearray, memoryview], ids=lambda k: k.__name__)
def test_given_other_kinds_of_bytes_when_used_then_they_count_like_bytes(kind: Any) -> None:
    assert netstring.encode(kind(b"hello")) == b"5:hello,"
    assert netstring.encode_frame(1, kind(b"a")) == b"8:1:1,1:a,,"
    assert netstring.decode_frame(kind(b"8:1:1,1:a,,")) == (1, b"a")
    assert list(Decoder().feed(kind(b"5:hello,"))) == [b"hello"]


def test_given_a_view_of_words_when_encoded_then_bytes_are_counted() -> None:
    words = memoryview(array.array("I", [1, 2]))
    assert netstring.encode(words) == b"8:" + words.tobytes() + b","
    assert list(Decoder().feed(memoryview(array.array("H", b"0:,0:,")))) == [b"", b""]


@pytest.mark.parametrize("payload", ["text", 5, None, [1]], ids=repr)
def test_given_no_bytes_when_used_then_a_type_error(payload: Any) -> None:
    for use in (netstring.encode, netstring.decode, netstring.decode_frame, Decoder().feed):
        with pytest.raises(TypeError):
            use(payload)
    with pytest.raises(TypeError):
        netstring.encode_number(1.5)  # type: ignore[arg-type]


# One item in memory


@pytest.mark.parametrize(
    ("wire", "kind", "offset"),
    [
        (b"", Truncated, 0),
        (b"12", Truncated, 2),
        (b"5:hell", Truncated, 6),
        (b"5:hello,x", TrailingBytes, 8),
        (b"5:hello,5:hello,", TrailingBytes, 8),
        (b"99999999999999999999:", TooLong, 0),
        (b"1", Truncated, 1),
        (b"+1:a,", BadLength, 0),
        (b"1_0:aaaaaaaaaa,", MissingColon, 1),
        ("\u0661:a,".encode(), BadLength, 0),  # a digit, but not an ASCII one
    ],
    ids=repr,
)
def test_given_not_exactly_one_netstring_when_decoded_then_refused_with_the_place(
    wire: bytes, kind: type[NetstringError], offset: int
) -> None:
    with pytest.raises(kind) as caught:
        netstring.decode(wire)
    assert caught.value.offset == offset
    assert type(caught.value) is kind


@pytest.mark.parametrize(
    ("content", "kind", "offset"),
    [
        (b"", Truncated, 0),
        (b"1:1,", Truncated, 4),
        (b"1:1,1:a,0:,", TrailingBytes, 8),
        (b"0:,1:a,", BadNumber, 2),
        (b"2:01,1:a,", BadNumber, 2),
        (b"2:+1,1:a,", BadNumber, 2),
        (b"2:-1,1:a,", BadNumber, 2),
        (b"2: 1,1:a,", BadNumber, 2),
        (b"3:1_0,1:a,", BadNumber, 2),
        (b"21:184467440737095516150,1:a,", BadNumber, 3),
        (b"5000:" + b"9" * 5000 + b",1:a,", BadNumber, 5),  # more digits than int() takes
        (b"1:1;1:a,", MissingComma, 3),
        (b"1:1,01:a,", LeadingZero, 4),
    ],
    ids=lambda v: repr(v[:20]) if isinstance(v, bytes) else None,
)
def test_given_a_frame_with_wrong_children_when_decoded_then_the_place_counts_from_its_start(
    content: bytes, kind: type[NetstringError], offset: int
) -> None:
    frame = netstring.encode(content)
    with pytest.raises(kind) as caught:
        netstring.decode_frame(frame)
    assert caught.value.offset == offset + frame.index(b":") + 1
    assert streamed(FrameDecoder(), [frame]) == ([], f"{kind.__name__} {caught.value}")


def test_given_a_receive_buffer_when_viewed_then_the_payload_is_not_copied() -> None:
    buffer = bytearray(b"8:1:1,1:a,,")
    number, payload = netstring.frame_view(buffer)
    buffer[8] = ord("b")
    assert (number, bytes(payload)) == (1, b"b")
    assert payload.obj is buffer


def test_given_an_error_when_sent_to_another_process_then_it_arrives_whole() -> None:
    with pytest.raises(MissingComma) as caught:
        netstring.decode(b"5:hello;")
    twin = pickle.loads(pickle.dumps(caught.value))
    assert type(twin) is MissingComma
    assert (twin.offset, twin.expected, twin.got) == (7, "','", "b';'")
    assert str(twin) == str(caught.value) == "at byte 7: expected ',', got b';'"
    assert isinstance(twin, ValueError)


# Streams


@given(items=st.lists(payloads, max_size=8), at=cuts)
def test_given_netstrings_when_cut_anywhere_then_the_same_payloads_come_out(
    items: list[bytes], at: list[int]
) -> None:
    wire = b"".join(map(netstring.encode, items))
    decoder = Decoder()
    assert streamed(decoder, pieces(wire, at)) == (items, "")
    assert decoder.pending == 0, "nothing of a finished stream may be held back"


@given(items=st.lists(st.tuples(numbers, payloads), max_size=8), at=cuts)
def test_given_frames_when_cut_anywhere_then_the_same_frames_come_out(
    items: list[tuple[int, bytes]], at: list[int]
) -> None:
    wire = b"".join(netstring.encode_frame(*item) for item in items)
    decoder = FrameDecoder()
    assert streamed(decoder, pieces(wire, at)) == (items, "")
    assert decoder.pending == 0


@given(wire=almost_netstrings, at=cuts, limit=st.integers(0, 120))
def test_given_good_and_bad_bytes_when_cut_anywhere_then_items_and_error_are_the_same(
    wire: bytes, at: list[int], limit: int
) -> None:
    for kind in (Decoder, FrameDecoder):
        whole = streamed(kind(limit), [wire])
        assert streamed(kind(limit), pieces(wire, at)) == whole
        assert streamed(kind(limit), [wire[i : i + 1] for i in range(len(wire))]) == whole


@given(wire=almost_netstrings, limit=st.integers(0, 120))
def test_given_any_bytes_when_fed_one_by_one_then_what_is_held_stays_within_the_limit(
    wire: bytes, limit: int
) -> None:
    decoder, frames = Decoder(limit), FrameDecoder(limit)
    for byte in wire:
        taken(decoder.feed(bytes((byte,))))
        taken(frames.feed(bytes((byte,))))
        assert decoder.pending <= max(limit, len(str(limit)))
        assert frames.pending <= limit + 30


def test_given_a_fault_after_good_items_when_fed_then_they_come_first_and_it_stays() -> None:
    decoder = Decoder()
    payloads, error = taken(decoder.feed(b"1:a,1:b,01:c,1:d,"))
    assert payloads == [b"a", b"b"]
    assert error.startswith("LeadingZero at byte 8:")
    assert taken(decoder.feed(b"1:e,")) == ([], error), "there is no way back into the stream"
    with pytest.raises(LeadingZero):
        decoder.finish()
    assert decoder.pending == 0


def test_given_two_faults_in_one_chunk_when_fed_then_the_first_one_counts() -> None:
    wire = b"8:1:1,1:a,,8:1:x,1:a,,05:"  # frame, then a wrong number, then a wrong length
    frames, error = taken(FrameDecoder().feed(wire))
    assert frames == [(1, b"a")]
    assert error.startswith("BadNumber at byte 15:")


def test_given_an_iterator_nobody_uses_when_more_is_fed_then_the_borders_are_kept() -> None:
    decoder = Decoder()
    decoder.feed(b"1:a,1:")
    assert list(decoder.feed(b"b,")) == [b"b"]
    decoder.feed(b"x")
    with pytest.raises(BadLength):
        list(decoder.feed(b""))


@pytest.mark.parametrize("chunk", [b"1025:", b"9999", b"1025x", b"10250"], ids=repr)
def test_given_a_length_over_the_limit_when_announced_then_refused_before_it_is_held(
    chunk: bytes,
) -> None:
    decoder = Decoder(max_length=1024)
    with pytest.raises(TooLong, match="a length of at most 1024, got"):
        list(decoder.feed(chunk))
    assert decoder.pending == 0


def test_given_the_limit_when_reached_then_accepted_and_one_more_refused() -> None:
    frame = netstring.encode_frame(NUMBER_MAX, b"x" * 1024)
    assert list(FrameDecoder(1024).feed(frame)) == [(NUMBER_MAX, b"x" * 1024)]
    with pytest.raises(TooLong, match="at most 1024, got 1025"):
        list(FrameDecoder(1024).feed(netstring.encode_frame(1, b"x" * 1025)))
    assert list(Decoder(0).feed(b"0:,")) == [b""]


@pytest.mark.parametrize("kind", [Decoder, FrameDecoder])
def test_given_a_negative_limit_when_made_then_refused(kind: Any) -> None:
    with pytest.raises(ValueError, match="max_length is -1; give 0 or more"):
        kind(max_length=-1)


@pytest.mark.parametrize("wire", [b"5", b"5:", b"5:hello", b"1:a,0"], ids=repr)
def test_given_a_stream_that_ends_inside_an_item_when_finished_then_reported(wire: bytes) -> None:
    decoder = Decoder()
    list(decoder.feed(wire))
    with pytest.raises(Truncated) as caught:
        decoder.finish()
    assert caught.value.offset == len(wire)


@pytest.mark.parametrize("number", [0, 1, 2**63 - 1])
def test_given_an_answer_with_a_number_when_decoded_then_it_is_that_number(number: int) -> None:
    digits = str(number).encode()
    assert netstring.decode_number(b"%d:%b," % (len(digits), digits)) == number
