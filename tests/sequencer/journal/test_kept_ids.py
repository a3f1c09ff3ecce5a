"""What outlives a process so that ids count for their window: when they came, those deleted."""

import os
from array import array
from pathlib import Path

from sequencer.journal.kept_ids import KNOWN, KeptId, KeptIds, Known, Moment

S = 1_000_000_000
WINDOW = 100 * S
NOW = Moment("boot", 1000 * S, 5000 * S)


def kept(folder: Path, now: Moment = NOW, most: int = 100) -> KeptIds:
    return KeptIds(str(folder), "0123456789abcdef", WINDOW, most, now)


def later(seconds: int, boot: str = "boot", wall: int = 0) -> Moment:
    steady = 1000 + seconds if boot == "boot" else seconds
    return Moment(boot, steady * S, (wall or 5000 + seconds) * S)


def saved(folder: Path) -> None:
    """Numbers 10, 20 ... 90 came at second 10, 20 ... 90."""
    ids = kept(folder)
    for at in range(10, 100, 10):
        ids.note(at, (1000 + at) * S)
    ids.save(later(90))


def test_given_the_same_boot_then_the_time_of_day_does_not_matter(tmp_path: Path) -> None:
    saved(tmp_path)
    for wall in (1, 5150, 10**9):
        ids = kept(tmp_path, later(150, wall=wall))
        assert ids.counting == (51, 1 << 63)
        assert [ids.receipts()(number, 7) for number in (55, 60, 61)] == [
            1060 * S,
            1060 * S,
            1070 * S,
        ]


def test_given_another_boot_then_the_time_of_day_says_how_long_ago_it_was(tmp_path: Path) -> None:
    saved(tmp_path)
    ids = kept(tmp_path, later(3, boot="another", wall=5150))
    assert ids.counting == (51, 1 << 63)
    assert ids.receipts()(60, 7) == (3 - 90) * S
    behind = kept(tmp_path, later(3, boot="another", wall=20))
    assert behind.receipts()(90, 7) == 3 * S, "as if no time had passed"


def test_given_numbers_without_a_mark_then_the_record_s_time_is_taken_within_bounds(
    tmp_path: Path,
) -> None:
    saved(tmp_path)
    ids = kept(tmp_path, later(95))
    assert ids.receipts()(91, 10**9 * S) == 1095 * S, "a time to come: it came at the latest now"
    assert ids.receipts()(91, 5092 * S) == 1092 * S
    assert ids.receipts()(91, 3 * S) == 1090 * S, "not before the last mark"
    assert ids.receipts()(5, 3 * S) == (1095 - 5092) * S
    assert ids.receipts()(5, 10**9 * S) == 1010 * S, "not after the first mark"
    new = kept(tmp_path / "none", later(95))
    assert new.counting == (1 << 63, (5095 - 100) * S)
    assert new.receipts()(1, 5050 * S) == 1050 * S


def test_given_numbers_that_are_cut_then_they_are_as_old_as_when_they_came_again(
    tmp_path: Path,
) -> None:
    saved(tmp_path)
    ids = kept(tmp_path, later(95))
    ids.cut(45)
    ids.note(50, 1096 * S)
    assert ids.receipts()(46, 7) == 1096 * S
    assert ids.noted == 50


def test_given_a_damaged_file_or_one_of_another_journal_then_it_is_passed_over(
    tmp_path: Path,
) -> None:
    saved(tmp_path)
    other = KeptIds(str(tmp_path), "another", WINDOW, 100, later(95))
    assert other.noted == 0
    whole = (tmp_path / "ids.json").read_bytes()
    for text in (b"", whole[:40], b"[]", b'{"journal":"0123456789abcdef"}'):
        (tmp_path / "ids.json").write_bytes(text)
        assert kept(tmp_path, later(95)).noted == 0


