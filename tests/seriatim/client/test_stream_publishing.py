"""Publishing: in order, each message once, whatever breaks; and what is refused, and why."""

import asyncio
import itertools
import json
import pickle
import random
import signal
import time
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import seriatim
from seriatim import (
    Client,
    ConnectionLost,
    Expect,
    InvalidArgument,
    MessageTooLarge,
    NotAllPublished,
    Refused,
    Unconfirmed,
    WrongLastNumber,
)
from seriatim.client import stream_client, stream_publishing
from tests.clients.served import run
from tests.support.depth import depth
from tests.support.processes import SeriatimServer, ServerProcess, url
from tests.support.relay import Relay
from tests.support.scripted import Peer, Scripted


@pytest.fixture(scope="module")
def broker() -> Iterator[ServerProcess]:
    with SeriatimServer(arguments=["-js"]) as server:
        yield server


async def payloads(stream: Client, subject: str = ">") -> list[bytes]:
    return [message.payload async for message in stream.read(subject, until="now")]


async def send_all(stream: Client, subject: str, texts: list[bytes], **options: Any) -> list[int]:
    """Publish these without waiting in between; their numbers."""
    sent = [await stream.send(subject, text, **options) for text in texts]
    return list(await asyncio.gather(*sent))


def texts(name: str, count: int) -> list[bytes]:
    return [f"{name} {number}".encode() for number in range(count)]


# Order, and what goes over the wire


def test_given_many_messages_when_sent_then_numbers_rise_in_their_order(
    broker: ServerProcess,
) -> None:
    async def scenario() -> None:
        async with seriatim.connect(url(broker)) as stream:
            many = texts("x", 5000)
            numbers = await send_all(stream, "order.a", many)
            assert all(one < other for one, other in pairwise(numbers))
            assert await payloads(stream, "order.a") == many
            for kind in (bytes, bytearray, memoryview):
                number = await stream.publish("order.b", kind(b"payload"))
                assert (await stream.get(number)).payload == b"payload"
            wide = memoryview(b"12345678").cast("I")
            number = await stream.publish("order.b", wide)
            assert (await stream.get(number)).payload == b"12345678"
            number = await stream.publish("order.b", wide, headers={"Mine": "x", "Nats-Msg": "y"})
            found = await stream.get(number)
            assert (found.payload, found.headers["Mine"]) == (b"12345678", "x")
            assert await stream.publish("order.ö") > number

    run(scenario())


def test_given_publishers_that_wait_for_room_then_each_is_let_in_in_its_turn(
    broker: ServerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_publishing, "OPEN_MAX", 4)
    monkeypatch.setattr(stream_publishing, "OPEN_BYTES", 2000)

    async def scenario() -> None:
        async with seriatim.connect(url(broker)) as stream:
            many = texts("r", 200)
            tasks = [asyncio.ensure_future(stream.publish("room.a", text)) for text in many]
            for task in tasks[::7]:
                task.cancel()
            done = await asyncio.gather(*tasks, return_exceptions=True)
            left = [text for text, one in zip(many, done, strict=True) if isinstance(one, int)]
            found = await payloads(stream, "room.a")
            assert [text for text in found if text in set(left)] == left
            # Messages larger than all the room there is go one by one.
            await asyncio.gather(*(stream.publish("room.b", bytes(3000)) for _ in range(10)))
            assert len(await payloads(stream, "room.b")) == 10

    run(scenario())


def test_given_no_room_in_time_then_the_message_was_not_sent(
    broker: ServerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_publishing, "OPEN_MAX", 2)

    async def scenario(server: SeriatimServer) -> None:
        async with seriatim.connect(url(server)) as stream:
            await stream.publish("a")
            port = server.port
            await asyncio.to_thread(server.stop)
            sent = [await stream.send("a", b"%d" % number) for number in range(2)]
            with pytest.raises(Unconfirmed, match=r"a: too many messages wait.*it was not sent"):
                await stream.publish("a", b"lost", timeout=0.1)
            waiting = [asyncio.ensure_future(stream.publish("a", b"later")) for _ in range(3)]
            await asyncio.to_thread(server.start, port)
            assert await asyncio.gather(*sent, *waiting) == [2, 3, 4, 5, 6]

    with SeriatimServer() as server:
        run(scenario(server))


