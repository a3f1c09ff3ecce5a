"""nats-py and the past: replay, requests and publishing once, with its own calls only."""

import asyncio
import json
import time
from typing import Any

import pytest
from nats.aio.msg import Msg

from sequencer.netstring import decode_number
from seriatim.client.chunk_columns import Columns
from tests.clients.served import Noted, Served, run, settle
from tests.support.processes import STAND_IN, SeriatimServer

pytestmark = pytest.mark.skipif(STAND_IN, reason="nats-server has no past without JetStream")
TIMEOUT_S = 30.0


async def published(served: Served, subject: str, count: int) -> list[int]:
    """Publish this many messages; their numbers."""
    async with served.client() as client:
        asked = [
            client.request(f"$SEQ.PUB.{subject}.{at % 3}", b"%d" % at, timeout=TIMEOUT_S)
            for at in range(count)
        ]
        return sorted(decode_number(answer.data) for answer in await asyncio.gather(*asked))


def test_given_the_past_when_subscribed_to_then_it_comes_and_then_the_present(
    served: Served,
) -> None:
    async def scenario() -> None:
        numbers = await published(served, "py.past.from", 200)
        async with served.client() as client, served.client() as publisher:
            got = await client.subscribe(f"$SEQ.FROM.{numbers[50]}.py.past.from.*")
            await settle(client)
            for at in range(200, 300):
                await publisher.publish(f"py.past.from.{at % 3}", b"%d" % at)
            messages = [await got.next_msg(timeout=TIMEOUT_S) for _ in range(250)]
            payloads = [int(served.payload(message)) for message in messages]
            assert sorted(payloads[:150]) == sorted(set(payloads[:150]))
            assert payloads[150:] == list(range(200, 300))
            assert all(m.subject == f"py.past.from.{int(served.payload(m)) % 3}" for m in messages)
            if served.frame == "netstring":
                assert [served.number(message) for message in messages[:150]] == numbers[50:]

    run(scenario())


def test_given_a_range_when_subscribed_to_then_its_end_is_a_message(served: Served) -> None:
    async def scenario() -> None:
        numbers = await published(served, "py.past.range", 20)
        async with served.client() as client:
            got = await client.subscribe(f"$SEQ.RANGE.{numbers[5]}.{numbers[9]}.>")
            subjects: list[Any] = []
            while not subjects or not subjects[-1].startswith("$SEQ.END."):
                subjects.append((await got.next_msg(timeout=TIMEOUT_S)).subject)
            assert len(subjects) == numbers[9] - numbers[5] + 2
            assert subjects[-1] == f"$SEQ.END.{numbers[9]}"

    run(scenario())


def test_given_the_last_messages_when_subscribed_to_then_one_for_each_subject(
    served: Served,
) -> None:
    async def scenario() -> None:
        async with served.client() as client:
            for at in range(10):
                await client.publish(f"py.past.last.{at % 3}", b"%d" % at)
            await settle(client)
            got = await client.subscribe("$SEQ.LAST.py.past.last.*")
            messages = [await got.next_msg(timeout=TIMEOUT_S) for _ in range(3)]
            assert [served.payload(message) for message in messages] == [b"7", b"8", b"9"]

    run(scenario())


def test_given_a_time_when_subscribed_to_then_what_came_since(served: Served) -> None:
    async def scenario() -> None:
        async with served.client() as client:
            await client.publish("py.past.since", b"1")
            await settle(client)
            ms = int(time.time() * 1000) - 60_000
            got = await client.subscribe(f"$SEQ.SINCE.{ms}.py.past.since")
            assert served.payload(await got.next_msg(timeout=TIMEOUT_S)) == b"1"
            await client.publish("py.past.since", b"2")
            assert served.payload(await got.next_msg(timeout=TIMEOUT_S)) == b"2"

    run(scenario())


def test_given_a_question_when_requested_then_it_is_answered(served: Served) -> None:
    async def scenario() -> None:
        numbers = await published(served, "py.past.get", 3)
        async with served.client() as client:
            await client.publish("py.past.get.h", b"hi", headers={"A": "b"})
            answer = await client.request("$SEQ.INFO", b"", timeout=TIMEOUT_S)
            info = json.loads(answer.data)
            assert info["store"] == "disk"
            assert info["last"] == numbers[-1] + 1
            assert info["messages"] == info["last"] - info["first"] + 1
            one = await client.request(f"$SEQ.GET.{info['last']}", b"", timeout=TIMEOUT_S)
            assert served.repeated(one) == b"hi"
            assert one.headers is not None
            assert one.headers["A"] == "b"
            assert one.headers["Nats-Subject"] == "py.past.get.h"
            assert one.headers["Nats-Sequence"] == str(info["last"])
            none = await client.request(f"$SEQ.GET.{info['last'] + 9}", b"", timeout=TIMEOUT_S)
            assert none.headers is not None
            assert (none.data, none.headers["Status"]) == (b"", "404")
            assert none.headers["Description"].endswith("has not been sequenced")

    run(scenario())


