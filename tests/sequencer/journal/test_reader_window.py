"""Readers in other processes find in the journal window what the segments have not got yet."""

import os
import shutil
import threading
import time
from pathlib import Path

import pytest

from sequencer.journal import Lost, Reader, Record
from sequencer.journal.verify import verify
from sequencer.journal.window_file import FILE
from seriatim.client.chunk_columns import Columns
from tests.sequencer.journal.test_reader_live import BURST, check, payload_of
from tests.support.processes import STAND_IN, SeriatimServer
from tests.support.raw import QUIET, RawClient
from tests.support.stores import abandon, open_store, put
from tests.support.windows import boot_again

LAST = 60_000
FOREVER = 60.0  # seconds, for what must come before
WINDOW_ENV = "SERIATIM_JOURNAL_WINDOW_BYTES"


def numbers(reader: Reader, first: int = 1) -> list[int]:
    return [item.number for item in reader.records(first) if isinstance(item, Record)]


def rows(reader: Reader) -> list[int]:
    found: list[int] = []
    for chunk in reader.columns(1):
        assert not isinstance(chunk, Lost)
        found += Columns(chunk).numbers
    return found


def test_given_a_store_that_was_not_synced_when_read_then_all_is_there(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    for _ in range(3):
        put(store, 5)
    reader = Reader(str(tmp_path))
    for step in (lambda: None, store.sync, lambda: put(store, 5), lambda: abandon(store)):
        step()
        last = store.last
        assert numbers(reader) == rows(reader) == list(range(1, last + 1))
        assert reader.bounds() == (1, last)
        assert list(verify(str(tmp_path))) == []
    assert last == 20


@pytest.mark.parametrize("synced", [False, True])
def test_given_a_copy_of_a_store_that_is_written_when_read_then_the_window_counts(
    tmp_path: Path, synced: bool
) -> None:
    store = open_store(tmp_path / "store")
    put(store, 5)
    if synced:
        store.sync()
    for _ in range(5):
        put(store, 400)
    copy = shutil.copytree(tmp_path / "store", tmp_path / "copy")
    abandon(store)
    boot_again(tmp_path / "store")
    for folder in (copy, tmp_path / "store"):
        reader = Reader(str(folder), 4096)  # several reads
        assert numbers(reader) == rows(reader) == list(range(1, 2006))
        assert reader.bounds() == (1, 2005)
        assert list(verify(str(folder))) == []


def test_given_a_store_that_was_opened_again_when_asked_for_its_bounds_then_the_index_is_not_enough(
    tmp_path: Path,
) -> None:
    store = open_store(tmp_path)
    put(store, 5)
    store.close()
    store = open_store(tmp_path)
    put(store, 5)
    assert Reader(str(tmp_path)).bounds() == (1, 10)
    store.close()
    assert Reader(str(tmp_path)).bounds() == (1, 10)


def test_given_a_record_of_the_window_spoilt_when_read_then_it_ends_before_it(
    tmp_path: Path,
) -> None:
    store = open_store(tmp_path)
    put(store, 9)
    abandon(store)
    window = tmp_path / FILE
    data = bytearray(window.read_bytes())
    at = data.rindex((7).to_bytes(8, "little") + store.newest_time.to_bytes(8, "little"))
    data[at + 48] ^= 1
    window.write_bytes(data)
    reader = Reader(str(tmp_path))
    assert numbers(reader) == rows(reader) == list(range(1, 7))


def test_given_no_window_where_one_must_be_when_verified_then_it_is_an_error(
    tmp_path: Path,
) -> None:
    store = open_store(tmp_path)
    put(store, 9)
    abandon(store)
    os.unlink(tmp_path / FILE)
    assert ("error", FILE) in [(one.level, one.file) for one in verify(str(tmp_path))]


def test_given_a_reader_at_the_end_when_a_message_comes_then_it_is_woken(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    put(store, 3)
    reader = Reader(str(tmp_path))
    follower = reader.follow(1)
    assert len(follower.poll()) == 3
    assert follower.poll() == []
    before = time.monotonic()
    follower.wait(0.02)
    assert time.monotonic() - before >= 0.02, "it waits"
    waits = threading.Thread(target=follower.wait, args=(FOREVER,))
    waits.start()
    put(store)
    waits.join()
    assert [item.number for item in follower.poll() if isinstance(item, Record)] == [4]
    follower.close()
    store.close()


@pytest.mark.parametrize("way", ["tail", "columns"])
def test_given_readers_that_wait_when_the_store_is_written_and_opened_again_then_they_go_on(
    tmp_path: Path, way: str
) -> None:
    store = open_store(tmp_path)
    put(store, 3)
    reader, seen, got = Reader(str(tmp_path)), [0], threading.Condition()

    def note(number: int) -> None:
        with got:
            seen.append(number)
            got.notify()

    def read() -> None:
        if way == "tail":
            for item in reader.tail(last=6):
                assert isinstance(item, Record)
                note(item.number)
        else:
            for chunk in reader.columns(1, 6, live=True):
                assert not isinstance(chunk, Lost)
                for number in Columns(chunk).numbers:
                    note(number)

    thread = threading.Thread(target=read)
    thread.start()
    for again in (False, True, False):
        last = store.last
        with got:
            while seen[-1] < last:
                assert got.wait(FOREVER)
        if again:
            store.close()
            store = open_store(tmp_path)
        put(store)
    thread.join()
    assert seen == list(range(7))
    store.close()


@pytest.mark.skipif(STAND_IN, reason="nats-server keeps no such journal")
@pytest.mark.parametrize("way", ["records", "columns"])
def test_given_a_flood_and_a_broker_killed_again_and_again_when_tailed_then_each_comes_once(
    way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(WINDOW_ENV, "1MiB")
    with SeriatimServer(arguments=["--segment_bytes", "2MiB"]) as broker:
        reader, seen = Reader(str(broker.store), 1 << 16), 0
        news, last = threading.Event(), 0

        def publish() -> None:
            nonlocal last
            while last < LAST:
                with RawClient(broker.port, QUIET) as client:
                    for begin in range(last + 1, last + LAST // 4 + 1, BURST):
                        texts = ((n, payload_of(n)) for n in range(begin, begin + BURST))
                        wire = (b"PUB live.%d %d\r\n%b\r\n" % (n % 5, len(p), p) for n, p in texts)
                        client.ask(b"".join(wire))
                        last = begin + BURST - 1
                        news.set()
                broker.kill()
                broker.start()

        writer = threading.Thread(target=publish)

        def idle() -> bool:
            news.wait(1)
            news.clear()
            return seen < LAST and (writer.is_alive() or seen < last)

        writer.start()
        if way == "records":
            follower = reader.follow(1, LAST)
            while not follower.done:
                for item in follower.poll():
                    assert isinstance(item, Record)
                    assert check(item) == seen + 1
                    seen += 1
                assert follower.done or writer.is_alive() or seen < last
                follower.wait()
            follower.close()
        else:
            for chunk in reader.columns(1, LAST, idle=idle):
                assert not isinstance(chunk, Lost)
                here = list(Columns(chunk).numbers)
                assert here == list(range(seen + 1, seen + 1 + len(here)))
                seen += len(here)
        writer.join()
        assert seen == LAST