# Each message once


def test_given_ids_then_a_second_message_of_an_id_has_the_number_of_the_first(
    broker: ServerProcess,
) -> None:
    async def scenario() -> None:
        async with seriatim.connect(url(broker)) as stream:
            number = await stream.publish("id.a", b"first", id="order 7")
            assert await stream.publish("id.a", b"second", id="order 7") == number
            assert await stream.publish("id.a", b"x", headers={"Nats-Msg-Id": "order 7"}) == number
            assert await payloads(stream, "id.a") == [b"first"]

    run(scenario())


def test_given_a_condition_and_an_answer_that_was_lost_then_the_repeated_message_is_no_refusal(
    broker: ServerProcess,
) -> None:
    async def scenario(relay: Relay) -> None:
        async with (
            seriatim.connect(f"127.0.0.1:{relay.port}", discover=False) as stream,
            seriatim.connect(url(broker)) as other,
        ):
            for id in ("", "mine"):
                last = await stream.publish("lost.a", b"before")
                relay.when(b"lost.b", before=relay.unhear)
                condition = Expect(last=last)
                sent = await stream.send("lost.b", b"x", expect=condition, id=id)
                async with asyncio.timeout(10):
                    while (await other.info()).last == last:
                        await asyncio.sleep(0.01)  # no event to await: another client publishes
                await other.publish("lost.c", b"later")
                relay.heal()
                assert await sent == last + 1
                # And one that is refused indeed.
                relay.when(b"lost.d", before=relay.unhear)
                sent = await stream.send("lost.d", b"x", expect=condition)
                await asyncio.sleep(0.1)  # no event to await: the broker refuses it
                relay.heal()
                with pytest.raises(WrongLastNumber) as told:
                    await sent
                assert told.value.last == last + 2
            assert await payloads(other, "lost.b") == [b"x", b"x"]
            assert await payloads(other, "lost.d") == []

    with Relay(broker.port) as relay:
        run(scenario(relay))


def noted(messages: Iterable[Any], taken: list[Any]) -> Iterator[Any]:
    """The same messages; those that were taken are noted."""
    for message in messages:
        taken.append(message)
        yield message


@pytest.mark.parametrize("kills", [3])
def test_given_a_broker_that_is_killed_while_thousands_are_in_flight_then_each_is_there_once(
    kills: int,
) -> None:
    count, clients = 3000, 2

    async def publish(stream: Client, name: str, go: asyncio.Event) -> list[int]:
        def going() -> Iterator[bytes]:
            for at, text in enumerate(texts(name, count)):
                yield text
                if at == count // 4:
                    go.set()

        if name.endswith("-1"):
            return await stream.publish_all((f"kill.{name}", text) for text in going())
        sent = [await stream.send(f"kill.{name}", text) for text in going()]
        return list(await asyncio.gather(*sent))

    async def scenario(server: SeriatimServer) -> None:
        port = server.port
        async with (
            seriatim.connect(url(server)) as first,
            seriatim.connect(url(server)) as second,
        ):
            for turn in range(kills):
                going = [asyncio.Event() for _ in range(clients)]
                publishing = [
                    asyncio.ensure_future(publish(stream, f"{turn}-{at}", go))
                    for at, (stream, go) in enumerate(zip((first, second), going, strict=True))
                ]
                await asyncio.gather(*(go.wait() for go in going))
                await asyncio.to_thread(server.kill)
                await asyncio.to_thread(server.start, port)
                for at, numbers in enumerate(await asyncio.gather(*publishing)):
                    name = f"{turn}-{at}"
                    assert all(one < other for one, other in pairwise(numbers))
                    assert await payloads(first, f"kill.{name}") == texts(name, count)
            assert (await first.info()).last == kills * clients * count

    with SeriatimServer() as server:
        run(scenario(server))