def test_given_many_messages_when_read_in_bulk_then_request_after_request_has_them(
    served: Served,
) -> None:
    async def scenario() -> None:
        numbers = await published(served, "py.past.read", 500)
        async with served.client() as client:
            at, rows = numbers[0], 0
            while at <= numbers[-1]:
                asked = {"from": at, "subject": "py.past.read.*", "max_bytes": 4096}
                answer = await client.request(
                    "$SEQ.READ", json.dumps(asked).encode(), timeout=TIMEOUT_S
                )
                assert answer.headers is not None
                assert answer.headers["Seriatim-Last"] == "1"
                found = list(Columns(answer.data))
                assert len(found) == int(answer.headers["Seriatim-Rows"])
                assert all(row.subject.startswith(b"py.past.read.") for row in found)
                rows += len(found)
                at = int(answer.headers["Seriatim-Next"])
            assert rows == 500

    run(scenario())


def test_given_a_subject_when_its_last_message_is_asked_for_then_it_is_the_answer(
    served: Served,
) -> None:
    async def scenario() -> None:
        numbers = await published(served, "py.past.value", 30)
        async with served.client() as client:
            answer = await client.request("$SEQ.LAST.py.past.value.2", b"", TIMEOUT_S)
            assert served.repeated(answer) == b"29"
            assert answer.headers is not None
            assert answer.headers["Nats-Subject"] == "py.past.value.2"
            assert numbers[-3] <= int(answer.headers["Nats-Sequence"]) <= numbers[-1]
            await client.publish("py.past.value.2", b"newer")
            answer = await client.request("$SEQ.LAST.py.past.value.2", b"", TIMEOUT_S)
            assert served.repeated(answer) == b"newer"
            for subject, status in (("py.past.value.9", "404"), ("py.past.value.*", "400")):
                answer = await client.request(f"$SEQ.LAST.{subject}", b"", TIMEOUT_S)
                assert answer.headers is not None
                assert answer.headers["Status"] == status

    run(scenario())


def test_given_columns_when_asked_for_then_nothing_else_is_sent(served: Served) -> None:
    async def scenario() -> None:
        numbers = await published(served, "py.past.columns", 50)
        async with served.client() as client:
            asked: dict[str, object] = {"from": numbers[0], "to": numbers[-1], "max_bytes": 1 << 16}
            asked["columns"] = ["subject", "number"]
            answer = await client.request("$SEQ.READ", json.dumps(asked).encode(), TIMEOUT_S)
            columns = Columns(answer.data)
            assert columns.names == ("number", "subject")
            assert list(columns.numbers) == numbers
            asked["columns"] = []
            answer = await client.request("$SEQ.READ", json.dumps(asked).encode(), TIMEOUT_S)
            assert answer.headers is not None
            assert answer.headers["Status"] == "400"
            assert answer.headers["Description"].startswith('"columns" must be a list of one')

    run(scenario())


def test_given_several_chunks_when_an_inbox_listens_then_all_come_and_the_last_says_so(
    served: Served,
) -> None:
    async def scenario() -> None:
        numbers = await published(served, "py.past.chunks", 300)
        async with served.client() as client:
            inbox = client.new_inbox()
            got = await client.subscribe(inbox)
            asked = {"from": numbers[0], "to": numbers[-1], "chunk_bytes": 4096}
            await client.publish("$SEQ.READ", json.dumps(asked).encode(), reply=inbox)
            chunks: list[Msg] = []
            while not chunks or "Seriatim-Last" not in (chunks[-1].headers or {}):
                chunks.append(await got.next_msg(timeout=TIMEOUT_S))
            assert len(chunks) > 3
            found = [number for chunk in chunks for number in Columns(chunk.data).numbers]
            assert found == list(range(numbers[0], numbers[-1] + 1))

    run(scenario())


def test_given_a_wrong_request_when_subscribed_to_then_the_client_hears_why_and_stays(
    served: Served,
) -> None:
    async def scenario() -> None:
        noted = Noted()
        async with served.client(**noted.options()) as client:
            await client.subscribe("$SEQ.FROM.0.>")
            await noted.failed.wait()
            text = str(noted.errors[0]).lower()
            assert 'subscription to "$seq.from.0.>": 0 is not a valid message number' in text
            assert client.is_connected

    run(scenario())


def test_given_a_message_id_when_published_until_answered_then_it_is_there_once() -> None:
    async def scenario() -> None:
        with SeriatimServer("netstring") as process:
            served = Served(process, "netstring")
            headers = {"Nats-Msg-Id": "order-7"}
            async with served.client() as client:
                answers = [
                    await client.request("$SEQ.PUB.orders", b"7", TIMEOUT_S, headers=headers)
                    for _ in range(3)
                ]
                assert {answer.data for answer in answers} == {b"1:1,"}
            process.restart()
            async with served.client() as client:
                again = await client.request("$SEQ.PUB.orders", b"7", TIMEOUT_S, headers=headers)
                assert again.data == b"1:1,"
                got = await client.subscribe("$SEQ.FROM.1.orders")
                await client.publish("orders", b"8")
                payloads = [served.payload(await got.next_msg(timeout=TIMEOUT_S)) for _ in range(2)]
                assert payloads == [b"7", b"8"]

    run(scenario())
