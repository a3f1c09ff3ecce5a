"""Seriatim's own client in a cluster whose coordinator dies: each message is there once."""

import asyncio
from collections.abc import Iterator

import pytest

import seriatim
from seriatim import Client, Message
from tests.clients.served import run
from tests.support.cluster_start import ClusterOf
from tests.support.depth import depth
from tests.support.processes import url

BEFORE, AFTER = 1000, 500  # messages of each publisher, before and after the kill
DONE = b"done"
RECOVERIES, MORE = depth(1, 5), 5_000


@pytest.fixture
def cluster() -> Iterator[ClusterOf]:
    with ClusterOf(3) as made:
        yield made


async def read_all(stream: Client) -> list[Message]:
    """Read until both publishers have said that they are done."""
    found: list[Message] = []
    left = 2
    async for message in stream.read("orders.*"):
        found.append(message)
        left -= message.payload == DONE
        if not left:
            break
    return found


def test_given_a_coordinator_that_is_killed_then_publishers_readers_and_a_batch_go_on(
    cluster: ClusterOf,
) -> None:
    async def publish(
        stream: Client, name: str, go: asyncio.Event, is_killed: asyncio.Event
    ) -> list[int]:
        sent: list[asyncio.Future[int]] = []
        left = AFTER
        while left:
            sent.append(await stream.send(f"orders.{name}", b"%d" % len(sent)))
            if len(sent) == BEFORE:
                go.set()
            left -= is_killed.is_set()
            if len(sent) % 50 == 0:
                await sent[-1 - len(sent) // 2]  # as fast as the cluster is, but not much faster
        sent.append(await stream.send(f"orders.{name}", DONE))
        return list(await asyncio.gather(*sent))

    async def scenario() -> None:
        at = cluster.coordinator()
        addresses = [url(member) for member in cluster.members]
        others = [one for one in addresses if one != addresses[at]]
        # One knows the coordinator alone, and learns of the others; one is with another member.
        async with (
            seriatim.connect(addresses[at]) as first,
            seriatim.connect(others) as second,
            seriatim.connect(addresses[at]) as third,
        ):
            reading = [asyncio.ensure_future(read_all(one)) for one in (second, third)]
            go, is_killed = asyncio.Event(), asyncio.Event()
            publishing = [
                asyncio.ensure_future(publish(first, "a", go, is_killed)),
                asyncio.ensure_future(publish(second, "b", go, is_killed)),
            ]
            await go.wait()
            async with third.batch() as batch:
                for number in range(20):
                    await batch.publish("whole.c", b"%d" % number)
                await asyncio.to_thread(cluster.members[at].kill)
                is_killed.set()
            numbers = await asyncio.gather(*publishing)
            assert cluster.coordinator() != at
            for messages in await asyncio.gather(*reading):
                together = sorted(number for given in numbers for number in given)
                assert [one.number for one in messages] == together
                for name, given in zip("ab", numbers, strict=True):
                    mine = [one for one in messages if one.subject == f"orders.{name}"]
                    expected = [b"%d" % number for number in range(len(given) - 1)]
                    assert [one.payload for one in mine] == [*expected, DONE]
                    assert [one.number for one in mine] == given
            rows = [one.payload async for one in third.read("whole.c", until=batch.last)]
            assert rows == [b"%d" % number for number in range(20)]

    run(scenario())


def test_given_a_majority_that_dies_and_comes_back_then_no_message_overtakes_another() -> None:
    """The majority returns after some of thousands are refused, with the rest still in flight."""

    async def scenario(cluster: ClusterOf) -> None:
        member = cluster.members[cluster.coordinator()]
        others = [one for one in cluster.members if one is not member]
        sent: list[asyncio.Future[int]] = []
        is_over = False

        async def publish(stream: Client) -> None:
            while not is_over:
                sent.append(await stream.send("a", b"%d" % len(sent) + bytes(200)))

        async with seriatim.connect(url(member), discover=False) as stream:
            publishing = asyncio.create_task(publish(stream))
            for _ in range(RECOVERIES):
                begin = len(member.log)
                for one in others:
                    await asyncio.to_thread(one.kill)
                refuses = ("nothing is published",)
                assert await asyncio.to_thread(member.await_lines, begin, refuses)
                for one in others:
                    await asyncio.to_thread(one.start, one.port)
                count = len(sent)
                while len(sent) < count + MORE:
                    await sent[-1]
            is_over = True
            await publishing
            assert await asyncio.gather(*sent) == list(range(1, len(sent) + 1))
            read = [int(one.payload.rstrip(b"\0")) async for one in stream.read("a", until="now")]
            assert read == list(range(len(sent)))

    with ClusterOf(3, more=["--cluster_patience", "1s"]) as cluster:
        run(scenario(cluster))
