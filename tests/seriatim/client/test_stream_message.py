"""A message: its number, its time and its headers, read when somebody asks; and pickled."""

import copy
import pickle
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seriatim.client.errors import NotABroker
from seriatim.client.stream_message import Message, is_stamped, read_time

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
names = st.from_regex(r"[A-Za-z][A-Za-z-]{0,8}", fullmatch=True)
values = st.text(st.characters(blacklist_categories=("Cs", "Cc", "Zs", "Zl", "Zp")), max_size=8)
fields = st.lists(st.tuples(names, values), max_size=5)


def stamped(number: int, time: bytes, pairs: list[tuple[str, str]], first: str = "") -> bytes:
    lines = "".join(f"{name}: {value}\r\n" for name, value in pairs).encode()
    own = b"Nats-Sequence: %d\r\nNats-Time-Stamp: %b\r\n" % (number, time)
    return b"NATS/1.0" + first.encode() + b"\r\n" + own + lines + b"\r\n"


def text_of(time_ns: int) -> bytes:
    """A time as the broker writes it."""
    seconds, rest = divmod(time_ns, 10**9)
    moment = datetime.fromtimestamp(seconds, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{rest:09d}Z".encode()


def told(message: Message) -> tuple[Any, ...]:
    return (
        *(message.number, message.time_ns, message.headers, message.subject, message.reply),
        *(bytes(message.payload), message.sid, message.status, message.description),
    )


@given(
    st.integers(1, 10**18 - 1),
    st.integers(0, 9 * 10**18),
    fields,
    st.sampled_from(["", " 503", " 404 not here"]),
    st.permutations([0, 1, 2, 3]),
    st.booleans(),
)
def test_given_a_block_with_the_brokers_lines_then_each_word_is_read_in_any_order_and_pickled(
    number: int,
    time_ns: int,
    pairs: list[tuple[str, str]],
    first: str,
    order: list[int],
    is_view: bool,
) -> None:
    # The publisher's own headers may have the broker's names: they are behind the broker's.
    block = stamped(number, text_of(time_ns), pairs, first)
    payload = memoryview(b"payload") if is_view else b"payload"
    message = Message("a.b", "r", block, payload, 5, -1, -1)
    assert is_stamped(block)
    asked = [
        lambda: message.number == number,
        lambda: message.time_ns == time_ns,
        lambda: message.headers == {name: value.strip() for name, value in pairs},
        lambda: message.status == (int(first[1:4]) if first else 0),
    ]
    assert all(asked[at]() for at in order)
    fresh = Message("a.b", "r", block, payload, 5, -1, -1)
    for again in (pickle.loads(pickle.dumps(fresh)), copy.copy(message), copy.deepcopy(message)):
        assert told(again) == told(message)
        assert type(again.payload) is bytes
    own = "".join(f"{name}: {value}\r\n" for name, value in pairs).encode()
    expected = b"NATS/1.0" + first.encode() + b"\r\n" + own + b"\r\n"
    is_empty = not (pairs or first)
    unread = Message("a.b", "r", block, payload, 5, -1, -1)
    assert unread.own_block == message.own_block == (b"" if is_empty else expected)


@given(fields, st.integers(0, 2**62), st.integers(0, 2**62))
def test_given_a_message_made_with_its_number_then_its_headers_are_only_the_publishers(
    pairs: list[tuple[str, str]], number: int, time_ns: int
) -> None:
    lines = "".join(f"{name}: {value}\r\n" for name, value in pairs).encode()
    message = Message("a", "", b"NATS/1.0\r\n" + lines + b"\r\n", b"", 1, number, time_ns)
    assert message.headers == {name: value.strip() for name, value in pairs}
    assert (message.number, message.time_ns) == (number, time_ns)
    assert message.own_block == (message.block if pairs else b"")
    assert told(pickle.loads(pickle.dumps(message))) == told(message)


def test_given_no_headers_then_there_is_nothing_to_read() -> None:
    message = Message("a", "", b"", b"x")
    assert (message.number, message.time_ns, message.headers, message.status) == (0, 0, {}, 0)
    assert message.time == EPOCH
    assert told(pickle.loads(pickle.dumps(message))) == told(message)
    assert "2" not in repr(message)
    with pytest.raises(ValueError, match="Expecting"):
        message.json()
    assert Message("a", "", b"", memoryview(b"[1]")).json() == [1]
    with pytest.raises(AttributeError):
        message.number = 5  # type: ignore[misc]


@given(st.binary(max_size=40))
def test_given_any_text_when_read_as_a_time_then_it_is_one_or_0(text: bytes) -> None:
    assert read_time(text) >= 0
    assert read_time(b"2026-01-31T12:00:00" + text) >= 0


@given(st.integers(0, 9 * 10**18))
def test_given_a_time_when_written_then_it_is_read(time_ns: int) -> None:
    assert read_time(text_of(time_ns)) == time_ns


@pytest.mark.parametrize(
    "digits", [b"", b"0", b"-1", b"+1", b"1_0", b" 1", b"9" * 19, b"9" * 5000, b"x", b"7\0"]
)
def test_given_what_no_broker_gives_as_a_number_then_each_word_says_so(digits: bytes) -> None:
    for word in ("number", "time_ns", "headers"):
        message = Message("a", "", b"NATS/1.0\r\nNats-Sequence: " + digits + b"\r\n\r\n", b"")
        message = Message("a", "", message.block, b"", 1, -1, -1)
        with pytest.raises(NotABroker, match="no valid number"):
            getattr(message, word)


def test_given_json_that_nests_too_deep_then_it_is_a_value_error_like_any_that_is_none() -> None:
    with pytest.raises(ValueError, match="too deep"):
        Message("a", "", b"", memoryview(b"[" * 100_000)).json()
