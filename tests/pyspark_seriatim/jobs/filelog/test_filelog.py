"""The file log: versions, batches, conflicts, and a crash before any file operation of any step."""

import itertools
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyspark_seriatim.jobs.filelog import files, versions
from pyspark_seriatim.jobs.filelog.filelog import (
    CHECKPOINT_EVERY,
    Change,
    DataFile,
    FileLog,
    FileLogError,
    WriterConflict,
)
from tests.support.depth import examples


def begin(log: FileLog, batch: int | None = None) -> Change:
    change = log.begin_change("job", batch)
    assert change is not None
    return change


def write(change: Change, first: int, table: str = "rows") -> DataFile:
    """A file of ten rows that is to be added."""
    staged = Path(change.directory, f"{table}-{first}.part")
    staged.write_bytes(b"x" * first)
    file = DataFile(f"{table}/at={first}/a.parquet", table, 10, 0, first, first + 9)
    return change.add(str(staged), file)


def put(log: FileLog, first: int, batch: int | None = None) -> DataFile:
    change = begin(log, batch)
    added = write(change, first)
    change.commit()
    return added


def on_disk(root: Path) -> set[str]:
    """All files but those of the log."""
    found = (path.relative_to(root) for path in root.rglob("*") if path.is_file())
    return {str(path) for path in found if path.parts[0] != versions.FOLDER}


def kept(log: FileLog) -> set[str]:
    return {*log.state.files, *log.state.removed}


def picture(log: FileLog) -> tuple[Any, ...]:
    """What a log says, without its number: a version that only ended a change says nothing."""
    return log.files(), dict(log.state.removed), dict(log.state.batches), log.facts


def test_given_a_root_that_is_not_there_when_opened_then_it_is_empty(tmp_path: Path) -> None:
    log = FileLog.open(str(tmp_path / "none"))
    assert (log.version, log.files(), log.paths(), log.batch("job"), log.facts) == (
        0,
        [],
        [],
        None,
        {},
    )
    assert list(tmp_path.iterdir()) == [], "looking makes nothing"


def test_given_files_when_committed_then_another_sees_them_in_order(tmp_path: Path) -> None:
    log = FileLog.open(str(tmp_path))
    change = begin(log, 4)
    second, first = write(change, 30), write(change, 20)
    other = write(change, 25, "other")
    change.fact("next", 40)
    assert change.commit() == 1
    seen = FileLog.open(str(tmp_path))
    assert seen.files("rows") == [first, second]
    assert seen.files() == [first, other, second]
    assert seen.paths("other") == [str(tmp_path / other.path)]
    assert [Path(path).stat().st_size for path in seen.paths("rows")] == [20, 30]
    assert [one.bytes for one in seen.files("rows")] == [20, 30]
    assert (seen.batch("job"), seen.batch("another"), seen.facts) == (4, None, {"next": 40})
    assert picture(seen) == picture(log)


def test_given_a_batch_that_is_committed_when_begun_again_then_there_is_no_change(
    tmp_path: Path,
) -> None:
    log = FileLog.open(str(tmp_path))
    put(log, 1, 7)
    assert log.begin_change("job", 7) is None
    assert log.begin_change("job", 6) is None
    assert log.begin_change("another", 7) is not None


def test_given_a_removed_file_when_vacuumed_then_it_is_deleted_and_not_before(
    tmp_path: Path,
) -> None:
    log = FileLog.open(str(tmp_path))
    old, stays = put(log, 1), put(log, 11)
    change = begin(log)
    change.remove(old)
    new = write(change, 2)
    change.commit()
    assert log.files() == [new, stays]
    assert log.vacuum(3600) == 0
    assert on_disk(tmp_path) == {old.path, new.path, stays.path}
    assert log.vacuum(0) == 1
    assert on_disk(tmp_path) == {new.path, stays.path}
    version = log.version
    assert log.vacuum(0) == 0
    assert log.version == version, "nothing to delete is nothing to write down"


