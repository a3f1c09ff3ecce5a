"""nats-py and the numbers: what only this broker does, seen from an ordinary client."""

import asyncio

import pytest
from nats.aio.msg import Msg

from testkit.model_frame import split_frame
from tests.clients.served import Noted, Served, run, settle
from tests.support.processes import STAND_IN, SeriatimServer

pytestmark = pytest.mark.skipif(STAND_IN, reason="nats-server gives no numbers")
TIMEOUT_S = 30.0


def number_of(answer: Msg) -> int:
    """A number answered as a netstring, `5:88485,`."""
    length, _, rest = answer.data.partition(b":")
    assert rest.endswith(b",")
    assert int(length) == len(rest) - 1
    return int(rest[:-1])


def test_given_messages_then_every_subscriber_sees_the_same_numbers(
    started: dict[str, Served],
) -> None:
    served = started["netstring"]

    async def scenario() -> None:
        async with served.client() as one, served.client() as two, served.client() as publisher:
            first = await one.subscribe("py.numbers.>")
            second = await two.subscribe("py.numbers.*")
            await settle(one)
            await settle(two)
            for at in range(100):
                await publisher.publish(f"py.numbers.{at % 7}", b"%d" % at)
            got = [
                [await subscription.next_msg(timeout=TIMEOUT_S) for _ in range(100)]
                for subscription in (first, second)
            ]
            numbers = [[served.number(message) for message in side] for side in got]
            assert numbers[0] == numbers[1] == list(range(numbers[0][0], numbers[0][0] + 100))
            assert [served.payload(m) for m in got[0]] == [b"%d" % at for at in range(100)]

    run(scenario())


def test_given_a_request_to_seq_pub_then_the_answer_is_the_number_of_that_message(
    served: Served,
) -> None:
    async def scenario() -> None:
        async with served.client() as client:
            subscription = await client.subscribe("py.seq.orders")
            answers = [
                await client.request("$SEQ.PUB.py.seq.orders", b"%d" % at, timeout=TIMEOUT_S)
                for at in range(3)
            ]
            numbers = [number_of(answer) for answer in answers]
            assert numbers == list(range(numbers[0], numbers[0] + 3))
            got = [await subscription.next_msg(timeout=TIMEOUT_S) for _ in range(3)]
            assert [message.subject for message in got] == ["py.seq.orders"] * 3
            assert [served.payload(message) for message in got] == [b"0", b"1", b"2"]
            if served.frame == "netstring":
                assert [served.number(message) for message in got] == numbers

    run(scenario())


def test_given_an_empty_request_then_the_current_number_is_answered_and_none_is_given(
    served: Served,
) -> None:
    async def scenario() -> None:
        async with served.client() as client:
            subscription = await client.subscribe("py.seq.empty")
            first = await client.request("$SEQ.PUB.py.seq.empty", b"x", timeout=TIMEOUT_S)
            given = number_of(first)
            asked = [
                number_of(await client.request("$SEQ.PUB.py.seq.empty", b"", timeout=TIMEOUT_S))
                for _ in range(3)
            ]
            assert asked == [given] * 3
            await subscription.next_msg(timeout=TIMEOUT_S)
            await settle(client)
            assert subscription.pending_msgs == 0

    run(scenario())


def test_given_concurrent_requests_then_no_number_is_given_twice(served: Served) -> None:
    async def scenario() -> None:
        async with served.client() as one, served.client() as two:
            asked = [
                client.request("$SEQ.PUB.py.seq.race", b"x", timeout=TIMEOUT_S)
                for _ in range(50)
                for client in (one, two)
            ]
            numbers = sorted(number_of(answer) for answer in await asyncio.gather(*asked))
            assert numbers == list(range(numbers[0], numbers[0] + 100))

    run(scenario())


def test_given_other_subjects_under_seq_then_publishing_is_refused(served: Served) -> None:
    async def scenario() -> None:
        noted = Noted()
        async with served.client(**noted.options()) as client:
            await client.publish("$SEQ.NOTHING", b"x")
            await noted.failed.wait()
            text = str(noted.errors[0]).lower()
            assert 'permissions violation for publish to "$seq.nothing"' in text
            assert client.is_connected

    run(scenario())


def test_given_a_new_broker_then_numbers_begin_with_one() -> None:
    async def scenario() -> None:
        with SeriatimServer("netstring") as process:
            served = Served(process, "netstring")
            async with served.client() as client:
                asked = await client.request("$SEQ.PUB.x", b"", timeout=TIMEOUT_S)
                assert number_of(asked) == 0
                first = await client.request("$SEQ.PUB.x", b"x", timeout=TIMEOUT_S)
                assert number_of(first) == 1

    run(scenario())


def test_given_headers_then_the_frame_is_the_payload_after_them(
    started: dict[str, Served],
) -> None:
    served = started["netstring"]

    async def scenario() -> None:
        async with served.client() as client:
            subscription = await client.subscribe("py.numbers.headers")
            await client.publish("py.numbers.headers", b"body", headers={"A": "b"})
            got = await subscription.next_msg(timeout=TIMEOUT_S)
            assert got.headers == {"A": "b"}
            assert split_frame(got.data)[1] == b"body"

    run(scenario())


def test_given_header_mode_then_the_payload_is_plain_and_a_header_holds_the_number() -> None:
    async def scenario() -> None:
        with SeriatimServer("header") as process:
            served = Served(process, "header")
            async with served.client() as client:
                subscription = await client.subscribe("py.header.>")
                await client.publish("py.header.a", b"plain")
                await client.publish("py.header.b", b"more", headers={"A": "b"})
                first = await subscription.next_msg(timeout=TIMEOUT_S)
                second = await subscription.next_msg(timeout=TIMEOUT_S)
                assert (first.data, second.data) == (b"plain", b"more")
                assert first.headers == {"Nats-Sequence": "1"}
                assert second.headers == {"A": "b", "Nats-Sequence": "2"}

    run(scenario())
