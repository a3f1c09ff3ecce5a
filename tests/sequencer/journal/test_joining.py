"""After a crash the window and the segments are one journal: what was synced is there, always."""

import json
import os
import shutil
import struct
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from sequencer.journal.crc import crc32c
from sequencer.journal.errors import StoreError
from sequencer.journal.header import START
from sequencer.journal.identity import FILE as IDENTITY
from sequencer.journal.identity import read_identity, write_identity
from sequencer.journal.layout import RECORD
from sequencer.journal.record import RecordBatch, Walk
from sequencer.journal.store import Store
from sequencer.journal.verify import verify
from sequencer.journal.waker import seal_of
from sequencer.journal.window_file import (
    CRC,
    ENTRY,
    FILE,
    HEAD,
    LAST,
    NEWEST,
    PAGE,
    SLABS,
    SLABS_MAX,
    SLABS_OF,
    seed_of,
)
from tests.support.recorded_store import abandon_older
from tests.support.replica_stores import append, open_replica, said_in
from tests.support.stores import WINDOW, abandon, messages, open_store, payload_of, put

SYNCED, WRITTEN = 20, 45


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store that was killed: its later numbers, of two segments, are in the window only."""
    store = open_store(tmp_path / "store")
    for number in range(1, WRITTEN + 1):
        if number == 40:
            store.roll(1)
        put(store, size=200)
        if number == SYNCED:
            store.sync()
    abandon(store)
    return tmp_path / "store"


def is_right(store: Store, least: int) -> int:
    """All up to `least` is there, and what is there follows; it takes more. The last number."""
    found = messages(store)
    last = store.last
    told = {n for one in store.damage for n in range(one.first, one.last + 1)}
    assert {*found} | told == {*range(1, last + 1)}, "no gap is silent"
    assert {*range(1, least + 1)} <= {*found}
    assert all(payload == payload_of(number, 200) for number, (_, payload) in found.items())
    assert put(store) == last + 1
    return last


def of_another_boot(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine itself has been started again."""
    monkeypatch.setattr("sequencer.journal.window_file.boot_id", lambda: b"another boot now")


def test_given_a_kill_then_all_is_there_and_no_word_of_loss(path: Path) -> None:
    store = open_store(path)
    assert store.damage == []
    assert [level for level, _ in store.report if level != "info"] == []
    assert is_right(store, WRITTEN) == WRITTEN
    store.close()


def zero(data: bytearray, at: int) -> None:
    data[at : at + 512] = bytes(len(data[at : at + 512]))


def flip(data: bytearray, at: int) -> None:
    data[at] ^= 1


def cut(data: bytearray, at: int) -> None:
    del data[at:]


def open_or_accept(path: Path, same_boot: bool) -> Store:
    """Open it; accept a loss only where it must be told."""
    try:
        return open_store(path)
    except StoreError:
        assert same_boot, "a machine that lost its power may have lost what was not synced"
    with pytest.raises(StoreError, match="accept-loss"):
        open_store(path)
    store = open_store(path, accept_loss=True)
    assert store.damage
    return store


@pytest.mark.parametrize("harm", [zero, flip, cut])
@pytest.mark.parametrize("same_boot", [True, False])
def test_given_the_window_damaged_anywhere_then_what_was_synced_is_there_and_loss_is_reported(
    path: Path,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    harm: Callable[[bytearray, int], None],
    same_boot: bool,
) -> None:
    whole = (path / FILE).read_bytes()
    used = [at for at in range(0, len(whole), 512) if any(whole[at : at + 512])]
    places = sorted({0, 8, 24, 63, 64, 72, 80, *used, *(at + 77 for at in used)})
    if not same_boot:
        of_another_boot(monkeypatch)
    for sync in ("fsync", "fdatasync"):
        monkeypatch.setattr(os, sync, lambda fd: None)
    lost = 0
    for at in places:
        copy = tmp_path / f"copy{at}"
        shutil.copytree(path, copy)
        data = bytearray(whole)
        harm(data, at)
        with (path / FILE).open("r+b") as file:  # the inode is the one that the head tells
            os.link(path / FILE, copy / "linked")
            os.replace(copy / "linked", copy / FILE)
            (copy / NEWEST).unlink()
            os.link(path / NEWEST, copy / NEWEST)
            file.truncate(0)
            file.write(data)
        store = open_or_accept(copy, same_boot)
        last = is_right(store, SYNCED)
        assert not same_boot or last == WRITTEN, "no number is given again"
        lost += last < WRITTEN or bool(store.damage)
        store.close()
        shutil.rmtree(copy)
        (path / FILE).write_bytes(whole)
    assert lost, "some of it mattered"