def test_given_deleted_segments_then_their_ids_stay_while_they_count(tmp_path: Path) -> None:
    ids = kept(tmp_path)
    some: list[KeptId] = [(3, 7, b" a"), (5, 8, b" " + b"b" * 60)]
    ids.keep(1, some, 5000 * S)
    ids.keep(6, [(6, 9, b" c")], 5050 * S)
    ids.keep(7, [], 5050 * S)
    again = kept(tmp_path, later(60))
    assert list(again.deleted(7)) == [*some, (6, 9, b" c")]
    assert len(os.listdir(tmp_path)) == 2
    ids.tidy(5099 * S)
    assert len(os.listdir(tmp_path)) == 2
    ids.tidy(5100 * S)
    assert os.listdir(tmp_path) == [f"{6:020d}.ids"]
    ids.tidy(5150 * S)
    assert os.listdir(tmp_path) == []


def test_given_more_ids_than_are_remembered_then_the_oldest_files_go(tmp_path: Path) -> None:
    ids = kept(tmp_path, most=2)
    for number in (1, 2, 3):
        ids.keep(number, [(number, 7, b" a")], 5000 * S)
    ids.tidy(5001 * S)
    assert sorted(os.listdir(tmp_path)) == [f"{number:020d}.ids" for number in (2, 3)]


def test_given_damage_in_kept_ids_then_that_file_is_removed(tmp_path: Path) -> None:
    kept(tmp_path).keep(1, [(3, 7, b" a")], 5000 * S)
    file = tmp_path / f"{1:020d}.ids"
    data = bytearray(file.read_bytes())
    data[40] ^= 1
    file.write_bytes(data)
    assert list(kept(tmp_path).deleted(7)) == []
    assert not file.exists()


LAST = 70


def known() -> tuple["array[int]", "array[int]", list[bytes]]:
    numbers = array("q", range(50, 71))
    times = array("q", [(1000 + at) * S for at in range(50, 71)])
    return numbers, times, [b"scope id-%d" % at * (at % 3) for at in range(50, 71)]


def taken(folder: Path, now: Moment, last: int = LAST) -> Known | None:
    report: list[tuple[str, str]] = []
    found = kept(folder, now).take_known(last, report)
    assert (found is None) == bool(report)
    return found


def test_given_a_clean_stop_when_started_then_the_ids_are_as_they_were_and_only_once(
    tmp_path: Path,
) -> None:
    kept(tmp_path).save_known(known(), LAST, later(90))
    assert taken(tmp_path, later(95, wall=1)) == known()
    report: list[tuple[str, str]] = []
    assert kept(tmp_path).take_known(LAST, report) is None
    assert not report, "a missing file is nothing to report"


def test_given_another_boot_when_the_ids_are_taken_then_their_ages_go_on(tmp_path: Path) -> None:
    kept(tmp_path).save_known(known(), LAST, later(90))
    found = taken(tmp_path, later(3, boot="another", wall=5150))
    assert found is not None
    assert found[1][-1] == (3 - 60 - 20) * S, "20 s old at the stop, and 60 s have passed"
    assert found[0] == known()[0]


def test_given_ids_of_another_moment_or_journal_when_taken_then_they_do_not_count(
    tmp_path: Path,
) -> None:
    kept(tmp_path).save_known(known(), LAST, later(90))
    assert taken(tmp_path, later(95), LAST + 1) is None
    foreign = KeptIds(str(tmp_path), "fedcba9876543210", WINDOW, 100, NOW)
    foreign.save_known(known(), LAST, later(90))
    assert taken(tmp_path, later(95)) is None


def test_given_any_damage_when_the_ids_are_taken_then_they_do_not_count(tmp_path: Path) -> None:
    kept(tmp_path).save_known(known(), LAST, later(90))
    whole = (tmp_path / KNOWN).read_bytes()
    cut = [whole[:size] for size in (0, 1, 8, 95, 96, 100, 300, len(whole) - 1)]
    flipped = [
        whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :] for at in range(0, len(whole), 7)
    ]
    for text in (*cut, *flipped, whole + b"x", whole[::-1]):
        (tmp_path / KNOWN).write_bytes(text)
        assert taken(tmp_path, later(95)) is None