@pytest.mark.parametrize("direction", ["up", "down"])
def test_given_connections_that_are_cut_at_any_byte_then_each_message_is_there_once(
    broker: ServerProcess, direction: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_client, "RETRY_MAX", 0.005)
    monkeypatch.setattr(stream_client, "SHORT_PAUSE", 0.001)
    draw = random.Random(direction)

    async def scenario(relay: Relay) -> None:
        first = f"cut.{direction}.{draw.getrandbits(32)}"
        async with seriatim.connect(f"127.0.0.1:{relay.port}") as stream:
            for turn in range(depth(25, 200)):
                before = relay.connections
                relay.cut(**{direction: draw.randrange(300, 6000)})
                # The connection that is there has no limit: it is ended. The next ones have one.
                name, subject = f"{turn}", f"{first}.{turn}"
                many = texts(name, 60)
                together = stream.publish_all([(subject, text) for text in many])
                one_by_one = send_all(stream, subject, many)
                publishing = asyncio.ensure_future(together if turn % 2 else one_by_one)
                (one_by_one if turn % 2 else together).close()
                for _ in range(draw.randrange(20)):
                    await asyncio.sleep(0)
                for one in relay._sockets:
                    _end(one)
                while relay.connections < before + 3 and not publishing.done():
                    await asyncio.sleep(0.001)  # no event to await: the relay counts
                relay.heal()
                numbers = await publishing
                assert numbers == sorted(numbers)
                assert len(set(numbers)) == 60
                relay.heal()
        async with seriatim.connect(url(broker)) as stream:
            for turn in range(depth(25, 200)):
                assert await payloads(stream, f"{first}.{turn}") == texts(f"{turn}", 60)

    with Relay(broker.port) as relay:
        run(scenario(relay))


def _end(one: Any) -> None:
    import contextlib
    import socket

    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize("forgets", ["window", "ids"])
def test_given_ids_that_the_broker_has_forgotten_when_it_is_back_then_the_journal_is_looked_at(
    forgets: str,
) -> None:
    arguments = ["--dedupe_window", "200ms"] if forgets == "window" else ["--dedupe_ids", "10"]

    async def scenario(server: SeriatimServer, relay: Relay) -> None:
        async with (
            seriatim.connect(f"127.0.0.1:{relay.port}", discover=False) as stream,
            seriatim.connect(url(server)) as other,
        ):
            await stream.publish("a.0", b"before")
            await stream.flush()
            # The broker gets them, and its answers do not come back.
            relay.when(b"a.1", before=relay.unhear)
            sent = [
                await stream.send("a.1", text, id=f"mine {at}" if at % 2 else "")
                for at, text in enumerate(texts("x", 20))
            ]
            late = [await stream.send("a.2", b"%d" % at) for at in range(5)]
            async with asyncio.timeout(10):
                while len(await payloads(other, "a.1")) < 20:
                    await asyncio.sleep(0.01)  # no event to await: another client publishes
            if forgets == "window":
                await asyncio.sleep(0.5)  # no event to await: the broker forgets the ids
            else:
                await send_all(other, "b", texts("other", 50))
            relay.heal()
            numbers = await asyncio.gather(*sent, *late)
            assert len(set(numbers)) == 25
            assert await payloads(other, "a.1") == texts("x", 20)
            assert await payloads(other, "a.2") == [b"%d" % at for at in range(5)]

    with SeriatimServer(arguments=arguments) as server, Relay(server.port) as relay:
        run(scenario(server, relay))


def test_given_another_journal_after_a_break_then_nothing_is_published_twice_in_the_dark(
    tmp_path: Path,
) -> None:
    async def scenario(server: SeriatimServer, relay: Relay) -> None:
        async with seriatim.connect(f"127.0.0.1:{relay.port}", discover=False) as stream:
            await stream.publish("a", b"before")
            relay.when(b"a.1", before=relay.unhear)
            sent = await stream.send("a.1", b"x")
            await stream.send("a.1", b"y")
            port = server.port
            await asyncio.to_thread(server.kill)
            with SeriatimServer(store=tmp_path) as another:
                await asyncio.to_thread(another.start, port) if False else None
                relay._target = another.port
                relay.heal()
                with pytest.raises(Unconfirmed, match="another journal") as told:
                    await sent
                assert told.value.subject == "a.1"
                assert told.value.id
                assert await stream.publish("a.2") == 1

    with SeriatimServer() as server, Relay(server.port) as relay:
        run(scenario(server, relay))


