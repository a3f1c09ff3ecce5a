"""The second log on disk: what is appended is there after any crash, what is cut is not."""

import errno
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.storage.note_file import FILE, NoteFile, SyncedNoteFile, read_notes
from broker.storage.sealed_lines import seal
from sequencer.journal.errors import StoreError
from sequencer.replica.member_messages import Note
from tests.support.stores import in_memory


def note(number: int, epoch: int = 1, size: int = 0) -> Note:
    return Note(number, epoch, "PREPARE", {"batch": number, "name": "x" * size})


def opened(folder: Path) -> NoteFile:
    return SyncedNoteFile(str(folder))


def everything(notes: NoteFile) -> list[Note]:
    return [notes.at(number) for number in range(notes.first, notes.last + 1)]


def filled(folder: Path, count: int = 5) -> NoteFile:
    notes = opened(folder)
    for number in range(1, count + 1):
        notes.append(note(number, epoch=1 + number // 3))
    return notes


def test_given_a_new_folder_when_opened_then_the_log_is_empty_and_begins_at_1(
    tmp_path: Path,
) -> None:
    notes = opened(tmp_path / "cluster")
    assert (notes.first, notes.last, notes.epochs(), notes.damage) == (1, 0, (), "")
    notes.append(note(1))
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
    assert notes.last == 3
    notes.close()
    notes = opened(tmp_path)
    assert everything(notes) == [note(1, 1), note(2, 1), note(3, 2)]
    notes.append(note(4, 9))
    notes.replace((note(40, 9), note(41, 10)))
    assert (notes.first, notes.last) == (40, 41)
    notes.truncate(39)
    notes.close()
    notes = opened(tmp_path)
    assert (notes.first, notes.last, notes.epochs()) == (40, 39, ())
    notes.append(note(40, 11))
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
def test_given_a_disk_that_fails_when_appended_then_the_log_is_as_before_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    notes = filled(tmp_path)

    def fail(*arguments: Any) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patch:
        patch.setattr(os, call, fail)
        with pytest.raises(OSError, match="error"):
            notes.append(note(6, 3, size=10_000))
    assert notes.last == 5
    before = os.stat(tmp_path / FILE).st_ino
    notes.append(note(6, 4))
    assert os.stat(tmp_path / FILE).st_ino != before, "written as a whole: no page is trusted"
    notes.append(note(7, 4))
    notes.close()
    assert everything(opened(tmp_path))[-2:] == [note(6, 4), note(7, 4)]


def later(folder: Path, durable: bool = True) -> NoteFile:
    """A log that is synced when its owner says so."""
    return NoteFile(str(folder), durable)


@pytest.mark.parametrize("durable", [True, False])
def test_given_notes_when_appended_then_they_count_when_they_are_synced(
    tmp_path: Path, durable: bool
) -> None:
    notes = later(tmp_path, durable)
    for number in (1, 2):
        notes.append(note(number))
    assert (notes.last, notes.synced, notes.is_dirty) == (2, 0, True)
    unwritten = notes.begin_sync()
    notes.append(note(3))  # while a thread writes
    notes.write(unwritten)
    notes.end_sync(unwritten)
    assert (notes.synced, notes.is_dirty) == (2, True)
    assert everything(later(tmp_path)) == [note(1), note(2)]
    notes.sync()
    assert (notes.synced, notes.is_dirty) == (3, False)
    notes.close()
    assert everything(later(tmp_path)) == [note(1), note(2), note(3)]


def test_given_notes_that_are_removed_while_they_are_written_then_they_do_not_count(
    tmp_path: Path,
) -> None:
    notes = later(tmp_path)
    for number in range(1, 6):
        notes.append(note(number))
    unwritten = notes.begin_sync()
    notes.truncate(3)
    notes.append(note(4, epoch=9))
    notes.write(unwritten)
    notes.end_sync(unwritten)
    assert notes.synced == 3
    notes.sync()
    notes.close()
    assert everything(later(tmp_path)) == [note(1), note(2), note(3), note(4, epoch=9)]


def test_given_a_disk_that_refuses_notes_then_a_restart_finds_none_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes = later(tmp_path)
    notes.append(note(1))
    notes.sync()

    def fail(*arguments: Any) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    notes.append(note(2))
    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", fail)
        with pytest.raises(OSError, match="error"):
            notes.sync()
    assert everything(later(tmp_path)) == [note(1)], "as a kill leaves it now"
    assert (notes.synced, notes.last) == (1, 2)
    notes.sync()
    notes.close()
    assert everything(later(tmp_path)) == [note(1), note(2)]


def test_given_a_snapshot_then_it_replaces_the_file_at_the_next_sync(tmp_path: Path) -> None:
    notes = later(tmp_path)
    for number in range(1, 6):
        notes.append(note(number))
    notes.sync()
    notes.replace((note(4), note(5)))
    notes.append(note(6))
    assert (notes.first, notes.last, notes.synced) == (4, 6, 5)
    assert len(everything(later(tmp_path))) == 5
    notes.sync()
    assert read_notes(str(tmp_path)) == [note(4), note(5), note(6)]
    assert notes.size == os.stat(tmp_path / FILE).st_size
    assert read_notes(str(tmp_path / "nowhere")) == []
