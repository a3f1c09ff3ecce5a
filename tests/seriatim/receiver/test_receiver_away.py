"""The filler's server cannot be reached for a while: missing messages wait, and are not lost."""

import asyncio
import shutil
import signal
import socket
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from sequencer.feed.feed_message import FeedMessage
from sequencer.feed.moldudp64 import MoldUDP64Codec, parse_request, request, session_name
from seriatim.receiver import Group, MessagesLost, NewStream, Receiver, codec_named, journal_filler
from seriatim.receiver.filler import JournalHead
from tests.seriatim.receiver.test_fillers import QUICK, TEST_S, Served, gather, until
from tests.support.multicast import mouth, new_group

HASTY = {**QUICK, "tries": 5, "answer": 0.05}  # 1.6 s in all; but for what is away, then it is lost
SESSION = session_name("00c0ffee00c0ffee", 1)


def with_a_hole(talk: Callable[[Served, Receiver], Awaitable[None]], **options: Any) -> None:
    """Have a talk with a receiver that misses 1 to 3 of 6, and whose broker has just stopped."""

    async def listen(served: Served) -> None:
        group = new_group()
        with mouth(group) as speaker:
            async with Receiver(
                [Group(*group, interface="127.0.0.1")],
                fill=served.url,
                start=1,
                **{**HASTY, **options},
            ) as receiver:
                served.publish(6)
                sent = served.heard("netstring")
                served.process.stop()
                await until(lambda: receiver.counters.away > 0)
                for datagram in sent[3:]:
                    speaker.send(datagram)
                await until(lambda: receiver.counters.holes == 1)
                await talk(served, receiver)

    with Served(feeds=("netstring",)) as made:
        asyncio.run(listen(made))


def test_given_a_broker_that_is_away_for_longer_than_all_tries_then_nothing_is_lost() -> None:
    async def talk(served: Served, receiver: Receiver) -> None:
        asked = receiver.counters.requests
        await until(lambda: receiver.filler.away() > 2.0)
        assert (receiver.counters.requests, receiver.counters.lost) == (asked, 0)
        assert receiver.troubles[-1].startswith("no server reachable for ")
        served.process.start(served.process.port)
        events = await gather(receiver, lambda events: len(events) == 6)
        assert [event.number for event in events] == [1, 2, 3, 4, 5, 6]
        assert receiver.counters.away == 0

    with_a_hole(talk)


def test_given_a_limit_to_how_long_one_waits_then_what_is_missing_for_longer_is_lost() -> None:
    async def talk(served: Served, receiver: Receiver) -> None:
        events = await gather(receiver, lambda events: len(events) == 4)
        assert events[0] == MessagesLost(1, 3)
        assert [event.number for event in events[1:]] == [4, 5, 6]

    with_a_hole(talk, away=0.5)


def test_given_another_journal_behind_the_address_then_its_messages_fill_no_earlier_hole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def talk(served: Served, receiver: Receiver) -> None:
        head, asked = receiver.filler.head, []

        async def late() -> JournalHead | None:
            """The first answers are lost."""
            asked.append(receiver.filler._client.is_connected)
            return await head() if sum(asked) > 3 else None

        monkeypatch.setattr(receiver.filler, "head", late)
        shutil.rmtree(served.process.store)
        served.process.start(served.process.port)
        served.publish(4, b"orders.other")
        events = await gather(receiver, lambda events: len(events) == 9)
        assert events[0] == MessagesLost(1, 3)
        assert [event.number for event in events[1:4]] == [4, 5, 6]
        assert events[4] == NewStream()
        assert [event.number for event in events[5:]] == [1, 2, 3, 4]

    with_a_hole(talk)


def test_given_a_broker_that_answers_nothing_for_a_while_then_nothing_is_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(journal_filler, "ANSWER_SECONDS", 0.1)

    async def listen(served: Served) -> None:
        group = new_group()
        with mouth(group) as speaker:
            async with Receiver(
                [Group(*group, interface="127.0.0.1")],
                fill=served.url,
                start=1,
                **{**QUICK, "tries": 3},
            ) as receiver:
                served.publish(6)
                sent = served.heard("netstring")
                served.process.signal(signal.SIGSTOP)
                try:
                    speaker.send(sent[5])
                    await until(lambda: receiver.filler.away() > 1.0)
                    assert "no answer in time" in receiver.troubles[0]
                finally:
                    served.process.signal(signal.SIGCONT)
                events = await gather(receiver, lambda events: len(events) == 6)
                assert [event.number for event in events] == [1, 2, 3, 4, 5, 6]
                assert (receiver.counters.lost, receiver.counters.away) == (0, 0)

    with Served(feeds=("netstring",)) as made:
        asyncio.run(listen(made))


