"""The window in use: its slabs serve in a circle, and it makes the writer wait when it is full."""

import os
import resource
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from sequencer.journal.header import START
from sequencer.journal.identity import read_identity
from sequencer.journal.store import Store
from sequencer.journal.window import KEPT
from sequencer.journal.window_file import FILE, SLABS_MAX
from tests.support.places import ROOT
from tests.support.stores import (
    WINDOW,
    abandon,
    messages,
    open_store,
    payload_of,
    put,
    read_from,
)

SLAB = WINDOW // SLABS_MAX


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(tmp_path / "store")


def touched(store: Store) -> int:
    """How many slabs have been used."""
    return SLABS_MAX - len(store._window._untouched)


def test_given_syncs_in_time_then_few_slabs_are_used_again_in_order(store: Store) -> None:
    used: list[int] = []
    for _ in range(40):
        put(store, size=SLAB // 2)
        at = store._window.position // SLAB
        if not used or used[-1] != at:
            used.append(at)
        store.sync()
    assert touched(store) == KEPT + 1, "no more memory than the disk's speed makes necessary"
    circle = used[: KEPT + 1]
    assert len(set(circle)) == KEPT + 1
    assert used == [circle[place % len(circle)] for place in range(len(used))]
    assert [len(payload) for _, payload in messages(store).values()] == [SLAB // 2] * 40
    store.close()


def test_given_a_window_that_is_full_when_written_then_it_waits_for_a_sync_and_goes_on(
    store: Store,
) -> None:
    waits: list[int] = []
    sync = store.sync
    store.use_keeper(lambda: None, lambda: (waits.append(store.last), sync()), lambda call: call())
    for _ in range(SLABS_MAX):
        put(store, size=SLAB // 2 + 100)
    assert waits == []
    put(store, size=SLAB // 2 + 100)
    assert waits == [SLABS_MAX]
    assert list(messages(store)) == list(range(1, SLABS_MAX + 2))
    store.close()


def test_given_a_batch_longer_than_a_slab_then_it_is_written_and_synced_at_once(
    store: Store, tmp_path: Path
) -> None:
    put(store, 3)
    put(store, size=3 * SLAB)
    piece = store.segments()[0]
    assert piece.synced == piece.size
    assert os.stat(piece.file).st_size == piece.size
    put(store, 3)
    found = messages(store)
    assert list(found) == list(range(1, 8))
    assert found[4][1] == payload_of(4, 3 * SLAB)
    abandon(store)
    again = open_store(tmp_path / "store")
    assert messages(again) == found
    again.close()


def test_given_a_batch_longer_than_a_slab_when_slabs_are_used_again_then_it_is_read_as_ever(
    store: Store,
) -> None:
    put(store, 3)
    put(store, size=3 * SLAB)
    for _ in range(KEPT + 2):
        put(store, size=SLAB // 2 + 100)
        store.sync()
        piece = store.segments()[0]
        with piece.in_window(piece.kept, piece.size) as records:
            assert len(records), "it would be looked for there without end"
        assert [len(payload) for _, payload in messages(store).values()][3] == 3 * SLAB
    store.close()


def test_given_a_reader_in_another_thread_when_slabs_are_used_again_then_it_reads_what_was_written(
    store: Store,
) -> None:
    faults: list[BaseException] = []
    stop = threading.Event()
    put(store, size=500)
    store.segments()[0].hold()

    def read() -> None:
        try:
            while not stop.is_set():
                last = store.last
                seen = 0
                for number, _, payload in read_from(store, store.segments()[0], START):
                    assert payload == payload_of(number, len(payload))
                    assert number == seen + 1
                    seen = number
                    if seen == last:
                        break
                assert seen == last
        except BaseException as error:
            faults.append(error)

    reader = threading.Thread(target=read)
    reader.start()
    for number in range(2, 3000):
        put(store, size=500 + number % 700)
        if number % 40 == 0:
            store.sync()
    stop.set()
    reader.join()
    assert faults == []
    store.segments()[0].release()
    store.close()


def test_given_a_clean_close_then_no_window_is_left_and_none_is_promised(
    store: Store, tmp_path: Path
) -> None:
    identity = read_identity(store.path)
    assert identity is not None
    assert identity.window
    assert (tmp_path / "store" / FILE).stat().st_size > WINDOW
    put(store)
    store.close()
    identity = read_identity(store.path)
    assert identity is not None
    assert not identity.window
    assert not (tmp_path / "store" / FILE).exists()


LOCKED = """
import os, resource, sys
from tests.support.places import ROOT
from tests.support.stores import WINDOW, messages, open_store, put
limit, path = int(sys.argv[1]), sys.argv[2]
resource.setrlimit(resource.RLIMIT_MEMLOCK, (limit, limit))
if os.getuid() == 0:
    os.setuid(65534)
store = open_store(path)
for _ in range(40):
    put(store, size=WINDOW // 20)
    store.sync()
locked = open("/proc/self/status").read().split("VmLck:")[1].split()[0]
print(len(messages(store)), int(locked) << 10)
store.close()
"""


@pytest.mark.parametrize("limit", [0, 2 * WINDOW])
def test_given_a_limit_of_locked_memory_then_the_window_is_locked_if_it_fits_and_works_if_not(
    limit: int,
) -> None:
    hard = resource.getrlimit(resource.RLIMIT_MEMLOCK)[1]
    assert hard == resource.RLIM_INFINITY or hard >= limit, f"the limit here is {hard}"
    with tempfile.TemporaryDirectory() as path:
        os.chmod(path, 0o777)
        command = [sys.executable, "-c", LOCKED, str(limit), os.path.join(path, "store")]
        result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.stderr == ""
    kept, locked = map(int, result.stdout.split())
    assert kept == 40
    assert (locked >= WINDOW) == (limit > 0)
