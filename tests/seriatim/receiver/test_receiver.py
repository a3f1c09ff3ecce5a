"""A receiver on loopback: what feeds send comes out in order, as fast as it is taken."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from sequencer.feed.feed_codec import Codec
from seriatim.receiver import (
    Ended,
    FeedMessage,
    FillError,
    Group,
    MessagesLost,
    NewStream,
    Receiver,
    ReceiverError,
    codec_named,
)
from tests.support.multicast import mouth, new_group
from tests.support.receiving import JOURNAL, datagrams_of, message_of

TEST_S = 60.0
PATIENCE = 0.02


class Speaker:
    """Feeds of one codec on loopback, of which datagrams can be lost on purpose."""

    def __init__(self, stack: ExitStack, codec: str, feeds: int = 1) -> None:
        self.codec = codec_named(codec)
        self.codec.open(JOURNAL, 1)
        self.addresses = [new_group() for _ in range(feeds)]
        self.sockets = [stack.enter_context(mouth(one)) for one in self.addresses]
        self.groups = [Group(*one, interface="127.0.0.1") for one in self.addresses]

    def say(self, *numbers: int, feed: int = 0) -> None:
        for number in numbers:
            self.sockets[feed].send(self.codec.datagram([message_of(number)], number - 1))


@contextmanager
def speaking(codec: str = "netstring", feeds: int = 1) -> Iterator[Speaker]:
    with ExitStack() as stack:
        yield Speaker(stack, codec, feeds)


async def gather(receiver: Receiver, count: int) -> list[object]:
    """So many events, a message as its number."""
    found: list[object] = []
    async with asyncio.timeout(TEST_S):
        async for event in receiver:
            found.append(event.number if isinstance(event, FeedMessage) else event)
            if len(found) == count:
                break
    return found


@pytest.mark.parametrize("codec", ["netstring", "netstring-subject", "binary", "moldudp64"])
def test_given_a_feed_then_its_messages_come_out_and_its_end(codec: str) -> None:
    async def listen() -> None:
        with speaking(codec) as speaker:
            messages = [message_of(n) for n in range(1, 101)]
            async with Receiver(speaker.groups, codec=codec_named(codec)) as receiver:
                for datagram in datagrams_of(speaker.codec, messages, packing=400):
                    speaker.sockets[0].send(datagram)
                ends = codec != "netstring"
                assert await gather(receiver, 100 + ends) == [
                    *range(1, 101),
                    *([Ended(101)] if ends else []),
                ]
                counters = receiver.counters
                assert (counters.messages, counters.next, counters.lag) == (100, 101, 0)
                assert counters.heartbeats == 2 * ends
                assert counters.datagrams < 100
                assert (counters.holes, counters.lost, counters.malformed) == (0, 0, 0)

    asyncio.run(listen())


def test_given_no_filler_then_what_is_missing_is_lost_after_a_while_and_the_rest_follows() -> None:
    async def listen() -> None:
        with speaking() as speaker:
            async with Receiver(speaker.groups, start=2, patience=PATIENCE) as receiver:
                speaker.say(1, 4, 3, 7)
                assert await gather(receiver, 5) == [
                    MessagesLost(2, 2),
                    3,
                    4,
                    MessagesLost(5, 6),
                    7,
                ]
                assert receiver.counters.lost == 3
                assert "numbers that were not available" in "\n".join(receiver.counters.lines())

    asyncio.run(listen())


def test_given_two_feeds_with_different_losses_then_together_they_have_all() -> None:
    async def listen() -> None:
        with speaking(feeds=2) as speaker:
            async with Receiver(speaker.groups, start=1, patience=TEST_S) as receiver:
                speaker.say(*(n for n in range(1, 601) if n % 3), feed=0)
                speaker.say(*(n for n in range(1, 601) if n % 3 == 0 or n % 2), feed=1)
                assert await gather(receiver, 600) == [*range(1, 601)]
                counters = receiver.counters
                assert counters.late + counters.duplicates > 180
                assert counters.messages + counters.duplicates == counters.datagrams

    asyncio.run(listen())


def test_given_an_application_that_takes_nothing_then_memory_is_bounded_and_it_goes_on() -> None:
    async def listen() -> None:
        with speaking() as speaker:
            async with Receiver(
                speaker.groups, patience=PATIENCE, pending_bytes=20_000, held_bytes=20_000
            ) as receiver:
                for first in range(1, 20_001, 100):
                    speaker.say(*range(first, first + 100))
                    await asyncio.sleep(0)
                assert receiver.counters.messages < 20_000, "it stopped, and the kernel had no room"
                assert receiver.order.pending < 20_000 + 256 * 200, "and one turn of the loop"
                reached = asyncio.ensure_future(reach(receiver, 100_000))
                number = 100_000
                while not reached.done():  # the kernel's buffer may still be full
                    speaker.say(number)
                    number += 1
                    await asyncio.sleep(0)
                assert await reached > 0
                assert receiver.counters.kernel_drops > 0

    async def reach(receiver: Receiver, number: int) -> int:
        """How many were lost on the way, in order."""
        at, lost = 1, 0
        async with asyncio.timeout(TEST_S):
            async for event in receiver:
                if isinstance(event, MessagesLost):
                    assert event.first == at
                    lost += event.last - event.first + 1
                    at = event.last + 1
                else:
                    assert isinstance(event, FeedMessage)
                    assert event.number == at
                    at += 1
                if at > number:
                    break
        return lost

    asyncio.run(listen())


def test_given_a_receiver_that_is_closed_then_what_came_is_handed_on_and_iteration_ends() -> None:
    async def listen() -> None:
        with speaking() as speaker:
            receiver = Receiver(speaker.groups)
            async with receiver:
                speaker.say(1, 2)
                batches = receiver.batches()
                async with asyncio.timeout(TEST_S):
                    assert len(await anext(batches)) == 2
                waiting = asyncio.ensure_future(anext(batches, None))
                await asyncio.sleep(0)
            assert await waiting is None
            await receiver.close()

    asyncio.run(listen())


def test_given_a_sender_that_begins_again_after_silence_then_a_new_stream_is_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def listen() -> None:
        with speaking() as speaker:
            async with Receiver(speaker.groups) as receiver:
                speaker.say(8, 9)
                assert await gather(receiver, 2) == [8, 9]
                monkeypatch.setattr(receiver._loop, "time", lambda: time.monotonic() + 3.1)
                with mouth(speaker.addresses[0]) as other:
                    other.send(speaker.codec.datagram([message_of(1)], 0))
                    assert await gather(receiver, 2) == [NewStream(), 1]

    asyncio.run(listen())


class Shouting(Codec):
    """A codec of a user's own, which only reads."""

    def decode(self, datagram: bytes):  # type: ignore[no-untyped-def]
        number, _, payload = datagram.partition(b"!")
        return codec_named("netstring").decode(
            codec_named("netstring").datagram([FeedMessage(int(number), payload)], 0)
        )


