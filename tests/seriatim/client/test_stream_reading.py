"""Reading from a running broker: where it begins and ends, where it may stop, and who is slow."""

import asyncio
import gc
import resource
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import seriatim
from seriatim import (
    BlockingClient,
    Client,
    InvalidArgument,
    Lost,
    Message,
    Position,
    Reader,
    Refused,
)
from seriatim.client import aio_wire, stream_reading
from tests.clients.served import run
from tests.support.processes import SeriatimServer, ServerProcess, url

EVERY = 12
SUBJECTS = ("a.x", "a.y", "b.x")


@pytest.fixture(scope="module")
def broker() -> Iterator[ServerProcess]:
    """A broker with `EVERY` messages, in turn to three subjects; nothing is added to these."""
    with SeriatimServer() as server:
        with seriatim.connect(url(server)) as stream:
            for number in range(1, EVERY + 1):
                assert stream.publish(SUBJECTS[number % 3], b"%d" % number) == number
        yield server


def numbers(stream: BlockingClient, *subject: str, **wanted: Any) -> list[int]:
    return [message.number for message in stream.read(*subject, **wanted)]


# Where it begins, and where it ends


def test_given_an_end_then_both_faces_read_up_to_it_and_stop(broker: ServerProcess) -> None:
    whole = list(range(1, EVERY + 1))
    cases: list[tuple[list[int], dict[str, Any]]] = [
        (whole, {"until": "now"}),
        (whole, {"until": EVERY}),
        (whole[4:], {"start": 5, "until": "now"}),
        (whole[4:7], {"start": 5, "until": 7}),
        ([5], {"start": 5, "until": 5}),
        ([], {"start": 5, "until": 4}),
        ([], {"start": EVERY + 1, "until": "now"}),
        ([3, 6, 9, 12], {"subject": "a.x", "until": "now"}),
        ([], {"subject": "c", "until": "now"}),
        ([], {"subject": "c", "until": 3}),
        (whole, {"since": "1h", "until": "now"}),
        (whole, {"since": timedelta(hours=1), "until": 12}),
        ([], {"since": datetime.now(UTC) + timedelta(hours=1), "until": "now"}),
        ([], {"until": "1h"}),
        (whole, {"until": datetime.now(UTC)}),
        (whole, {"until": timedelta(0)}),
    ]

    async def scenario() -> None:
        async with seriatim.connect(url(broker)) as stream:
            for expected, wanted in cases:
                found = [message.number async for message in stream.read(**wanted)]
                assert found == expected, wanted

    run(scenario())
    with seriatim.connect(url(broker)) as stream:
        for expected, wanted in cases:
            assert numbers(stream, **wanted) == expected, wanted
            batches = [list(batch) for batch in stream.read(**wanted).batches()]
            assert [one.number for batch in batches for one in batch] == expected, wanted
            assert all(batches)


def test_given_a_time_between_messages_then_it_begins_or_ends_exactly_there(
    broker: ServerProcess,
) -> None:
    with seriatim.connect(url(broker)) as stream:
        times = {number: stream.get(number).time for number in range(1, EVERY + 1)}
        for number, moment in times.items():
            later = moment + timedelta(microseconds=1)
            for at in (moment, later):
                expected = [one for one in times if times[one] >= at]
                assert numbers(stream, since=at, until="now") == expected
                assert numbers(stream, until=at) == [one for one in times if times[one] < at]
            end = min(number + 2, EVERY)
            assert numbers(stream, "a.x", since=moment, until=end) == [
                one for one in times if one % 3 == 0 and number <= one <= end
            ]


def test_given_last_then_one_message_of_each_subject_and_what_follows() -> None:
    async def scenario(server: ServerProcess) -> None:
        async with seriatim.connect(url(server)) as stream:
            for number in range(9):
                await stream.publish(SUBJECTS[number % 3], b"%d" % number)
            reader = stream.read("a.*", last=True)
            assert [(await anext(reader)).number for _ in range(2)] == [7, 8]
            await stream.publish("b.x", b"other")
            await stream.publish("a.x", b"new")
            assert (await anext(reader)).number == 11
            await reader.aclose()

    with SeriatimServer() as server:
        run(scenario(server))


def test_given_times_that_are_yet_to_come_then_it_waits_for_them() -> None:
    async def scenario(server: ServerProcess) -> None:
        async with seriatim.connect(url(server)) as stream:
            end = datetime.now(UTC) + timedelta(seconds=2)  # a busy machine takes its time
            reader = stream.read(until=end)
            assert await stream.publish("a") == 1
            assert [(message.number, message.time < end) async for message in reader] == [(1, True)]
            assert datetime.now(UTC) >= end
            # A time that is not there yet, and a number.
            since = datetime.now(UTC) + timedelta(seconds=1)
            late = stream.read(since=since, until=4)
            reading = asyncio.ensure_future(_all(late))
            assert await stream.publish("a") == 2
            while datetime.now(UTC) < since + timedelta(milliseconds=1):
                await asyncio.sleep(0.01)  # no event to await: time passes
            assert [await stream.publish("a") for _ in range(2)] == [3, 4]
            assert [message.number for message in await reading] == [3, 4]

    with SeriatimServer() as server:
        run(scenario(server))


