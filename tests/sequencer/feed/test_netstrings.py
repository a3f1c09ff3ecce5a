"""The netstring codecs: cquencer's bytes, a third netstring with the subject, and invalid bytes."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sequencer.feed.errors import CodecError
from sequencer.feed.feed_codec import DATA, END, HEARTBEAT, Codec
from sequencer.feed.feed_message import FeedMessage
from sequencer.feed.netstrings import NetstringCodec, NetstringSubjectCodec
from sequencer.netstring import encode, encode_frame, encode_number
from tests.support.places import VECTORS

CASES = json.loads((VECTORS / "netstring_frames.json").read_text())
NUMBERS = st.integers(1, 2**63 - 1)
SUBJECTS = st.from_regex(rb"[a-z]{1,9}(\.[a-z0-9]{1,4}){0,3}", fullmatch=True)
MESSAGES = st.lists(st.builds(FeedMessage, NUMBERS, st.binary(max_size=300), SUBJECTS), min_size=1)
BOTH = pytest.mark.parametrize("codec", [NetstringCodec(), NetstringSubjectCodec()])
GOOD = [one for one in CASES["good"] if int(one["seq"]) < 2**63]
TOO_LARGE = [one for one in CASES["good"] if int(one["seq"]) >= 2**63]


@pytest.mark.parametrize("vector", GOOD, ids=lambda one: one["seq"])
def test_given_the_original_s_frames_then_ours_are_the_same_bytes(vector: dict[str, str]) -> None:
    number, payload = int(vector["seq"]), bytes.fromhex(vector["payload_hex"])
    frame = bytes.fromhex(vector["frame_hex"])
    codec = NetstringCodec()
    assert codec.datagram([FeedMessage(number, payload, b"a.b")], 0) == frame
    assert codec.decode(frame).messages == [FeedMessage(number, payload)]


@pytest.mark.parametrize(
    "text", [one["hex"] for one in CASES["bad"]] + [one["frame_hex"] for one in TOO_LARGE]
)
def test_given_input_that_is_no_frame_then_the_error_says_where(text: str) -> None:
    with pytest.raises(CodecError, match="at byte"):
        NetstringCodec().decode(bytes.fromhex(text))


@given(MESSAGES)
def test_given_messages_then_a_datagram_is_their_frames_one_after_the_other(
    messages: list[FeedMessage],
) -> None:
    frames = b"".join(encode_frame(one.number, one.payload) for one in messages)
    codec = NetstringCodec()
    assert codec.datagram(messages, 0) == frames
    packet = codec.decode(frames)
    assert packet.messages == [FeedMessage(one.number, one.payload) for one in messages]
    assert (packet.kind, packet.previous, packet.session) == (DATA, -1, b"")
    assert packet.after == messages[-1].number + 1


@given(MESSAGES)
def test_given_messages_then_a_third_child_is_the_subject(messages: list[FeedMessage]) -> None:
    frames = b"".join(
        encode(encode_number(one.number) + encode(one.payload) + encode(one.subject))
        for one in messages
    )
    codec = NetstringSubjectCodec()
    assert codec.datagram(messages, 0) == frames
    assert codec.decode(frames).messages == messages


def test_given_a_subject_frame_then_a_heartbeat_and_an_end_have_subjects_of_their_own() -> None:
    codec = NetstringSubjectCodec()
    beat, end = codec.heartbeat(88_484, 88_485), codec.end(88_484, 88_485)
    assert (beat, end) == (b"23:5:88485,0:,9:$SEQ.NEXT,,", b"22:5:88485,0:,8:$SEQ.END,,")
    assert [codec.decode(one).kind for one in (beat, end)] == [HEARTBEAT, END]
    assert [codec.decode(one).after for one in (beat, end)] == [88_485, 88_485]
    for wrong in (beat + beat, beat.replace(b"NEXT", b"TEXT"), b"19:1:1,1:x,8:$SEQ.END,,"):
        with pytest.raises(CodecError, match="is not valid here"):
            codec.decode(wrong)


def test_given_the_plain_frame_then_it_has_neither() -> None:
    assert NetstringCodec().heartbeat(1, 2) == NetstringCodec().end(1, 2) == b""


@BOTH
def test_given_a_datagram_cut_off_or_with_a_byte_changed_then_it_is_read_or_refused(
    codec: Codec,
) -> None:
    whole = codec.datagram([FeedMessage(99, b"5:hello,", b"a"), FeedMessage(100, b"", b"b.c")], 0)
    for cut in range(len(whole)):
        assert count_or_refusal(codec, whole[:cut]) <= 1, "a frame is whole, or it is none"
    for at in range(len(whole)):
        for byte in (0, ord("0"), ord("9"), ord(":"), ord(","), 255):
            count_or_refusal(codec, whole[:at] + bytes([byte]) + whole[at + 1 :])


@BOTH
@given(st.binary(max_size=64))
def test_given_any_bytes_then_nothing_but_a_codec_error_comes(codec: Codec, data: bytes) -> None:
    count_or_refusal(codec, data)


def count_or_refusal(codec: Codec, data: bytes) -> int:
    """How many messages there are, or -1 where it is refused with a place in the data."""
    try:
        return len(codec.decode(data).messages)
    except CodecError as error:
        offset = error.offset
    assert 0 <= offset <= len(data)
    return -1
