"""Batches: the whole of one, or nothing of it, over kills and cut connections."""

import asyncio
import random
from collections.abc import Iterator

import pytest

import seriatim
from seriatim import Client, InvalidArgument, MessageTooLarge, Refused, Unconfirmed
from seriatim.client import stream_batch, stream_client
from tests.clients.served import run
from tests.support.depth import depth
from tests.support.processes import SeriatimServer, ServerProcess, url
from tests.support.relay import Relay


@pytest.fixture(scope="module")
def broker() -> Iterator[ServerProcess]:
    with SeriatimServer() as server:
        yield server


async def payloads(stream: Client, subject: str) -> list[bytes]:
    return [message.payload async for message in stream.read(subject, until="now")]


def test_given_a_batch_when_its_block_ends_then_all_of_it_is_published_in_its_order(
    broker: ServerProcess,
) -> None:
    async def scenario() -> None:
        async with seriatim.connect(url(broker)) as stream:
            async with stream.batch() as batch:
                for number in range(2000):
                    await batch.publish("whole.a", b"%d" % number, headers={"N": str(number)})
                await batch.publish("whole.b", bytes(900_000), reply="r")
                assert await payloads(stream, "whole.>") == []
            assert (batch.rows, batch.is_repeated) == (2001, False)
            assert await payloads(stream, "whole.a") == [b"%d" % number for number in range(2000)]
            last = await stream.get(batch.last)
            assert (len(last.payload), last.reply) == (900_000, "")
            assert (await stream.get(batch.first)).headers == {"N": "0"}
            with pytest.raises(Refused, match="within its `async with`"):
                await batch.publish("whole.a")
            with pytest.raises(Refused, match="within its `async with`"):
                await stream.batch().publish("whole.a")
            async with stream.batch() as empty:
                pass
            assert (empty.rows, empty.first, empty.last) == (0, 0, 0)

    run(scenario())


def test_given_a_block_that_fails_then_nothing_of_it_is_published(broker: ServerProcess) -> None:
    async def scenario() -> None:
        async with seriatim.connect(url(broker)) as stream:

            async def fail(size: int) -> None:
                async with stream.batch() as batch:
                    await batch.publish("none.a", bytes(size))
                    await batch.publish("none.a", bytes(size))
                    raise ZeroDivisionError

            for size in (10, 600_000):
                with pytest.raises(ZeroDivisionError):
                    await fail(size)

            async def publish(subject: str, size: int = 0) -> None:
                async with stream.batch() as batch:
                    await batch.publish("none.b")
                    await batch.publish(subject, bytes(size))

            for subject in ("a..b", "$SEQ.INFO", "$NRG.x"):
                with pytest.raises(Refused) as told:
                    await publish(subject)
                assert subject in str(told.value)
            with pytest.raises(InvalidArgument):
                await publish("a b")
            with pytest.raises(MessageTooLarge):
                await publish("none.b", stream.max_payload + 1)
            assert await payloads(stream, "none.>") == []

    run(scenario())


def test_given_a_named_batch_that_was_published_then_a_second_time_changes_nothing(
    broker: ServerProcess,
) -> None:
    async def scenario() -> None:
        async with seriatim.connect(url(broker)) as stream:
            found = []
            for _ in range(2):
                async with stream.batch("import", 7) as batch:
                    for number in range(3):
                        await batch.publish("named.a", b"%d" % number)
                found.append((batch.first, batch.last, batch.is_repeated))
            assert found[0][:2] == found[1][:2]
            assert [one[2] for one in found] == [False, True]
            assert await payloads(stream, "named.a") == [b"0", b"1", b"2"]
            # What an attempt that crashed has left is no part of the next one.
            left = stream.batch("import", 8)
            await left.__aenter__()
            await left.publish("named.b", bytes(600_000))
            async with stream.batch("import", 8) as batch:
                await batch.publish("named.b", b"x")
            assert await payloads(stream, "named.b") == [b"x"]

    run(scenario())


def test_given_many_tasks_that_fill_one_batch_then_each_message_is_in_it_once(
    broker: ServerProcess,
) -> None:
    async def scenario() -> None:
        async with seriatim.connect(url(broker)) as stream:
            async with stream.batch() as batch:
                await asyncio.gather(
                    *(batch.publish("tasks.a", b"%d." % at + bytes(50_000)) for at in range(60))
                )
            found = [one.partition(b".")[0] for one in await payloads(stream, "tasks.a")]
            assert found == [b"%d" % at for at in range(60)]
            assert batch.rows == 60

    run(scenario())


def test_given_a_broker_that_is_killed_at_any_moment_then_a_batch_is_whole_or_not_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stream_batch, "PIECE_BYTES", 5000)
    monkeypatch.setattr(stream_batch, "PAUSE_SECONDS", 0.01)
    draw = random.Random(7)

    async def publish(stream: Client, turn: int) -> int:
        async with stream.batch() as batch:
            for number in range(300):
                await batch.publish(f"kill.{turn}", b"%d" % number, headers={"Pad": "x" * 50})
        return batch.first

    async def scenario(server: SeriatimServer) -> None:
        port = server.port
        async with seriatim.connect(url(server)) as stream:
            for turn in range(depth(4, 40)):
                publishing = asyncio.ensure_future(publish(stream, turn))
                await asyncio.sleep(draw.random() * 0.03)  # no event to await: at any moment
                await asyncio.to_thread(server.kill)
                await asyncio.to_thread(server.start, port)
                await publishing
                found = await payloads(stream, f"kill.{turn}")
                assert found == [b"%d" % number for number in range(300)]

    with SeriatimServer() as server:
        run(scenario(server))


@pytest.mark.parametrize("direction", ["up", "down"])
def test_given_connections_that_are_cut_at_any_byte_then_a_batch_is_there_once(
    broker: ServerProcess, direction: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_batch, "PIECE_BYTES", 2000)
    monkeypatch.setattr(stream_batch, "PAUSE_SECONDS", 0.001)
    monkeypatch.setattr(stream_client, "SHORT_PAUSE", 0.001)
    draw = random.Random(direction)

    async def scenario(relay: Relay) -> None:
        async with seriatim.connect(url(broker)) as other:
            for turn in range(depth(12, 100)):
                subject = f"cut.{direction}.{turn}"
                relay.cut(**{direction: draw.randrange(500, 12_000)})
                async with seriatim.connect(
                    f"127.0.0.1:{relay.port}", discover=False, wait=True
                ) as stream:
                    relay.heal()
                    async with stream.batch() as batch:
                        for number in range(100):
                            await batch.publish(subject, b"%d" % number, headers={"P": "x" * 50})
                assert await payloads(other, subject) == [b"%d" % at for at in range(100)]

    with Relay(broker.port) as relay:
        run(scenario(relay))


def test_given_no_broker_for_too_long_then_a_batch_is_unconfirmed_and_an_error_does_not_wait() -> (
    None
):
    async def scenario(server: SeriatimServer) -> None:
        async with seriatim.connect(url(server)) as stream:

            async def publish() -> None:
                async with stream.batch(timeout=0.3) as batch:
                    await batch.publish("a")
                    await asyncio.to_thread(server.kill)

            async def fail() -> None:
                async with asyncio.timeout(5), stream.batch() as batch:
                    batch._staged = 1  # a piece of it is with the broker
                    raise ZeroDivisionError

            with pytest.raises(Unconfirmed, match="may have been published, or not"):
                await publish()
            with pytest.raises(ZeroDivisionError):
                await fail()
            await stream.close()

    with SeriatimServer() as server:
        run(scenario(server))
