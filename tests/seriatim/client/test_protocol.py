"""The protocol without I/O: bytes to events, however they are cut, and commands to bytes."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seriatim.client.errors import InvalidArgument, MessageTooLarge, NotABroker
from seriatim.client.protocol import (
    BUFFER_SIZE,
    LINE_MAX,
    ErrorReceived,
    Event,
    InfoReceived,
    MessageReceived,
    NatsProtocol,
    OkReceived,
    PingReceived,
    PongReceived,
)

Seen = tuple[object, ...]


def seen(event: Event) -> Seen:
    """An event as values that can be compared."""
    if isinstance(event, MessageReceived):
        payload = event.data + bytes(event.view)
        told = (event.status, event.description, tuple(event.headers.items()))
        return event.subject, event.sid, event.reply, payload, told
    if isinstance(event, InfoReceived):
        return "INFO", tuple(event.info.items())
    if isinstance(event, ErrorReceived):
        return "-ERR", event.words
    return (type(event),)


def events(protocol: NatsProtocol) -> Iterator[Seen]:
    while event := protocol.next_event():
        yield seen(event)


def hmsg(block: bytes, payload: bytes) -> bytes:
    line = b"HMSG a.b 7 r.1 %d %d\r\n" % (len(block), len(block) + len(payload))
    return line + block + payload + b"\r\n"


LARGE = b"z" * (3 * BUFFER_SIZE)
STREAM: list[tuple[bytes, Seen]] = [
    (b'INFO {"a":1}\r\n', ("INFO", (("a", 1),))),
    (b"MSG a.b 1 5\r\nhello\r\n", ("a.b", 1, "", b"hello", (0, "", ()))),
    (b"MSG a 2 reply 0\r\n\r\n", ("a", 2, "reply", b"", (0, "", ()))),
    (b"PING\r\n", (PingReceived,)),
    (b"PONG\r\n", (PongReceived,)),
    (b"+OK\r\n", (OkReceived,)),
    (b"-ERR 'Unknown Protocol Operation'\r\n", ("-ERR", "Unknown Protocol Operation")),
    (
        hmsg(b"NATS/1.0\r\nKey: v:w\r\nEmpty:\r\n\r\n", b"\r\nMSG a 1 5\r\n"),
        ("a.b", 7, "r.1", b"\r\nMSG a 1 5\r\n", (0, "", (("Key", "v:w"), ("Empty", "")))),
    ),
    (
        hmsg(b"NATS/1.0 503\r\n\r\n", b""),
        ("a.b", 7, "r.1", b"", (503, "", ())),
    ),
    (
        hmsg(b"NATS/1.0 400 Bad Request\r\n\r\n", b"x"),
        ("a.b", 7, "r.1", b"x", (400, "Bad Request", ())),
    ),
    (
        b"MSG big 3 %d\r\n%b\r\n" % (len(LARGE), LARGE),
        ("big", 3, "", LARGE, (0, "", ())),
    ),
]


@pytest.mark.parametrize("allocate", [None, lambda size: memoryview(bytearray(size))])
@given(chosen=st.lists(st.sampled_from(STREAM), max_size=8), data=st.data())
def test_given_any_operations_cut_anywhere_then_the_same_events(
    allocate: object, chosen: list[tuple[bytes, Seen]], data: st.DataObject
) -> None:
    whole = b"".join(said for said, _ in chosen)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=6)))
    protocol = NatsProtocol(allocate)  # type: ignore[arg-type]
    found: list[Seen] = []
    for start, stop in zip([0, *cuts], [*cuts, len(whole)], strict=True):
        protocol.receive_data(whole[start:stop])
        found += events(protocol)
    assert found == [event for _, event in chosen]
    assert protocol.is_between
    assert protocol.data_to_send() == b"PONG\r\n" * found.count((PingReceived,))


@pytest.mark.parametrize(("said", "event"), STREAM, ids=lambda value: None)
def test_given_one_byte_at_a_time_then_the_same_event(said: bytes, event: Seen) -> None:
    protocol = NatsProtocol()
    found: list[Any] = []
    for byte in said[:200]:
        protocol.receive_data(bytes([byte]))
        found += events(protocol)
    protocol.receive_data(said[200:])
    assert [*found, *events(protocol)] == [event]


def test_given_an_allocator_when_a_payload_is_on_its_way_then_it_is_read_into_that_memory() -> None:
    given: list[memoryview] = []

    def allocate(size: int) -> memoryview:
        given.append(memoryview(bytearray(size)))
        return given[-1]

    protocol = NatsProtocol(allocate)
    protocol.receive_data(b"MSG a 1 10\r\nabc")
    assert protocol.next_event() is None
    assert protocol.fills_payload
    into = protocol.get_buffer()
    assert len(into) == 7
    into[:] = b"defghij"
    protocol.buffer_updated(7)
    assert protocol.next_event() is None
    protocol.receive_data(b"\r\nPING\r\n")
    message = protocol.next_event()
    assert isinstance(message, MessageReceived)
    assert message.view.obj is given[0].obj
    assert (bytes(message.view), message.data) == (b"abcdefghij", b"")
    assert isinstance(protocol.next_event(), PingReceived)


@pytest.mark.parametrize(
    "said",
    [
        b"HTTP/1.1 400 Bad Request\r\n",
        b"INFO [1]\r\n",
        b"INFO {\r\n",
        b"MSG a 1 -5\r\n",
        b"MSG a x 5\r\n",
        b"MSG a 1\r\n",
        b"MSG a 1 r s 5\r\n",
        b"MSG a 1 99999999999999\r\n",
        b"HMSG a 1 9 5\r\n",
        b"MSG a 1 2\r\nabcd\r\n",
        b"x" * LINE_MAX,
    ],
    ids=lambda said: said[:20],
)
def test_given_what_no_broker_says_then_that_is_the_error(said: bytes) -> None:
    protocol = NatsProtocol()
    protocol.receive_data(said)
    with pytest.raises(
        NotABroker, match=r"this is not a NATS broker: (it says|its line|a message)"
    ):
        list(events(protocol))


def test_given_commands_then_they_become_these_bytes() -> None:
    protocol = NatsProtocol()
    protocol.connect({"name": "me", "verbose": True})
    assert protocol.data_to_send() == (
        b'CONNECT {"verbose": true, "pedantic": false, "headers": true, "no_responders": true, '
        b'"echo": true, "protocol": 1, "lang": "python", "version": "1", "name": "me"}\r\n'
    )
    assert protocol.subscribe("a.>") == 1
    assert protocol.subscribe("b", "group") == 2
    protocol.unsubscribe(1)
    protocol.unsubscribe(2, 5)
    protocol.publish("a", b"x")
    protocol.publish("a", b"xy", "r")
    protocol.publish("a", b"xyz", "r", {"K": " v ", "L": ""})
    protocol.ping()
    assert protocol.data_to_send() == (
        b"SUB a.> 1\r\nSUB b group 2\r\nUNSUB 1\r\nUNSUB 2 5\r\n"
        b"PUB a 1\r\nx\r\nPUB a r 2\r\nxy\r\n"
        b"HPUB a r 23 26\r\nNATS/1.0\r\nK: v\r\nL: \r\n\r\nxyz\r\nPING\r\n"
    )
    assert protocol.data_to_send() == b""


@pytest.mark.parametrize("subject", ["", "a b", "a\r\nPUB b 0", "a\t", "a\0"])
def test_given_a_subject_that_would_end_its_line_then_nothing_is_sent(subject: str) -> None:
    protocol = NatsProtocol()
    for send in (protocol.publish, protocol.subscribe):
        with pytest.raises(InvalidArgument, match="is not valid as a subject"):
            send(subject)
    with pytest.raises(InvalidArgument, match="the name of a queue group"):
        protocol.subscribe("a", "x y")
    assert protocol.data_to_send() == b""


@pytest.mark.parametrize("headers", [{"": "v"}, {"a:b": "v"}, {"a\r\n": "v"}, {"a": "v\r\nb: w"}])
def test_given_a_header_that_would_be_two_then_nothing_is_sent(headers: dict[str, str]) -> None:
    protocol = NatsProtocol()
    with pytest.raises(InvalidArgument, match="is not a valid header"):
        protocol.publish("a", b"", headers=headers)
    assert protocol.data_to_send() == b""


def test_given_a_message_larger_than_the_broker_takes_then_it_is_not_sent() -> None:
    protocol = NatsProtocol()
    protocol.receive_data(b'INFO {"max_payload":20}\r\n')
    assert list(events(protocol))
    protocol.publish("a", bytes(20))
    for payload, headers in ((bytes(21), None), (bytes(10), {"K": "v"})):
        with pytest.raises(MessageTooLarge):
            protocol.publish("a", payload, headers=headers)
    assert protocol.max_payload == 20


@pytest.mark.parametrize(
    ("words", "is_fatal", "is_about_us"),
    [
        ('Permissions Violation for Publish to "$SEQ.x"', False, False),
        ("Invalid Subject", False, False),
        ("Authorization Violation", True, True),
        ("User Authentication Expired", True, True),
        ("Maximum Payload Violation", True, False),
    ],
)
def test_given_words_of_an_error_then_it_is_known_what_they_end(
    words: str, is_fatal: bool, is_about_us: bool
) -> None:
    error = ErrorReceived(words)
    assert (error.is_fatal, error.is_about_us) == (is_fatal, is_about_us)