def test_given_no_answer_in_time_then_it_is_unconfirmed_and_its_id_settles_it() -> None:
    async def scenario(server: SeriatimServer, relay: Relay) -> None:
        async with (
            seriatim.connect(f"127.0.0.1:{relay.port}", discover=False) as stream,
            seriatim.connect(url(server)) as other,
        ):
            await stream.publish("a", b"before")
            relay.when(b"a.1", before=relay.unhear)
            with pytest.raises(Unconfirmed, match=r"^a.1: no answer in time") as told:
                await stream.publish("a.1", b"x", timeout=0.3)
            assert await other.publish("a.1", b"x", id=told.value.id) == 2
            assert await payloads(other, "a.1") == [b"x"]
            with pytest.raises(Unconfirmed, match="it was not sent"):
                await stream.publish("a.2", b"x", timeout=0.01)
            relay.heal()
            assert await stream.publish("a.3", b"x") == 3

    with SeriatimServer() as server, Relay(server.port) as relay:
        run(scenario(server, relay))


def test_given_a_client_that_is_closed_with_messages_in_flight_then_each_says_so() -> None:
    async def scenario(server: SeriatimServer) -> None:
        stream = await seriatim.connect(url(server))
        await stream.publish("a")
        await asyncio.to_thread(server.suspend)
        sent = [await stream.send("a", b"%d" % number) for number in range(5)]
        await stream.close()
        for one in sent:
            with pytest.raises(Unconfirmed, match="the client was closed before an answer"):
                await one
        with pytest.raises(ConnectionLost, match="closed"):
            await stream.publish("a")
        server.kill()

    with SeriatimServer() as server:
        run(scenario(server))


def test_given_publishes_that_are_cancelled_then_the_others_have_their_numbers(
    broker: ServerProcess,
) -> None:
    async def scenario() -> None:
        async with seriatim.connect(url(broker)) as stream:
            for steps in range(8):
                subject = f"cancel.{steps}"
                tasks = [
                    asyncio.ensure_future(stream.publish(subject, b"%d" % at)) for at in range(20)
                ]
                for _ in range(steps):
                    await asyncio.sleep(0)
                for task in tasks[::2]:
                    task.cancel()
                done = await asyncio.gather(*tasks, return_exceptions=True)
                assert all(isinstance(one, int) for one in done[1::2])
                found = await payloads(stream, subject)
                assert len(found) == len(set(found))
                assert set(found) >= {b"%d" % at for at in range(1, 20, 2)}
            async with asyncio.timeout(10):
                await stream._publishing.wait_empty()  # nothing is held for those who left

    run(scenario())


# Many by one call


def test_given_messages_of_all_kinds_when_published_together_then_each_has_its_number(
    broker: ServerProcess,
) -> None:
    async def scenario() -> None:
        async with seriatim.connect(url(broker)) as stream:
            assert await stream.publish_all([]) == []
            sent = await stream.send("all.before", b"x")
            many: list[Any] = [
                ("all.a", b"1"),
                ("all.b", bytearray(b"2"), {"Desk": "7", "Nats-Msg-Id": "two"}),
                ("all.a", memoryview(b"3"), None),
                ("all.ö", b"4", {}),
                ("all.b", b"again", {"Nats-Msg-Id": "two"}),
            ]
            numbers = await stream.publish_all(many)
            after = await stream.publish("all.after")
            assert await sent < numbers[0] < numbers[1] < numbers[2] < numbers[3] < after
            assert numbers[4] == numbers[1]
            found = [await stream.get(number) for number in numbers]
            assert [(one.subject, bytes(one.payload)) for one in found[:4]] == [
                (one[0], bytes(one[1])) for one in many[:4]
            ]
            assert found[1].headers["Desk"] == "7"

    run(scenario())


