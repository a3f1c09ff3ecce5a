"""The scanner, compiled and not: it finds what the protocol's slow and strict path finds."""

import importlib.util
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seriatim.client.errors import NotABroker
from seriatim.client.protocol import NatsProtocol
from seriatim.client.scan import Scanner
from seriatim.client.stream_message import Message
from tests.support.places import ROOT

Seen = tuple[Any, ...]
TIME: Final = b"2026-01-31T12:00:00.123456789Z"


def plain_scanner(numbered_only: bool) -> Any:
    """A scanner as the Python sources make it, whatever build this is."""
    spec = importlib.util.spec_from_file_location("plain_scan", ROOT / "seriatim/client/scan.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Scanner(numbered_only)


class NoScanner:
    """Finds nothing: everything goes the slow way."""

    trusted = False

    def scan(self, buffer: bytearray, at: int, end: int, found: list[Message]) -> int:
        return at


def values(message: Message) -> Seen:
    """A message as values; one whose number is none has an error there."""
    try:
        number: Any = message.number
    except NotABroker as error:
        return (message.subject, message.sid, bytes(message.payload), message.block, str(error))
    told = (message.status, message.description, tuple(message.headers.items()))
    return (
        *(message.subject, message.reply, message.sid, message.block, bytes(message.payload)),
        *(number, message.time_ns, told),
    )


def heard(scanner: Any, chunks: list[bytes], trusted: bool) -> list[Seen]:
    """The events of a protocol with this scanner, as the client's wire takes them."""
    protocol = NatsProtocol()
    scanner.trusted = trusted
    protocol._scanner = scanner
    found: list[Seen] = []
    for chunk in chunks:
        protocol.receive_data(chunk)
        try:
            while True:
                messages: list[Message] = []
                protocol.take_messages(messages)
                found += map(values, messages)
                event = protocol.next_event()
                if event is None:
                    break
                found.append(values(event) if isinstance(event, Message) else (type(event),))
        except NotABroker as error:
            return [*found, (str(error),)]
    return found


tokens = st.binary(min_size=1, max_size=6).filter(lambda word: not set(word) & set(b" \t\r\n\v\f"))
blanks = st.sampled_from([b" "] * 8 + [b"  ", b"\t", b" \t", b"\v", b"\f", b"\0"])
ends = st.sampled_from([b"\r\n"] * 8 + [b"\n", b" \r\n", b"\t\r\n", b"\r\r\n", b"\r"])
verbs = st.sampled_from([b"MSG"] * 6 + [b"msg", b"Msg", b"MSGX", b"HMSG", b"HMSG"])
# A frame's own lines, what looks like them, and what a publisher may have written behind them.
lines = st.sampled_from(
    [
        *[b"Nats-Sequence: 7\r\nNats-Time-Stamp: " + TIME + b"\r\n"] * 4,
        b"Nats-Sequence: 999999999999999999\r\n",
        b"Nats-Sequence: 99999999999999999999999\r\n",
        b"Nats-Sequence: 0\r\n",
        b"Nats-Sequence: -7\r\n",
        b"Nats-Sequence: \r\n",
        b"Nats-Sequence: 7",
        b"Nats-Sequence:7\r\n",
        b"nats-sequence: 7\r\n",
        b"Nats-Time-Stamp: " + TIME + b"\r\n",
        b"Nats-Sequence: 7\r\nNats-Time-Stamp: yesterday\r\n",
        b"Mine: x\r\nMine: y\r\n",
        b"Mine:\r\n: empty\r\nno colon\r\n",
        b"\xff: \xfe\r\n",
        b"",
    ]
)
firsts = st.sampled_from(
    [b"NATS/1.0\r\n"] * 6
    + [b"NATS/1.0 503\r\n", b"NATS/1.0 404 not here\r\n", b"NATS/1.0 5x3 \r\n", b"", b"\r\n", b"\n"]
)


@st.composite
def blocks(draw: st.DrawFn) -> bytes:
    return draw(firsts) + b"".join(draw(st.lists(lines, max_size=3))) + b"\r\n"


@st.composite
def messages(draw: st.DrawFn) -> bytes:
    """A message as a broker might send it, and now and then as none would."""
    verb, payload = draw(verbs), draw(st.binary(max_size=12))
    words = [verb, draw(tokens), b"%d" % draw(st.integers(0, 10**10 - 1))]
    words += draw(st.lists(tokens, max_size=1))
    block = b""
    if verb == b"HMSG":
        block = draw(blocks())
        words.append(b"%d" % (len(block) + draw(st.sampled_from([0] * 12 + [1, -1, 10**9]))))
    size = len(block) + len(payload)
    wrong = [b"-1", b"", b"+5", b"1_0", b"%d" % (size + 1), b"9999999999", b"99999999999", b"0x5"]
    words.append(draw(st.sampled_from([b"%d" % size] * 12 + [b"00%d" % size, *wrong])))
    line = words[0]
    for word in words[1:]:
        line += draw(blanks) + word
    return (
        line + draw(ends) + block + payload + draw(st.sampled_from([b"\r\n"] * 12 + [b"\n", b""]))
    )


others = st.sampled_from([b"PING\r\n", b"+OK\r\n", b"-ERR 'x'\r\n", b"ping\r\n", b"\r\n", b"X\r\n"])
streams = st.lists(st.one_of(messages(), messages(), messages(), others), max_size=6)


def cut(whole: bytes, places: list[int]) -> list[bytes]:
    cuts = sorted(place % (len(whole) + 1) for place in places)
    return [whole[start:stop] for start, stop in zip([0, *cuts], [*cuts, len(whole)], strict=True)]


@given(streams, st.lists(st.integers(0, 10_000), max_size=5), st.booleans(), st.booleans())
def test_given_any_bytes_cut_anywhere_when_scanned_then_the_messages_are_those_of_the_slow_path(
    pieces: list[bytes], places: list[int], trusted: bool, numbered_only: bool
) -> None:
    whole = b"".join(pieces)
    chunks = cut(whole, places)
    strict = heard(NoScanner(), chunks, trusted)
    assert heard(Scanner(numbered_only), chunks, trusted) == strict
    assert heard(plain_scanner(numbered_only), chunks, trusted) == strict
    assert heard(Scanner(numbered_only), [whole], trusted) == strict


BLOCK: Final = b"NATS/1.0\r\nNats-Sequence: 7\r\nNats-Time-Stamp: " + TIME + b"\r\nMine: x\r\n\r\n"
WHOLE: Final = (
    b"MSG a 1 5\r\nhello\r\n"
    b"HMSG a.b 2 r %d %d\r\n%bhi\r\n" % (len(BLOCK), len(BLOCK) + 2, BLOCK) + b"MSG b 1 0\r\n\r\n"
    b"MSG b 1 c 1\r\nx\r\n"
)


@given(
    st.lists(
        st.tuples(
            st.integers(0, len(WHOLE)),
            st.integers(0, 2),
            st.sampled_from([bytes([one]) for one in b" \t\r\n\v\0:-MSGH0179Nab\xff"] + [b""]),
        ),
        min_size=1,
        max_size=4,
    ),
    st.lists(st.integers(0, 10_000), max_size=3),
    st.booleans(),
)
def test_given_whole_messages_with_bytes_changed_then_both_builds_and_the_slow_path_agree(
    changes: list[tuple[int, int, bytes]], places: list[int], trusted: bool
) -> None:
    data = WHOLE
    for at, removed, added in changes:
        data = data[:at] + added + data[at + removed :]
    chunks = cut(data, places)
    strict = heard(NoScanner(), chunks, trusted)
    assert heard(Scanner(False), chunks, trusted) == strict
    assert heard(plain_scanner(False), chunks, trusted) == strict


def test_given_messages_in_the_usual_form_then_one_call_finds_them_all() -> None:
    for make in (Scanner, plain_scanner):
        scanner, found = make(False), list[Message]()
        scanner.trusted = True
        data = bytearray(WHOLE + b"MSG c 1 5\r\nhel")
        assert scanner.scan(data, 0, len(data), found) == len(WHOLE)
        assert [message.number for message in found] == [0, 7, 0, 0]
        assert [message.subject for message in found] == ["a", "a.b", "b", "b"]


@pytest.mark.parametrize("make", [Scanner, plain_scanner])
def test_given_forged_lines_when_the_broker_is_not_trusted_then_they_are_the_publishers(
    make: Any,
) -> None:
    found: list[Message] = []
    data = bytearray(WHOLE)
    make(False).scan(data, 0, len(data), found)
    assert [message.number for message in found] == [0, 0, 0, 0]
    assert found[1].headers == {
        "Nats-Sequence": "7",
        "Nats-Time-Stamp": TIME.decode(),
        "Mine": "x",
    }


def test_given_numbered_only_then_it_stops_at_each_message_without_a_number() -> None:
    for make in (Scanner, plain_scanner):
        scanner, found = make(True), list[Message]()
        scanner.trusted = True
        data = bytearray(WHOLE)
        assert scanner.scan(data, 0, len(data), found) == 0
        start = data.find(b"HMSG")
        end = scanner.scan(data, start, len(data), found)
        assert data[end:].startswith(b"MSG b 1 0")
        assert [message.number for message in found] == [7]
