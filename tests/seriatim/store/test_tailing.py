"""`seriatim.tail`: all messages of a store, each once, with `for` and with `async for`."""

import asyncio
import gc
import os
import shutil
import threading
import weakref
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import seriatim
from sequencer.journal.cut import truncate
from sequencer.journal.record import RecordBatch
from seriatim.client.errors import BrokerError, InvalidArgument, JournalChanged, Lost, Position
from seriatim.client.stream_message import Message
from tests.sequencer.stores import (
    JOURNAL,
    SALT,
    WrittenStore,
    head,
    payload_of,
    records,
    subject_of,
    time_of,
)
from tests.support.processes import SeriatimServer, url

OTHER = "ffc0ffee00c0ffee"
BOTH = pytest.mark.parametrize("form", ["for", "async for"])


def open_files(path: Path) -> list[str]:
    """What of a store this process has open or mapped."""
    places = []
    for fd in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # that of the listing itself
            places.append(os.readlink(f"/proc/self/fd/{fd}"))
    maps = Path("/proc/self/maps").read_text().split("\n")
    return [name for name in [*places, *maps] if str(path) in name]


def read(form: str, *arguments: Any, **options: Any) -> list[Any]:
    """All that a tail yields, to its end."""

    async def by_asyncio() -> list[Any]:
        async with seriatim.tail(*arguments, **options) as tail:
            return [item async for item in tail]

    if form == "async for":
        return asyncio.run(by_asyncio())
    with seriatim.tail(*arguments, **options) as tail:
        return list(tail)


def short(items: list[Any]) -> list[Any]:
    return [(item.first, item.last) if isinstance(item, Lost) else item.number for item in items]


@BOTH
def test_given_a_store_when_tailed_to_its_end_then_messages_are_the_clients(
    tmp_path: Path, form: str
) -> None:
    WrittenStore(tmp_path, (1, 9), (10, 3000))
    found = read(form, tmp_path, follow=False)
    assert [message.number for message in found] == list(range(1, 3001))
    for number in (1, 5, 7, 3000):
        message = found[number - 1]
        assert type(message) is Message
        assert (message.subject, message.payload) == (
            *(subject_of(number).decode(), payload_of(number)),
        )
        assert message.time_ns == time_of(number)
    assert (found[4].headers, found[6].reply) == ({"A": "5"}, "answers")
    assert open_files(tmp_path) == []


@BOTH
@pytest.mark.parametrize(
    ("options", "found"),
    [
        ({}, [5, 6, 7, 8, (9, 11), 12, 13, 14, 15]),
        ({"start": 7, "until": 13}, [7, 8, (9, 11), 12, 13]),
        ({"start": 1, "until": 6}, [(1, 4), 5, 6]),
        ({"start": Position(JOURNAL, 12)}, [13, 14, 15]),
        ({"start": Position(JOURNAL, 13, time_of(13))}, [14, 15]),
        ({"start": Position("", 0)}, [5, 6, 7, 8, (9, 11), 12, 13, 14, 15]),
        ({"start": 16}, []),
        ({"subject": "orders.0"}, [6, (9, 11), 12, 15]),
        ({"subject": "*.*", "until": 6}, [5, 6]),
        ({"subject": "orders.0.>"}, [(9, 11)]),
    ],
)
def test_given_where_to_begin_and_to_end_when_tailed_then_it_has_these_alone(
    tmp_path: Path, form: str, options: dict[str, Any], found: list[Any]
) -> None:
    WrittenStore(tmp_path, (5, 8), (12, 15))
    assert short(read(form, tmp_path, **options, follow=False, losses="yield")) == found


@BOTH
def test_given_a_loss_when_tailed_then_it_is_raised_and_the_tail_goes_on_behind_it(
    tmp_path: Path, form: str
) -> None:
    WrittenStore(tmp_path, (1, 2), (5, 6))
    tail = seriatim.tail(tmp_path, follow=False)

    async def following() -> int:
        return (await anext(tail)).number

    def number() -> int:
        return next(tail).number if form == "for" else asyncio.run(following())

    assert [number(), number()] == [1, 2]
    assert tail.position == Position(JOURNAL, 2, time_of(2))
    with pytest.raises(Lost, match="numbers 3 to 4 do not exist any more"):
        number()
    assert tail.position == Position(JOURNAL, 4)
    assert [number(), number()] == [5, 6]
    with pytest.raises((StopIteration, StopAsyncIteration)):
        number()
    tail.close()


