"""The consumer on a real broker: steps, tokens, rollback, waiting, another journal."""

import asyncio
import contextlib
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from cardinal.follower import ChainFollower, Step
from cardinal.producer import Producer
from cardinal.token import BadToken, parse_token
from cardinal.transport.application_reader import Interrupted, JournalChanged, Rewound
from cardinal.transport.consumer import Consumer
from cardinal.transport.errors import BadTopic, Unreachable
from cardinal.transport.publisher import Publisher
from cardinal.transport.waiting import Outcome
from cardinal.update import Unlinked, Why
from tests.cardinal.chains import GENESIS, SCHEMA, Made, branch, messages_of
from tests.clients.served import run
from tests.support.processes import SeriatimServer, url

BLOCKS = branch(GENESIS, "x", 6)
LONG_S = 100.0  # for what must come before


async def send(server: SeriatimServer, application: str, blocks: Sequence[Made]) -> None:
    producer = Producer(SCHEMA)
    async with Publisher(application, url(server)) as publisher:
        for block in blocks:
            for messages in messages_of(producer, block):
                await publisher.send(messages)


async def steps(consumer: Consumer, count: int) -> list[Step]:
    """So many steps, with nothing between them but blocks that are too old."""
    found = []
    async for event in consumer:
        if isinstance(event, Unlinked) and event.why is Why.OLD:
            continue
        assert isinstance(event, Step), event
        found.append(event)
        if len(found) == count:
            break
    return found


def hashes(found: list[Step]) -> list[bytes]:
    return [block.hash for step in found for block in step.update.added]


def test_given_a_token_when_consumed_again_then_it_goes_on_after_the_block(
    broker: SeriatimServer,
) -> None:
    async def scenario() -> None:
        await send(broker, "token", BLOCKS)
        async with Consumer("token", url(broker), follower=ChainFollower(threshold=1)) as consumer:
            found = await steps(consumer, 4)
        assert hashes(found) == [block.hash for block in BLOCKS[:4]]
        (number,) = parse_token(found[-1].token).values()
        assert number > 1, "not from the beginning: the threshold is near"
        for rollback in (0, 3, 5000):
            follower = ChainFollower(start=BLOCKS[3].hash, number=4, threshold=1)
            async with Consumer(
                "token", url(broker), follower=follower, token=found[-1].token, rollback=rollback
            ) as consumer:
                more = await steps(consumer, 2)
            assert hashes(more) == [block.hash for block in BLOCKS[4:]]

    run(scenario())


def test_given_only_some_topics_when_consumed_then_the_rest_does_not_hold_blocks_up(
    broker: SeriatimServer,
) -> None:
    async def scenario() -> None:
        await send(broker, "some", BLOCKS)
        follower = ChainFollower(SCHEMA.track("a/"))
        async with Consumer("some", url(broker), follower=follower) as consumer:
            found = await steps(consumer, 6)
        keys = {key for step in found for block in step.update.added for key in block.updates}
        assert keys
        assert all(key.startswith("a/") for key in keys)

    run(scenario())


def test_given_somebody_who_waits_when_steps_are_done_then_they_are_released(
    broker: SeriatimServer,
) -> None:
    async def scenario() -> None:
        await send(broker, "waits", BLOCKS[:3])
        consumer = Consumer("waits", url(broker))
        async with consumer:
            by_hash = asyncio.create_task(consumer.wait_for_hash(BLOCKS[4].hash, LONG_S))
            by_number = asyncio.create_task(consumer.wait_for_number(5, LONG_S))
            never = asyncio.create_task(consumer.wait_for_hash(b"never", LONG_S))
            for step in await steps(consumer, 3):
                consumer.done(step)
            assert not by_hash.done()
            await send(broker, "waits", BLOCKS)
            for step in await steps(consumer, 2):
                consumer.done(step)
            assert await by_hash is Outcome.SUCCESS
            assert await by_number is Outcome.SUCCESS
            assert await consumer.wait_for_hash(BLOCKS[0].hash, 0.0) is Outcome.SUCCESS
            assert await consumer.wait_for_number(6, 0.01) is Outcome.TIMEOUT
        assert await never is Outcome.NOT_FOUND

    run(scenario())


def test_given_a_start_when_waited_for_then_what_was_applied_before_is_known(
    broker: SeriatimServer,
) -> None:
    async def scenario() -> None:
        follower = ChainFollower(start=BLOCKS[3].hash, number=4)
        async with Consumer("restart", url(broker), follower=follower) as consumer:
            assert await consumer.wait_for_number(4, 0.0) is Outcome.SUCCESS
            assert await consumer.wait_for_number(2, 0.0) is Outcome.SUCCESS
            assert await consumer.wait_for_hash(BLOCKS[3].hash, 0.0) is Outcome.SUCCESS
            assert await consumer.wait_for_number(5, 0.01) is Outcome.TIMEOUT
        unnumbered = Consumer("restart", url(broker), follower=ChainFollower(start=BLOCKS[3].hash))
        assert await unnumbered.wait_for_hash(BLOCKS[3].hash, 0.0) is Outcome.SUCCESS
        assert await unnumbered.wait_for_number(0, 0.01) is Outcome.TIMEOUT
        assert await Consumer("restart").wait_for_hash(bytes(32), 0.01) is Outcome.TIMEOUT

    run(scenario())