class Answers:
    """A re-request server whose answers are the test's.

    Its port is none that the system gives to others, so it can be had again.
    """

    def __init__(self, port: int = 0) -> None:
        port = port or new_group()[1]
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", port))
        self.socket.setblocking(False)
        self.port = self.socket.getsockname()[1]

    async def asked(self) -> tuple[int, int]:
        """The next question: the first number, and how many. It is to be answered next."""
        loop = asyncio.get_running_loop()
        datagram, self.peer = await asyncio.wait_for(loop.sock_recvfrom(self.socket, 100), TEST_S)
        _, first, count = parse_request(datagram)
        return first, count

    def answer(self, first: int, *payloads: bytes) -> None:
        blocks = b"".join(len(one).to_bytes(2, "big") + one for one in payloads)
        self.socket.sendto(request(SESSION, first, len(payloads)) + blocks, self.peer)


def with_mold(talk: Callable[[Answers, Receiver], Awaitable[None]], **options: Any) -> None:
    """Have a talk with a receiver that misses 1 to 3 of 4, and asks a server by MoldUDP64."""

    async def listen() -> None:
        group, answers = new_group(), Answers()
        codec = MoldUDP64Codec()
        codec.open("00c0ffee00c0ffee", 1)
        with answers.socket, mouth(group) as speaker:
            async with Receiver(
                [Group(*group, interface="127.0.0.1")],
                codec=codec_named("moldudp64"),
                fill=f"mold://127.0.0.1:{answers.port}",
                start=1,
                **{**QUICK, **options},
            ) as receiver:
                speaker.send(codec.datagram([FeedMessage(4, b"four")], 3))
                await talk(answers, receiver)

    asyncio.run(listen())


def test_given_a_re_request_server_that_is_not_there_then_what_is_missing_waits_for_it() -> None:
    async def talk(answers: Answers, receiver: Receiver) -> None:
        answers.socket.close()
        await until(lambda: receiver.filler.away() > 0.5)
        assert receiver.counters.lost == 0
        assert "connection refused" in receiver.troubles[0]
        again = Answers(answers.port)
        with again.socket:
            assert await again.asked() == (1, 3)
            again.answer(1, b"one", b"two", b"three")
            events = await gather(receiver, lambda events: len(events) == 4)
        assert [event.payload for event in events] == [b"one", b"two", b"three", b"four"]
        assert receiver.counters.away == 0

    with_mold(talk, tries=2, answer=0.05)


def test_given_a_server_that_says_nothing_then_its_tries_are_counted() -> None:
    async def talk(answers: Answers, receiver: Receiver) -> None:
        events = await gather(receiver, lambda events: len(events) == 2)
        assert events == [MessagesLost(1, 3), FeedMessage(4, b"four")]

    with_mold(talk, tries=2, answer=0.02)


def test_given_a_server_that_answers_some_questions_then_what_it_passes_over_is_asked_oftener() -> (
    None
):
    # Each 11th number misses: too far apart to be asked for in one question.
    starts = range(5, 5 + 11 * 60, 11)
    last = starts[-1] + 9
    tries = 6
    asked = Counter[int]()

    async def answer(answers: Answers) -> None:
        while True:
            first, count = await answers.asked()
            asked[first] += 1
            # As a server that may answer so much in a second: some at once, others by and by.
            if first < 4 or asked[first] == 1 + first % (tries + 2):
                answers.answer(first, *[b"filled"] * count)

    async def talk(answers: Answers, receiver: Receiver) -> None:
        codec = MoldUDP64Codec()
        codec.open("00c0ffee00c0ffee", 1)
        busy = asyncio.create_task(answer(answers))
        with mouth((receiver.feeds[0].group, receiver.feeds[0].port)) as speaker:
            for first in starts:
                block = [FeedMessage(number, b"sent") for number in range(first, first + 10)]
                speaker.send(codec.datagram(block, block[0].number - 1))
            events = await gather(receiver, lambda events: events[-1] == FeedMessage(last, b"sent"))
        busy.cancel()
        assert not [event for event in events if isinstance(event, MessagesLost)]
        assert len(events) == last
        assert max(asked.values()) > tries, "else it would prove nothing"

    with_mold(talk, tries=tries, answer=0.02)


def test_given_an_answer_to_something_else_then_it_is_no_loss_unless_it_comes_again() -> None:
    async def talk(answers: Answers, receiver: Receiver) -> None:
        assert await answers.asked() == (1, 3)
        answers.answer(3, b"three")  # to a question of long ago
        assert await answers.asked() == (1, 2)
        answers.answer(2, b"two")
        assert await answers.asked() == (1, 1)
        assert receiver.counters.lost == 0
        answers.answer(2, b"two")
        events = await gather(receiver, lambda events: len(events) == 4)
        assert events[0] == MessagesLost(1, 1)
        assert [event.payload for event in events[1:]] == [b"two", b"three", b"four"]

    with_mold(talk, answer=TEST_S)  # what it asks at once
