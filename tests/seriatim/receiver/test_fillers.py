"""What was lost between a broker and a receiver, fetched from the broker itself.

The broker sends to one group, the receiver listens to another, and the test in between forwards
what it likes.
"""

import asyncio
import contextlib
import re
import shutil
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sequencer.feed.feed_message import FeedMessage
from seriatim.receiver import FillError, Group, MessagesLost, NewStream, Receiver, codec_named
from tests.sequencer.stores import WrittenStore
from tests.support.multicast import Ear, mouth, new_group
from tests.support.processes import NatsServer, SeriatimServer
from tests.support.raw import QUIET, RawClient

CODECS = ("netstring", "netstring-subject", "binary", "moldudp64")
FEEDS = (*CODECS, "filtered")
TEST_S = 60.0
HEADS = QUIET.replace(b"}", b',"headers":true}')
HEADERS = b"NATS/1.0\r\nA: b\r\n\r\n"
QUICK: dict[str, Any] = {"patience": 0.002, "answer": 0.1, "idle": 0.1}
TURN_S = 0.01


class Served:
    """A broker with one feed for each of `FEEDS`, and what its feeds have sent."""

    def __init__(self, store: Path | None = None, feeds: tuple[str, ...] = FEEDS) -> None:
        self.ears = {name: Ear(new_group(), 16 << 20) for name in feeds}
        arguments = []
        for name, ear in self.ears.items():
            codec = name if name in CODECS else "netstring,subject=orders.>"
            asked = ",rerequest_port=-1" if codec == "moldudp64" else ""
            place = f"{ear.group[0]}:{ear.group[1]},interface=127.0.0.1,heartbeat=0.1"
            arguments += ["--feed", f"{place},codec={codec}{asked}"]
        self.process = SeriatimServer("netstring", arguments=arguments, store=store)

    def publish(self, count: int, subject: bytes = b"orders.new") -> None:
        """Publish so many messages, some of them with headers, and wait until they are sent."""
        lines = []
        for number in range(count):
            payload = b"message %d" % number
            if number % 2:
                sizes = b"%d %d" % (len(HEADERS), len(HEADERS) + len(payload))
                lines.append(b"HPUB %b %b\r\n%b%b\r\n" % (subject, sizes, HEADERS, payload))
            else:
                lines.append(b"PUB %b %d\r\n%b\r\n" % (subject, len(payload), payload))
        with RawClient(self.process.port, HEADS) as client:
            assert client.ask(b"".join(lines)) == []

    def heard(self, feed: str) -> list[bytes]:
        """What a feed has sent since this was last asked: on loopback it is there when sent."""
        ear = self.ears[feed].socket
        ear.setblocking(False)
        found = []
        with contextlib.suppress(BlockingIOError):
            while True:
                found.append(ear.recv(1 << 16))
        ear.settimeout(TEST_S)
        return found

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.process.port}"

    @property
    def mold_url(self) -> str:
        (port,) = re.findall(r"answering re-requests on 127\.0\.0\.1:(\d+)", self.log)
        return f"mold://127.0.0.1:{port}"

    @property
    def log(self) -> str:
        return "\n".join(self.process.log)

    def __enter__(self) -> "Served":
        self.process.start()
        return self

    def __exit__(self, *how: Any) -> None:
        for ear in self.ears.values():
            ear.socket.close()
        self.process.__exit__(*how)


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with Served() as made:
        yield made


def codec_for(feed: str) -> str:
    return feed if feed in CODECS else "netstring"


def messages_in(feed: str, datagrams: list[bytes]) -> list[FeedMessage]:
    codec = codec_named(codec_for(feed))
    return [message for datagram in datagrams for message in codec.decode(datagram).messages]


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(TEST_S):
        while not true():
            await asyncio.sleep(TURN_S)  # no event to await: a clock, or a counter


async def gather(
    receiver: Receiver, done: Callable[[list[Any]], bool], so_far: list[Any] | None = None
) -> list[Any]:
    events: list[Any] = [] if so_far is None else so_far
    async with asyncio.timeout(TEST_S):
        async for event in receiver:
            events.append(event)
            if done(events):
                break
    return events


