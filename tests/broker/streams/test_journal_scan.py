"""Reading a range of the journal again, while what is in memory changes."""

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from broker.streams.journal_scan import JournalScan
from sequencer.journal.layout import RECORD
from sequencer.journal.record import Walk
from sequencer.journal.store import Store
from tests.support.stores import SECOND, open_store, payload_of, put

PAGE = os.sysconf("SC_PAGESIZE")


async def read_all(store: Store, scan: JournalScan) -> list[tuple[int, bytes]]:
    """Return numbers and payloads of what a scan yields, to its end."""
    walk, found = Walk(store.salt), []
    async for buffer, size in scan.pieces():
        walk.attach(buffer, 0, size)
        while walk.next() == RECORD:
            found.append(
                (walk.number, bytes(buffer[walk.payload : walk.payload + walk.payload_size]))
            )
        scan.used = walk.at
        if found:
            scan.number = found[-1][0] + 1
    return found


def scanned(store: Store, first: int = 1, **how: Any) -> list[tuple[int, bytes]]:
    async def read() -> list[tuple[int, bytes]]:
        loop = asyncio.get_running_loop()
        return await asyncio.wait_for(read_all(store, JournalScan(store, loop, first, **how)), 30)

    return asyncio.run(read())


def test_given_pages_that_stay_out_of_memory_when_read_then_a_thread_reads_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(tmp_path / "store")
    count, size = 40, PAGE // 3 * 2  # so that most records lie across two pages
    put(store, count, size=size)
    store.sync()
    read = os.preadv

    def read_first_page(fd: int, buffers: Any, offset: int, flags: int = 0) -> int:
        if flags:  # without waiting: what is in memory ends with the page
            buffers = [memoryview(buffers[0])[: PAGE - offset % PAGE]]
        return read(fd, buffers, offset)

    monkeypatch.setattr(os, "preadv", read_first_page)
    assert scanned(store) == [(at, payload_of(at, size)) for at in range(1, count + 1)]
    store.close()


def test_given_records_longer_than_a_piece_and_damage_when_read_then_all_good_ones_come(
    tmp_path: Path,
) -> None:
    store = open_store(tmp_path / "store")
    put(store, 3)
    put(store, 1, size=3 * PAGE)
    put(store, 3)
    store.roll(SECOND)
    put(store, 2)
    old = Path(store.segments()[0].file)
    store.close()
    old.write_bytes(old.read_bytes().replace(payload_of(6), payload_of(6)[::-1]))
    store = open_store(tmp_path / "store")
    assert [at for at, _ in scanned(store, piece=PAGE)] == [1, 2, 3, 4, 5, 7, 8, 9]
    assert [at for at, _ in scanned(store, 5, piece=PAGE)][-4:] == [5, 7, 8, 9]
    store.close()


def test_given_segments_to_pass_by_when_read_then_the_others_come(tmp_path: Path) -> None:
    store = open_store(tmp_path / "store")
    for _ in range(3):
        put(store, 2)
        store.roll(SECOND)
    put(store, 1)
    store.sync()
    unwanted = store.segments()[1]
    found = scanned(store, lacks=lambda segment: segment is unwanted)
    assert [at for at, _ in found] == [1, 2, 5, 6, 7]
    store.close()
