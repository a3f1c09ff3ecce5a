"""Answers below `_INBOX.` are as the service sent them, unless a client has asked for a frame."""

import asyncio

import nats
import pytest

from tests.support.processes import SeriatimServer, url
from tests.support.raw import RawClient

HELLO = b"hello world"


def connect(options: str) -> bytes:
    return b'CONNECT {"verbose":false,"headers":true%b}\r\n' % options.encode()


def received(broker: SeriatimServer, options: str, subject: bytes) -> tuple[bytes, bytes]:
    """Headers and payload that a subscriber gets of a message to this subject."""
    with RawClient(broker.port, connect(options)) as client:
        client.ask(b"SUB %b 1\r\n" % subject)
        publish = b"PUB %b %d\r\n%b\r\n" % (subject, len(HELLO), HELLO)
        (message,) = [one for one in client.ask(publish) if one.verb in ("MSG", "HMSG")]
    return message.header, message.payload


@pytest.mark.parametrize(
    ("subject", "options", "is_framed"),
    [
        (b"_INBOX.abc.1", "", False),
        (b"_INBOX.abc.1", ',"frame":"netstring"', True),
        (b"_INBOX.abc.1", ',"frame":"none"', False),
        (b"orders", "", True),
        (b"_INBOXES.1", "", True),
        (b"a._INBOX.1", "", True),
    ],
)
def test_given_a_subject_and_a_wish_then_the_payload_has_a_frame_or_not(
    subject: bytes, options: str, is_framed: bool
) -> None:
    with SeriatimServer("netstring") as broker:
        payload = b"19:1:1,11:hello world,," if is_framed else HELLO
        assert received(broker, options, subject) == (b"", payload)


def test_given_the_frame_header_then_an_answer_has_its_number() -> None:
    with SeriatimServer("header") as broker:
        headers, payload = received(broker, "", b"_INBOX.abc.1")
        assert (headers, payload) == (b"NATS/1.0\r\nNats-Sequence: 1\r\n\r\n", HELLO)


def test_given_the_frame_stamp_then_an_answer_has_its_number_and_time() -> None:
    head = b"NATS/1.0\r\nNats-Sequence: 1\r\nNats-Time-Stamp: 20"
    with SeriatimServer("stamp") as broker:
        headers, payload = received(broker, "", b"_INBOX.abc.1")
        assert (headers[: len(head)], payload) == (head, HELLO)
    with SeriatimServer("netstring") as broker:
        headers, payload = received(broker, ',"frame":"stamp"', b"_INBOX.abc.1")
        assert (headers[: len(head)], payload) == (head, HELLO)


def test_given_a_service_then_its_answer_is_what_it_sent_and_has_a_number() -> None:
    with SeriatimServer("netstring") as broker:

        async def use() -> None:
            client = await nats.connect(url(broker))
            service = await client.subscribe("service")
            everything = await client.subscribe(">")
            asked = asyncio.ensure_future(client.request("service", b"ping", timeout=30))
            await (await service.next_msg(30)).respond(b"pong")
            assert (await asked).data == b"pong"
            seen = [(await everything.next_msg(30)).data for _ in range(2)]
            assert seen == [b"11:1:1,4:ping,,", b"11:1:2,4:pong,,"]
            await client.close()

        asyncio.run(asyncio.wait_for(use(), 60))
