"""Payloads to keys and values, column by column: the same as one by one."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cardinal.transport.envelope import pack, unpack
from cardinal.transport.errors import BadEnvelope
from pyspark_seriatim.jobs.cardinal.envelopes import split

packed = st.builds(pack, st.binary(max_size=120), st.binary(max_size=1200))
almost = st.builds(
    lambda text, at, octet: text[:at] + octet + text[at + 1 :],
    packed,
    st.integers(0, 130),
    st.sampled_from([b"", b":", b",", b"0", b"9", b"\xff"]),
)


def one_by_one(payloads: list[bytes]) -> tuple[list[bytes], list[bytes], list[int]]:
    keys, values, bad = [], [], []
    for at, payload in enumerate(payloads):
        try:
            key, value = unpack(payload)
        except BadEnvelope:
            key, value = b"", b""
            bad.append(at)
        keys.append(key)
        values.append(value)
    return keys, values, bad


@given(
    st.lists(packed | almost | st.binary(max_size=20)),
    st.integers(0, 3),
    st.sampled_from([pa.binary(), pa.large_binary()]),
)
def test_given_any_payloads_when_split_then_it_is_as_one_by_one(
    payloads: list[bytes], start: int, kind: pa.DataType
) -> None:
    column = pa.array(payloads, kind).slice(start)
    assert split(column) == one_by_one(payloads[start:])


@pytest.mark.parametrize(
    "payload",
    [b"", b"3:abc,", b"03:abc,1:x,", b"3:abc,1:x,y", b"3:abc,1:x;", b":,:,", b"99999999999:a,1:x,"],
)
def test_given_input_that_is_no_envelope_when_split_then_it_is_reported(payload: bytes) -> None:
    assert split(pa.array([b"0:,0:,", payload])) == ([b"", b""], [b"", b""], [1])


def test_given_a_null_when_split_then_it_is_reported() -> None:
    assert split(pa.array([None, b"1:a,1:b,"], pa.binary())) == ([b"", b"a"], [b"", b"b"], [0])
