"""The client with running brokers: what is plain NATS, with ours and with nats-server."""

import asyncio
import logging
import math
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

import seriatim
from seriatim import (
    BrokerError,
    Client,
    ClientEvent,
    ConnectionLost,
    InvalidArgument,
    Message,
    MessageTooLarge,
    NoAnswer,
    NoResponders,
    NotFound,
    NotSeriatim,
    Refused,
    SlowSubscriber,
    Subscription,
)
from seriatim.client import stream_client
from tests.clients.served import run
from tests.support.processes import NatsServer, SeriatimServer, ServerProcess, url

DENYING = """
[authorization]
timeout = 60
[[authorization.users]]
user = "me"
password = "s3cret"
[authorization.users.permissions]
publish = { deny = "closed.>" }
subscribe = { deny = "closed.>" }
"""
DENYING_NATS = """
authorization { timeout: 60, users: [ { user: me, password: "s3cret", permissions: {
    publish: { deny: "closed.>" }, subscribe: { deny: "closed.>" } } } ] }
"""


@pytest.fixture(scope="module", params=["seriatim", "nats-server"])
def broker(request: pytest.FixtureRequest) -> Iterator[ServerProcess]:
    made = SeriatimServer() if request.param == "seriatim" else NatsServer()
    with made as server:
        yield server


@pytest.fixture(scope="module")
def ours() -> Iterator[ServerProcess]:
    with SeriatimServer() as server:
        yield server


