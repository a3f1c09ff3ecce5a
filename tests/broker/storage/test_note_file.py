"""The second log on disk: what is appended is there after any crash, what is cut is not."""

import asyncio
import errno
import os
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.storage.note_file import FILE, NoteFile, NoteWriter, read_notes
from broker.storage.sealed_lines import seal
from sequencer.journal.errors import StoreError
from sequencer.replica.member_messages import Note
from tests.support.stores import in_memory


def note(number: int, epoch: int = 1, size: int = 0) -> Note:
    return Note(number, epoch, "PREPARE", {"batch": number, "name": "x" * size})


def opened(folder: Path, durable: bool = True) -> NoteFile:
    return NoteFile(str(folder), durable)


def everything(notes: NoteFile) -> list[Note]:
    return [notes.at(number) for number in range(notes.first, notes.last + 1)]


def filled(folder: Path, count: int = 5) -> NoteFile:
    notes = opened(folder)
    for number in range(1, count + 1):
        notes.append(note(number, epoch=1 + number // 3))
    notes.sync()
    return notes


def test_given_a_new_folder_when_opened_then_the_log_is_empty_and_begins_at_1(
    tmp_path: Path,
) -> None:
    notes = opened(tmp_path / "cluster")
    assert (notes.first, notes.last, notes.epochs(), notes.damage) == (1, 0, (), "")
    notes.append(note(1))
    notes.sync()
    notes.close()
    assert everything(opened(tmp_path / "cluster")) == [note(1)]


def test_given_notes_of_several_epochs_when_asked_then_each_epoch_has_its_first_number(
    tmp_path: Path,
) -> None:
    notes = filled(tmp_path, 7)
    assert notes.epochs() == ((1, 1), (2, 3), (3, 6))
    assert notes.at(4) == note(4, 2)
    assert notes.size == os.stat(tmp_path / FILE).st_size


def test_given_a_log_when_truncated_or_reset_then_it_stays_so_after_a_restart(
    tmp_path: Path,
) -> None:
    notes = filled(tmp_path)
    notes.truncate(3)
    assert (notes.last, notes.synced, notes.has_removed) == (3, 3, True)
    notes.sync()
    assert not notes.has_removed
    notes.close()
    notes = opened(tmp_path)
    assert everything(notes) == [note(1, 1), note(2, 1), note(3, 2)]
    notes.append(note(4, 9))
    notes.replace((note(40, 9), note(41, 10)))
    assert (notes.first, notes.last, notes.synced, notes.has_removed) == (40, 41, 3, True)
    notes.truncate(39)
    notes.sync()
    notes.close()
    notes = opened(tmp_path)
    assert (notes.first, notes.last, notes.epochs()) == (40, 39, ())
    notes.append(note(40, 11))
    notes.sync()
    notes.close()
    assert everything(opened(tmp_path)) == [note(40, 11)]


@given(st.integers(0, 5), st.data())
def test_given_a_log_torn_at_any_byte_when_opened_then_whole_notes_are_kept(
    count: int, data: Any
) -> None:
    with in_memory() as folder:
        notes = filled(folder, count)
        head = notes.size if not count else 0
        whole = (folder / FILE).read_bytes()
        notes.close()
        cut = data.draw(st.integers(0, len(whole)))
        (folder / FILE).write_bytes(whole[:cut])
        notes = opened(folder)
        kept = max(whole[:cut].count(b"\n") - 1, 0)
        assert notes.damage == ""
        assert notes.last == kept
        assert cut or not head or notes.last == 0
        notes.append(note(kept + 1, 5))
        notes.sync()
        notes.close()
        again = opened(folder)
        assert everything(again)[-1] == note(kept + 1, 5)
        again.close()


def test_given_a_damaged_note_before_good_ones_when_opened_then_it_says_so(tmp_path: Path) -> None:
    filled(tmp_path).close()
    lines = (tmp_path / FILE).read_bytes().splitlines(keepends=True)
    lines[3] = lines[3].replace(b"PREPARE", b"PREPARF")
    (tmp_path / FILE).write_bytes(b"".join(lines))
    notes = opened(tmp_path)
    assert notes.last == 2
    assert notes.damage.endswith("notes: line 4 is damaged")


def test_given_a_file_of_a_newer_format_when_opened_then_refused_and_left_as_it_is(
    tmp_path: Path,
) -> None:
    (tmp_path / FILE).write_bytes(seal({"format": 2, "before": 0}))
    with pytest.raises(StoreError, match="newer Seriatim"):
        opened(tmp_path)
    assert (tmp_path / FILE).read_bytes() == seal({"format": 2, "before": 0})


@pytest.mark.parametrize("call", ["fdatasync", "pwrite"])
def test_given_a_disk_that_fails_when_synced_then_the_next_sync_writes_all_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    notes = filled(tmp_path)

    def fail(*arguments: Any) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patch:
        patch.setattr(os, call, fail)
        notes.append(note(6, 4, size=10_000))
        with pytest.raises(OSError, match="error"):
            notes.sync()
    assert (notes.last, notes.synced) == (6, 5)
    before = os.stat(tmp_path / FILE).st_ino
    notes.sync()
    assert os.stat(tmp_path / FILE).st_ino != before, "written as a whole: no page is trusted"
    notes.append(note(7, 4))
    notes.sync()
    notes.close()
    assert everything(opened(tmp_path))[-2:] == [note(6, 4, size=10_000), note(7, 4)]


@pytest.mark.parametrize("durable", [True, False])
def test_given_notes_when_appended_then_they_count_when_they_are_synced(
    tmp_path: Path, durable: bool
) -> None:
    notes = opened(tmp_path, durable)
    for number in (1, 2):
        notes.append(note(number))
    assert (notes.last, notes.synced, notes.is_dirty) == (2, 0, True)
    unwritten = notes.begin_sync()
    notes.append(note(3))  # while a thread writes
    notes.write(unwritten)
    notes.end_sync(unwritten)
    assert (notes.synced, notes.is_dirty) == (2, True)
    assert everything(opened(tmp_path)) == [note(1), note(2)]
    notes.sync()
    assert (notes.synced, notes.is_dirty) == (3, False)
    notes.close()
    assert everything(opened(tmp_path)) == [note(1), note(2), note(3)]


def test_given_notes_that_are_removed_while_they_are_written_then_they_do_not_count(
    tmp_path: Path,
) -> None:
    notes = opened(tmp_path)
    for number in range(1, 6):
        notes.append(note(number))
    unwritten = notes.begin_sync()
    notes.truncate(3)
    notes.append(note(4, epoch=9))
    notes.write(unwritten)
    notes.end_sync(unwritten)
    assert (notes.synced, notes.has_removed) == (3, True), "the file has the old ones now"
    notes.sync()
    assert not notes.has_removed
    notes.close()
    assert everything(opened(tmp_path)) == [note(1), note(2), note(3), note(4, epoch=9)]


def test_given_a_disk_that_refuses_notes_then_a_restart_finds_none_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes = opened(tmp_path)
    notes.append(note(1))
    notes.sync()

    def fail(*arguments: Any) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    notes.append(note(2))
    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", fail)
        with pytest.raises(OSError, match="error"):
            notes.sync()
    assert everything(opened(tmp_path)) == [note(1)], "as a kill leaves it now"
    assert (notes.synced, notes.last) == (1, 2)
    notes.sync()
    notes.close()
    assert everything(opened(tmp_path)) == [note(1), note(2)]


def test_given_a_snapshot_then_it_replaces_the_file_at_the_next_sync(tmp_path: Path) -> None:
    notes = opened(tmp_path)
    for number in range(1, 6):
        notes.append(note(number))
    notes.sync()
    notes.shorten((note(4), note(5)))
    notes.append(note(6))
    assert (notes.first, notes.last, notes.synced, notes.has_removed) == (4, 6, 5, False)
    assert len(everything(opened(tmp_path))) == 5
    notes.sync()
    assert read_notes(str(tmp_path)) == [note(4), note(5), note(6)]
    assert notes.size == os.stat(tmp_path / FILE).st_size
    assert read_notes(str(tmp_path / "nowhere")) == []


def test_given_a_removal_that_the_disk_refuses_then_a_crash_may_still_bring_notes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes = filled(tmp_path)
    notes.replace((note(3, 7), note(4, 7)))

    def fail(*arguments: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        with pytest.raises(OSError, match="space"):
            notes.sync()
    assert (notes.synced, notes.has_removed) == (2, True)
    notes.sync()
    assert (notes.synced, notes.has_removed) == (4, False)
    assert everything(opened(tmp_path)) == [note(3, 7), note(4, 7)]


def test_given_a_writer_when_notes_are_appended_then_its_thread_writes_them_again_after_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: set[str] = set()
    is_bad = True
    real = os.fdatasync

    def sync(fd: int) -> None:
        threads.add(threading.current_thread().name)
        if is_bad:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(fd)

    async def write() -> list[str]:
        nonlocal is_bad
        told: list[str] = []
        has_failed = asyncio.Event()

        def failed(why: str) -> None:
            told.append(why)
            has_failed.set()

        notes = opened(tmp_path)
        loop = asyncio.get_running_loop()
        writer = NoteWriter(notes, loop, lambda: told.append(f"synced {notes.synced}"), failed)
        notes.append(note(1))
        writer.write_soon()
        await has_failed.wait()
        assert notes.synced == 0
        is_bad = False
        await writer.written()
        notes.append(note(2))
        await writer.stop()
        return told

    monkeypatch.setattr(os, "fdatasync", sync)
    told = asyncio.run(write())
    assert told[0] == "No space left on device"
    assert told[-1] == "synced 1"
    assert read_notes(str(tmp_path)) == [note(1), note(2)]
    assert all(name.startswith("notes") for name in threads)