async def _all(reader: Reader[Message]) -> list[Message]:
    return [message async for message in reader]


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"start": 0}, "the first number is 1"),
        ({"start": -3}, "the first number is 1"),
        ({"until": 0}, "the first number is 1"),
        ({"start": 1, "since": "1h"}, "give one of"),
        ({"start": 1, "last": True}, "give one of"),
        ({"last": True, "until": "now"}, "cannot have until"),
        ({"or_now": True, "start": 1}, "or_now=True is for a position"),
        ({"or_now": True, "last": True}, "or_now=True is for a position"),
        ({"since": "soon"}, "soon"),
        ({"until": "soon"}, "soon"),
        ({"since": datetime(2026, 1, 1)}, "has no time zone"),
        ({"subject": ""}, "not valid as a subject"),
        ({"since": 7}, "since"),
        ({"start": "7"}, "start"),
        ({"start": True}, "start"),
        ({"losses": "ignore"}, "losses"),
        ({"start": 1 << 64}, "number"),
        ({"until": 1 << 64}, "number"),
    ],
    ids=str,
)
def test_given_arguments_that_make_no_sense_then_read_says_which(
    broker: ServerProcess, wrong: dict[str, Any], why: str
) -> None:
    async def scenario() -> None:
        async with seriatim.connect(url(broker)) as stream:
            with pytest.raises(InvalidArgument, match=why):
                stream.read(**wrong)

    run(scenario())


def test_given_a_subject_that_the_broker_refuses_then_the_first_step_says_why(
    broker: ServerProcess,
) -> None:
    async def scenario() -> None:
        async with seriatim.connect(url(broker)) as stream:
            for subject in ("a..b", "a.>.b", "$SEQ.INFO"):
                with pytest.raises(Refused, match=r"Permissions Violation|Invalid"):
                    await anext(stream.read(subject))
            assert stream.is_connected

    run(scenario())


# Where it goes on


@pytest.mark.parametrize("way", ["file", "functions", "coroutines", "number", "lists"])
def test_given_a_loop_that_ends_at_any_message_then_the_next_one_goes_on_behind_it(
    broker: ServerProcess, tmp_path: Path, way: str
) -> None:
    kept: list[Any] = []

    async def load_async() -> Any:
        return kept[-1] if kept else None

    async def save_async(position: Position) -> None:
        kept.append(position)

    places: dict[str, Any] = {
        "file": tmp_path / "position",
        "functions": (lambda: kept[-1] if kept else None, kept.append),
        "coroutines": (load_async, save_async),
        "lists": (lambda: list(kept[-1]) if kept else None, kept.append),
    }

    async def scenario(steps: int) -> list[int]:
        found: list[int] = []
        position: Position | None = None
        async with seriatim.connect(url(broker)) as stream:
            while len(found) < EVERY:
                place = places.get(way)
                options: dict[str, Any] = {"position": place} if place else {"start": position}
                async with stream.read(until="now", **options) as reader:
                    left = steps
                    async for message in reader:
                        found.append(message.number)
                        left -= 1
                        if not left:
                            break
                    position = reader.position
                    assert position[1] == found[-1]
        return found

    for steps in (1, 2, 5, 7, EVERY, EVERY + 5):
        kept.clear()
        (tmp_path / "position").unlink(missing_ok=True)
        assert asyncio.run(scenario(steps)) == list(range(1, EVERY + 1))
    if way != "coroutines":
        kept.clear()
        (tmp_path / "position").unlink(missing_ok=True)
        found: list[int] = []
        with seriatim.connect(url(broker)) as stream:
            position: Position | None = None
            while len(found) < EVERY:
                place = places.get(way)
                options: dict[str, Any] = {"position": place} if place else {"start": position}
                with stream.read(until="now", **options) as reader:
                    for message in reader:
                        found.append(message.number)
                        if message.number % 5 == 0:
                            break
                    position = reader.position
        assert found == list(range(1, EVERY + 1))


def test_given_a_body_that_fails_then_its_message_comes_again(
    broker: ServerProcess, tmp_path: Path
) -> None:
    found: list[int] = []

    def work(message: Message) -> None:
        found.append(message.number)
        if message.number == 4 and found.count(4) < 3:
            raise ZeroDivisionError

    async def scenario() -> None:
        async with (
            seriatim.connect(url(broker)) as stream,
            stream.read(until=6, position=tmp_path / "position") as reader,
        ):
            async for message in reader:
                work(message)

    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            run(scenario())
    run(scenario())
    assert found == [1, 2, 3, 4, 4, 4, 5, 6]
    run(scenario())
    assert found[8:] == []


