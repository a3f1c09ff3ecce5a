"""The file of the window: what it says of itself, and records found in it by number."""

import errno
from pathlib import Path

import pytest

from sequencer.journal import window_file
from sequencer.journal.disk import fallocate
from sequencer.journal.record import RecordBatch
from sequencer.journal.window_file import FILE, HEAD, PAGE, SLAB_MIN, WindowView, create
from tests.support.stores import WINDOW, abandon, batch_of, open_store, put

JOURNAL = "00c0ffee00c0ffee"


def test_given_a_new_window_then_it_says_whose_it_is_and_has_nothing(tmp_path: Path) -> None:
    _, head = create(str(tmp_path), JOURNAL, WINDOW, 7)
    view = WindowView(str(tmp_path), 5)
    assert view.head == head
    assert (head.journal, head.last) == (JOURNAL, 7)
    assert (tmp_path / FILE).stat().st_size == PAGE + head.slabs * head.slab_bytes
    assert view.starts == []
    assert view.is_whole
    assert view.records(1) == b""
    view.close()


def test_given_a_copy_then_it_is_not_taken_for_the_whole(tmp_path: Path) -> None:
    create(str(tmp_path), JOURNAL, WINDOW, 7)
    copy = tmp_path / "copy"
    copy.mkdir()
    (copy / FILE).write_bytes((tmp_path / FILE).read_bytes())
    assert not WindowView(str(copy), 5).is_whole


@pytest.mark.parametrize("at", range(0, HEAD.size + 4))
def test_given_any_byte_of_the_head_spoilt_then_its_records_are_found_all_the_same(
    tmp_path: Path, at: int
) -> None:
    store = open_store(tmp_path)
    batch = batch_of(store, 30)
    put(store, 30)
    abandon(store)
    data = bytearray((tmp_path / FILE).read_bytes())
    data[at] ^= 0x55
    (tmp_path / FILE).write_bytes(data)
    view = WindowView(str(tmp_path), store.salt)
    assert view.head is None
    assert view.records(1) == bytes(batch.view())
    assert view.records(31) == b""
    view.close()


def test_given_records_of_another_salt_then_they_are_not_found(tmp_path: Path) -> None:
    create(str(tmp_path), JOURNAL, WINDOW, 0)
    batch = RecordBatch(6, 1)
    batch.append_message(1, 1, b"a", b"", b"", b"x")
    with (tmp_path / FILE).open("r+b") as file:
        file.seek(PAGE)
        file.write(bytes(batch.view()))
    assert WindowView(str(tmp_path), 6).records(1) == bytes(batch.view())
    assert WindowView(str(tmp_path), 5).records(1) == b""


def test_given_little_room_then_the_window_is_smaller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def limited(fd: int, offset: int, size: int) -> bool:
        if size > 3 * SLAB_MIN:
            raise OSError(errno.ENOSPC, "No space left on device")
        return fallocate(fd, offset, size)

    monkeypatch.setattr(window_file, "fallocate", limited)
    store = open_store(tmp_path)
    put(store, 100, size=3000)
    put(store, 10)
    assert (tmp_path / FILE).stat().st_size == PAGE + 2 * SLAB_MIN
    assert store.sync() == 110
    store.close()