def test_given_many_versions_when_opened_then_few_files_are_read(tmp_path: Path) -> None:
    log = FileLog.open(str(tmp_path))
    behind = FileLog.open(str(tmp_path))
    for number in range(1, 3 * CHECKPOINT_EVERY + 5):
        put(log, number, number)
        if number == 3:
            behind.refresh()
    assert len(list((tmp_path / versions.FOLDER).glob("*.json"))) < 2 * CHECKPOINT_EVERY
    assert picture(FileLog.open(str(tmp_path))) == picture(log)
    behind.refresh()
    assert picture(behind) == picture(log)
    assert behind.batch("job") == 3 * CHECKPOINT_EVERY + 4


def test_given_an_abandoned_change_then_nothing_of_it_is_left(tmp_path: Path) -> None:
    log = FileLog.open(str(tmp_path))
    change = begin(log, 1)
    write(change, 1)
    change.abandon()
    assert on_disk(tmp_path) == set()
    assert (log.version, log.batch("job")) == (0, None)
    assert not Path(change.directory).exists()


@pytest.mark.parametrize("when", ["before it writes", "before it adds", "before it commits"])
def test_given_two_writers_then_the_one_that_began_last_wins(tmp_path: Path, when: str) -> None:
    one, two = FileLog.open(str(tmp_path)), FileLog.open(str(tmp_path))
    loser = begin(one, 1)
    staged = Path(loser.directory, "rows-1.part")
    file = DataFile("rows/a.parquet", "rows", 1, 0, 1, 1)
    if when != "before it writes":
        staged.write_bytes(b"x")
    if when == "before it commits":
        loser.add(str(staged), file)
    winner = begin(two, 1)
    with pytest.raises(WriterConflict, match=f"let one job at a time write to {tmp_path}"):
        loser.commit() if when == "before it commits" else loser.add(str(staged), file)
    added = write(winner, 5)
    winner.commit()
    assert FileLog.open(str(tmp_path)).files() == [added]
    assert on_disk(tmp_path) == {added.path}


def test_given_a_writer_that_was_overtaken_when_it_commits_nothing_of_it_stays_then_an_error(
    tmp_path: Path,
) -> None:
    one, two = FileLog.open(str(tmp_path)), FileLog.open(str(tmp_path))
    loser = begin(one)  # without a file: nothing for the other to find missing
    added = put(two, 5, 1)
    with pytest.raises(WriterConflict, match="committed version 1 first"):
        loser.commit()
    assert one.files() == [added], "who lost knows now what the other did"


@pytest.mark.parametrize("path", ["/abs", "../up", "a/../../up", "a//b", "_seriatim/x", "."])
def test_given_a_path_outside_of_the_root_when_added_then_refused(
    tmp_path: Path, path: str
) -> None:
    change = begin(FileLog.open(str(tmp_path)))
    staged = Path(change.directory, "x")
    staged.touch()
    with pytest.raises(FileLogError, match="is not a path under"):
        change.add(str(staged), DataFile(path, "rows", 1, 0, 1, 1))


def test_given_wrong_use_then_the_error_says_what_is_wrong(tmp_path: Path) -> None:
    log = FileLog.open(str(tmp_path))
    added = put(log, 1)
    change = begin(log)
    file = DataFile("rows/b.parquet", "rows", 1, 0, 1, 1)
    with pytest.raises(FileLogError, match="nowhere is not there, so it cannot be added"):
        change.add(f"{change.directory}/nowhere", file)
    staged = Path(change.directory, "x")
    staged.touch()
    change.add(str(staged), file)
    with pytest.raises(FileLogError, match=r"rows/b.parquet is added twice"):
        change.add(str(staged), file)
    change.remove(added)
    with pytest.raises(FileLogError, match="is not in the log, so it cannot be removed"):
        change.remove(added)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"version": 2}'])
def test_given_a_damaged_version_when_opened_then_the_error_names_it(
    tmp_path: Path, content: bytes
) -> None:
    put(FileLog.open(str(tmp_path)), 1)
    (tmp_path / versions.name(2)).write_bytes(content)
    with pytest.raises(FileLogError, match=r"00002\.json is damaged"):
        FileLog.open(str(tmp_path))


def test_given_a_version_that_is_missing_when_opened_then_the_error_names_it(
    tmp_path: Path,
) -> None:
    log = FileLog.open(str(tmp_path))
    for first in (1, 2, 3):
        put(log, first)
    (tmp_path / versions.name(2)).unlink()
    with pytest.raises(FileLogError, match=r"00002\.json is missing"):
        FileLog.open(str(tmp_path))