def test_given_a_codec_of_ones_own_then_it_is_used_and_its_errors_are_counted() -> None:
    async def listen() -> None:
        with speaking() as speaker:
            async with Receiver(speaker.groups, codec=Shouting()) as receiver:
                for datagram in (b"hey!", b"7!hey", b"8!ho"):
                    speaker.sockets[0].send(datagram)
                assert await gather(receiver, 2) == [7, 8]
                assert receiver.counters.malformed == 1
                assert receiver.troubles[0].startswith("ValueError: invalid literal for int()")

    asyncio.run(listen())


@pytest.mark.parametrize("feeds", [0, 3])
def test_given_no_feed_or_three_then_it_is_refused(feeds: int) -> None:
    with pytest.raises(ReceiverError, match=f"one or two feeds, not {feeds}"):
        Receiver([Group("239.0.0.1", 1)] * feeds)


@pytest.mark.parametrize("start", [0, -1, "now", 1.5])
def test_given_an_invalid_start_then_it_is_refused(start: object) -> None:
    with pytest.raises(ReceiverError, match="is not a valid start; give a number from 1 to"):
        Receiver([Group("239.0.0.1", 1)], start=start)  # type: ignore[arg-type]


def test_given_a_re_request_server_for_another_codec_then_it_is_refused() -> None:
    with pytest.raises(FillError, match="needs the codec moldudp64, for its session"):
        Receiver([Group("239.0.0.1", 1)], fill="mold://127.0.0.1:1")


def test_given_a_group_that_cannot_be_joined_then_nothing_stays_open() -> None:
    async def listen() -> None:
        group = Group(*new_group(), interface="127.0.0.1")
        receiver = Receiver([group, Group("239.0.0.1", 5000, "eth99")])
        with pytest.raises(ReceiverError, match="eth99"):
            async with receiver:
                pass

    asyncio.run(listen())
