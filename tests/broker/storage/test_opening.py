"""Opening the journal that the settings ask for, and what the log says about it."""

import logging
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from broker.runtime.clocks import steady_ns
from broker.settings.journal_settings import JournalSettings
from broker.settings.settings import Settings
from broker.storage.opening import open_journal, open_window
from sequencer.journal.errors import StoreError
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