def test_given_more_messages_than_there_is_room_for_then_they_are_taken_as_they_are_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stream_publishing, "OPEN_MAX", 20)

    async def scenario(server: SeriatimServer) -> None:
        async with seriatim.connect(url(server)) as stream:
            await stream.publish("a")
            many, taken = [("room", text) for text in texts("x", 1000)], list[Any]()
            await asyncio.to_thread(server.suspend)
            tasks = [
                asyncio.ensure_future(stream.publish_all(noted(many, taken))) for _ in range(2)
            ]
            for _ in range(10):
                await asyncio.sleep(0)
            assert len(taken) == 22  # what is in flight, and one that each holds
            with pytest.raises(NotAllPublished, match="too many messages wait") as told:
                await stream.publish_all(noted(many, taken), timeout=0.05)
            assert (told.value.numbers, told.value.index) == ([0], 0)
            server.signal(signal.SIGCONT)
            numbers = await asyncio.gather(*tasks)
            assert numbers[0] == sorted(numbers[0])
            assert sorted(itertools.chain(*numbers)) == list(range(2, 2002))

    with SeriatimServer() as server:
        run(scenario(server))


def test_given_a_message_that_is_refused_then_the_error_says_which_and_no_more_are_taken(
    broker: ServerProcess,
) -> None:
    wrong = {"Nats-Expected-Last-Sequence": "0"}
    cases: list[tuple[Any, type[Exception], str]] = [
        (("b", b"2", wrong), WrongLastNumber, "wrong last sequence"),
        (("b c", b"2"), InvalidArgument, "'b c' is not valid as a subject"),
        (("b", "2"), InvalidArgument, "a payload is bytes, and this is str"),
        (("b", b"", {"x": "\n"}), InvalidArgument, "is not a valid header"),
        (("b", bytes(2 << 20)), MessageTooLarge, "the broker accepts at most"),
        (b"ab", InvalidArgument, r"give \(subject, payload\) or"),
        (("b",), InvalidArgument, r"give \(subject, payload\) or"),
        ((b"b", b"2"), InvalidArgument, r"give \(subject, payload\) or"),
    ]

    async def scenario() -> None:
        async with seriatim.connect(url(broker)) as stream:
            for bad, kind, text in cases:
                taken: list[Any] = []
                many = itertools.chain([("a", b"1"), bad], itertools.repeat(("c", bytes(5000))))
                with pytest.raises(NotAllPublished, match=text) as told:
                    await stream.publish_all(noted(many, taken))
                error = told.value
                assert str(error).startswith("messages[1]: ")
                assert isinstance(error.errors[1], kind)
                assert (error.index, error.numbers[1], len(error.errors)) == (1, 0, 1)
                assert (await stream.get(error.numbers[0])).payload == b"1"
                assert len(taken) - len(error.numbers) in (0, 1)
                assert 0 not in error.numbers[2:]
                same = pickle.loads(pickle.dumps(error))
                assert (str(same), same.numbers) == (str(error), error.numbers)

    run(scenario())


def test_given_messages_that_have_no_answer_when_the_client_closes_then_each_says_so() -> None:
    async def scenario(server: SeriatimServer) -> None:
        stream = await seriatim.connect(url(server))
        await stream.publish("a")
        await asyncio.to_thread(server.suspend)
        with pytest.raises(NotAllPublished, match="no answer in time") as told:
            await stream.publish_all([("a", b"1"), ("a", b"2")], timeout=0.01)
        assert [type(one) for one in told.value.errors.values()] == [Unconfirmed, Unconfirmed]
        publishing = asyncio.ensure_future(stream.publish_all([("a", b"1")]))
        await asyncio.sleep(0)
        await stream.close()
        with pytest.raises(NotAllPublished, match="closed before an answer came"):
            await publishing
        with pytest.raises(NotAllPublished, match="the client was closed; confirmed: 0 of 1"):
            await stream.publish_all([("a", b"1")])
        server.signal(signal.SIGCONT)

    with SeriatimServer() as server:
        run(scenario(server))


