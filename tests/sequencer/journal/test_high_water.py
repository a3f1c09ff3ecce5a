"""The highest number that the disk had: a journal that ends below it does not count as complete."""

import os
from pathlib import Path

import pytest

from sequencer.journal.cut import truncate
from sequencer.journal.errors import StoreError
from sequencer.journal.header import START, stem
from sequencer.journal.high_water import FILE, SLOT_SIZE, SLOTS, HighWater, read_highest, start
from sequencer.journal.journal_tail import Lost
from sequencer.journal.reader import Reader
from sequencer.journal.store import Store
from sequencer.journal.verify import verify
from tests.support.recorded_store import abandon_older
from tests.support.stores import WINDOW, abandon, messages, open_store, put

SMALL = 400  # five records of these tests
COUNT = 13  # messages in the recorded store: five, five and three
JOURNAL = "00c0ffee00c0ffee"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store of three segments, synced and killed; all is in them, and there is no window."""
    path = tmp_path / "store"
    store = open_store(path, segment_bytes=SMALL + START)
    for _ in range(COUNT):
        put(store)
    abandon_older(store, COUNT)
    return path


def segment(path: Path, first: int) -> Path:
    return path / (stem(first) + ".segment")


def files(path: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in path.iterdir() if file.name != "lock"}


def told(path: Path) -> list[tuple[int, int]]:
    """What a reader is told to be lost."""
    found = Reader(str(path)).records(1)
    return [(item.first, item.last) for item in found if isinstance(item, Lost)]


def shorten(path: Path) -> int:
    """Cut the newest segment behind its first record; the number it ends with."""
    os.truncate(segment(path, 11), START + 80)
    return 11


def shorten_within(path: Path) -> int:
    os.truncate(segment(path, 11), START + 100)
    return 11


def empty(path: Path) -> int:
    os.truncate(segment(path, 11), 0)
    return 10


def delete(path: Path) -> int:
    segment(path, 11).unlink()
    return 10


def delete_two(path: Path) -> int:
    segment(path, 11).unlink()
    segment(path, 6).unlink()
    return 5


LOSSES = [shorten, shorten_within, empty, delete, delete_two]


@pytest.mark.parametrize("closed", [True, False])
@pytest.mark.parametrize("lose", LOSSES)
def test_given_numbers_missing_at_the_end_when_opened_then_they_are_named_and_nothing_is_changed(
    path: Path, lose: object, closed: bool
) -> None:
    if closed:
        open_store(path).close()
    last = lose(path)  # type: ignore[operator]
    before = files(path)
    numbers = f"numbers {last + 1} to {COUNT} are missing: .* ends with number {last}, and .*"
    with pytest.raises(StoreError, match=numbers + "--accept-loss.*the next number is 14"):
        open_store(path)
    after = files(path)
    assert [
        name for name in before if not name.endswith(".index") and before[name] != after[name]
    ] == []


@pytest.mark.parametrize("lose", LOSSES)
def test_given_the_loss_is_accepted_then_no_number_is_given_again_and_the_loss_is_reported(
    path: Path, lose: object
) -> None:
    last = lose(path)  # type: ignore[operator]
    store = open_store(path, accept_loss=True)
    assert store.last == COUNT
    assert [(one.first, one.last) for one in store.damage] == [(last + 1, COUNT)]
    assert put(store) == COUNT + 1
    assert list(messages(store)) == [*range(1, last + 1), COUNT + 1]
    store.close()
    assert told(path) == [(last + 1, COUNT)]
    again = open_store(path)  # it is asked for once
    assert [(one.first, one.last) for one in again.damage] == [(last + 1, COUNT)]
    assert again.last == COUNT + 1
    again.close()


def test_given_one_number_missing_then_it_is_named_alone(path: Path) -> None:
    os.truncate(segment(path, 11), START + 160)
    with pytest.raises(StoreError, match="number 13 is missing: the newest segment ends with"):
        open_store(path)


def test_given_the_missing_file_put_back_then_the_store_is_whole(path: Path) -> None:
    data = segment(path, 11).read_bytes()
    shorten(path)
    with pytest.raises(StoreError):
        open_store(path)
    segment(path, 11).write_bytes(data)
    store = open_store(path)
    assert (store.last, store.damage) == (COUNT, [])
    store.close()


def test_given_a_store_without_the_file_then_it_opens_as_it_always_did(path: Path) -> None:
    (path / FILE).unlink()
    shorten(path)
    store = open_store(path)
    assert store.last == 11
    store.close()
    assert read_highest(str(path), store.id) == 11


def test_given_what_was_not_synced_then_it_may_be_missing(path: Path) -> None:
    store = open_store(path)
    put(store, 5)
    size = store.segments()[-1].size
    abandon_older(store, COUNT)
    os.truncate(segment(path, 11), size - 200)
    again = open_store(path)
    assert again.last == COUNT + 2
    again.close()


def test_given_deleted_segments_and_an_empty_newest_one_then_nothing_is_missing(
    path: Path,
) -> None:
    store = open_store(path, retain_bytes=1)
    store.roll(10**18)
    store.retain(10**18)
    assert (store.first, store.last) == (14, 13)
    store.close()
    again = open_store(path)
    assert put(again) == 14
    again.close()


def test_given_a_store_that_was_cut_on_purpose_then_it_opens_below(path: Path) -> None:
    truncate(str(path), 7)
    store = open_store(path)
    assert put(store) == 8
    store.close()


def test_given_a_crash_while_it_is_cut_on_purpose_then_it_opens(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = os.unlink

    def die(file: str, *how: object) -> None:
        if str(file).endswith(".segment"):
            raise RuntimeError("the process is killed")
        whole(file)

    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", die)
        with pytest.raises(RuntimeError):
            truncate(str(path), 7)
    store = open_store(path)
    assert store.last == COUNT
    store.close()


def test_given_another_journal_in_its_place_then_the_file_says_nothing(path: Path) -> None:
    for first in (1, 6, 11):
        segment(path, first).unlink()
    store = open_store(path, accept_loss=True)
    assert put(store) == 1
    store.close()
    assert read_highest(str(path), store.id) == 1


def test_given_a_missing_end_when_verified_then_it_is_an_error(path: Path) -> None:
    assert [one for one in verify(str(path)) if one.level != "info"] == []
    shorten(path)
    errors = [one for one in verify(str(path)) if one.level == "error"]
    assert [(one.first, one.last) for one in errors] == [(12, COUNT)]


def test_given_the_file_damaged_then_it_is_reported_and_it_is_rewritten(path: Path) -> None:
    (path / FILE).write_bytes(bytes(5000))
    assert [one.file for one in verify(str(path)) if one.level == "warning"] == [FILE]
    store = open_store(path)
    assert f"{FILE}: damaged" in str(store.report)
    assert read_highest(str(path), store.id) == COUNT
    store.close()


@pytest.mark.parametrize("torn", [0, 1, SLOT_SIZE // 2, SLOT_SIZE - 1])
def test_given_a_torn_slot_then_the_other_one_counts(tmp_path: Path, torn: int) -> None:
    path, file = str(tmp_path), tmp_path / FILE
    highest = HighWater(path, JOURNAL)
    highest.write(5)
    for number in range(6, 12):
        before = file.read_bytes()
        highest.write(number)
        after = file.read_bytes()
        for at in SLOTS:
            if before[at : at + SLOT_SIZE] != after[at : at + SLOT_SIZE]:
                file.write_bytes(
                    after[:at]
                    + after[at : at + torn]
                    + bytes(SLOT_SIZE - torn)
                    + after[at + SLOT_SIZE :]
                )
        assert read_highest(path, JOURNAL) == number - 1
        file.write_bytes(after)
        assert read_highest(path, JOURNAL) == number
    highest.close()


def test_given_a_number_that_could_not_be_noted_then_the_sync_holds_and_the_next_notes_it(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(path)

    def refuse(fd: int, data: object, at: int) -> int:
        raise OSError(5, "Input/output error")

    put(store)
    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", refuse)
        assert store.sync() == COUNT + 1
    assert store.highest_error is not None
    assert read_highest(str(path), store.id) == COUNT
    put(store)
    assert store.sync() == COUNT + 2
    assert store.highest_error is None
    assert read_highest(str(path), store.id) == COUNT + 2
    abandon(store)


def test_given_a_file_of_another_journal_then_it_counts_for_nothing(tmp_path: Path) -> None:
    start(str(tmp_path / FILE), JOURNAL, 7)
    assert read_highest(str(tmp_path), "0123456789abcdef") == 0
    assert Store.open(str(tmp_path), 1, window_bytes=WINDOW).last == 0
