"""Subject, payload and id of a message on the broker."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cardinal.transport.envelope import (
    message_id,
    pack,
    packed_bytes,
    prefix_of,
    subject_of,
    unpack,
)
from cardinal.transport.errors import BadEnvelope, BadTopic


@given(st.binary(max_size=40), st.binary(max_size=200))
def test_given_key_and_value_when_packed_then_they_are_two_netstrings(
    key: bytes, value: bytes
) -> None:
    assert unpack(pack(key, value)) == (key, value)
    assert packed_bytes(key, value) == len(pack(key, value))


def test_given_a_message_when_packed_then_its_bytes_are_these() -> None:
    assert pack(b"\x03hash", b"") == b"5:\x03hash,0:,"
    assert subject_of("evm", "c-1.block") == "cardinal.evm.c-1.block"
    assert prefix_of("evm") == "cardinal.evm."


@pytest.mark.parametrize(
    ("payload", "offset", "reason"),
    [
        (b"", 0, "no length"),
        (b"x", 0, "no length"),
        (b"1:a", 3, "does not end with a comma"),
        (b"1:a,", 4, "no length"),
        (b"01:a,0:,", 0, "no length"),
        (b"+1:a,0:,", 0, "no length"),
        (b"1:ab,0:,", 3, "does not end with a comma"),
        (b"1:a,0:,x", 7, "1 bytes after the value"),
        (b"99999999999:a,", 0, "no length"),
        (b"9999999999:a,", 13, "does not end with a comma"),
    ],
)
def test_given_an_invalid_payload_when_unpacked_then_the_error_says_where(
    payload: bytes, offset: int, reason: str
) -> None:
    with pytest.raises(BadEnvelope, match=reason) as caught:
        unpack(payload)
    assert caught.value.offset == offset


@given(st.binary(max_size=30))
def test_given_any_bytes_when_unpacked_then_the_outcome_is_a_message_or_an_error(
    payload: bytes,
) -> None:
    try:
        key, value = unpack(payload)
    except BadEnvelope:
        return
    assert pack(key, value) == payload


@pytest.mark.parametrize("topic", ["", "a b", "a.", ".a", "a..b", "a.*", ">", "é", "a\n"])
def test_given_a_topic_that_is_no_part_of_a_subject_when_named_then_it_is_refused(
    topic: str,
) -> None:
    with pytest.raises(BadTopic, match="topic"):
        subject_of("evm", topic)


@pytest.mark.parametrize("application", ["", "a.b", "*", "a b"])
def test_given_an_application_that_is_no_word_when_named_then_it_is_refused(
    application: str,
) -> None:
    with pytest.raises(BadTopic, match="application"):
        subject_of(application, "block")


def test_given_messages_when_identified_then_the_same_have_one_id_and_others_another() -> None:
    ids = {
        message_id(subject, payload)
        for subject in ("cardinal.a.b", "cardinal.a.bc", "cardinal.a." + "x" * 90)
        for payload in (b"", b"c", pack(b"k", b"v"))
    }
    assert len(ids) == 9
    assert message_id("cardinal.a.b", b"c") == message_id("cardinal.a.b", b"c")
    assert message_id("x" * 70 + "a", b"") != message_id("x" * 70 + "b", b"")
    assert all(len(one) == 32 for one in ids)