def test_given_no_position_yet_when_reading_is_to_begin_now_then_only_new_messages_come(
    tmp_path: Path,
) -> None:
    async def scenario(server: ServerProcess) -> None:
        place = tmp_path / "position"
        async with seriatim.connect(url(server)) as stream:
            await stream.publish("a", b"old")
            async with stream.read(position=place, or_now=True) as reader:
                waiting = asyncio.ensure_future(anext(reader))
                async with asyncio.timeout(10):
                    while not reader._reading.reached:
                        await asyncio.sleep(0.001)  # no event to await: it subscribes
                    await stream.publish("a", b"new")
                    assert (await waiting).payload == b"new"
            await stream.publish("a", b"newer")
            async with stream.read(position=place, or_now=True) as reader:
                assert (await anext(reader)).payload == b"newer"  # it is there now: it goes on

    with SeriatimServer() as server:
        run(scenario(server))


@pytest.mark.parametrize(
    "text",
    ["", "[]", "x", '{"journal":"a"}', '["a",-1,0]', '{"number":1}', "7", '["a","1",0]', "{}" * 9],
)
def test_given_a_file_that_holds_no_position_then_it_is_not_overwritten(
    broker: ServerProcess, tmp_path: Path, text: str
) -> None:
    path = tmp_path / "position"
    path.write_text(text)

    async def scenario() -> None:
        async with seriatim.connect(url(broker)) as stream:
            with pytest.raises(InvalidArgument, match=r"position holds no position"):
                await anext(stream.read(position=path))

    run(scenario())
    assert path.read_text() == text


