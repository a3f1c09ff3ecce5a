"""nats-py against the broker: limits, drain, errors, restarts, and what a client knows of both."""

import asyncio

import nats.errors
import pytest
from nats.aio.msg import Msg

from tests.clients.served import Noted, Served, run, settle
from tests.support.processes import server
from tests.support.raw import QUIET, RawClient

MAX_PAYLOAD = 1 << 20
TIMEOUT_S = 30.0
# nats-py gives up after 60 attempts by default: sooner than a busy machine starts a broker.
PERSISTENT = {"reconnect_time_wait": 0.02, "max_reconnect_attempts": -1}


def test_given_a_payload_of_the_limit_then_it_arrives_whole(served: Served) -> None:
    async def scenario() -> None:
        async with served.client() as publisher, served.client() as subscriber:
            subscription = await subscriber.subscribe("py.big")
            await settle(subscriber)
            body = bytes(range(256)) * (MAX_PAYLOAD // 256)
            for size in (MAX_PAYLOAD, MAX_PAYLOAD - 1, 65536, 4096, 1):
                await publisher.publish("py.big", body[:size])
                got = await subscription.next_msg(timeout=TIMEOUT_S)
                assert served.payload(got) == body[:size]

    run(scenario())


def test_given_a_payload_over_the_limit_then_the_client_refuses_it(served: Served) -> None:
    async def scenario() -> None:
        async with served.client() as client:
            assert client.max_payload == MAX_PAYLOAD
            with pytest.raises(nats.errors.MaxPayloadError):
                await client.publish("py.big", b"x" * (MAX_PAYLOAD + 1))

    run(scenario())


def test_given_a_client_that_does_not_look_then_the_server_says_so_and_closes(
    served: Served,
) -> None:
    async def scenario() -> None:
        noted = Noted()
        with server(served.frame, {"max_payload": 10}) as process:
            own = Served(process, served.frame)
            async with own.client(**noted.options()) as client:
                assert client.max_payload == 10
                client._max_payload = MAX_PAYLOAD  # as if it had never read INFO
                await client.publish("py.big", b"x" * 11)
                await noted.closed.wait()
                assert "maximum payload violation" in str(client.last_error).lower()

    run(scenario())


def test_given_a_refused_publish_then_the_error_callback_hears_it_and_the_client_lives(
    served: Served,
) -> None:
    async def scenario() -> None:
        noted = Noted()
        async with served.client(**noted.options()) as client:
            await client.publish("_GR_.x", b"x")
            await noted.failed.wait()
            assert 'permissions violation for publish to "_gr_.x"' in str(noted.errors[0]).lower()
            subscription = await client.subscribe("py.lives")
            await client.publish("py.lives", b"yes")
            got = await subscription.next_msg(timeout=TIMEOUT_S)
            assert served.payload(got) == b"yes"

    run(scenario())


def test_given_a_drain_then_what_was_sent_is_handled_before_the_close(served: Served) -> None:
    count = 500

    async def scenario() -> None:
        noted, got = Noted(), []

        async def note(message: Msg) -> None:
            await asyncio.sleep(0)
            got.append(int(served.payload(message)))

        async with served.client() as publisher:
            draining = await nats.connect(served.url, **noted.options())
            await draining.subscribe("py.drain", cb=note)
            await settle(draining)
            for at in range(count):
                await publisher.publish("py.drain", b"%d" % at)
            await settle(publisher)
            await draining.drain()
            await noted.closed.wait()
            assert got == list(range(count))
            assert noted.errors == []

    run(scenario())


def test_given_a_drained_subscription_then_the_connection_goes_on(served: Served) -> None:
    async def scenario() -> None:
        async with served.client() as client:
            first = await client.subscribe("py.drain.one")
            second = await client.subscribe("py.drain.one")
            await client.publish("py.drain.one", b"1")
            assert served.payload(await first.next_msg(timeout=TIMEOUT_S)) == b"1"
            await first.drain()  # type: ignore[no-untyped-call]
            await client.publish("py.drain.one", b"2")
            got = [served.payload(await second.next_msg(timeout=TIMEOUT_S)) for _ in range(2)]
            assert got == [b"1", b"2"]

    run(scenario())


def test_given_a_restart_on_the_same_port_then_clients_come_back_with_their_subscriptions(
    served: Served,
) -> None:
    async def scenario() -> None:
        noted = Noted()
        with server(served.frame) as process:
            own = Served(process, served.frame)
            async with own.client(**PERSISTENT, **noted.options()) as client:
                plain = await client.subscribe("py.again.>")
                limited = await client.subscribe("py.again.b")
                await limited.unsubscribe(limit=2)
                await client.publish("py.again.b", b"before")
                assert own.payload(await plain.next_msg(timeout=TIMEOUT_S)) == b"before"
                assert own.payload(await limited.next_msg(timeout=TIMEOUT_S)) == b"before"
                await asyncio.to_thread(process.stop)
                await noted.disconnected.wait()
                await client.publish("py.again.b", b"while away")  # kept by the client
                await asyncio.to_thread(process.start, process.port)
                await noted.reconnected.wait()
                await client.publish("py.again.b", b"after")
                got = [own.payload(await plain.next_msg(timeout=TIMEOUT_S)) for _ in range(2)]
                assert got == [b"while away", b"after"]
                last = await limited.next_msg(timeout=TIMEOUT_S)
                assert own.payload(last) == b"while away"
                await settle(client)
                assert limited.pending_msgs == 0
                assert client.stats["reconnects"] == 1

    run(scenario())


def test_given_a_kill_then_clients_come_back_too(served: Served) -> None:
    async def scenario() -> None:
        noted = Noted()
        with server(served.frame) as process:
            own = Served(process, served.frame)
            async with own.client(**PERSISTENT, **noted.options()) as client:
                subscription = await client.subscribe("py.killed")
                await settle(client)
                await asyncio.to_thread(process.kill)
                await noted.disconnected.wait()
                await asyncio.to_thread(process.start, process.port)
                await noted.reconnected.wait()
                await client.publish("py.killed", b"alive")
                got = await subscription.next_msg(timeout=TIMEOUT_S)
                assert own.payload(got) == b"alive"

    run(scenario())


def test_given_one_client_that_breaks_the_rules_then_its_neighbour_notices_nothing(
    served: Served,
) -> None:
    async def scenario() -> None:
        noted = Noted()
        async with served.client(**noted.options()) as neighbour:
            subscription = await neighbour.subscribe("py.rude")
            await settle(neighbour)
            with RawClient(served.port, QUIET + b"PUB py.rude 1\r\n1\r\nBAD\r\n") as rude:
                assert rude.until_closed() == b"-ERR 'Unknown Protocol Operation'\r\n"
            await neighbour.publish("py.rude", b"2")
            got = [served.payload(await subscription.next_msg(timeout=TIMEOUT_S)) for _ in "12"]
            assert got == [b"1", b"2"]
            assert noted.errors == []
            assert not noted.disconnected.is_set()

    run(scenario())
