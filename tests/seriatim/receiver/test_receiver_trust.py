"""A broker's answers to a filler are checked before they are used."""

import asyncio
from typing import Any

import pytest

from sequencer.journal.columns import Collector
from seriatim.receiver.journal_filler import JournalFiller
from seriatim.receiver.order import WantedRange
from tests.support.scripted import Peer, Scripted

FRAMED = b'INFO {"server_id":"x","headers":true,"max_payload":1048576,"frame":"netstring"}\r\n'
TEST_S = 30.0
ANSWERS = b"2"  # the sid of the client's subscription for them


class Order:
    """Notes what it is told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def __getattr__(self, name: str) -> Any:
        def note(*_: object) -> tuple[()]:
            self.told.append(name)
            return ()

        return note


def greet(peer: Peer) -> bytes:
    """Up to the filler's subscription; its sid."""
    peer.say(FRAMED)
    peer.expect(b"PING")
    peer.say(b"PONG\r\n")
    return peer.expect(b"SUB _INBOX").split()[-1]


async def opened(port: int) -> JournalFiller:
    filler = JournalFiller(f"nats://127.0.0.1:{port}")
    filler.order = Order()  # type: ignore[assignment]
    await filler.open()
    return filler


@pytest.mark.parametrize(
    "said",
    [
        *(b"[]", b"null", b'"x"', b"{}", b"no JSON", b'{"journal":"j","epoch":1,"last":"5"}'),
        *(b'{"journal":"j","epoch":1,"last":-5}', b'{"journal":"j","epoch":null,"last":5}'),
    ],
)
def test_given_a_broker_that_says_what_none_would_of_itself_then_nothing_is_known_of_it(
    said: bytes,
) -> None:
    def talk(peer: Peer) -> None:
        greet(peer)
        reply = peer.asked(b"$SEQ.INFO")
        peer.say(b"MSG %b %b %d\r\n%b\r\n" % (reply, ANSWERS, len(said), said))
        peer.expect(b"never")

    async def listen(port: int) -> None:
        filler = await opened(port)
        assert await filler.head() is None
        assert filler.trouble
        await filler.close()

    talked(talk, listen)


@pytest.mark.parametrize(
    "headers",
    [
        b"Seriatim-Next: 1_0",
        b"Seriatim-Next: " + b"9" * 5000,
        b"Seriatim-Next: 99",
        b"Seriatim-Next: 1",
        b"Seriatim-Next: 10\r\nSeriatim-Lost: a-b",
        b"Seriatim-Next: 10\r\nSeriatim-Lost: 3-4",
        b"Seriatim-Next: 10\r\nSeriatim-Lost: 8-7",
        b"Seriatim-Next: 10\r\nSeriatim-Lost: 5-99999999999999999999",
    ],
)
def test_given_an_answer_of_other_numbers_than_were_asked_for_then_it_is_not_used(
    headers: bytes,
) -> None:
    body = Collector(1, 16, 4096).chunk()
    block = b"NATS/1.0\r\n%b\r\nSeriatim-Last: 1\r\n\r\n" % headers

    def talk(peer: Peer) -> None:
        sid = greet(peer)
        reply = peer.asked(b"$SEQ.READ")
        sizes = (len(block), len(block) + len(body))
        peer.say(b"MSG %b.x %b 0\r\n\r\n" % (reply, sid))  # of nobody's question
        peer.say(b"HMSG %b %b %d %d\r\n%b%b\r\n" % (reply, sid, *sizes, block, body))
        peer.expect(b"never")

    async def listen(port: int) -> None:
        filler = await opened(port)
        filler.send_request(WantedRange(0, 5, 9))
        while not filler.trouble:
            await asyncio.sleep(0.01)  # no event to await
        assert "$SEQ.READ" in filler.trouble
        assert "lose" not in filler.order.told  # type: ignore[attr-defined]
        assert "answered" not in filler.order.told  # type: ignore[attr-defined]
        await filler.close()

    talked(talk, listen)


def talked(talk: Any, listen: Any) -> None:
    with Scripted(talk) as peer:
        asyncio.run(asyncio.wait_for(listen(peer.port), TEST_S))
