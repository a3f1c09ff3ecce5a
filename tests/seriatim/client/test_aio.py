"""The asyncio client against running brokers, ours and nats-server, and peers that misbehave."""

import asyncio
from collections.abc import Iterator

import pytest

from seriatim.client import aio
from seriatim.client.aio import ClientCallbacks, connect
from seriatim.client.errors import (
    BrokerError,
    ConnectionLost,
    InvalidArgument,
    NoAnswer,
    NoResponders,
    SlowSubscriber,
)
from seriatim.client.protocol import MessageReceived
from tests.clients.served import run
from tests.support.processes import SeriatimServer, url


@pytest.fixture(scope="module")
def broker() -> Iterator[SeriatimServer]:
    with SeriatimServer("none") as server:
        yield server


async def take(subscription: aio.AsyncSubscription, count: int) -> list[bytes]:
    return [(await anext(subscription)).data for _ in range(count)]


def test_given_messages_when_iterated_then_each_comes_in_its_order(broker: SeriatimServer) -> None:
    async def scenario() -> None:
        async with await connect(url(broker)) as client:
            subscription = await client.subscribe("a.*")
            for number in range(1000):
                headers = {"Number": str(number)} if number % 2 else None
                await client.publish(f"a.{number}", b"%d" % number, "r", headers)
            for number in range(1000):
                message = await anext(subscription)
                assert (message.subject, message.data) == (f"a.{number}", b"%d" % number)
                assert message.reply == "r"
                assert message.headers == ({"Number": str(number)} if number % 2 else {})
            assert client.info["frame"] == "none"

    run(scenario())


def test_given_large_and_small_messages_then_callbacks_have_the_order_of_the_wire(
    broker: SeriatimServer,
) -> None:
    async def scenario() -> None:
        got: list[tuple[str, int]] = []

        def note(message: MessageReceived) -> None:
            got.append((message.subject, len(message.data)))

        async with await connect(url(broker)) as client:
            for subject in ("b.large", "b.*", "b.small"):
                await client.subscribe(subject, on_message=note)
            for _ in range(10):
                await client.publish("b.large", bytes(500_000))
                await client.publish("b.small", b"x")
            await client.flush()
            turn = [("b.large", 500_000)] * 2 + [("b.small", 1)] * 2
            assert got == turn * 10

    run(scenario())


def test_given_a_callback_that_fails_then_it_is_reported_and_the_connection_goes_on(
    broker: SeriatimServer,
) -> None:
    def fail(message: MessageReceived) -> None:
        raise ZeroDivisionError

    async def scenario() -> None:
        told: list[object] = []
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda loop, context: told.append(context["exception"]))
        async with await connect(url(broker)) as client:
            await client.subscribe("c", on_message=fail)
            await client.publish("c")
            await client.flush()
            assert [type(error) for error in told] == [ZeroDivisionError]
            assert client.is_connected

    run(scenario())


def test_given_a_queue_group_and_an_unsubscribe_then_the_broker_knows(
    broker: SeriatimServer,
) -> None:
    async def scenario() -> None:
        async with await connect(url(broker)) as client:
            one, other = [await client.subscribe("d", "group") for _ in range(2)]
            await other.unsubscribe()
            for number in range(20):
                await client.publish("d", b"%d" % number)
            assert await take(one, 20) == [b"%d" % number for number in range(20)]
            with pytest.raises(StopAsyncIteration):
                await anext(other)

    run(scenario())


def test_given_requests_then_each_has_its_own_answer_or_its_error(broker: SeriatimServer) -> None:
    async def scenario() -> None:
        async with await connect(url(broker)) as client:
            answers = await asyncio.gather(*(client.request("$SEQ.INFO") for _ in range(20)))
            assert all(b'"journal"' in answer.data for answer in answers)
            refused = await client.request("$SEQ.GET.999999999")
            assert (refused.status, refused.description[:8], refused.data) == (404, "Message ", b"")
            with pytest.raises(NoResponders, match=r"nobody\.there: no responders"):
                await client.request("nobody.there")
            await client.subscribe("silent", on_message=lambda message: None)
            with pytest.raises(NoAnswer, match="no answer in time"):
                await client.request("silent", timeout=0.01)

    run(scenario())


