"""Opening the journal that the settings ask for, and what the log says about it."""

import logging
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from broker.runtime.clocks import moment, steady_ns
from broker.settings.journal_settings import JournalSettings
from broker.settings.settings import Settings
from broker.storage.opening import open_journal, open_window
from sequencer.journal.errors import StoreError
from sequencer.journal.reverse_scan import Ids, recent_ids
from sequencer.journal.ring import Ring
from sequencer.journal.store import Store
from sequencer.journal.window import STEP
from tests.support.stores import open_store, put


def settings(path: Path, **journal: Any) -> Settings:
    return replace(
        Settings(), store_dir=str(path / "store"), journal=replace(JournalSettings(), **journal)
    )


def test_given_a_journal_then_the_store_in_its_directory_is_opened_and_described(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    store = open_journal(settings(tmp_path, retain_count=7))
    assert isinstance(store, Store)
    assert store.retain_count == 7
    assert f"Journal {store.id} in {tmp_path / 'store'}, epoch 1: empty, 1 is next, " in caplog.text
    store.close()


def test_given_a_journal_when_it_is_open_then_the_first_messages_need_not_wait_for_memory(
    tmp_path: Path,
) -> None:
    for last in (0, 1):
        store = open_journal(settings(tmp_path))
        assert isinstance(store, Store)
        assert store.last == last
        slab = store._window._untouched[0]
        assert slab.ready - slab.at >= min(STEP, slab.size), "its pages are there"
        put(store, size=STEP // 2)
        store.close()


def test_given_no_journal_then_a_ring_or_nothing_keeps_messages(tmp_path: Path) -> None:
    ring = open_journal(settings(tmp_path, enabled=False, ring_bytes=1 << 20))
    assert isinstance(ring, Ring)
    assert open_journal(settings(tmp_path, enabled=False, ring_bytes=0)) is None
    assert list(tmp_path.iterdir()) == []


def test_given_a_store_that_another_process_writes_then_opening_says_so(tmp_path: Path) -> None:
    other = open_store(tmp_path / "store")
    with pytest.raises(StoreError):
        open_journal(settings(tmp_path))
    other.close()


def test_given_a_store_with_ids_when_it_is_opened_again_then_they_are_remembered(
    tmp_path: Path,
) -> None:
    before = open_store(tmp_path / "store")
    put(before, 5, ids=True, time=time.time_ns())
    before.close()
    now = settings(tmp_path)
    store = open_journal(now)
    window = open_window(now, store)
    assert window is not None
    assert window.find(b" id-3", steady_ns()) == 3
    assert open_window(settings(tmp_path, dedupe_ids=0), store) is None
    assert store is not None
    store.close()


def test_given_a_torn_end_then_what_recovery_did_is_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    before = open_store(tmp_path / "store")
    put(before, 5)
    before.close()
    (segment,) = (tmp_path / "store").glob("*.segment")
    segment.write_bytes(segment.read_bytes()[:-3])
    for index in (tmp_path / "store").glob("*.index"):
        index.unlink()
    (tmp_path / "store" / ".highest").unlink()  # it was killed before it was synced
    caplog.set_level(logging.INFO)
    store = open_journal(settings(tmp_path))
    assert store is not None
    assert store.last == 4
    assert len(caplog.records) > 1
    store.close()


def closed_with_ids(folder: Path) -> None:
    """A broker published messages with ids, and was stopped."""
    before = open_journal(settings(folder))
    assert isinstance(before, Store)
    window = open_window(settings(folder), before)
    assert window is not None
    put(before, 50, ids=True, time=time.time_ns())
    for number in range(1, 51):
        window.add(b" id-%d" % number, number, steady_ns())
    before.save_known_ids(moment())
    before.close()


@pytest.mark.parametrize("how", ["good", "damaged", "missing"])
def test_given_a_clean_stop_when_started_then_ids_come_from_what_it_saved_or_else_from_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, how: str
) -> None:
    closed_with_ids(tmp_path)
    known = tmp_path / "store" / "ids.known"
    if how == "damaged":
        known.write_bytes(known.read_bytes()[:-1])
    elif how == "missing":
        known.unlink()
    read: list[Any] = []

    def noting(*words: Any, **more: Any) -> Iterator[Ids]:
        read.append(words)
        return recent_ids(*words, **more)

    monkeypatch.setattr("sequencer.journal.store.recent_ids", noting)
    store = open_journal(settings(tmp_path))
    window = open_window(settings(tmp_path), store)
    assert window is not None
    assert store is not None
    assert [window.find(b" id-%d" % at, steady_ns()) for at in range(52)] == [0, *range(1, 51), 0]
    assert bool(read) == (how != "good")
    assert ("ids are read from the records" in caplog.text) == (how == "damaged")
    assert not known.exists(), "it is not of this moment any more"
    store.close()


def test_given_messages_after_a_stop_when_its_ids_are_there_again_then_they_do_not_count(
    tmp_path: Path,
) -> None:
    closed_with_ids(tmp_path)
    known = tmp_path / "store" / "ids.known"
    old = known.read_bytes()
    store = open_journal(settings(tmp_path))
    assert isinstance(store, Store)
    put(store, 1, ids=True, time=time.time_ns())
    store.close()
    known.write_bytes(old)  # of a copy
    again = open_journal(settings(tmp_path))
    window = open_window(settings(tmp_path), again)
    assert window is not None
    assert window.find(b" id-51", steady_ns()) == 51
    assert again is not None
    again.close()