def test_given_no_window_though_one_is_promised_then_it_is_refused_unless_accepted(
    path: Path,
) -> None:
    (path / FILE).unlink()
    with pytest.raises(
        StoreError, match=r"window: number 21 is .* all up to 45 were here.* --accept-loss"
    ):
        open_store(path)
    store = open_store(path, accept_loss=True)
    assert any(level == "error" and "missing" in text for level, text in store.report)
    assert is_right(store, SYNCED) == WRITTEN
    store.close()


def test_given_the_window_of_another_journal_then_it_is_not_used(
    path: Path, tmp_path: Path
) -> None:
    other = open_store(tmp_path / "other")
    put(other, 100)
    abandon(other)
    shutil.copy(tmp_path / "other" / FILE, path / FILE)
    store = open_store(path, accept_loss=True)
    assert any("of another journal" in text for _, text in store.report)
    assert is_right(store, SYNCED) == WRITTEN
    store.close()


def test_given_two_lives_of_equal_numbers_and_sizes_then_the_old_one_does_not_come_back(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk kept an older page of the window than the one that was written last."""
    old = (path / FILE).read_bytes()
    store = open_store(path)
    store.close()
    before = store.epoch
    store = open_store(path)
    assert store.epoch == before + 1
    put(store, 5, size=200)
    abandon(store)
    of_another_boot(monkeypatch)
    with (path / FILE).open("r+b") as file:
        file.seek(PAGE)
        file.write(old[PAGE : PAGE + WINDOW])
    again = open_store(path)
    assert again.last == WRITTEN, "numbers 46 to 50 were not synced; no old record follows 45"
    assert is_right(again, WRITTEN) == WRITTEN
    again.close()


@pytest.mark.parametrize("change", ["cut", "anew"])
def test_given_numbers_taken_back_then_a_kill_does_not_bring_them_back(
    tmp_path: Path, change: str
) -> None:
    store = open_replica(tmp_path / "store")
    append(store, list(range(1, 21)), 2)
    append(store, list(range(21, 41)), 3)
    if change == "cut":
        store.truncate(10)
    else:
        store.reset_to(10, 2)
    abandon(store)
    again = open_replica(tmp_path / "store")
    assert again.last == 10
    assert list(messages(again)) == (list(range(1, 11)) if change == "cut" else [])
    append(again, [50], 4)
    abandon(again)
    last = open_replica(tmp_path / "store")
    assert messages(last)[11][1] == said_in(4, 11)
    assert last.last == 11
    last.close()


def test_given_several_epochs_in_the_window_then_each_is_that_of_its_segment(
    tmp_path: Path,
) -> None:
    store = open_replica(tmp_path / "store")
    append(store, [1, 2, 3], 2)
    append(store, [4, 5], 3)
    append(store, [6], 5)
    table = store.epochs()
    abandon(store)
    again = open_replica(tmp_path / "store")
    assert again.epochs() == table == ((2, 1), (3, 4), (5, 6))
    assert list(messages(again)) == [1, 2, 3, 4, 5, 6]
    again.close()


def test_given_a_store_of_format_1_then_it_opens_and_becomes_3(tmp_path: Path) -> None:
    path = tmp_path / "store"
    store = open_store(path)
    put(store, 10, size=200)
    abandon_older(store, 10)
    identity = read_identity(str(path))
    assert identity is not None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sequencer.journal.identity.FORMAT", 1)
        write_identity(str(path), identity)
    assert json.loads((path / IDENTITY).read_text())["format"] == 1
    store = open_store(path)
    assert json.loads((path / IDENTITY).read_text())["format"] == 3
    assert any("format 1 becomes 3" in text for _, text in store.report)
    assert store.segments()[0].size > START
    assert is_right(store, 10) == 10
    store.close()


# The newest number, and what can be believed of it


def change(file: Path, at: int, data: bytes) -> None:
    """Write in place: the inode stays the one that the head tells."""
    with file.open("r+b") as opened:
        opened.seek(at)
        opened.write(data)


def as_version_1(path: Path) -> None:
    """Have a killed store be as an older version left it: no seal, and nothing beside it."""
    data = (path / FILE).read_bytes()
    fields = list(HEAD.unpack_from(data))
    fields[1] = 1
    head = HEAD.pack(*fields)
    entries = data[8 * SLABS : 8 * (SLABS + ENTRY * SLABS_MAX)]
    change(path / FILE, 0, head + CRC.pack(crc32c(head)))
    change(path / FILE, 8 * SLABS_OF[1], entries)
    (path / NEWEST).unlink()
    known = json.loads((path / IDENTITY).read_text())
    known |= {"format": 2, "window": True}
    del known["crc"]
    known["crc"] = crc32c(json.dumps(known, sort_keys=True).encode())
    (path / IDENTITY).write_text(json.dumps(known))


def refused(path: Path, text: str) -> Store:
    """It is refused, as `verify` says, too; what there is if the loss is accepted."""
    found = [str(one) for one in verify(str(path)) if one.level == "error"]
    with pytest.raises(StoreError, match=text) as error:
        open_store(path)
    assert str(error.value) in [f"{path}/{one}" for one in found]
    store = open_store(path, accept_loss=True)
    assert store.last >= WRITTEN, "no number is given again"
    assert store.last <= WRITTEN + 2 * (1 << 30) // 64
    told = sum(one.last - one.first + 1 for one in store.damage)
    assert told + len(messages(store)) == store.last, "no gap is silent"
    assert put(store) == store.last
    return store


@pytest.mark.parametrize("both", [True, False])
def test_given_any_bit_of_the_newest_number_flipped_then_no_number_is_given_again(
    path: Path, tmp_path: Path, both: bool
) -> None:
    whole = (path / FILE).read_bytes()[:PAGE]
    for bit in range(128):
        at = 8 * LAST + bit // 8
        (tmp_path / "copy").mkdir()
        for file in path.iterdir():
            os.link(file, tmp_path / "copy" / file.name)
        change(path / FILE, at, bytes([whole[at] ^ 1 << bit % 8]))
        if not both:
            (tmp_path / "copy" / NEWEST).unlink()
        copy = tmp_path / "copy"
        segments = {file: file.read_bytes() for file in path.glob("*.segment")}
        if both or bit < 33:  # below 32 the seal has it, too, and that it is one higher
            store = open_store(copy)
            assert store.last == WRITTEN
            abandon(store)
        else:
            with pytest.raises(StoreError, match="its newest number is damaged"):
                open_store(copy)
        shutil.rmtree(copy)
        change(path / FILE, at, whole[at : at + 1])
        for file, data in segments.items():
            file.write_bytes(data)


@pytest.mark.parametrize("number", [1 << 40, 1 << 62, (1 << 63) - 1, 1 << 63, (1 << 64) - 1])
@pytest.mark.parametrize("version", [1, 2])
def test_given_an_impossible_newest_number_then_it_is_not_believed(
    path: Path, number: int, version: int
) -> None:
    seal = seal_of(number, seed_of(json.loads((path / IDENTITY).read_text())["journal"]))
    if version == 1:
        as_version_1(path)
        change(path / FILE, 8 * LAST, number.to_bytes(8, "little"))
    else:
        word = number.to_bytes(8, "little") + seal.to_bytes(8, "little")
        change(path / FILE, 8 * LAST, word)
        change(path / NEWEST, 8 * LAST, word)
    refused(path, "window: its newest number is damaged").close()


def test_given_a_window_of_the_older_format_then_it_is_joined_and_the_log_says_so(
    path: Path,
) -> None:
    as_version_1(path)
    store = open_store(path)
    assert [text for level, text in store.report] == [f"{path}/store.json: format 2 becomes 3"]
    assert is_right(store, WRITTEN) == WRITTEN
    abandon(store)
    assert json.loads((path / IDENTITY).read_text())["window"] == (path / FILE).stat().st_size


def test_given_a_loss_in_a_window_of_the_older_format_then_it_is_refused(path: Path) -> None:
    as_version_1(path)
    spoil(path / FILE, 30)
    refused(path, r"window: number 30 is damaged or missing, and all up to 45 were here").close()


def test_given_some_records_damaged_then_only_these_are_lost(path: Path) -> None:
    for number in (22, 23, 30, 42):
        spoil(path / FILE, number)
    store = refused(path, "window: number 22 is damaged or missing, and all up to 45 were here")
    assert [(one.first, one.last) for one in store.damage] == [(22, 23), (30, 30), (42, 42)]
    assert store.last == WRITTEN + 1
    store.close()


def spoil(file: Path, number: int) -> None:
    """Flip a bit in the payload of a number, where this file has it."""
    change(file, file.read_bytes().index(b"message %d." % number), b"M")


def test_given_no_store_json_then_a_window_that_is_gone_is_missed_all_the_same(path: Path) -> None:
    for name in (IDENTITY, FILE, NEWEST):
        (path / name).unlink()
    store = refused(path, r"window: missing\. ")
    assert set(messages(store)) >= {*range(1, SYNCED + 1)}
    store.close()
    (path / IDENTITY).unlink()
    again = open_store(path)  # it was closed, and the index of its newest segment says so
    assert again.last == store.last
    again.close()


def test_given_no_store_json_but_a_window_then_all_is_there(path: Path) -> None:
    (path / IDENTITY).unlink()
    store = open_store(path)
    assert is_right(store, WRITTEN) == WRITTEN
    store.close()


def test_given_an_older_window_put_back_then_it_is_refused(path: Path) -> None:
    """Also where nothing but the segments contradicts it."""
    older = (path / FILE).read_bytes()
    store = open_store(path)
    put(store, 5, size=200)
    store.sync()
    put(store, 5, size=200)
    abandon(store)
    change(path / FILE, 0, older)
    inode = (path / FILE).stat().st_ino
    head = HEAD.pack(*HEAD.unpack_from(older)[:-1], inode)
    change(path / FILE, 0, head + CRC.pack(crc32c(head)))
    found = [str(one) for one in verify(str(path)) if one.level == "error"]
    assert "number 51 is damaged or missing, and all up to 55" in "".join(found)
    (path / NEWEST).unlink()
    with pytest.raises(
        StoreError, match=r"window: it ends with number 45, before 50: it is an older copy"
    ):
        open_store(path)
    store = open_store(path, accept_loss=True)
    assert store.last >= 55
    store.close()


def test_given_a_disk_that_lost_what_was_written_last_then_it_is_as_after_a_power_cut(
    path: Path,
) -> None:
    """A snapshot, or a disk that came back, without a start of the machine."""
    store = open_store(path)
    before = {name: (path / name).read_bytes() for name in (FILE, NEWEST)}
    put(store, 5, size=200)
    store.sync()
    put(store, 5, size=200)
    abandon(store)
    for name, data in before.items():
        change(path / name, 0, data)
    assert [one for one in verify(str(path)) if one.level == "error"] == []
    store = open_store(path)
    assert any("the disk has lost what was written last" in text for _, text in store.report)
    assert is_right(store, 50) == 50
    store.close()


def test_given_the_file_beside_the_window_is_gone_then_that_is_only_told(path: Path) -> None:
    (path / NEWEST).unlink()
    store = open_store(path)
    assert [level for level, text in store.report if NEWEST in text] == ["warning"]
    assert is_right(store, WRITTEN) == WRITTEN
    store.close()


def test_given_a_window_that_is_gone_and_nothing_was_in_it_only_then_the_store_opens(
    path: Path,
) -> None:
    store = open_store(path)
    store.sync()
    abandon(store)
    (path / FILE).unlink()
    store = open_store(path)
    assert any("missing; .newest says that number 45" in text for _, text in store.report)
    assert is_right(store, WRITTEN) == WRITTEN
    store.close()


@pytest.mark.parametrize("number", [1, 10, SYNCED])
def test_given_a_damaged_record_that_the_window_still_has_then_it_is_put_back(
    path: Path, number: int
) -> None:
    segment = path / f"{1:020d}.segment"
    spoil(segment, number)
    levels = {one.level for one in verify(str(path))}
    assert levels <= {"warning", "info"}
    store = open_store(path)
    assert store.damage == []
    put_back = any(f"number {number} damaged; put back from" in text for _, text in store.report)
    assert put_back == (number < SYNCED), "behind the last one is nothing to be put back"
    assert is_right(store, WRITTEN) == WRITTEN
    store.close()
    store = open_store(path)
    assert store.damage == []
    store.close()


def test_given_a_newest_segment_cut_short_then_the_window_has_the_rest(path: Path) -> None:
    os.truncate(path / f"{1:020d}.segment", 1000)
    assert [one for one in verify(str(path)) if one.level == "error"] == []
    store = open_store(path)
    assert store.damage == []
    assert is_right(store, WRITTEN) == WRITTEN
    store.close()


@pytest.mark.parametrize("name", [FILE, IDENTITY, "lock", ".highest", f"{1:020d}.segment"])
def test_given_a_fifo_in_the_place_of_a_file_then_it_is_named_and_nothing_waits(
    path: Path, name: str
) -> None:
    (path / name).unlink()
    os.mkfifo(path / name)
    with pytest.raises(StoreError, match=rf"{name}: this is a FIFO, and a store has a file there"):
        open_store(path)
    assert [(one.level, one.file) for one in verify(str(path))] == [("error", name)]


def test_given_records_that_must_be_searched_then_fakes_among_them_do_not_hide_them(
    path: Path,
) -> None:
    """Two windows full of heads that claim long records, and an end to what is checked."""
    store = open_store(path)
    fake = struct.pack("<IIQQQQ", 0, 200_000, store.last + 40, 7, 7, 7)
    batch = RecordBatch(store.salt, store.epoch)
    for number in range(WRITTEN + 1, WRITTEN + 81):
        body = fake * (150 if number < WRITTEN + 40 else 1)
        batch.append_message(number, store.newest_time, b"subject8", b"", b"", body)
    store.reserve(WINDOW // 32)
    store.reserve(WINDOW // 32)
    walk = Walk(store.salt)
    walk.attach(bytes(batch.view()), 0, batch.waiting())
    while walk.next() == RECORD:
        record = walk.buffer[walk.at : walk.after]
        store.reserve(len(record))
        store.write(memoryview(record), walk.number, walk.number, walk.time, False)
    abandon(store)
    change(path / FILE, 0, b"damaged!")
    begun = time.process_time()
    again = open_store(path)
    assert again.last == WRITTEN + 80
    assert time.process_time() - begun < 20, "each byte is checked a bounded number of times"
    again.close()