def test_given_a_call_that_is_cancelled_then_its_messages_are_not_sent_again() -> None:
    async def scenario(server: SeriatimServer) -> None:
        async with seriatim.connect(url(server)) as stream:
            await stream.publish("a")
            port = server.port
            await asyncio.to_thread(server.stop)
            many = [("gone", text) for text in texts("x", 100)]
            publishing = asyncio.ensure_future(stream.publish_all(many))
            kept = asyncio.ensure_future(stream.publish_all([("kept", b"1")]))
            await asyncio.sleep(0)
            publishing.cancel()
            await asyncio.to_thread(server.start, port)
            assert await kept == [2]
            assert await payloads(stream, "gone") == []
            async with asyncio.timeout(10):
                await stream._publishing.wait_empty()

    with SeriatimServer() as server:
        run(scenario(server))


def test_given_messages_that_cannot_be_made_then_those_before_are_published(
    broker: ServerProcess,
) -> None:
    def failing() -> Iterator[tuple[str, bytes]]:
        yield "made.a", b"1"
        raise KeyError("the next one")

    async def scenario() -> None:
        async with seriatim.connect(url(broker)) as stream:
            with pytest.raises(KeyError, match="the next one"):
                await stream.publish_all(failing())
            await stream.publish("made.b")
            assert await payloads(stream, "made.a") == [b"1"]

    run(scenario())


# What is refused


def test_given_conditions_that_do_not_hold_then_nothing_is_published(
    broker: ServerProcess,
) -> None:
    async def scenario() -> None:
        async with seriatim.connect(url(broker)) as stream:
            config = {"name": "ORDERS", "subjects": ["orders.>"]}
            answer = await stream.request(
                "$JS.API.STREAM.CREATE.ORDERS", json.dumps(config).encode()
            )
            assert "error" not in answer.json(), answer.json()
            first = await stream.publish("orders.a", b"1", id="one", expect=0)
            cases: list[tuple[Any, Any, int]] = [
                (first, 0, first),
                (Expect(subject_last=first), Expect(subject_last=first + 100), first),
                (Expect(subject_last=0, subject="orders.new"), Expect(subject_last=9), first),
                (Expect(stream="ORDERS"), Expect(stream="OTHER"), 0),
            ]
            number = first
            for right, wrong, _ in cases:
                with pytest.raises(Refused) as told:
                    await stream.publish("orders.a", b"wrong", expect=wrong)
                assert told.value.subject == "orders.a"
                if not isinstance(wrong, Expect) or not wrong.stream:
                    assert isinstance(told.value, WrongLastNumber)
                    assert told.value.last == number
                right = number if right == first else right
                if isinstance(right, Expect) and right.subject_last == first:
                    right = Expect(subject_last=number)
                number = await stream.publish("orders.a", b"right", expect=right)
            with pytest.raises(Refused):
                await stream.publish("orders.a", b"wrong", expect=Expect(last_id="two"))
            number = await stream.publish("orders.a", b"right", id="two")
            number = await stream.publish("orders.a", b"right", expect=Expect(last_id="two"))
            with pytest.raises(WrongLastNumber) as wrong_last:
                await stream.publish("orders.b", b"wrong", expect=Expect(last=number - 1))
            assert wrong_last.value.last == number
            await stream.publish("orders.b", b"right", expect=Expect(last=number))
            assert b"wrong" not in await payloads(stream, "orders.>")

    run(scenario())


def test_given_many_writers_with_a_condition_then_one_of_them_comes_first(
    broker: ServerProcess,
) -> None:
    async def scenario() -> None:
        async with seriatim.connect(url(broker)) as stream:
            subject = "race.a"
            await stream.publish(subject)
            last = (await stream.info()).last
            tries = [stream.publish(subject, b"x", expect=Expect(last=last)) for _ in range(20)]
            done = await asyncio.gather(*tries, return_exceptions=True)
            won = [one for one in done if isinstance(one, int)]
            assert won == [last + 1]
            assert {one.last for one in done if isinstance(one, WrongLastNumber)} == {last + 1}

    run(scenario())