def test_given_a_last_number_when_consumed_then_the_events_come_to_an_end(
    broker: SeriatimServer,
) -> None:
    async def scenario() -> None:
        await send(broker, "ends", BLOCKS[:2])
        async with Publisher("ends", url(broker)) as publisher:
            last = await publisher.send({"unknown": [(b"\xff" + bytes(32), b"")]})
        async with Consumer("ends", url(broker), last=last) as consumer:
            found = [event async for event in consumer]
            behind = f"{consumer.reader.stream}={last + 1}"
        assert hashes([one for one in found if isinstance(one, Step)])[-1] == BLOCKS[1].hash
        async with Consumer("ends", url(broker), token=behind, last=last) as consumer:
            assert [event async for event in consumer] == []

    run(scenario())


def test_given_a_block_that_is_given_up_when_waited_for_then_it_is_not_found(
    broker: SeriatimServer,
) -> None:
    async def scenario() -> None:
        far = branch(branch(GENESIS, "unknown", 30)[-1], "far", 12)
        await send(broker, "giving", [BLOCKS[0], far[0], *BLOCKS[1:2], *branch(BLOCKS[1], "y", 40)])
        follower = ChainFollower(threshold=3)
        async with Consumer("giving", url(broker), follower=follower) as consumer:
            waits = asyncio.create_task(consumer.wait_for_hash(far[0].hash, LONG_S))
            async for event in consumer:
                if isinstance(event, Unlinked):
                    assert event.hash == far[0].hash
                    break
                assert isinstance(event, Step)
            assert await waits is Outcome.NOT_FOUND

    run(scenario())


def test_given_another_journal_when_consuming_then_known_blocks_are_not_applied_again() -> None:
    async def scenario(first: SeriatimServer, second: SeriatimServer) -> None:
        await send(first, "moved", BLOCKS[:4])
        async with Consumer("moved", url(first)) as consumer:
            await steps(consumer, 4)
            port = first.port
            await asyncio.to_thread(first.kill)
            await asyncio.to_thread(second.start, port)
            await send(second, "moved", BLOCKS)
            told, found = [], []
            async for event in consumer:
                if isinstance(event, Step):
                    found.append(event)
                else:
                    told.append(type(event))
                if len(hashes(found)) == 2:
                    break
        assert told == [Interrupted, JournalChanged]
        assert hashes(found) == [block.hash for block in BLOCKS[4:]]
        assert list(parse_token(found[-1].token)) == [consumer.reader.stream]

    with SeriatimServer("netstring") as first, contextlib.ExitStack() as later:
        second = SeriatimServer("netstring")
        later.callback(second.stop)
        run(scenario(first, second))


def test_given_a_journal_that_was_cut_when_consuming_then_tokens_reach_back_to_its_end(
    tmp_path: Path,
) -> None:
    store, before = tmp_path / "store", tmp_path / "before"

    async def again(server: SeriatimServer, source: Path, target: Path) -> None:
        """Kill it, copy a store in its place or out of it, and start it."""
        await asyncio.to_thread(server.kill)
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(source, target)
        await asyncio.to_thread(server.start, server.port)

    async def scenario(server: SeriatimServer) -> None:
        follower = ChainFollower(threshold=0)
        async with Consumer("cut", url(server), follower=follower) as consumer:
            await send(server, "cut", BLOCKS[:2])
            await steps(consumer, 2)
            await again(server, store, before)
            await send(server, "cut", BLOCKS[2:4])
            async for event in consumer:
                if isinstance(event, Step) and event.update.added[-1].hash == BLOCKS[3].hash:
                    await again(server, before, store)
                if isinstance(event, Rewound):
                    break
            assert event.wanted > event.last + 1
            token = parse_token(follower.token(consumer.reader.stream))
            assert token[consumer.reader.stream] <= event.last + 1

    with SeriatimServer("netstring", store=store) as server:
        run(scenario(server))


def test_given_what_cannot_be_when_made_or_opened_then_it_is_reported() -> None:
    with pytest.raises(BadToken):
        Consumer("a", token="nonsense")
    with pytest.raises(BadTopic):
        Consumer("a.b")

    async def scenario() -> None:
        with pytest.raises(Unreachable, match="no broker listens there"):
            async with Consumer("a", "nats://127.0.0.1:1"):
                pass

    run(scenario())
