"""The protocol without I/O: bytes to events, however they are cut, and commands to bytes."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seriatim.client.credentials import NOBODY
from seriatim.client.errors import (
    BrokerError,
    ConnectionLost,
    InvalidArgument,
    MessageTooLarge,
    NotABroker,
    NotAuthorized,
)
from seriatim.client.protocol import (
    BUFFER_SIZE,
    LINE_MAX,
    ErrorReceived,
    Event,
    InfoReceived,
    NatsProtocol,
    Need,
    OkReceived,
    PingReceived,
    PongReceived,
    with_fields,
)
from seriatim.client.server_address import read_address
from seriatim.client.stream_message import Message
from seriatim.client.tls import DEFAULT_TLS, TlsSettings

Seen = tuple[object, ...]


def seen(event: Event) -> Seen:
    """An event as values that can be compared."""
    if isinstance(event, Message):
        payload = bytes(event.payload)
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
    assert isinstance(message, Message)
    assert message.payload.obj is given[0].obj
    assert bytes(message.payload) == b"abcdefghij"
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


@pytest.mark.parametrize(
    "block",
    [b"A: b\r\n\r\n", b"NATS/1.0\r\nA: b", b"NATS/1.0\r\n\r\nA: b\r\n\r\n", b"NATS/1.0\r\n"],
    ids=["no first line", "no end", "an end in the middle", "one line"],
)
def test_given_bytes_that_are_no_block_of_headers_then_nothing_is_sent(block: bytes) -> None:
    protocol = NatsProtocol()
    with pytest.raises(InvalidArgument, match="is not a block of headers"):
        protocol.publish("a", b"", headers=block)
    assert protocol.data_to_send() == b""


def test_given_a_block_of_headers_then_it_is_sent_as_it_is_but_for_what_is_added() -> None:
    block = b"NATS/1.0\r\nDesk:7\r\nNATS-Msg-ID : old\r\nDesk: 8 \r\n\r\n"
    protocol = NatsProtocol()
    protocol.publish("a", b"x", headers=block)
    size = len(block)
    sent = b"HPUB a %d %d\r\n%bx\r\n" % (size, size + 1, block)
    assert protocol.data_to_send() == sent
    added = with_fields(block, {"Nats-Msg-Id": "new"})
    assert added == b"NATS/1.0\r\nDesk:7\r\nDesk: 8 \r\nNats-Msg-Id: new\r\n\r\n"
    assert with_fields(b"NATS/1.0\r\n\r\n", {"A": "b"}) == b"NATS/1.0\r\nA: b\r\n\r\n"


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
    ("words", "is_fatal", "error"),
    [
        ('Permissions Violation for Publish to "$SEQ.x"', False, ConnectionLost),
        ("Invalid Subject", False, ConnectionLost),
        ("Authorization Violation", True, NotAuthorized),
        ("User Authentication Expired", True, NotAuthorized),
        ("Maximum Payload Violation", True, ConnectionLost),
    ],
)
def test_given_words_of_an_error_then_it_is_known_what_they_end(
    words: str, is_fatal: bool, error: type[BrokerError]
) -> None:
    event = ErrorReceived(words)
    assert (event.is_fatal, type(event.error())) == (is_fatal, error)
    assert words in str(event.error())


HERE = read_address("nats://me:s3cret@here:4222")


def greeted(
    info: bytes, tls: TlsSettings = DEFAULT_TLS, has_tls: bool = False
) -> tuple[list[Need], bytes]:
    """What the handshake with such a broker needs, and what it sends at its end."""
    protocol, needs = NatsProtocol(), []
    for need in protocol.greeting(HERE, tls, NOBODY, {"name": "us"}, "_INBOX.*", has_tls):
        needs.append(need)
        if need is Need.INFO:
            protocol.receive_data(info + b"MSG _INBOX.1 1 2\r\n")
            assert protocol.next_event() is not None
    return needs, protocol.data_to_send()


@pytest.mark.parametrize(
    ("info", "tls", "has_tls", "needs"),
    [
        (b"{}", DEFAULT_TLS, False, "INFO PONG"),
        (b'{"tls_required":true}', DEFAULT_TLS, False, "INFO TLS PONG"),
        (b'{"tls_required":true}', DEFAULT_TLS, True, "INFO PONG"),
        (b'{"tls_available":true}', DEFAULT_TLS, False, "INFO PONG"),
        (b'{"tls_available":true}', TlsSettings(wanted=True), False, "INFO TLS PONG"),
        (b'{"tls_required":true}', TlsSettings(first=True), False, "TLS INFO PONG"),
    ],
)
def test_given_a_broker_when_greeted_then_tls_comes_before_our_credentials(
    info: bytes, tls: TlsSettings, has_tls: bool, needs: str
) -> None:
    asked, sent = greeted(b"INFO %b\r\n" % info, tls, has_tls)
    assert [need.name for need in asked] == needs.split()
    connect, rest = sent.split(b"\r\n", 1)
    said = json.loads(connect.removeprefix(b"CONNECT "))
    assert (said["name"], said["user"], said["pass"]) == ("us", "me", "s3cret")
    assert rest == b"SUB _INBOX.* 1\r\nPING\r\n"


def test_given_a_broker_without_the_tls_that_is_wanted_then_nothing_is_said() -> None:
    with pytest.raises(BrokerError, match=r"^here:4222: TLS is required"):
        greeted(b"INFO {}\r\n", TlsSettings(wanted=True))


def test_given_input_before_tls_then_it_is_dropped() -> None:
    protocol = NatsProtocol()
    needs = protocol.greeting(HERE, DEFAULT_TLS, NOBODY, {})
    assert next(needs) is Need.INFO
    protocol.receive_data(b"INFO {\"tls_required\":true}\r\n-ERR 'planted'\r\nMSG a")
    assert protocol.next_event() is not None
    assert next(needs) is Need.TLS
    assert protocol.next_event() is None
    assert protocol.is_between


@pytest.mark.parametrize(
    ("info", "broken", "error", "why"),
    [
        (b"", None, NotABroker, "the broker closed the connection"),
        (b'INFO {"a":1}\r\n', None, ConnectionLost, "the broker closed the connection"),
        (b'INFO {"a":1}\r\n', ConnectionResetError(104, ""), ConnectionLost, "the broker closed"),
        (b"", ConnectionResetError(104, ""), ConnectionLost, "connection reset by peer"),
        (b'INFO {"a":1}\r\n', TimeoutError(), ConnectionLost, "no answer in time"),
    ],
)
def test_given_a_connection_that_ends_then_the_error_says_why(
    info: bytes, broken: OSError | None, error: type[BrokerError], why: str
) -> None:
    protocol = NatsProtocol()
    protocol.receive_data(info)
    list(events(protocol))
    said = protocol.closed(broken)
    assert type(said) is error
    assert str(said).startswith(why)