@pytest.mark.parametrize(
    ("block", "error", "why"),
    [
        (b"NATS/1.0 507 Journal Full", Refused, "Journal Full"),
        (b"NATS/1.0 400 bad subject", Refused, "bad subject"),
        (b"NATS/1.0 403", Refused, "status 403"),
        (b"NATS/1.0 400 wrong last sequence: 7", WrongLastNumber, "wrong last sequence: 7"),
        (b"NATS/1.0 503", seriatim.NotSeriatim, "gives no numbers"),
        (b"NATS/1.0 503 not currently supported in clustered mode", Refused, "not currently"),
        (b"", seriatim.NotABroker, "is not a number"),
    ],
    ids=["full", "bad", "mute", "last", "none", "cluster", "nonsense"],
)
def test_given_an_answer_that_is_no_number_then_the_publisher_learns_why(
    block: bytes, error: type[seriatim.BrokerError], why: str
) -> None:
    def talk(peer: Peer) -> None:
        peer.greet()
        line = peer.expect(b"HPUB $SEQ.PUB.a ").split()
        head = block + b"\r\n\r\n" if block else b""
        verb = b"HMSG" if block else b"MSG"
        payload = b"" if block else b"1:x,"
        sizes = b"%d %d" % (len(head), len(head)) if block else b"%d" % len(payload)
        peer.say(verb + b" %b 1 %b\r\n" % (line[2], sizes) + head + payload + b"\r\n")
        peer.expect(b"never")

    async def scenario(port: int) -> None:
        stream = await seriatim.connect(f"127.0.0.1:{port}")
        with pytest.raises(error, match=why) as told:
            await stream.publish("a", timeout=10)
        if isinstance(told.value, WrongLastNumber):
            assert told.value.last == 7
        await stream.close()

    with Scripted(talk) as peer:
        run(scenario(peer.port))


@pytest.mark.parametrize(
    "reason", [b"504 no quorum", b"503 the streams are still being read"], ids=["cluster", "start"]
)
def test_given_a_broker_that_cannot_order_just_now_then_all_are_sent_again_in_their_order(
    monkeypatch: pytest.MonkeyPatch, reason: bytes
) -> None:
    monkeypatch.setattr(stream_publishing, "AGAIN_SECONDS", 0.01)
    seen: list[bytes] = []

    def talk(peer: Peer) -> None:
        peer.greet()
        refusals, is_halted = 7, False
        for line in peer.file:
            words = line.split()
            if line.startswith(b"PUB $SEQ.ORDERED 0"):
                is_halted = False
            elif line == b"PING\r\n":
                peer.say(b"PONG\r\n")
            elif line.startswith(b"HPUB $SEQ.PUB.a "):
                body = peer.file.read(int(words[-1]) + 2)
                if refusals or is_halted:
                    refusals, is_halted = max(refusals - 1, 0), True
                    status = b"NATS/1.0 %b\r\n\r\n" % reason
                    sizes = b"%d %d" % (len(status), len(status))
                    peer.say(b"HMSG %b 1 %b\r\n%b\r\n" % (words[2], sizes, status))
                    continue
                seen.append(body[int(words[-2]) : -2])
                text = b"%d" % len(seen)
                answer = b"%d:%b," % (len(text), text)
                peer.say(b"MSG %b 1 %d\r\n%b\r\n" % (words[2], len(answer), answer))

    async def scenario(port: int) -> None:
        stream = await seriatim.connect(f"127.0.0.1:{port}")
        sent = [await stream.send("a", text, timeout=20) for text in texts("x", 20)]
        await asyncio.wait(sent, return_when=asyncio.FIRST_COMPLETED)
        later = [await stream.send("a", text, timeout=20) for text in texts("y", 20)]
        assert await asyncio.gather(*sent, *later) == list(range(1, 41))
        assert seen == texts("x", 20) + texts("y", 20)
        await stream.close()

    with Scripted(talk) as peer:
        run(scenario(peer.port))