def test_given_a_broker_when_tailed_then_each_message_comes_when_it_is_published() -> None:
    with SeriatimServer() as broker, seriatim.connect(url(broker)) as stream:
        with seriatim.tail(broker.store, "orders.>") as tail:
            for number in range(1, 50):
                stream.publish("other", b"")
                stream.publish("orders.eu", b"%d" % number, headers={"A": "1"}, id=f"id {number}")
                message = next(tail)
                assert (message.number, message.payload) == (2 * number, b"%d" % number)
            assert message.headers == {"A": "1", "Nats-Msg-Id": "id 49"}
            assert message.time_ns == stream.get(98).time_ns
            place = tail.position
        assert place == Position(stream.info().journal, 98, message.time_ns)
        stream.publish("orders.us", b"next")
        with seriatim.tail(broker.store, start=place, follow=False) as tail:
            assert [message.subject for message in tail] == ["orders.us"]
        assert open_files(broker.store) == []


def test_given_a_broker_when_tailed_by_asyncio_then_the_loop_goes_on_while_it_waits() -> None:
    async def run(broker: SeriatimServer) -> list[bytes]:
        async with (
            seriatim.connect(url(broker)) as stream,
            seriatim.tail(broker.store) as one,
            seriatim.tail(broker.store) as other,
        ):
            found = []
            for number in range(50):
                waiting = [asyncio.ensure_future(anext(tail)) for tail in (one, other)]
                await stream.publish("orders", b"%d" % number)
                found += [message.payload for message in await asyncio.gather(*waiting)]
            return found

    with SeriatimServer() as broker:
        found = asyncio.run(run(broker))
        assert found == [b"%d" % (at // 2) for at in range(100)]
        assert open_files(broker.store) == []


def test_given_a_wait_that_is_cancelled_when_asked_again_then_nothing_is_left_out(
    tmp_path: Path,
) -> None:
    store = WrittenStore(tmp_path, (1, 1))

    async def run() -> list[int]:
        async with seriatim.tail(tmp_path) as tail:
            found = [(await anext(tail)).number]
            for number in range(2, 7):
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(anext(tail), 0.02)
                store.append(1, records(number, number))
                found.append((await anext(tail)).number)
            return found

    assert asyncio.run(run()) == [1, 2, 3, 4, 5, 6]
    assert open_files(tmp_path) == []


def test_given_a_restarted_broker_when_tailed_then_it_goes_on() -> None:
    with SeriatimServer() as broker, seriatim.tail(broker.store) as tail:
        with seriatim.connect(url(broker)) as stream:
            stream.publish("orders", b"one")
        assert next(tail).payload == b"one"
        broker.restart()
        with seriatim.connect(url(broker)) as stream:
            stream.publish("orders", b"two")
        message = next(tail)
        assert (message.number, message.payload) == (2, b"two")


@BOTH
def test_given_a_store_that_is_replaced_when_tailed_then_the_journal_has_changed(
    tmp_path: Path, form: str
) -> None:
    path = tmp_path / "store"
    WrittenStore(path, (1, 9))

    def replace() -> None:
        shutil.rmtree(path)
        WrittenStore(path, (3, 4), journal=OTHER)

    async def by_asyncio(tail: Any) -> list[Any]:
        async with tail:
            found: list[Any] = [await anext(tail) for _ in range(9)]
            replace()
            return found + [await anext(tail) for _ in range(3)]

    tail = seriatim.tail(path, losses="yield")
    if form == "async for":
        found = asyncio.run(by_asyncio(tail))
    else:
        found = [next(tail) for _ in range(9)]
        replace()
        found += [next(tail) for _ in range(3)]
        tail.close()
    changed, *rest = found[9:]
    assert isinstance(changed, JournalChanged)
    assert (changed.before, changed.now) == (
        *(Position(JOURNAL, 9, time_of(9)), Position(OTHER, 4)),
    )
    assert short(rest) == [3, 4]


@pytest.mark.parametrize(
    ("cut", "again", "is_changed"), [(5, 5, True), (5, 9, True), (9, 12, False)]
)
def test_given_a_store_that_was_cut_when_tailed_then_it_says_so_if_it_concerns_what_was_read(
    tmp_path: Path, cut: int, again: int, is_changed: bool
) -> None:
    store = WrittenStore(tmp_path, (1, 12))
    with seriatim.tail(tmp_path, until=9, losses="yield") as tail:
        found = [next(tail) for _ in range(9)]
        place = tail.position
    truncate(str(tmp_path), cut)
    batch = RecordBatch(SALT, 2)
    for number in range(cut + 1, again + 1):
        batch.append_message(number, time_of(100 + number), b"orders", b"", b"", b"later")
    store.append(1, bytes(batch.view()))
    assert short(found) == list(range(1, 10))
    items = read("for", tmp_path, start=place, follow=False, losses="yield")
    if is_changed:
        assert isinstance(items[0], JournalChanged)
        assert (items[0].before, items[0].now) == (place, Position(JOURNAL, again))
        assert short(items[1:]) == list(range(1, again + 1))
    else:
        assert short(items) == [10, 11, 12]


def test_given_a_store_that_is_deleted_when_tailed_then_it_is_an_error_until_it_is_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("seriatim.store.tailing.AGAIN_SECONDS", 0.1)
    path = tmp_path / "store"
    WrittenStore(path, (1, 2))
    with seriatim.tail(path) as tail:
        assert [next(tail).number, next(tail).number] == [1, 2]
        shutil.rmtree(path)
        with pytest.raises(BrokerError, match="no such directory"):
            next(tail)
        WrittenStore(path, (1, 3))
        assert next(tail).number == 3


@pytest.mark.parametrize("way", ["close", "aclose", "forgotten"])
def test_given_a_tail_that_waits_when_left_then_its_files_and_its_thread_go(
    tmp_path: Path, way: str
) -> None:
    WrittenStore(tmp_path, (1, 3))
    threads = set(threading.enumerate())

    async def run() -> None:
        tail = seriatim.tail(tmp_path)
        for _ in range(3):
            await anext(tail)
        waiting = asyncio.ensure_future(anext(tail))
        await asyncio.sleep(0)
        if way == "forgotten":
            waiting.cancel()
            await asyncio.wait({waiting})
            gone = weakref.ref(tail)
            del tail, waiting
            gc.collect()
            assert gone() is None
            return
        tail.close() if way == "close" else await tail.aclose()
        if way == "aclose":
            assert open_files(tmp_path) == []
        with pytest.raises(StopAsyncIteration):
            await waiting
        with pytest.raises(StopAsyncIteration):
            await anext(tail)

    asyncio.run(run())
    for thread in set(threading.enumerate()) - threads:
        thread.join(30)
    assert open_files(tmp_path) == []


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"start": 0}, "start=0: the first number is 1"),
        ({"until": 0}, "until=0: the first number is 1"),
        ({"subject": "a..b"}, "not a subject"),
        ({"directory": "/nowhere/at/all"}, "no such directory; give the directory"),
    ],
)
def test_given_a_wrong_argument_when_tailed_then_the_error_says_what_is_right(
    tmp_path: Path, arguments: dict[str, Any], why: str
) -> None:
    WrittenStore(tmp_path, (1, 3))
    with pytest.raises(InvalidArgument, match=why):
        seriatim.tail(**{"directory": tmp_path, **arguments})


def test_given_a_file_that_was_written_half_when_tailed_then_it_waits_for_the_rest(
    tmp_path: Path,
) -> None:
    store = WrittenStore(tmp_path, (1, 3))
    whole = records(4, 4)
    store.append(1, whole[:40])
    with seriatim.tail(tmp_path) as tail:
        assert [next(tail).number for _ in range(3)] == [1, 2, 3]
        writer = threading.Timer(0.1, lambda: store.append(1, whole[40:]))
        writer.start()
        assert next(tail).payload == payload_of(4)
        writer.join()
    assert len(head(1)) < store.segment(1).stat().st_size