def test_given_old_versions_deleted_while_they_are_listed_then_the_log_is_read_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names are listed, then looked at one by one: what is gone by then is left out."""
    log = FileLog.open(str(tmp_path))

    def commit(count: int) -> None:
        for number in range(log.version + 1, log.version + 1 + count):
            change = log.begin_change("job", number)
            assert change is not None
            change.commit()

    commit(2 * CHECKPOINT_EVERY - 1)
    names = files.Files.names

    def overtaken(place: files.Files, folder: str) -> list[str]:
        found = names(place, folder)
        monkeypatch.setattr(files.Files, "names", names)
        commit(1)
        return [one for one in found if place.exists(f"{folder}/{one}")]

    monkeypatch.setattr(files.Files, "names", overtaken)
    assert FileLog.open(str(tmp_path)).version == 2 * CHECKPOINT_EVERY


def test_given_a_root_that_was_recreated_when_refreshed_then_the_old_is_forgotten(
    tmp_path: Path,
) -> None:
    log = FileLog.open(str(tmp_path))
    put(log, 1)
    put(log, 2)
    shutil.rmtree(tmp_path / versions.FOLDER)
    added = put(FileLog.open(str(tmp_path)), 3)
    log.refresh()
    assert log.files() == [added]


class Cut(BaseException):
    """The process ends here: no handler of ours takes it."""


class Fuse:
    """Lets so many file operations pass, then none."""

    def __init__(self, operations: int) -> None:
        self.left = operations

    def burn(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise Cut

    def guard(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def guarded(*args: Any, **kwargs: Any) -> Any:
            self.burn()
            return function(*args, **kwargs)

        return guarded


class Fused:
    """A file system whose every change of something burns the fuse, each write of a file too."""

    def __init__(self, real: Any, fuse: Fuse) -> None:
        self.real, self.fuse = real, fuse

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.real, name)
        return self.fuse.guard(found) if name in ("create_dir", "move", "delete_file") else found

    @contextmanager
    def open_output_stream(self, path: str) -> Iterator[Any]:
        self.fuse.burn()
        with self.real.open_output_stream(path) as stream:
            self.fuse.burn()
            yield stream


def fused(root: Path, fuse: Fuse, patch: pytest.MonkeyPatch) -> FileLog:
    """A log of which each operation on files may be the last."""

    def remove_one_by_one(folder: str, ignore_errors: bool) -> None:
        for where, _, names in os.walk(folder, topdown=False):
            for name in names:
                fuse.burn()
                os.remove(os.path.join(where, name))
            fuse.burn()
            os.rmdir(where)

    for name in ("link", "rename", "fsync"):
        patch.setattr(os, name, fuse.guard(getattr(os, name)))
    patch.setattr(shutil, "rmtree", remove_one_by_one)
    log = FileLog.open(str(root))
    log.place._fs = Fused(log.place._fs, fuse)
    return log


def step(log: FileLog, kind: str, batch: int) -> None:
    """One whole thing that a job does."""
    if kind == "vacuum":
        log.vacuum(0)
        return
    change = begin(log, batch)
    if kind == "replace":
        for file in log.files()[:2]:
            change.remove(file)
    if kind != "nothing":
        write(change, batch, "rows")
        write(change, batch, "other")
    change.fact("batch", batch)
    change.commit()


def prepare(root: Path, kinds: list[str]) -> None:
    """Do the steps, none of them cut."""
    log = FileLog.open(str(root))
    for batch, kind in enumerate(kinds):
        step(log, kind, batch)


def crash(root: Path, kind: str, cut: int) -> bool:
    """Do one more step, cut before so many operations; whether it was."""
    before = picture(FileLog.open(str(root)))
    died = False
    with pytest.MonkeyPatch.context() as patch:
        try:
            step(fused(root, Fuse(cut), patch), kind, 1000)
        except Cut:
            died = True
    after = FileLog.open(str(root))
    assert set(after.state.files) <= on_disk(root), "what is listed is there"
    if picture(after) != before:
        assert after.batch("job") == 1000 or kind == "vacuum"
    second = after.begin_change("job", 1000)
    assert kept(after) >= on_disk(root), "no orphan stays"
    assert set(after.state.files) <= on_disk(root)
    if second is None:
        second = begin(after)
    assert os.listdir(root / versions.FOLDER / "changes") == [second.id]
    write(second, 99)
    second.commit()
    assert FileLog.open(str(root)).files() == after.files()
    return died


@pytest.mark.parametrize("kind", ["add", "replace", "nothing", "vacuum"])
def test_given_a_cut_before_any_operation_then_it_is_the_state_before_or_after(
    tmp_path: Path, kind: str
) -> None:
    prepare(tmp_path / "whole", ["add", "add", "replace"])
    for cut in itertools.count():
        root = shutil.copytree(tmp_path / "whole", tmp_path / str(cut))
        if not crash(root, kind, cut):
            break
    assert cut > 6, "there were operations to die in"


def test_given_a_cut_at_a_checkpoint_then_it_is_the_state_before_or_after(tmp_path: Path) -> None:
    prepare(tmp_path / "whole", ["add", *["nothing"] * (2 * CHECKPOINT_EVERY - 2)])
    for cut in itertools.count(20):
        root = shutil.copytree(tmp_path / "whole", tmp_path / str(cut))
        if not crash(root, "replace", cut):
            break
    assert cut > 30


@settings(max_examples=examples(40))
@given(
    kinds=st.lists(
        st.sampled_from(["add", "replace", "nothing", "vacuum"]), min_size=1, max_size=6
    ),
    cut=st.integers(0, 40),
)
def test_given_any_steps_when_cut_anywhere_then_it_is_the_state_before_or_after(
    tmp_path_factory: pytest.TempPathFactory, kinds: list[str], cut: int
) -> None:
    root = tmp_path_factory.mktemp("log")
    prepare(root, kinds[:-1])
    crash(root, kinds[-1], cut)


@pytest.mark.parametrize("commits", [True, False], ids=["that commits", "that only begins"])
def test_given_another_that_begins_after_the_files_moved_then_the_first_cannot_commit(
    tmp_path: Path, commits: bool
) -> None:
    log = FileLog.open(str(tmp_path))
    slow = begin(log, 1)
    write(slow, 1)
    create = log.create

    def overtaken(path: str, content: dict[str, Any]) -> bool:
        if path == versions.name(1):
            other = begin(FileLog.open(str(tmp_path)), 1)
            write(other, 50)
            other.commit() if commits else other.abandon()
        return create(path, content)

    log.create = overtaken  # type: ignore[method-assign]
    with pytest.raises(WriterConflict):
        slow.commit()
    log.create = create  # type: ignore[method-assign]
    assert [one.first for one in FileLog.open(str(tmp_path)).files()] == [50] * commits
    assert on_disk(tmp_path) == {one.path for one in log.files()}


def test_given_the_version_files_then_they_read_as_documented(tmp_path: Path) -> None:
    put(FileLog.open(f"file://{tmp_path}"), 1, 3)
    entry = json.loads((tmp_path / "_seriatim/00000000000000000001.json").read_text())
    assert entry["application"] == "job"
    assert (entry["version"], entry["batch"], entry["remove"]) == (1, 3, [])
    assert entry["add"][0] | {"path": ""} == {
        **{"path": "", "table": "rows", "rows": 10, "bytes": 1, "first": 1, "last": 10, "tags": {}},
        "footer": "",
    }


def test_given_a_list_with_any_byte_that_has_changed_when_opened_then_it_is_reported(
    tmp_path: Path,
) -> None:
    log = FileLog.open(str(tmp_path))
    change = log.begin_change("archive", 1)
    assert change is not None
    change.fact("covered", [[1, 900]])
    change.commit()
    (path,) = (tmp_path / "_seriatim").glob("*.json")
    whole = path.read_bytes()
    for at in range(whole.index(b',"sum"')):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with pytest.raises(FileLogError, match="is damaged"):
            FileLog.open(str(tmp_path))
    path.write_bytes(whole[: whole.index(b',"sum"')] + b"}")
    assert FileLog.open(str(tmp_path)).facts == log.facts, "as it was written before"