def test_given_a_folder_that_is_not_there_then_the_position_says_so(
    broker: ServerProcess, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with seriatim.connect(url(broker)) as stream:
            reader = stream.read(position=tmp_path / "none" / "position", until=3)
            await anext(reader)
            with pytest.raises(OSError, match="position"):
                await anext(reader)

    run(scenario())


# What is not there any more


def test_given_messages_that_retention_has_deleted_then_they_are_reported_once(
    tmp_path: Path,
) -> None:
    arguments = ["--segment_bytes", "64KiB", "--retain_bytes", "256KiB"]

    async def scenario(server: ServerProcess) -> None:
        async with seriatim.connect(url(server)) as stream:
            reader = stream.read(start=1)
            assert await stream.publish("a", b"first") == 1
            assert (await anext(reader)).number == 1
            place = reader.position
            await reader.aclose()
            async with asyncio.timeout(30):
                while (await stream.info()).first <= 2:  # the broker deletes when it has time
                    last = await stream.publish("a", bytes(10_000))
            items = [item async for item in stream.read(start=place, until="now", losses="yield")]
            assert isinstance(items[0], Lost)
            found: list[int] = []
            for item in items:  # it may delete more meanwhile
                many = [item.first, item.last] if isinstance(item, Lost) else [item.number] * 2
                found += range(many[0], many[1] + 1)
            assert found == list(range(2, last + 1))
            reader = stream.read(start=place, until="now")
            with pytest.raises(Lost) as told:
                await anext(reader)
            assert told.value.first == 2
            assert reader.position.number == told.value.last
            number, reached = 0, told.value.last
            while not number:
                try:
                    number = (await anext(reader)).number
                except Lost as more:  # meanwhile
                    reached = more.last
            assert number == reached + 1

    with SeriatimServer(arguments=arguments) as server:
        run(scenario(server))


# Slow bodies, and readers that nobody wants any more


@pytest.mark.parametrize("face", ["async", "blocking"])
def test_given_a_body_slower_than_the_brokers_patience_then_it_is_not_cut_off_and_memory_is_flat(
    monkeypatch: pytest.MonkeyPatch, face: str
) -> None:
    monkeypatch.setattr(aio_wire, "ALIVE_SECONDS", 0.05)
    arguments = ["--ping_interval", "400ms", "--ping_max", "2"]  # 1.2 s, and a busy machine
    total, size = 300, 100_000
    pause = 2.0

    async def in_loop(server: ServerProcess) -> None:
        async with seriatim.connect(url(server)) as stream:
            await fill(stream)
            before = peak()
            reader = stream.read(until="now")
            assert (await anext(reader)).number == 1
            wire = reader._reading._wire
            await asyncio.sleep(pause)  # no event to await: the body takes its time
            assert reader._reading._held < stream_reading.HELD_BYTES + (1 << 20)
            assert reader._reading._wire is wire
            found = [message.number async for message in reader]
            assert found == list(range(2, total + 1))
            assert peak() - before < 20 << 20

    async def fill(stream: Client) -> None:
        sent = [await stream.send("a", bytes(size)) for _ in range(total)]
        assert await sent[-1] == total

    with SeriatimServer(arguments=arguments) as server:
        if face == "async":
            run(in_loop(server))
            return
        with seriatim.connect(url(server)) as stream:
            for _ in range(total):
                stream.send("a", bytes(size))
            before = peak()
            found = []
            with stream.read(until=total) as reader:
                for message in reader:
                    if message.number == 1:
                        wire = reader._reading._wire
                        time.sleep(pause)  # no event to await: the body takes its time
                        assert reader._reading._wire is wire
                    found.append(message.number)
            assert found == list(range(1, total + 1))
            assert peak() - before < 20 << 20


def peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def connections(server: ServerProcess) -> int:
    """How many connections the broker has, without ours."""
    tcp = Path("/proc/net/tcp").read_text().splitlines()[1:]
    port = f":{server.port:04X}"
    return sum(line.split()[1].endswith(port) and line.split()[3] == "01" for line in tcp)


async def await_connections(server: ServerProcess, wanted: int) -> None:
    async with asyncio.timeout(10):
        while connections(server) != wanted:
            await asyncio.sleep(0.005)  # no event to await: the other process closes


async def leave(stream: Client, way: str) -> None:
    """Read a little, and stop in this way."""
    reader = stream.read()
    await anext(reader)
    match way:
        case "aclose":
            await reader.aclose()
            assert [one async for one in reader] == []
        case "batches":
            async for _ in stream.read().batches():
                break
        case "with":
            async with reader:
                await anext(reader)
        case "failed":
            with pytest.raises(ZeroDivisionError):
                async with reader:
                    raise ZeroDivisionError
        case "cancelled":
            async for message in reader:
                if message.number == EVERY:
                    break
            waiting = asyncio.ensure_future(anext(reader))
            await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.wait({waiting})


def test_given_readers_that_are_left_in_any_way_then_their_connections_close(
    broker: ServerProcess,
) -> None:
    async def scenario() -> None:
        async with seriatim.connect(url(broker)) as stream:
            await await_connections(broker, 1)
            tasks = asyncio.all_tasks()
            for way in ("aclose", "abandoned", "batches", "with", "failed", "cancelled"):
                await leave(stream, way)
                gc.collect()
                await await_connections(broker, 1)
                assert asyncio.all_tasks() == tasks
            left = stream.read()
            await anext(left)
        await await_connections(broker, 0)  # the client takes them with it
        assert [message.number async for message in left] == list(range(2, EVERY + 1))

    run(scenario())


def test_given_an_anext_that_is_cancelled_at_every_step_then_nothing_is_lost_or_left(
    broker: ServerProcess,
) -> None:
    async def scenario() -> None:
        async with seriatim.connect(url(broker)) as stream:
            await await_connections(broker, 1)
            tasks = asyncio.all_tasks()
            for steps in count():
                reader = stream.read(until="now")
                found: list[int] = []
                cancelled = 0
                while True:
                    step = asyncio.ensure_future(_next(reader))
                    if cancelled < 2:
                        for _ in range(steps):
                            await asyncio.sleep(0)
                        cancelled += step.cancel()
                    await asyncio.wait({step})
                    if step.cancelled():
                        continue
                    number = step.result()
                    if not number:
                        break
                    found.append(number)
                assert found == list(range(1, EVERY + 1))
                assert asyncio.all_tasks() == tasks
                if not cancelled:
                    break
            await await_connections(broker, 1)

    run(scenario())


async def _next(reader: Reader[Message]) -> int:
    message = await anext(reader, None)
    return 0 if message is None else message.number


def test_given_a_broker_that_is_killed_again_and_again_then_both_faces_read_each_number_once(
    tmp_path: Path,
) -> None:
    rounds, each = 4, 500

    def in_thread(address: str) -> list[int]:
        with seriatim.connect(address, wait=True) as blocking:  # it may be down just now
            return numbers(blocking, until=1999)

    async def scenario(server: SeriatimServer) -> None:
        port = server.port
        async with seriatim.connect(url(server)) as stream:
            reader = stream.read(until=rounds * each)
            reading = asyncio.ensure_future(_all(reader))
            other = asyncio.ensure_future(asyncio.to_thread(in_thread, url(server)))
            for number in range(rounds):
                sent = [await stream.send("a", b"%d" % at) for at in range(each)]
                if number % 2:
                    await asyncio.to_thread(server.kill)
                    await asyncio.to_thread(server.start, port)
                await asyncio.gather(*sent)
            assert await other == list(range(1, 2000))
            found = await reading
        assert [message.number for message in found] == list(range(1, rounds * each + 1))
        assert [message.payload for message in found] == [b"%d" % at for at in range(each)] * rounds

    with SeriatimServer() as server:
        run(scenario(server))
