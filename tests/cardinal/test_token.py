"""The resumption token: to text and back, and invalid ones."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cardinal.token import BadToken, format_token, parse_token, read_token

names = st.from_regex(r"[a-zA-Z0-9.:_>*-]{1,16}", fullmatch=True)


@given(st.dictionaries(names, st.integers(0, 2**63 - 1), max_size=4))
def test_given_any_streams_when_written_and_read_then_they_are_the_same(
    streams: dict[str, int],
) -> None:
    assert parse_token(format_token(streams)) == streams


def test_given_two_streams_when_written_then_the_text_is_always_the_same() -> None:
    assert format_token({"b": 2, "a": 1}) == "a=1;b=2"
    assert parse_token("d:0=7;x:0=100") == {"d:0": 7, "x:0": 100}, "as the reference has them"
    assert parse_token("") == {}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a", "'a' is not stream=number"),
        ("begun:", "'' is not a number"),
        ("a=1;begun:x", "'x' is not a number"),
        ("begun:1;begun:2", "'begun:2' is not stream=number"),
        ("a=1;", "'' is not stream=number"),
        ("=1", "'' is not a valid name"),
        ("a b=1", "'a b' is not a valid name"),
        ("é=1", "is not a valid name"),
        ("a=", "'' is not a number"),
        ("a=-1", "'-1' is not a number"),
        ("a=01", "'01' is not a number"),
        ("a=1=2", "'1=2' is not a number"),
        ("a=9223372036854775808", "is not a number from 0"),
        ("a=" + "9" * 5000, "is not a number"),
        ("a=1;a=2", "the stream 'a' occurs twice"),
    ],
)
def test_given_text_that_is_no_token_when_read_then_the_error_says_why(
    text: str, reason: str
) -> None:
    with pytest.raises(BadToken, match=reason):
        parse_token(text)


def test_given_where_a_chain_was_begun_when_written_then_it_is_read_and_is_no_stream() -> None:
    text = format_token({"b": 2, "begun:1": 1}, 40)
    assert text == "b=2;begun:1=1;begun:40"
    assert read_token(text) == ({"b": 2, "begun:1": 1}, 40)
    assert parse_token(text) == {"b": 2, "begun:1": 1}
    assert read_token("b=2") == ({"b": 2}, None)


@pytest.mark.parametrize("streams", [{"a;b": 1}, {"": 1}, {"a=b": 1}, {"a": -1}, {"a": 2**63}])
def test_given_streams_that_cannot_be_written_then_they_are_refused(
    streams: dict[str, int],
) -> None:
    with pytest.raises(BadToken):
        format_token(streams)
