"""`SEQ`, the stream of everything: the whole order, for clients of JetStream."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import nats
import pytest
from nats.aio.client import Client
from nats.js import JetStreamContext
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy
from nats.js.errors import APIError

from broker.streams.stream_config import EVERYTHING
from tests.support.jetstream import Dialogue, Step
from tests.support.processes import SeriatimServer, url
from tests.support.raw import RawClient

WAIT_S = 60.0
Use = Callable[[Client, JetStreamContext], Awaitable[None]]


def serving(store: Path, *arguments: str) -> SeriatimServer:
    return SeriatimServer("netstring", arguments=["--jetstream", *arguments], store=store)


def with_client(broker: SeriatimServer, use: Use) -> None:
    async def run() -> None:
        client = await nats.connect(url(broker))
        try:
            await use(client, client.jetstream(timeout=WAIT_S))
        finally:
            await client.close()

    asyncio.run(asyncio.wait_for(run(), 4 * WAIT_S))


async def publish_some(client: Client, jetstream: JetStreamContext, count: int = 60) -> None:
    """Publish to five streams, and to subjects of none, in turn."""
    for at in range(5):
        await jetstream.add_stream(name=f"S{at}", subjects=[f"s{at}.>"])
    for at in range(count):
        subject = f"s{at % 6}.{at % 4}" if at % 6 < 5 else f"plain.{at % 4}"
        await client.publish(subject, b"%d" % at)
    await client.flush()


async def all_of(jetstream: JetStreamContext, stream: str, count: int, **config: Any) -> list[Any]:
    """The first messages of a stream, as an ordered consumer gets them: number, subject, data."""
    sub = await jetstream.subscribe(
        ">",
        stream=stream,
        ordered_consumer=True,
        config=ConsumerConfig(deliver_policy=DeliverPolicy.ALL, **config),
    )
    found = []
    for _ in range(count):
        message = await sub.next_msg(WAIT_S)
        found.append((message.metadata.sequence.stream, message.subject, message.data))
    await sub.unsubscribe()
    return found


def replayed(broker: SeriatimServer, count: int) -> list[tuple[int, str, bytes]]:
    """The same from `$SEQ.FROM.1`, whose frames have the numbers: `23:5:88485,11:hello world,,`."""
    with RawClient(broker.port, b'CONNECT {"verbose":false}\r\n') as client:
        client.send(b"SUB $SEQ.FROM.1.> 1\r\n")
        found: list[tuple[int, str, bytes]] = []
        while len(found) < count:
            operation = client.operation()
            if operation.verb == "MSG":
                content = operation.payload.partition(b":")[2].partition(b":")[2]
                number, _, payload = content.partition(b",")
                payload = payload.partition(b":")[2][:-2]
                found.append((int(number), operation.subject.decode(), payload))
    return found


def test_given_five_streams_and_everything_then_merged_they_are_the_one_order(
    tmp_path: Path,
) -> None:
    with serving(tmp_path) as broker:

        async def use(client: Client, jetstream: JetStreamContext) -> None:
            await publish_some(client, jetstream)
            whole = await all_of(jetstream, EVERYTHING, 60)
            assert whole == await asyncio.to_thread(replayed, broker, 60)
            assert [number for number, _, _ in whole] == list(range(1, 61))
            assert [data for _, _, data in whole] == [b"%d" % at for at in range(60)]
            merged = [one for at in range(5) for one in await all_of(jetstream, f"S{at}", 10)]
            assert sorted(merged) == [one for one in whole if not one[1].startswith("plain.")]

        with_client(broker, use)


def test_given_streams_when_listed_then_everything_is_not_there_but_may_be_asked_about(
    tmp_path: Path,
) -> None:
    with serving(tmp_path) as broker:

        async def use(client: Client, jetstream: JetStreamContext) -> None:
            info = await jetstream.stream_info(EVERYTHING)
            assert (info.state.messages, info.state.first_seq, info.state.last_seq) == (0, 0, 0)
            await publish_some(client, jetstream)
            names = [one.config.name for one in await jetstream.streams_info()]
            assert names == [f"S{at}" for at in range(5)]
            assert await jetstream.find_stream_name_by_subject("s3.1") == "S3"
            info = await jetstream.stream_info(EVERYTHING)
            assert (info.state.messages, info.state.first_seq, info.state.last_seq) == (60, 1, 60)
            assert info.state.bytes > 60 * 100 // 2
            assert info.config.subjects == [">"]
            assert "0001-01-01" not in str(info.as_dict()), "the zero time of Go"
            last = await jetstream.get_last_msg(EVERYTHING, "s2.*")
            assert (last.seq, last.data) == (57, b"56")
            last = await jetstream.get_last_msg(EVERYTHING, "plain.1", direct=True)
            assert (last.seq, last.subject) == (54, "plain.1")
            assert (await jetstream.get_msg(EVERYTHING, 7)).data == b"6"
            assert (await jetstream.get_msg(EVERYTHING, 7, next=True, subject="s0.0")).seq == 13
            with pytest.raises(APIError):
                await jetstream.get_last_msg(EVERYTHING, "nobody")

        with_client(broker, use)


def test_given_what_would_change_everything_then_it_is_refused(tmp_path: Path) -> None:
    steps: list[tuple[str, Any, int]] = [
        ("STREAM.CREATE.SEQ", {"name": "SEQ", "subjects": ["a"]}, 10052),
        ("STREAM.UPDATE.SEQ", {"name": "SEQ", "subjects": ["a"]}, 10052),
        ("STREAM.DELETE.SEQ", b"", 10050),
        ("STREAM.PURGE.SEQ", b"", 10110),
        ("STREAM.MSG.DELETE.SEQ", {"seq": 1}, 10057),
        ("STREAM.INFO.SEQ", {"subjects_filter": ">"}, 10003),
        (
            "CONSUMER.CREATE.SEQ.C",
            {
                "stream_name": "SEQ",
                "config": {
                    "name": "C",
                    "deliver_policy": "last_per_subject",
                    "filter_subject": "a",
                },
            },
            10094,
        ),
    ]
    with serving(tmp_path) as broker:
        dialogue = Dialogue(broker.port)
        dialogue.client.ask(b"PUB a 1\r\nx\r\n")
        for subject, body, number in steps:
            (answer,) = dialogue.ask(Step("$JS.API." + subject, body))
            error = json.loads(answer.payload)["error"]
            assert error["err_code"] == number, (subject, error)
            assert error["description"]
        (answer,) = dialogue.ask(Step("$JS.API.STREAM.INFO.SEQ", b""))
        assert json.loads(answer.payload)["state"]["messages"] == 1
        dialogue.close()


def test_given_filters_then_what_is_pending_is_counted_and_new_ones_come(tmp_path: Path) -> None:
    with serving(tmp_path) as broker:

        async def use(client: Client, jetstream: JetStreamContext) -> None:
            await publish_some(client, jetstream)

            async def pending(**config: Any) -> int | None:
                config = {"ack_policy": AckPolicy.EXPLICIT} | config
                info = await jetstream.add_consumer(EVERYTHING, ConsumerConfig(**config))
                return info.num_pending

            assert await pending() == 60
            assert await pending(filter_subject="plain.*") == 10
            assert await pending(filter_subjects=["plain.1", "s0.>"]) == 15
            assert await pending(deliver_policy=DeliverPolicy.LAST) == 1
            assert await pending(deliver_policy=DeliverPolicy.NEW) == 0
            last = {"deliver_policy": DeliverPolicy.LAST, "filter_subject": "s1.>"}
            assert await pending(**last) == 1
            begin = {"deliver_policy": DeliverPolicy.BY_START_SEQUENCE, "opt_start_seq": 31}
            assert await pending(**begin) == 30
            assert await pending(**begin, filter_subject="s1.>") == 5
            sub = await jetstream.pull_subscribe("plain.>", "durable", stream=EVERYTHING)
            first = await sub.fetch(10, timeout=WAIT_S)
            assert [one.metadata.sequence.stream for one in first] == list(range(6, 61, 6))
            for one in first:
                await one.ack()
            waiting = asyncio.ensure_future(sub.fetch(2, timeout=WAIT_S))
            for at in range(4):
                await client.publish(f"plain.x{at}" if at % 2 else f"other.{at}", b"new")
            numbers = [one.metadata.sequence.stream for one in await waiting]
            assert numbers == [62, 64]

        with_client(broker, use)


def test_given_a_durable_one_when_the_broker_is_killed_then_it_goes_on(tmp_path: Path) -> None:
    with serving(tmp_path) as broker:

        async def begin(client: Client, jetstream: JetStreamContext) -> None:
            await publish_some(client, jetstream)
            sub = await jetstream.pull_subscribe(">", "all", stream=EVERYTHING)
            for one in await sub.fetch(20, timeout=WAIT_S):
                await one.ack_sync(timeout=WAIT_S)

        async def go_on(client: Client, jetstream: JetStreamContext) -> None:
            info = await jetstream.consumer_info(EVERYTHING, "all")
            assert (info.num_pending, info.num_ack_pending) == (40, 0)
            sub = await jetstream.pull_subscribe_bind("all", EVERYTHING)
            numbers = [m.metadata.sequence.stream for m in await sub.fetch(40, timeout=WAIT_S)]
            assert numbers == list(range(21, 61))
            await client.publish("later", b"")
            (later,) = await sub.fetch(1, timeout=WAIT_S)
            assert later.metadata.sequence.stream == 61

        with_client(broker, begin)
        broker.kill()
        broker.restart()
        with_client(broker, go_on)


def test_given_retention_then_consumers_of_everything_go_on_behind_it(tmp_path: Path) -> None:
    limits = ["--retain_bytes", "4MiB", "--segment_bytes", "1MiB"]
    with serving(tmp_path, *limits) as broker:

        async def use(client: Client, jetstream: JetStreamContext) -> None:
            await client.publish("begin", b"")
            sub = await jetstream.pull_subscribe(">", "late", stream=EVERYTHING)
            first = 1
            end = time.monotonic() + WAIT_S
            while first <= 20 and time.monotonic() < end:
                for _ in range(20):
                    await client.publish("fill", bytes(50_000))
                await client.flush()
                first = (await jetstream.stream_info(EVERYTHING)).state.first_seq
            assert first > 20, "retention has deleted nothing"
            pending, there = 0, -1
            while pending != there and time.monotonic() < end:  # it is still at work
                pending = (await jetstream.consumer_info(EVERYTHING, "late")).num_pending or 0
                there = (await jetstream.stream_info(EVERYTHING)).state.messages
            assert pending == there
            (one,) = await sub.fetch(1, timeout=WAIT_S)
            assert one.metadata.sequence.stream >= first

        with_client(broker, use)
