"""The reader: what is there, in order; losses are always reported."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sequencer.journal import Damage, Lost, Reader, Record, StoreError
from sequencer.journal.journal_tail import CHUNK_BYTES
from seriatim.client.chunk_columns import Columns
from tests.sequencer.stores import (
    SECOND,
    WrittenStore,
    payload_of,
    records,
    short,
    subject_of,
    time_of,
)

CHUNKS = [4096, CHUNK_BYTES]


def numbers_of_columns(reader: Reader, first: int = 0, last: int | None = None) -> list[object]:
    """As `short`, but read by columns."""
    found: list[object] = []
    for item in reader.columns(first, last, rows_max=7):
        if isinstance(item, Lost):
            found.append((item.first, item.last, item.damage is not None))
        else:
            found += list(Columns(item).numbers)
    return found


def everything(reader: Reader, first: int = 0, last: int | None = None) -> list[object]:
    """What both ways to read find, which is the same."""
    rows: list[object] = list(short(reader.records(first, last)))
    assert numbers_of_columns(reader, first, last) == rows
    return rows


@pytest.mark.parametrize("chunk_bytes", CHUNKS)
def test_given_segments_when_read_then_every_message_is_as_it_was(
    tmp_path: Path, chunk_bytes: int
) -> None:
    WrittenStore(tmp_path, (1, 400), (401, 1000))
    items = list(Reader(str(tmp_path), chunk_bytes).records())
    assert short(items) == list(range(1, 1001))
    for item in items:
        assert isinstance(item, Record)
        assert (item.time, item.subject) == (time_of(item.number), subject_of(item.number))
        assert bytes(item.payload) == payload_of(item.number)
        assert item.reply == (b"answers" if item.number % 7 == 0 else b"")
        assert bytes(item.headers).startswith(b"NATS/1.0" if item.number % 5 == 0 else b"")


@pytest.mark.parametrize(
    ("first", "last", "found"),
    [
        (0, None, [*range(1, 31)]),
        (1, 3, [1, 2, 3]),
        (10, 12, [10, 11, 12]),
        (20, 21, [20, 21]),
        (30, 30, [30]),
        (28, 99, [28, 29, 30]),
        (31, None, []),
        (99, None, []),
        (5, 4, []),
    ],
)
def test_given_a_range_when_read_then_it_is_that_range(
    tmp_path: Path, first: int, last: int | None, found: list[int]
) -> None:
    WrittenStore(tmp_path, (1, 11), (12, 20), (21, 30))
    assert everything(Reader(str(tmp_path)), first, last) == found


def test_given_a_filter_when_read_then_only_what_it_takes_comes(tmp_path: Path) -> None:
    WrittenStore(tmp_path, (1, 11), (12, 30))
    asked: list[bytes] = []

    def wanted(subject: bytes) -> bool:
        asked.append(subject)
        return subject == b"orders.2"

    reader = Reader(str(tmp_path))
    assert short(reader.records(wanted=wanted)) == list(range(2, 31, 3))
    assert sorted(asked) == [b"orders.0", b"orders.1", b"orders.2"], "each is asked for once"


def test_given_deleted_segments_when_their_numbers_are_asked_for_then_the_loss_comes_first(
    tmp_path: Path,
) -> None:
    WrittenStore(tmp_path, (100, 110), (111, 120))
    reader = Reader(str(tmp_path))
    assert everything(reader, 1, 101) == [(1, 99, False), 100, 101]
    assert everything(reader, 1, 50) == [(1, 50, False)]
    assert everything(reader, 0, 101) == [100, 101], "who asks for what there is loses nothing"
    assert reader.bounds() == (100, 120)


def test_given_an_empty_segment_when_read_then_its_name_tells_the_next_number(
    tmp_path: Path,
) -> None:
    WrittenStore(tmp_path, (500, 499))
    reader = Reader(str(tmp_path))
    assert reader.bounds() == (500, 499)
    assert everything(reader) == []
    assert everything(reader, 498) == [(498, 499, False)]


def test_given_a_spoiled_record_when_read_then_its_number_is_lost_and_the_rest_is_there(
    tmp_path: Path,
) -> None:
    store = WrittenStore(tmp_path, (1, 10), (11, 20))
    store.spoil(11, 15)
    reader = Reader(str(tmp_path))
    assert everything(reader) == [*range(1, 15), (15, 15, True), *range(16, 21)]
    assert everything(reader, 16) == [16, 17, 18, 19, 20]
    lost = next(item for item in reader.records() if isinstance(item, Lost))
    assert lost.damage == Damage(11, store.offset(11, 15), store.offset(11, 16), 15, 15)


@pytest.mark.parametrize("byte", [4, 5, 6, 7])
def test_given_a_spoiled_length_when_read_then_only_that_record_is_lost(
    tmp_path: Path, byte: int
) -> None:
    store = WrittenStore(tmp_path, (1, 10), (11, 200))
    store.spoil(11, 15, at=byte)
    assert everything(Reader(str(tmp_path))) == [*range(1, 15), (15, 15, True), *range(16, 201)]


def test_given_a_spoiled_end_of_a_sealed_segment_when_read_then_it_is_lost(tmp_path: Path) -> None:
    store = WrittenStore(tmp_path, (1, 10), (11, 20))
    store.spoil(1, 9)
    store.spoil(1, 10)
    assert everything(Reader(str(tmp_path))) == [*range(1, 9), (9, 10, True), *range(11, 21)]


def test_given_a_spoiled_head_of_a_segment_when_read_then_no_message_is_lost(
    tmp_path: Path,
) -> None:
    store = WrittenStore(tmp_path, (1, 10), (11, 20))
    data = bytearray(store.segment(11).read_bytes())
    data[20] ^= 1
    store.segment(11).write_bytes(data)
    assert everything(Reader(str(tmp_path))) == list(range(1, 21))


def test_given_a_hole_between_segments_when_read_then_it_is_damage(tmp_path: Path) -> None:
    WrittenStore(tmp_path, (1, 10), (16, 20))
    assert everything(Reader(str(tmp_path))) == [*range(1, 11), (11, 15, True), *range(16, 21)]


def test_given_a_hole_in_a_segment_when_read_then_it_is_damage(tmp_path: Path) -> None:
    store = WrittenStore(tmp_path, (1, 10))
    store.append(1, records(14, 16))
    reader = Reader(str(tmp_path))
    assert everything(reader) == [*range(1, 11), (11, 13, True), 14, 15, 16]
    assert everything(reader, 9, 12) == [9, 10, (11, 12, True)]


def test_given_a_payload_that_holds_a_forged_record_when_searched_then_it_is_no_record(
    tmp_path: Path,
) -> None:
    store = WrittenStore(tmp_path, (1, 10))
    store.append(1, b"\1" * 64 + records(11, 12, salt=1) + records(13, 14))
    assert everything(Reader(str(tmp_path))) == [*range(1, 11), (11, 12, True), 13, 14]


@pytest.mark.parametrize("cut", [1, 8, 55, 60, 72])
def test_given_a_write_in_flight_when_read_then_it_is_not_there_yet(
    tmp_path: Path, cut: int
) -> None:
    store = WrittenStore(tmp_path, (1, 10))
    late = records(11, 12)
    store.append(1, late[:cut])
    reader = Reader(str(tmp_path))
    follower = reader.follow(first=9)
    assert short(follower.poll()) == [9, 10]
    assert follower.poll() == []
    assert everything(reader) == list(range(1, 11))
    assert reader.bounds() == (1, 10)
    store.append(1, late[cut:])
    assert short(follower.poll()) == [11, 12]
    follower.close()


def test_given_a_torn_end_that_is_cut_and_rewritten_when_tailed_then_the_new_is_read(
    tmp_path: Path,
) -> None:
    store = WrittenStore(tmp_path, (1, 10))
    whole = store.segment(1).stat().st_size
    store.append(1, records(11, 14)[:70])
    follower = Reader(str(tmp_path)).follow(first=10)
    assert short(follower.poll()) == [10]
    assert follower.poll() == []
    os.truncate(store.segment(1), whole)
    assert follower.poll() == []
    other = records(11, 11)
    store.append(1, other)
    assert short(follower.poll()) == [11]
    follower.close()


def test_given_a_record_longer_than_a_chunk_when_read_then_it_is_whole(tmp_path: Path) -> None:
    from sequencer.journal.record import RecordBatch
    from tests.sequencer.stores import SALT

    store = WrittenStore(tmp_path, (1, 3))
    batch = RecordBatch(SALT, 1)
    long = bytes(range(256)) * 200
    for number, payload in ((4, b"x"), (5, long), (6, b"y"), (7, long)):
        batch.append_message(number, time_of(number), b"a", b"", b"", payload)
    data = bytes(batch.view())
    store.append(1, data[:-1000])
    reader = Reader(str(tmp_path), 4096)
    follower = reader.follow()
    found = follower.poll() + follower.poll() + follower.poll()
    assert short(found) == [1, 2, 3, 4, 5, 6]
    assert [bytes(one.payload) for one in found[4:] if isinstance(one, Record)] == [long, b"y"]
    assert follower.poll() == []
    store.append(1, data[-1000:])
    assert short(follower.poll()) == [7]
    follower.close()


def test_given_a_new_segment_when_tailed_then_it_is_gone_on_in(tmp_path: Path) -> None:
    store = WrittenStore(tmp_path, (1, 3))
    follower = Reader(str(tmp_path)).follow()
    assert short(follower.poll()) == [1, 2, 3]
    assert follower.poll() == []
    store.append(1, records(4, 5))  # both before the next poll: nothing of the old one is missed
    WrittenStore(tmp_path, (6, 8))
    assert short(follower.poll()) == [4, 5]
    assert short(follower.poll()) == [6, 7, 8]
    assert follower.poll() == []
    follower.close()


def test_given_a_segment_deleted_while_it_is_read_when_polled_then_its_rest_is_read_still(
    tmp_path: Path,
) -> None:
    store = WrittenStore(tmp_path, (1, 500), (501, 510), (511, 520))
    follower = Reader(str(tmp_path), 4096).follow()
    found = follower.poll()
    store.segment(1).unlink()
    store.segment(501).unlink()
    while items := follower.poll():
        found += items
    assert short(found) == [*range(1, 501), (501, 510, False), *range(511, 521)]
    follower.close()


def test_given_idle_when_the_end_is_met_then_it_is_asked_whether_to_go_on(tmp_path: Path) -> None:
    store = WrittenStore(tmp_path, (1, 3))
    waits = []

    def idle() -> bool:
        waits.append(len(found))
        store.append(1, records(3 + len(waits), 3 + len(waits)))
        return len(waits) < 3

    found: list[object] = []
    for item in Reader(str(tmp_path)).tail(idle, first=2):
        found += short([item])
    assert (found, waits) == ([2, 3, 4, 5], [2, 3, 4])


def test_given_a_last_number_when_tailed_then_it_ends_there_without_waiting(
    tmp_path: Path,
) -> None:
    WrittenStore(tmp_path, (1, 9))
    assert short(Reader(str(tmp_path)).tail(lambda: False, 4, 6)) == [4, 5, 6]


def test_given_idle_when_read_by_columns_then_what_is_there_is_given_before_it_waits(
    tmp_path: Path,
) -> None:
    store = WrittenStore(tmp_path, (1, 3))
    found: list[int] = []
    waits: list[list[int]] = []

    def idle() -> bool:
        waits.append(list(found))
        store.append(1, records(4, 5))
        return len(waits) < 2

    for item in Reader(str(tmp_path)).columns(idle=idle):
        assert not isinstance(item, Lost)
        found += Columns(item).numbers
    assert waits == [[1, 2, 3], [1, 2, 3, 4, 5]]


def test_given_columns_when_read_then_the_chunks_have_these_alone(tmp_path: Path) -> None:
    WrittenStore(tmp_path, (1, 10), (11, 20))
    reader = Reader(str(tmp_path))
    (item,) = reader.columns(columns=["payload", "number"])
    assert not isinstance(item, Lost)
    rows = [(row.number, bytes(row.payload)) for row in Columns(item)]
    assert rows == [(number, payload_of(number)) for number in range(1, 21)]
    assert Columns(item).names == ("number", "payload")
    with pytest.raises(ValueError, match="'size' is not a column"):
        reader.columns(columns=["size"])
    with pytest.raises(ValueError, match="no column is wanted"):
        reader.columns(columns=[])


def test_given_times_when_looked_up_then_it_is_the_first_message_of_them(tmp_path: Path) -> None:
    WrittenStore(tmp_path, (5, 10), (11, 20), (21, 20))
    reader = Reader(str(tmp_path))
    assert [reader.number_at(time_of(number)) for number in (5, 10, 11, 20)] == [5, 10, 11, 20]
    assert reader.number_at(time_of(10) + 1) == 11
    assert reader.number_at(0) == 5
    assert reader.number_at(time_of(20) + SECOND) == 21, "the one that comes next"


def test_given_payloads_that_are_kept_when_read_on_then_they_stay_as_they_are(
    tmp_path: Path,
) -> None:
    WrittenStore(tmp_path, (1, 1000))
    items = list(Reader(str(tmp_path), 4096).records())
    kept = [item.payload for item in items if isinstance(item, Record)]
    assert [bytes(view) for view in kept] == [payload_of(number) for number in range(1, 1001)]
    assert kept[0].obj is kept[1].obj, "a view, no copy"


@pytest.mark.parametrize("what", ["missing", "a file", "empty"])
def test_given_no_store_when_opened_then_it_says_so(tmp_path: Path, what: str) -> None:
    path = tmp_path / "store"
    if what == "a file":
        path.write_text("x")
    elif what == "empty":
        path.mkdir()
    with pytest.raises(StoreError, match="the directory that the broker writes to"):
        Reader(str(path))


def test_given_a_store_without_its_json_when_opened_then_the_segments_tell(tmp_path: Path) -> None:
    WrittenStore(tmp_path, (1, 9))
    (tmp_path / "store.json").unlink()
    assert everything(Reader(str(tmp_path)), 8) == [8, 9]


def test_given_another_store_in_its_place_when_tailed_then_it_is_an_error(tmp_path: Path) -> None:
    WrittenStore(tmp_path, (1, 9))
    follower = Reader(str(tmp_path)).follow()
    assert short(follower.poll()) == list(range(1, 10))
    WrittenStore(tmp_path, (1, 2), journal="1" * 16)
    with pytest.raises(StoreError, match="another journal is there now"):
        follower.poll()
    follower.close()


def test_given_a_segment_of_another_store_when_read_then_it_is_an_error(tmp_path: Path) -> None:
    WrittenStore(tmp_path, (1, 2), journal="1" * 16)
    WrittenStore(tmp_path, (3, 5))
    with pytest.raises(StoreError, match="another journal is there now, 1111111111111111"):
        list(Reader(str(tmp_path)).records(1))


def test_given_a_journal_that_is_cut_back_when_tailed_then_it_is_an_error(tmp_path: Path) -> None:
    store = WrittenStore(tmp_path, (1, 9))
    follower = Reader(str(tmp_path)).follow()
    follower.poll()
    os.truncate(store.segment(1), store.offset(1, 5))
    with pytest.raises(StoreError, match="truncated while it was read"):
        follower.poll()
    follower.close()


def test_given_a_deleted_store_when_tailed_then_it_is_an_error(tmp_path: Path) -> None:
    store = WrittenStore(tmp_path, (1, 9))
    follower = Reader(str(tmp_path)).follow()
    follower.poll()
    store.segment(1).unlink()
    (tmp_path / "store.json").unlink()
    with pytest.raises(StoreError, match="was deleted while it was read"):
        follower.poll()
    follower.close()


def test_given_the_package_when_a_name_is_asked_for_then_only_what_it_needs_is_loaded() -> None:
    code = (
        "import sys, sequencer.journal as j; j.Damage; print(*sys.modules);"
        " print(all(getattr(j, name) for name in j.__all__))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=os.getcwd()
    )
    loaded, whole = done.stdout.splitlines()
    assert not {"cython", "sequencer.journal.record", "sequencer.journal.reader"} & set(
        loaded.split()
    )
    assert whole == "True"
    with pytest.raises(AttributeError, match=r"sequencer\.journal has no Nothing"):
        _ = __import__("sequencer.journal").journal.Nothing