def relayed(
    served: Served,
    feed: str,
    passes: Callable[[int], bool],
    count: int,
    fill: str,
    **options: object,
) -> tuple[list[Any], list[FeedMessage], Receiver]:
    """What a receiver makes of a feed that loses, and what there was, from before the last half."""

    async def listen() -> tuple[list[Any], list[FeedMessage], Receiver]:
        served.heard(feed)
        served.publish(count // 2)
        before = messages_in(feed, served.heard(feed))
        group = new_group()
        receiver = Receiver(
            [Group(*group, interface="127.0.0.1")],
            codec=codec_named(codec_for(feed)),
            fill=fill,
            start=before[0].number,
            **{**QUICK, **options},
        )
        with mouth(group) as speaker:
            async with receiver:
                served.publish(count - count // 2)
                sent = served.heard(feed)
                for place, datagram in enumerate(sent):
                    if passes(place):
                        speaker.send(datagram)
                expected = [*before, *messages_in(feed, sent)]
                if fill != served.url:  # who cannot say how far the numbers have come
                    speaker.send(served.ears[feed].next())  # a heartbeat
                events = await gather(receiver, lambda events: len(events) == len(expected))
                return events, expected, receiver

    return asyncio.run(listen())


@pytest.mark.parametrize("feed", CODECS)
@pytest.mark.parametrize(
    "passes",
    [lambda place: place % 3 != 1, lambda place: place < 5, lambda place: False],
    ids=["every third lost", "the tail lost", "all lost"],
)
def test_given_losses_then_the_journal_fills_them_with_the_same_messages(
    served: Served, feed: str, passes: Callable[[int], bool]
) -> None:
    events, expected, receiver = relayed(served, feed, passes, 100, served.url)
    assert events == expected
    counters = receiver.counters
    assert (counters.lost, counters.malformed, counters.messages) == (0, 0, 100)
    assert counters.filled >= 50
    assert receiver.troubles == []


@pytest.mark.parametrize("passes", [lambda place: place % 3 != 1, lambda place: place > 40])
def test_given_losses_then_the_re_request_server_fills_them(
    served: Served, passes: Callable[[int], bool]
) -> None:
    url = served.mold_url
    events, expected, receiver = relayed(served, "moldudp64", passes, 1000, url)
    assert events == expected
    assert receiver.counters.lost == 0
    assert receiver.counters.requests > 1
    assert receiver.troubles == []


def test_given_a_filter_and_a_codec_that_does_not_tell_of_it_then_nothing_is_lost(
    served: Served,
) -> None:
    async def listen() -> None:
        served.heard("filtered")
        served.publish(1)
        (first,) = messages_in("filtered", served.heard("filtered"))
        group = new_group()
        with mouth(group) as speaker:
            async with Receiver(
                [Group(*group, interface="127.0.0.1")],
                fill=served.url,
                start=first.number,
                subject="orders.>",
                **QUICK,
            ) as receiver:
                for _ in range(10):
                    served.publish(3, b"trades.new")
                    served.publish(2)
                sent = served.heard("filtered")
                for datagram in sent[::2]:
                    speaker.send(datagram)
                events = await gather(receiver, lambda events: len(events) == 21)
                assert events == [first, *messages_in("filtered", sent)]
                assert receiver.counters.lost == 0

    asyncio.run(listen())


def test_given_a_start_long_past_then_replay_and_feed_join_without_a_hole(served: Served) -> None:
    async def listen() -> None:
        served.publish(40_000)
        async with Receiver(
            [Group(*served.ears["binary"].group, interface="127.0.0.1")],
            codec=codec_named("binary"),
            fill=served.url,
            start=1,
            held_bytes=200_000,
        ) as receiver:
            last = receiver.order.holes.top - 1 + 20_000
            served.publish(20_000)
            at = 1
            async with asyncio.timeout(TEST_S):
                async for event in receiver:
                    assert isinstance(event, FeedMessage)
                    assert event.number == at
                    at += 1
                    if at > last:
                        break
            counters = receiver.counters
            assert counters.messages == last
            assert counters.held <= 200_000
            # The kernel tells of its drops with the next datagram, which may be a heartbeat.
            await until(lambda: receiver.counters.dropped + receiver.counters.kernel_drops > 0)

    asyncio.run(listen())


def test_given_live_then_nothing_that_is_published_from_now_on_is_missing(served: Served) -> None:
    async def listen() -> None:
        served.publish(10)
        group = new_group()  # where nothing is ever sent
        async with Receiver(
            [Group(*group, interface="127.0.0.1")], fill=served.url, **QUICK
        ) as receiver:
            served.publish(10)
            events = await gather(receiver, lambda events: len(events) == 10)
            assert [event.payload for event in events] == [b"message %d" % n for n in range(10)]
            assert receiver.counters.datagrams == 0

    asyncio.run(listen())


@pytest.mark.parametrize("feed", ["binary", "moldudp64"])
def test_given_numbers_that_the_broker_deleted_then_they_are_lost_and_the_rest_follows(
    feed: str, tmp_path: Path
) -> None:
    async def listen() -> None:
        WrittenStore(tmp_path / "store", (101, 120))
        with Served(tmp_path / "store", (feed,)) as served:
            fill = served.mold_url if feed == "moldudp64" else served.url
            async with Receiver(
                [Group(*served.ears[feed].group, interface="127.0.0.1")],
                codec=codec_named(feed),
                fill=fill,
                start=1,
                **QUICK,
            ) as receiver:
                served.publish(1)
                events = await gather(receiver, lambda events: len(events) == 22)
                assert events[0] == MessagesLost(1, 100)
                assert [event.number for event in events[1:]] == [*range(101, 122)]
                assert receiver.counters.lost == 100

    asyncio.run(listen())


def test_given_a_broker_that_comes_back_then_holes_are_filled_and_another_journal_is_reported() -> (
    None
):
    async def listen(served: Served) -> None:
        group = new_group()
        with mouth(group) as speaker:
            async with Receiver(
                [Group(*group, interface="127.0.0.1")], fill=served.url, start=1, **QUICK
            ) as receiver:
                served.publish(6)
                sent = served.heard("netstring")
                port = served.process.port
                served.process.stop()
                for datagram in sent[3:]:  # 1 to 3 are asked for while nobody is there
                    speaker.send(datagram)
                await asyncio.sleep(0.2)  # no event to await: questions go into the void
                assert receiver.order.next == 1
                served.process.start(port)
                events = await gather(receiver, lambda events: len(events) == 6)
                assert [event.number for event in events] == [1, 2, 3, 4, 5, 6]
                served.process.stop()
                shutil.rmtree(served.process.store)
                served.process.start(port)
                served.publish(2)
                events = await gather(receiver, lambda events: len(events) == 3)
                assert events[0] == NewStream()
                assert [event.number for event in events[1:]] == [1, 2]

    with Served(feeds=("netstring",)) as served:
        asyncio.run(listen(served))


def test_given_the_wrong_broker_to_ask_then_the_feed_is_not_taken_for_its_journal(
    served: Served,
) -> None:
    async def listen(other: Served) -> None:
        other.publish(5)
        served.heard("binary")
        served.publish(3)
        sent = served.heard("binary")
        group = new_group()
        with mouth(group) as speaker:
            async with Receiver(
                [Group(*group, interface="127.0.0.1")],
                codec=codec_named("binary"),
                fill=other.url,
                start=1,
                **QUICK,
            ) as receiver:
                for datagram in sent:
                    speaker.send(datagram)
                events = await gather(receiver, lambda events: len(events) == 5)
                assert [event.number for event in events] == [1, 2, 3, 4, 5]
                other.publish(1)
                (event,) = await gather(receiver, lambda events: len(events) == 1)
                assert event.number == 6
                assert receiver.counters.strangers == len(sent)
                assert receiver.troubles == [
                    f"{len(sent)} datagrams were of another stream, and were ignored"
                ]

    with Served(feeds=("netstring",)) as other:
        asyncio.run(listen(other))


@pytest.mark.parametrize("feed", ["netstring", "binary"])
def test_given_a_number_that_was_never_given_then_the_broker_is_believed(
    served: Served, feed: str
) -> None:
    async def listen() -> None:
        served.heard(feed)
        group = new_group()
        with mouth(group) as speaker, mouth(group) as liar:
            async with Receiver(
                [Group(*group, interface="127.0.0.1")],
                codec=codec_named(feed),
                fill=served.url,
                **QUICK,
            ) as receiver:
                served.publish(1)
                (datagram,) = (one for one in served.heard(feed) if messages_in(feed, [one]))
                (message,) = messages_in(feed, [datagram])
                speaker.send(datagram)
                assert await gather(receiver, bool) == [message]
                codec, lie = codec_named(feed), message.number + 1_000_000
                codec.open(*journal_of(datagram) if feed == "binary" else ("", 0))
                liar.send(codec.datagram([FeedMessage(lie, b"a lie")], lie - 1))
                while receiver.order.holes.top != lie + 1:
                    await asyncio.sleep(0)
                while receiver.order.holes.top == lie + 1:
                    await asyncio.sleep(0)
                served.publish(2)
                for datagram in served.heard(feed):
                    speaker.send(datagram)
                events = await gather(receiver, lambda events: len(events) == 2)
                assert [event.number - message.number for event in events] == [1, 2]
                assert receiver.counters.requests < 20

    asyncio.run(listen())


def journal_of(datagram: bytes) -> tuple[str, int]:
    """Which stream a datagram of `binary` names."""
    journal, _, epoch = codec_named("binary").decode(datagram).session.partition(b"-")
    return journal.decode(), int(epoch)


def test_given_a_question_that_the_broker_refuses_then_its_reason_is_reported(
    served: Served,
) -> None:
    async def listen() -> None:
        served.publish(3)  # or the broker, which others may have used or not, has no number 3
        group = new_group()
        with mouth(group) as speaker:
            async with Receiver(
                [Group(*group, interface="127.0.0.1")],
                fill=served.url,
                start=1,
                subject="a..b",
                **{**QUICK, "tries": 2},
            ) as receiver:
                speaker.send(b"10:1:3,3:abc,,")
                events = await gather(receiver, lambda events: isinstance(events[-1], FeedMessage))
                assert events == [MessagesLost(1, 2), FeedMessage(3, b"abc")]
                refused = "is not a subject that can be subscribed to"
                await until(lambda: refused in "".join(receiver.troubles))

    asyncio.run(listen())


def says(words: bytes) -> tuple[int, threading.Thread]:
    """A server that says something to the first who comes, and hangs up."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with listener:
            client, _ = listener.accept()
            with client:
                client.sendall(words)

    thread = threading.Thread(target=serve)
    thread.start()
    return listener.getsockname()[1], thread


async def enter(fill: str) -> None:
    codec = codec_named("moldudp64")
    group = Group(*new_group(), interface="127.0.0.1")
    async with Receiver([group], codec=codec, fill=fill):
        pass


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("nats://127.0.0.1:1", "nats://127.0.0.1:1: connection refused: no broker listens there"),
        ("127.0.0.1:1", "nats://127.0.0.1:1: connection refused"),
        ("http://127.0.0.1:1", "is not the address of a broker; give nats://HOST:PORT"),
        ("nats://127.0.0.1:99999", "is not the address of a broker"),
        ("mold://127.0.0.1", "is not the address of a re-request server; give mold://HOST:PORT"),
        ("mold://127.0.0.1:x", "is not the address of a re-request server"),
        ("mold://no.such.host.invalid:7", "mold://no.such.host.invalid:7: "),
    ],
)
def test_given_no_server_to_ask_then_it_says_so(url: str, why: str) -> None:
    with pytest.raises(FillError, match=why):
        asyncio.run(enter(url))


@pytest.mark.parametrize(
    "words", [b"SSH-2.0-x\r\n", b"INFO {\r\n", b""], ids=["ssh", "half", "mute"]
)
def test_given_input_that_is_no_broker_then_it_says_so(words: bytes) -> None:
    port, thread = says(words)
    with pytest.raises(FillError, match="what listens there is not a broker"):
        asyncio.run(enter(f"nats://127.0.0.1:{port}"))
    thread.join(TEST_S)


def test_given_a_server_that_keeps_nothing_then_it_says_so() -> None:
    with NatsServer() as server, pytest.raises(FillError, match="the server there keeps no"):
        asyncio.run(enter(f"nats://127.0.0.1:{server.port}"))