def test_given_what_the_broker_refuses_then_it_is_reported_and_the_connection_goes_on(
    broker: SeriatimServer,
) -> None:
    async def scenario() -> None:
        told: list[BrokerError] = []
        async with await connect(
            url(broker), callbacks=ClientCallbacks(on_error=told.append)
        ) as client:
            await client.publish("$SEQ.x")
            await client.flush()
            assert [str(error) for error in told] == [
                'Permissions Violation for Publish to "$SEQ.x"'
            ]
            with pytest.raises(InvalidArgument):
                await client.publish("a b")
            with pytest.raises(InvalidArgument):
                await client.publish("a", bytes(client.max_payload + 1))
            await client.flush()

    run(scenario())


def test_given_several_addresses_then_the_first_that_answers_is_used(
    broker: SeriatimServer,
) -> None:
    async def scenario() -> None:
        for servers in (
            f"nats://127.0.0.1:1,127.0.0.1:{broker.port}",
            ["127.0.0.1:1", url(broker)],
        ):
            async with await connect(servers) as client:
                await client.flush()
        with pytest.raises(ConnectionLost, match=r"^127.0.0.1:1: .*refused.*; 127.0.0.1:2: "):
            await connect("127.0.0.1:1,127.0.0.1:2")

    run(scenario())


@pytest.mark.parametrize("wrong", ["", "http://u:hunter2@a", "nats://u:hunter2@a:99999", "a:0"])
def test_given_input_that_is_no_address_then_it_is_reported_without_credentials(wrong: str) -> None:
    async def scenario() -> None:
        with pytest.raises(InvalidArgument, match="is not the address of a broker") as told:
            await connect(wrong)
        assert "hunter2" not in str(told.value)

    run(scenario())


def test_given_a_broker_that_stops_then_those_who_wait_learn_why() -> None:
    async def scenario(server: SeriatimServer) -> None:
        client = await connect(url(server))
        subscription = await client.subscribe("a")
        await client.subscribe("silent", on_message=lambda message: None)
        asked = asyncio.ensure_future(client.request("silent", timeout=60))
        await client.flush()
        await asyncio.to_thread(server.stop)
        await client.closed.wait()
        for waiting in (anext(subscription), asked, client.publish("a"), client.flush()):
            with pytest.raises(ConnectionLost, match="the broker closed the connection"):
                await waiting
        assert client.error is not None
        await client.close()

    with SeriatimServer("none") as server:
        run(scenario(server))


def test_given_a_broker_that_comes_back_then_subscriptions_go_on() -> None:
    async def scenario(server: SeriatimServer) -> None:
        lost, back = asyncio.Event(), asyncio.Event()
        client = await connect(
            url(server),
            reconnect_wait=0.05,
            callbacks=ClientCallbacks(on_disconnected=lost.set, on_reconnected=back.set),
        )
        subscription = await client.subscribe("a", "group")
        await client.request("$SEQ.INFO")
        port = server.port
        await asyncio.to_thread(server.stop)
        await lost.wait()
        assert (client.is_connected, client.is_closed) == (False, False)
        with pytest.raises(ConnectionLost):
            await client.publish("a")
        await asyncio.to_thread(server.start, port)
        await back.wait()
        await client.publish("a", b"again")
        assert await take(subscription, 1) == [b"again"]
        assert b"journal" in (await client.request("$SEQ.INFO")).data
        await asyncio.to_thread(server.stop)
        await client.close()  # while it tries
        with pytest.raises(StopAsyncIteration):
            await anext(subscription)

    with SeriatimServer("none") as server:
        run(scenario(server))


def test_given_a_drain_then_what_was_on_its_way_arrives(broker: SeriatimServer) -> None:
    async def scenario() -> None:
        client = await connect(url(broker))
        subscription = await client.subscribe("e")
        for number in range(100):
            await client.publish("e", b"%d" % number)
        await client.drain()
        assert client.is_closed
        assert [message.data async for message in subscription] == [b"%d" % n for n in range(100)]

    run(scenario())


def test_given_an_iterator_that_nobody_reads_then_it_ends_with_an_error_and_loses_nothing_before(
    broker: SeriatimServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(aio, "PENDING_BYTES", 10_000)

    async def scenario() -> None:
        async with await connect(url(broker)) as client:
            subscription = await client.subscribe("f")
            for number in range(100):
                await client.publish("f", bytes([number]) * 1000)
            await client.flush()
            taken: list[int] = []

            async def read() -> None:
                async for message in subscription:
                    taken.append(message.data[0])

            with pytest.raises(SlowSubscriber, match="f: too many messages are waiting"):
                await read()
            assert taken == list(range(11))

    run(scenario())
