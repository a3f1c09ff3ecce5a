"""Feeds of a cluster on loopback: one stream, whoever sends it."""

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest

from seriatim.receiver import Ended, FeedMessage, Group, Receiver
from tests.crash.peers import Wire
from tests.seriatim.cli.command import seriatim
from tests.support.cluster_start import ClusterOf
from tests.support.multicast import new_group
from tests.support.serving import feed_text

LIMIT_S = 100.0
GROUP = new_group()


@pytest.fixture
def cluster() -> Iterator[ClusterOf]:
    feed = feed_text(GROUP, codec="binary", heartbeat="50ms")
    with ClusterOf(3, more=["--feed", feed]) as made:
        yield made


async def publish(port: int, name: bytes, count: int) -> None:
    """So many messages, each confirmed before the next ten."""
    wire = await Wire.open(port)
    for one in range(count):
        payload = b"%s %d" % (name, one)
        wire.send(b"PUB orders %d\r\n%s\r\n" % (len(payload), payload))
        if one % 10 == 9:
            wire.send(b"PING\r\n")
            while (operation := await wire.operation()) is not None and operation.verb != "PONG":
                pass
            if operation is None:
                break
    wire.close()


async def publish_all(ports: list[int]) -> None:
    """From all ports at once, and then ten more."""
    await asyncio.gather(*(publish(port, b"%d" % port, 500) for port in ports))
    await publish(ports[0], b"last", 10)


def test_given_a_coordinator_that_is_killed_then_a_receiver_has_every_number_once(
    cluster: ClusterOf,
) -> None:
    async def run() -> list[object]:
        dead = cluster.coordinator()
        alive = [at for at in range(3) if at != dead]
        ports = [member.port for member in cluster.members]
        group = Group(*GROUP, interface="127.0.0.1")
        fill = f"nats://127.0.0.1:{ports[alive[1]]}"
        found: list[object] = []
        async with (
            asyncio.timeout(LIMIT_S),
            Receiver([group], codec="binary", fill=fill, start=1) as receiver,
        ):
            publishing = asyncio.create_task(publish_all([ports[at] for at in alive]))
            async for event in receiver:
                found.append(event)
                if len(found) == 200:
                    await asyncio.to_thread(cluster.members[dead].kill)
                if isinstance(event, FeedMessage) and event.payload == b"last 9":
                    break
            await publishing
            assert receiver.counters.filled < len(found) / 2, "the feed goes on, by another member"
        return found

    found = asyncio.run(run())
    assert not [one for one in found if not isinstance(one, FeedMessage)]
    numbers = [one.number for one in found if isinstance(one, FeedMessage)]
    assert numbers == list(range(1, len(found) + 1))
    assert len(numbers) == 1010


def test_given_all_members_are_stopped_then_the_stream_ends(cluster: ClusterOf) -> None:
    async def run() -> object:
        group = Group(*GROUP, interface="127.0.0.1")
        place = ["--cluster", cluster.name, "--etcd", cluster.etcd.endpoint]
        async with asyncio.timeout(LIMIT_S), Receiver([group], codec="binary") as receiver:
            await publish(cluster.members[1].port, b"p", 10)
            stopping = asyncio.create_task(asyncio.to_thread(seriatim, "cluster", "stop", *place))
            events = [event async for event in until_the_end(receiver)]
            assert (await stopping).returncode == 0
        return events

    assert asyncio.run(run()) == [*range(1, 11), Ended(11)]


async def until_the_end(receiver: Receiver) -> AsyncIterator[object]:
    async for event in receiver:
        yield event.number if isinstance(event, FeedMessage) else event
        if isinstance(event, Ended):
            break