def test_given_a_break_and_a_broker_that_cannot_order_yet_then_the_message_is_sent_once_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stream_publishing, "AGAIN_SECONDS", 0.01)
    connections = itertools.count()

    def refuse(peer: Peer, reply: bytes, sid: bytes, status: bytes) -> None:
        block = b"NATS/1.0 %b\r\n\r\n" % status
        sizes = b"%d %d" % (len(block), len(block))
        peer.say(b"HMSG %b %b %b\r\n%b\r\n" % (reply, sid, sizes, block))

    def talk(peer: Peer) -> None:
        peer.greet()
        if next(connections) == 0:
            peer.expect(b"HPUB $SEQ.PUB.a ")
            return  # no answer
        refuse(peer, peer.asked(b"$SEQ.INFO"), b"2", b"400 not for you")
        refuse(peer, peer.expect(b"HPUB $SEQ.PUB.a ").split()[2], b"1", b"504 no quorum")
        peer.expect(b"PING")
        time.sleep(0.1)  # no event to await: the client must have looked whether it may repeat it
        peer.say(b"PONG\r\n")
        peer.expect(b"PING")  # it repeats nothing before all is answered
        peer.say(b"PONG\r\n")
        peer.expect(b"PUB $SEQ.ORDERED 0")
        reply = peer.expect(b"HPUB $SEQ.PUB.a ").split()[2]
        peer.say(b"MSG %b 1 4\r\n1:7,\r\n" % reply)
        peer.file.read()

    async def scenario(port: int) -> None:
        stream = await seriatim.connect(f"127.0.0.1:{port}")
        assert await stream.publish("a", b"x", timeout=10) == 7
        await stream.close()

    with Scripted(talk) as peer:
        run(scenario(peer.port))


@pytest.mark.parametrize("payload", ["text", 7, None])
def test_given_a_payload_that_is_not_bytes_then_the_error_says_what_to_do(
    broker: ServerProcess, payload: Any
) -> None:
    async def scenario() -> None:
        async with seriatim.connect(url(broker)) as stream:
            for publish in (stream.publish, stream.publish_unconfirmed, stream.request):
                for headers in (None, {"A": "b"}):
                    with pytest.raises(InvalidArgument, match="a payload is bytes, and this is"):
                        await publish("a", payload, headers=headers)
            assert await stream.publish("a", b"x") > 0

    run(scenario())


def test_given_a_message_for_which_the_broker_closes_then_only_its_own_time_is_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    arguments = ["--max_control_line", "512"]

    async def scenario(server: SeriatimServer, relay: Relay) -> None:
        async with seriatim.connect(f"127.0.0.1:{relay.port}", discover=False) as stream:
            await stream.publish("a", b"before")
            poison = await stream.send("long." + "x" * 600, b"poison", timeout=1.5)
            others = [await stream.send("a", text) for text in texts("x", 50)]
            with pytest.raises(Unconfirmed):
                await poison
            assert await asyncio.gather(*others) == list(range(2, 52))
            assert relay.connections < 20
            assert await payloads(stream, "a") == [b"before", *texts("x", 50)]

    with SeriatimServer(arguments=arguments) as server, Relay(server.port) as relay:
        run(scenario(server, relay))


def test_given_a_broker_that_now_accepts_less_then_what_is_too_large_says_so() -> None:
    async def scenario(server: SeriatimServer) -> None:
        port = server.port
        async with seriatim.connect(url(server)) as stream:
            await stream.publish("a", b"before")
            await asyncio.to_thread(server.stop)
            large = [await stream.send("a", bytes(size)) for size in (9000, 2000)]
            small = [await stream.send("a", b"%d" % at) for at in range(3)]
            server.command += ["--max_payload", "1000"]
            await asyncio.to_thread(server.start, port)
            for one in large:
                with pytest.raises(MessageTooLarge):
                    await one
            assert await asyncio.gather(*small) == [2, 3, 4]
            with pytest.raises(MessageTooLarge):
                await stream.publish("a", bytes(1000))

    with SeriatimServer() as server:
        run(scenario(server))