@pytest.fixture(scope="module", params=["seriatim", "nats-server"])
def denying(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """The address of a broker where `closed.>` is denied."""
    path = tmp_path_factory.mktemp("denying") / "broker.toml"
    path.write_text(DENYING)
    made: ServerProcess = NatsServer(more=DENYING_NATS)
    if request.param == "seriatim":
        made = SeriatimServer(arguments=["-c", str(path)])
    with made as server:
        yield f"nats://me:s3cret@127.0.0.1:{server.port}"


async def take(subscription: Subscription, count: int) -> list[bytes]:
    return [(await anext(subscription)).payload for _ in range(count)]


class Told:
    """What `on_event` was told, and how to wait for the next of a kind."""

    def __init__(self) -> None:
        self.events: list[ClientEvent] = []
        self._changed = asyncio.Event()

    def __call__(self, event: ClientEvent) -> None:
        self.events.append(event)
        self._changed.set()

    async def wait(self, kind: str, count: int = 1) -> ClientEvent:
        while len(found := [event for event in self.events if event.kind == kind]) < count:
            self._changed.clear()
            await self._changed.wait()
        return found[count - 1]


@asynccontextmanager
async def restarting(
    more: Callable[[], SeriatimServer | NatsServer] = SeriatimServer,
) -> AsyncIterator[ServerProcess]:
    with more() as server:
        yield server


# Messages


def test_given_messages_when_iterated_then_each_comes_in_its_order(broker: ServerProcess) -> None:
    async def scenario() -> None:
        async with seriatim.connect(url(broker)) as client:
            subscription = await client.subscribe("a.*")
            for number in range(1000):
                headers = {"Number": str(number)} if number % 2 else None
                await client.publish_unconfirmed(
                    f"a.{number}", b"%d" % number, reply="r", headers=headers
                )
            numbers = []
            for number in range(1000):
                message = await anext(subscription)
                assert (message.subject, message.payload) == (f"a.{number}", b"%d" % number)
                assert message.reply == "r"
                assert message.headers == ({"Number": str(number)} if number % 2 else {})
                numbers.append(message.number)
            if "seriatim" in client.server:
                assert numbers == list(range(numbers[0], numbers[0] + 1000))
            else:
                assert not any(numbers)

    run(scenario())


def test_given_large_and_small_messages_then_functions_are_called_in_the_order_of_the_wire(
    broker: ServerProcess,
) -> None:
    async def scenario() -> None:
        got: list[tuple[str, int]] = []

        def note(message: Message) -> None:
            got.append((message.subject, len(message.payload)))

        async with seriatim.connect(url(broker)) as client:
            for subject in ("b.large", "b.*", "b.small"):
                await client.subscribe(subject, note)
            for _ in range(10):
                await client.publish_unconfirmed("b.large", bytes(500_000))
                await client.publish_unconfirmed("b.small", b"x")
            await client.flush()
        turn = [("b.large", 500_000)] * 2 + [("b.small", 1)] * 2
        assert got == turn * 10

    run(scenario())


def test_given_a_slow_coroutine_when_others_have_messages_then_it_delays_only_its_own(
    broker: ServerProcess,
) -> None:
    async def scenario() -> None:
        go, slow = asyncio.Event(), list[bytes]()

        async def wait(message: Message) -> None:
            await go.wait()
            slow.append(message.payload)

        async with seriatim.connect(url(broker)) as client:
            await client.subscribe("c", wait)
            other = await client.subscribe("c")
            for number in range(3):
                await client.publish_unconfirmed("c", b"%d" % number)
            assert await take(other, 3) == [b"0", b"1", b"2"]
            assert slow == []
            go.set()
        assert slow == [b"0", b"1", b"2"]  # leaving the block lets callbacks finish

    run(scenario())


@pytest.mark.parametrize("is_async", [False, True])
def test_given_a_callback_that_fails_then_it_is_logged_and_the_others_are_called(
    broker: ServerProcess, caplog: pytest.LogCaptureFixture, is_async: bool
) -> None:
    calls: list[bytes] = []

    def fail(message: Message) -> None:
        calls.append(message.payload)
        raise ZeroDivisionError

    async def fail_async(message: Message) -> None:
        fail(message)

    async def scenario() -> None:
        async with seriatim.connect(url(broker)) as client:
            await client.subscribe("d", fail_async if is_async else fail)
            for number in range(2):
                await client.publish_unconfirmed("d", b"%d" % number)
            await client.flush()

    with caplog.at_level(logging.ERROR, "seriatim.client"):
        run(scenario())
    assert calls == [b"0", b"1"]
    assert [record.getMessage() for record in caplog.records] == ["A callback for d failed"] * 2


def test_given_a_queue_group_then_each_message_has_one_member_and_those_who_leave_have_none(
    broker: ServerProcess,
) -> None:
    async def scenario() -> None:
        async with seriatim.connect(url(broker)) as client:
            members = [await client.subscribe("e", queue="group") for _ in range(3)]
            for number in range(90):
                await client.publish_unconfirmed("e", b"%d" % number)
            await client.flush()
            assert sum(one.received for one in members) == 90
            first, *others = members
            for one in others:
                await one.unsubscribe()
            before = first.received
            for number in range(20):
                await client.publish_unconfirmed("e", b"%d" % number)
            await client.flush()
            assert first.received == before + 20
            assert len([one async for one in others[0]]) == others[0].received  # and then it ends

    run(scenario())


def test_given_a_count_when_that_many_have_come_then_the_subscription_ends(
    broker: ServerProcess,
) -> None:
    async def scenario() -> None:
        async with seriatim.connect(url(broker)) as client:
            subscription = await client.subscribe("f")
            await subscription.unsubscribe(after=3)
            for number in range(5):
                await client.publish_unconfirmed("f", b"%d" % number)
            assert [one.payload async for one in subscription] == [b"0", b"1", b"2"]
            with pytest.raises(ConnectionLost, match="f: the subscription has ended"):
                await subscription.next(timeout=1)
            again = await client.subscribe("f")
            await client.publish_unconfirmed("f")
            await anext(again)
            await again.unsubscribe(after=1)  # which has come
            assert [one async for one in again] == []

    run(scenario())


def test_given_a_subscription_when_nothing_comes_in_time_then_it_says_so_and_goes_on(
    broker: ServerProcess,
) -> None:
    async def scenario() -> None:
        async with seriatim.connect(url(broker)) as client:
            subscription = await client.subscribe("g")
            with pytest.raises(NoAnswer, match="g: no message in time"):
                await subscription.next(timeout=0.01)
            await client.publish_unconfirmed("g", b"late")
            assert (await subscription.next()).payload == b"late"
            await subscription.drain()
            with pytest.raises(StopAsyncIteration):
                await anext(subscription)

    run(scenario())


def test_given_an_iterator_that_nobody_reads_then_it_ends_with_an_error_and_loses_nothing_before(
    broker: ServerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_client, "PENDING_BYTES", 10_000)

    async def scenario(size: int, most: int) -> None:
        told, taken = Told(), list[int]()
        async with seriatim.connect(url(broker), on_event=told) as client:
            subscription = await client.subscribe("h")
            for number in range(100):
                await client.publish_unconfirmed("h", bytes([number]) + bytes(size))
            await client.flush()
            event = await told.wait("slow")

            async def read() -> None:
                async for message in subscription:
                    taken.append(message.payload[0])

            with pytest.raises(SlowSubscriber, match=r"h: .* wait to be taken; take them faster"):
                await read()
            assert isinstance(event.error, SlowSubscriber)
            assert taken == list(range(len(taken)))
            assert 0 < len(taken) <= most

    run(scenario(1000, 11))
    run(scenario(0, 40))  # many small ones are as large


def test_given_drains_and_closes_within_callbacks_then_they_end(broker: ServerProcess) -> None:
    async def scenario(word: str) -> None:
        async with seriatim.connect(url(broker)) as client:
            done = asyncio.Event()

            async def end(message: Message) -> None:
                await getattr(client, word)()
                done.set()

            await client.subscribe("i", end)
            await client.publish_unconfirmed("i")
            async with asyncio.timeout(5):
                await done.wait()
            assert client.is_closed

    for word in ("drain", "close"):
        run(scenario(word))


def test_given_a_subscription_when_drained_then_it_has_the_time_that_was_given(
    broker: ServerProcess,
) -> None:
    async def scenario() -> None:
        async with seriatim.connect(url(broker)) as client:
            subscription = await client.subscribe("a")
            with pytest.raises(NoAnswer, match="no answer in time"):
                await subscription.drain(0)
            await subscription.drain(math.inf)
            assert [message async for message in subscription] == []

    run(scenario())
    with seriatim.connect(url(broker)) as stream:
        blocking = stream.subscribe("a")
        with pytest.raises(NoAnswer, match="no answer in time"):
            blocking.drain(0)
        blocking.drain(math.inf)
        assert list(blocking) == []


def test_given_a_drain_then_what_was_on_its_way_arrives(broker: ServerProcess) -> None:
    async def scenario() -> None:
        client = await seriatim.connect(url(broker))
        subscription = await client.subscribe("j")
        for number in range(100):
            await client.publish_unconfirmed("j", b"%d" % number)
        await client.drain()
        assert client.is_closed
        assert [one.payload async for one in subscription] == [b"%d" % n for n in range(100)]
        for call in (client.flush(), client.subscribe("j"), client.publish("j")):
            with pytest.raises(ConnectionLost, match="closed"):
                await call
        await client.drain()  # again: nothing is left to do
        await client.close()

    run(scenario())


# Requests


def test_given_a_request_then_it_and_its_answer_cost_four_turns_of_the_loop(
    broker: ServerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        async with seriatim.connect(url(broker)) as client:

            async def answer(message: Message) -> None:
                await client.respond(message, message.payload)

            await client.subscribe("turns", answer)
            selector: Any = asyncio.get_running_loop()._selector  # type: ignore[attr-defined]
            turns, select = list[float | None](), selector.select
            monkeypatch.setattr(
                selector, "select", lambda timeout: turns.append(timeout) or select(timeout)
            )
            for _ in range(50):
                await client.request("turns")
            monkeypatch.undo()
            assert len(turns) < 50 * 4 + 25  # a PING may come between them

    run(scenario())


def test_given_requests_then_each_has_its_own_answer_or_its_error(broker: ServerProcess) -> None:
    async def scenario() -> None:
        async with seriatim.connect(url(broker)) as client:

            async def answer(message: Message) -> None:
                await client.respond(message, message.payload * 2, headers={"Mine": "x"})

            await client.subscribe("twice", answer)
            asked = [client.request("twice", b"%d" % number) for number in range(50)]
            answers = await asyncio.gather(*asked)
            assert [one.payload for one in answers] == [b"%d%d" % (n, n) for n in range(50)]
            assert answers[0].headers == {"Mine": "x"}
            assert (answers[0].number > 0) == ("seriatim" in client.server)
            with pytest.raises(NoResponders, match=r"nobody\.there: no responders"):
                await client.request("nobody.there")
            await client.subscribe("silent", lambda message: None)
            with pytest.raises(NoAnswer, match="silent: no answer in time"):
                await client.request("silent", timeout=0.01)
            inbox = client.new_inbox()
            subscription = await client.subscribe(inbox)
            await client.publish_unconfirmed("twice", b"x", reply=inbox)
            assert (await subscription.next(5)).payload == b"xx"

    run(scenario())


def test_given_a_status_that_a_service_sends_then_it_is_an_answer(broker: ServerProcess) -> None:
    async def scenario() -> None:
        async with seriatim.connect(url(broker)) as client:

            async def answer(message: Message) -> None:
                await client.respond(message, b"why", headers={"Status": "503"})

            await client.subscribe("service", answer)
            assert (await client.request("service")).payload == b"why"

    run(scenario())


# What is refused


def test_given_a_denied_subject_when_subscribed_then_it_fails_and_says_which(denying: str) -> None:
    async def scenario() -> None:
        told = Told()
        async with seriatim.connect(denying, on_event=told) as client:
            results = await asyncio.gather(
                *(client.subscribe(name) for name in ("closed.a", "open", "closed.a", "closed.b")),
                client.subscribe("closed.a", queue="q"),
                return_exceptions=True,
            )
            for at, subject in ((0, "closed.a"), (2, "closed.a"), (3, "closed.b"), (4, "closed.a")):
                error = results[at]
                assert isinstance(error, Refused)
                assert error.subject == subject
                assert f'Permissions Violation for Subscription to "{subject}"' in str(error)
            assert isinstance(results[1], Subscription)
            assert told.events[1:] == []
            made = await client.subscribe("closed.c", confirm=False)
            event = await told.wait("refused")
            assert isinstance(event.error, Refused)
            assert event.error.subject == "closed.c"
            await made.unsubscribe()

    run(scenario())


def test_given_a_denied_subject_when_published_unconfirmed_then_the_event_says_which(
    denying: str,
) -> None:
    async def scenario() -> None:
        told = Told()
        async with seriatim.connect(denying, on_event=told) as client:
            await client.publish_unconfirmed("closed.x", b"lost")
            event = await told.wait("refused")
            assert isinstance(event.error, Refused)
            assert event.error.subject == "closed.x"
            with pytest.raises(Refused) as refused:
                await client.request("closed.y", timeout=5)
            assert refused.value.subject == "closed.y"
            await client.flush()
            assert client.is_connected

    run(scenario())


def test_given_a_denied_subject_when_published_then_it_is_refused(denying: str) -> None:
    async def scenario() -> None:
        async with seriatim.connect(denying) as client:
            expected = Refused if "seriatim" in client.server else NotSeriatim
            with pytest.raises(expected) as refused:
                await client.publish("closed.x", b"lost", timeout=5)
            if isinstance(refused.value, Refused):
                assert refused.value.subject == "closed.x"
                assert await client.publish("open.x") > 0

    run(scenario())


def test_given_arguments_that_cannot_be_sent_then_each_is_refused_and_nothing_breaks(
    broker: ServerProcess,
) -> None:
    async def scenario() -> None:
        async with seriatim.connect(url(broker)) as client:
            for word in ("", "a b", "a\r\nPING", "a\0", "a\tb"):
                for call in (
                    client.publish_unconfirmed(word),
                    client.publish(word),
                    client.request(word),
                    client.subscribe(word),
                    client.last(word),
                ):
                    with pytest.raises(InvalidArgument):
                        await call
                with pytest.raises(InvalidArgument):
                    client.read(word)
            for headers in ({"a b:": "x"}, {"": "x"}, {"a": "x\r\ny: z"}, {"a\n": "x"}):
                with pytest.raises(InvalidArgument, match="is not a valid header"):
                    await client.publish_unconfirmed("a", headers=headers)
                with pytest.raises(InvalidArgument, match="is not a valid header"):
                    await client.publish("a", headers=headers)
            for large in (
                client.publish_unconfirmed("a", bytes(client.max_payload + 1)),
                client.publish("a", bytes(client.max_payload)),  # its id needs room, too
            ):
                with pytest.raises(MessageTooLarge):
                    await large
            with pytest.raises(InvalidArgument):
                await client.subscribe("a", queue="b c")
            await client.flush()
            assert client.is_connected

    run(scenario())


@pytest.mark.parametrize(
    "wrong", ["", [], "http://u:hunter2@a", "nats://u:hunter2@a:99999", "a:0", ["a", ""]]
)
def test_given_input_that_is_no_address_then_it_is_reported_without_credentials(
    wrong: str | list[str],
) -> None:
    with pytest.raises(InvalidArgument, match="address of a broker") as told:
        seriatim.connect(wrong)
    assert "hunter2" not in str(told.value)


@pytest.mark.parametrize(
    "wrong",
    [
        {"wait": -1},
        {"reconnect": -0.5},
        {"reconnect": float("nan")},
        {"ping_interval": 0},
        {"pings_max": 0},
        {"connect_timeout": 0},
        {"connect_timeout": float("nan")},
        {"inbox_prefix": "a b"},
        {"inbox_prefix": "a.>"},
    ],
    ids=str,
)
def test_given_options_that_make_no_sense_then_connect_says_which(
    wrong: dict[str, object],
) -> None:
    with pytest.raises(InvalidArgument) as told:
        seriatim.connect(**wrong)  # type: ignore[arg-type]
    assert next(iter(wrong)) in str(told.value)


# The broker itself


def test_given_a_block_of_headers_when_passed_on_then_it_is_the_same_but_for_its_id(
    ours: ServerProcess,
) -> None:
    block = b"NATS/1.0\r\nDesk: 7\r\nDesk:8\r\nOdd:  two  blanks \r\nNats-Msg-Id: mine\r\n\r\n"

    async def scenario() -> None:
        async with seriatim.connect(url(ours)) as client:
            first = await client.publish("block.1", b"x", headers=block)
            assert await client.publish("block.1", b"x", headers=block) == first
            second = await client.publish("block.2", b"x", headers=block, id="other")
            assert second == first + 1
            await client.publish_unconfirmed("block.3", b"x", headers=block.replace(b"mine", b"3"))
            await client.flush()
            reading = client.read("block.*", start=first, until=first + 2)
            found = [message.own_block async for message in reading]
        expected = b"NATS/1.0\r\nDesk: 7\r\nDesk:8\r\nOdd:  two  blanks \r\nNats-Msg-Id: %b\r\n\r\n"
        assert found == [expected % id for id in (b"mine", b"other", b"3")]

    run(scenario())
    with seriatim.connect(url(ours)) as blocking:
        number = blocking.publish("block.4", b"", headers=b"NATS/1.0\r\nA: b\r\n\r\n")
        assert blocking.get(number).headers["A"] == "b"


def test_given_questions_to_the_broker_then_its_answers_are_messages(ours: ServerProcess) -> None:
    async def scenario() -> None:
        async with seriatim.connect(url(ours)) as client:
            number = await client.publish("k.1", b"first", headers={"Mine": "x", "Status": "1"})
            await client.publish("k.1", b"second")
            info = await client.info()
            assert info.last == number + 1
            found = await client.get(number)
            assert (found.subject, found.payload, found.number) == ("k.1", b"first", number)
            assert found.headers["Mine"] == "x"
            assert found.time_ns > 0
            last = await client.last("k.1")
            assert last is not None
            assert (last.payload, last.number) == (b"second", number + 1)
            assert await client.last("k.none") is None
            with pytest.raises(NotFound, match="number 999999: Message 999999 has not been"):
                await client.get(999999)
            for wrong in (0, -1):
                with pytest.raises(Refused):
                    await client.get(wrong)
            with pytest.raises(Refused):
                await client.last("k.*")

    run(scenario())


@pytest.mark.parametrize("frame", ["none", "header", "netstring", None])
def test_given_another_frame_then_reading_and_asking_work_all_the_same(
    ours: ServerProcess, frame: str | None
) -> None:
    async def scenario() -> None:
        async with seriatim.connect(url(ours), frame=frame) as client:
            number = await client.publish("l", b"payload")
            async for message in client.read("l", start=number):
                assert (message.number, message.payload) == (number, b"payload")
                break
            if frame != "netstring":  # which its user has asked for
                assert (await client.get(number)).payload == b"payload"

    run(scenario())


def test_given_a_plain_nats_server_when_asked_for_numbers_then_it_says_that_it_has_none() -> None:
    async def scenario(server: str) -> None:
        async with seriatim.connect(server) as client:
            for call in (client.publish("a"), client.info(), client.get(1), client.last("a")):
                with pytest.raises(NotSeriatim):
                    await call
            with pytest.raises(NotSeriatim):
                await anext(client.read())
            with pytest.raises(BrokerError):
                async with client.batch() as batch:
                    await batch.publish("a")
            assert client.is_connected

    with NatsServer() as server:
        run(scenario(url(server)))


# Breaks


def test_given_several_addresses_then_the_first_that_answers_is_used(broker: ServerProcess) -> None:
    async def scenario() -> None:
        for servers in (
            f"nats://127.0.0.1:1,127.0.0.1:{broker.port}",
            ["127.0.0.1:1", url(broker)],
        ):
            async with seriatim.connect(servers) as client:
                await client.flush()
        with pytest.raises(ConnectionLost, match=r"^127.0.0.1:1: .*refused.*; 127.0.0.1:2: "):
            await seriatim.connect("127.0.0.1:1,127.0.0.1:2")

    run(scenario())


def test_given_no_broker_when_it_waits_then_it_connects_as_soon_as_there_is_one() -> None:
    async def scenario(server: SeriatimServer) -> None:
        port = server.port
        server.stop()
        with pytest.raises(ConnectionLost, match="refused"):
            await seriatim.connect(f"127.0.0.1:{port}", wait=0.2)
        for wait in (True, 60):
            waiting = asyncio.ensure_future(
                seriatim.connect(f"127.0.0.1:{port}", wait=wait)._connect()
            )
            await asyncio.sleep(0)
            await asyncio.to_thread(server.start, port)
            client = await waiting
            await client.flush()
            await client.close()
            await asyncio.to_thread(server.stop)

    with SeriatimServer() as server:
        run(scenario(server))


def test_given_no_reconnect_when_the_broker_stops_then_all_who_wait_learn_why() -> None:
    async def scenario(server: SeriatimServer) -> None:
        told = Told()
        client = await seriatim.connect(url(server), reconnect=False, on_event=told)
        subscription = await client.subscribe("a")
        await client.subscribe("silent", lambda message: None)
        reader = client.read("nothing.comes")
        reading = asyncio.ensure_future(anext(reader))
        asked = asyncio.ensure_future(client.request("silent", timeout=60))
        await client.flush()
        await asyncio.to_thread(server.stop)
        await client.closed.wait()
        for waiting in (anext(subscription), asked, client.publish("a"), client.flush(), reading):
            with pytest.raises(ConnectionLost, match=r"the broker closed the connection|refused"):
                await waiting
        assert isinstance(client.error, ConnectionLost)
        kinds = [event.kind for event in told.events if event.kind != "reading"]
        assert kinds == ["connected", "disconnected"]
        await client.close()

    with SeriatimServer() as server:
        run(scenario(server))


def test_given_a_limit_for_reconnecting_when_it_is_over_then_the_client_has_ended() -> None:
    async def scenario(server: SeriatimServer) -> None:
        client = await seriatim.connect(url(server), reconnect=0.2)
        publishing = asyncio.ensure_future(client.publish("a", timeout=60))
        await publishing
        await asyncio.to_thread(server.stop)
        await client.closed.wait()
        with pytest.raises(ConnectionLost, match="refused"):
            await client.flush()
        with pytest.raises(ConnectionLost, match="refused"):
            await client.publish("a")
        await client.close()

    with SeriatimServer() as server:
        run(scenario(server))


@pytest.mark.parametrize("kind", [SeriatimServer, NatsServer])
def test_given_a_broker_that_comes_back_then_subscriptions_go_on(
    kind: type[SeriatimServer] | type[NatsServer],
) -> None:
    async def scenario(server: ServerProcess) -> None:
        told = Told()
        client = await seriatim.connect(url(server), on_event=told)
        subscription = await client.subscribe("a", queue="group")
        limited = await client.subscribe("a")
        await limited.unsubscribe(after=3)
        await client.publish_unconfirmed("a", b"0")
        assert (await take(subscription, 1), await take(limited, 1)) == ([b"0"], [b"0"])
        port = server.port
        await asyncio.to_thread(server.kill)
        await told.wait("disconnected")
        assert (client.is_connected, client.is_closed) == (False, False)
        with pytest.raises(ConnectionLost, match="no connection to a broker at the moment"):
            await client.publish_unconfirmed("a")
        await asyncio.to_thread(server.start, port)
        await told.wait("connected", 2)
        for number in range(1, 5):
            await client.publish_unconfirmed("a", b"%d" % number)
        assert await take(subscription, 4) == [b"1", b"2", b"3", b"4"]
        assert [one.payload async for one in limited] == [b"1", b"2"]  # three in all
        await asyncio.to_thread(server.stop)
        await told.wait("disconnected", 2)
        await client.close()  # while it tries
        with pytest.raises(StopAsyncIteration):
            await anext(subscription)

    with kind() as server:
        run(scenario(server))


def test_given_a_subscription_that_is_denied_after_a_break_then_the_event_says_so(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    path = tmp_path_factory.mktemp("denied") / "broker.toml"
    path.write_text(DENYING.replace("closed", "other"))

    async def scenario(server: SeriatimServer) -> None:
        told = Told()
        address = f"nats://me:s3cret@127.0.0.1:{server.port}"
        async with seriatim.connect(address, on_event=told) as client:
            await client.subscribe("closed.a")
            port = server.port
            await asyncio.to_thread(server.stop)
            path.write_text(DENYING)
            await asyncio.to_thread(server.start, port)
            event = await told.wait("refused")
            assert isinstance(event.error, Refused)
            assert event.error.subject == "closed.a"

    with SeriatimServer(arguments=["-c", str(path)]) as server:
        run(scenario(server))


def test_given_a_client_that_is_closed_at_any_step_of_connecting_then_nothing_is_left(
    broker: ServerProcess,
) -> None:
    async def scenario(steps: int) -> bool:
        before = asyncio.all_tasks()
        client = Client(
            *(seriatim.connect(url(broker))._addresses, seriatim.connect(url(broker))._options)
        )
        opening = asyncio.ensure_future(client.open())
        for _ in range(steps):
            await asyncio.sleep(0)
        done = opening.done()
        opening.cancel()
        await asyncio.wait({opening})
        await client.close()
        assert asyncio.all_tasks() == before
        return done

    async def all_steps() -> None:
        steps = 0
        while not await scenario(steps):
            steps += 1 if steps < 30 else 40

    run(all_steps())
