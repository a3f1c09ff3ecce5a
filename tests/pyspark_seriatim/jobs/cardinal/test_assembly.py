"""Batches to versions: crashes at every step, repeated batches, concurrent readers, errors."""

import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cardinal.simulation import Plan
from pyspark_seriatim.jobs.cardinal import cardinal_tables
from pyspark_seriatim.jobs.cardinal.assembly import STATES, Assembly, Engine
from pyspark_seriatim.jobs.errors import JobError
from pyspark_seriatim.jobs.filelog.filelog import Change, FileLog
from tests.cardinal.chains import SCHEMA
from tests.pyspark_seriatim.jobs.cardinal.streams import (
    JOURNAL,
    assembly,
    check,
    cut,
    hashes_of,
    reorganised,
    simulated,
    state_of,
    table,
    take,
)
from tests.support.places import ROOT

REPOSITORY = ROOT
PLAN = Plan(blocks=60, updates=6, value_bytes=5, forks=0.4, duplicates=0.1, seed=6)
SIMULATION, ROWS = simulated(PLAN)
PIECES = cut(ROWS, [70, 11, 140])
LOOK_S = 60.0


def same(root: Path) -> None:
    """The tables hold what they must, and nothing else is left of what was on the way."""
    tables = cardinal_tables.open(str(root))
    assert check(tables) == hashes_of(SIMULATION.chain)
    assert state_of(tables) == SIMULATION.state
    reorgs = tables.arrow("reorgs").to_pylist()
    assert len(reorgs) == SIMULATION.reorgs
    assert all(len(one["removed"]) == one["depth"] > 0 for one in reorgs)
    assert len({one["sequence"] for one in reorgs}) == len(reorgs), "none is told twice"
    valid = {*tables.log.paths(), *(f"{root}/{path}" for path in tables.log.state.removed)}
    there = {str(path) for path in root.rglob("*.parquet")}
    assert there == valid, "what no version knows was deleted"
    assert len(list((root / STATES).iterdir())) <= 2


def test_given_batches_when_taken_then_the_tables_are_the_chain(tmp_path: Path) -> None:
    one = assembly(tmp_path)
    take(one, PIECES)
    same(tmp_path)
    about = cardinal_tables.open(str(tmp_path)).about
    assert (about["journal"], about["next"]) == (JOURNAL, 2 * ROWS.num_rows)
    assert one.first_offset == f'{{"journal": "{JOURNAL}", "sequence": {2 * ROWS.num_rows}}}'


def test_given_a_driver_that_starts_again_each_time_when_taken_then_it_is_the_same(
    tmp_path: Path,
) -> None:
    for batch, piece in enumerate(PIECES):
        take(assembly(tmp_path), [piece], batch)
    same(tmp_path)


@pytest.mark.parametrize("again", [1, 3], ids=["the last", "the last three"])
def test_given_batches_that_come_again_when_taken_then_nothing_is_twice(
    tmp_path: Path, again: int
) -> None:
    one = assembly(tmp_path)
    for batch, piece in enumerate(PIECES):
        take(one, [piece], batch)
        version = one.log.version
        first = max(batch + 1 - again, 0)
        take(assembly(tmp_path), PIECES[first : batch + 1], first)
        assert cardinal_tables.open(str(tmp_path)).version == version
    same(tmp_path)


def test_given_another_checkpoint_when_all_comes_again_then_nothing_is_twice(
    tmp_path: Path,
) -> None:
    take(assembly(tmp_path), PIECES[:4], query="old")
    take(assembly(tmp_path), cut(ROWS, [100]), query="new")
    same(tmp_path)


class Killed(BaseException):
    """As if the process ended here."""


STEPS: list[tuple[Any, str, bool]] = [
    (Assembly, "_taken", False),
    (cardinal_tables.Writer, "write", False),
    (cardinal_tables.Writer, "write", True),
    (Assembly, "_write", True),
    (Change, "commit", False),
    (Change, "commit", True),
    (Change, "_move", False),
    (Change, "_move", True),
]


@pytest.mark.parametrize(
    ("owner", "name", "after"),
    STEPS,
    ids=[f"{'after' if after else 'before'} {name}" for _, name, after in STEPS],
)
def test_given_a_crash_at_a_step_of_any_batch_when_started_again_then_the_tables_are_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, after: bool
) -> None:
    original = getattr(owner, name)

    def dying(*args: Any, **kwargs: Any) -> Any:
        if after:
            original(*args, **kwargs)
        raise Killed

    for batch, piece in enumerate(PIECES):
        with monkeypatch.context() as patched:
            patched.setattr(owner, name, dying)
            patched.setattr(Change, "abandon", lambda change: None)  # a killed one tidies nothing
            with pytest.raises(Killed):
                take(assembly(tmp_path), [piece], batch)
        check(cardinal_tables.open(str(tmp_path)))
        take(assembly(tmp_path), [piece], batch)
    same(tmp_path)


def test_given_a_batch_that_fails_when_the_same_driver_takes_it_again_then_it_is_taken_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, original = assembly(tmp_path), Change.commit
    fails = iter([False, True] * len(PIECES))

    def failing(change: Change) -> int:
        if change._batch is not None and next(fails):
            raise OSError("the disk is full")
        return original(change)

    monkeypatch.setattr(Change, "commit", failing)
    for batch, piece in enumerate(PIECES):
        for _ in range(2):
            try:
                take(one, [piece], batch)
            except OSError:
                continue
            break
    same(tmp_path)


DRIVER = """
import sys
from pathlib import Path
import pyarrow.parquet as pq
from tests.pyspark_seriatim.jobs.cardinal.streams import assembly, cut, take
root, rows = Path(sys.argv[1]), pq.read_table(sys.argv[2])
pieces = cut(rows, [40, 11, 90])
one = assembly(root)
for batch, piece in enumerate(pieces):
    print(batch, flush=True)
    take(one, [piece], batch)
print("done", flush=True)
"""


def test_given_a_driver_killed_at_any_moment_when_started_again_then_the_tables_are_the_same(
    tmp_path: Path,
) -> None:
    import pyarrow.parquet as pq

    root, rows = tmp_path / "root", tmp_path / "rows.parquet"
    pq.write_table(ROWS, rows)
    root.mkdir()
    chance, line = random.Random(7), ""
    for life in range(12):
        command = [sys.executable, "-c", DRIVER, str(root), str(rows)]
        with subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True) as driver:
            assert driver.stdout is not None
            for line in driver.stdout:
                if life < 5 and line.strip() != "done" and chance.random() < 0.3:
                    threading.Event().wait(chance.random() * 0.03)  # somewhere in the batch
                    os.kill(driver.pid, signal.SIGKILL)
                    break
        check(cardinal_tables.open(str(root)))
        if line.strip() == "done":
            break
    assert line.strip() == "done"
    same(root)


def test_given_readers_meanwhile_when_the_chain_reorganises_then_each_sees_one_chain(
    tmp_path: Path,
) -> None:
    done, looked = threading.Event(), threading.Condition()
    seen: set[int] = set()
    errors: list[BaseException] = []

    def look() -> None:
        try:
            while not done.is_set():
                tables = cardinal_tables.open(str(tmp_path))
                check(tables)
                with looked:
                    seen.add(tables.version)
                    looked.notify()
        except BaseException as error:
            errors.append(error)

    readers = [threading.Thread(target=look) for _ in range(2)]
    for reader in readers:
        reader.start()
    one = assembly(tmp_path)
    for batch, piece in enumerate(cut(ROWS, [25])):
        take(one, [piece], batch)
        if batch % 8 == 0:  # by themselves they may not come to look until the end
            with looked:
                assert looked.wait_for(lambda: one.log.version in seen or errors, LOOK_S), errors
    done.set()
    for reader in readers:
        reader.join()
    assert errors == []
    assert len(seen) > 3, "readers saw versions on the way"
    same(tmp_path)


@pytest.mark.parametrize("threshold", [2, 128])
def test_given_a_channel_when_it_replaces_more_than_is_kept_then_the_tables_follow(
    tmp_path: Path, threshold: int
) -> None:
    sent, final = reorganised()
    one = assembly(tmp_path, threshold=threshold)
    for batch, piece in enumerate(cut(table(sent), [60])):
        take(one, [piece], batch)
        check(cardinal_tables.open(str(tmp_path)))
    tables = cardinal_tables.open(str(tmp_path))
    assert check(tables) == hashes_of(final)
    deep = tables.arrow("reorgs").to_pylist()[-1]
    assert (deep["depth"], deep["beyond"]) == (8, threshold == 2)


def other_journal(root: Path) -> None:
    one = assembly(root)
    Assembly(one.wanted, "another")


def without_snapshot(root: Path) -> None:
    for file in (root / STATES).iterdir():
        file.unlink()
    assembly(root)


def damaged_snapshot(root: Path) -> None:
    for file in (root / STATES).iterdir():
        file.write_bytes(file.read_bytes()[:-3])
    assembly(root)


def gone_on(root: Path) -> None:
    take(assembly(root), [PIECES[4]], 4)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda root: assembly(root, tracking=SCHEMA.track("a/")), "--schema, --track: the tables"),
        (
            lambda root: assembly(root, engine=Engine.STATE),
            "--engine: the tables in .* made of fold",
        ),
        (other_journal, "journal: the tables in .* were made of 1141c2c3a6b8558d"),
        (without_snapshot, "is missing, so the job cannot continue"),
        (damaged_snapshot, "it is damaged"),
        (gone_on, "checkpoint is at batch 4, but the tables .* Delete the checkpoint"),
    ],
)
def test_given_tables_that_do_not_fit_when_gone_on_with_then_it_says_why(
    tmp_path: Path, wrong: Callable[[Path], None], words: str
) -> None:
    take(assembly(tmp_path), PIECES[:3])
    version = cardinal_tables.open(str(tmp_path)).version
    with pytest.raises(JobError, match=words):
        wrong(tmp_path)
    assert cardinal_tables.open(str(tmp_path)).version == version


def test_given_events_when_taken_then_they_are_printed_and_in_the_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = table([("blocks", bytes([9, at]) + bytes(31), b"") for at in range(25)])
    take(assembly(tmp_path), [wrong])
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 21
    assert lines[0].startswith("seriatim: Dropped: 1141c2c3a6b8558d 1: UnknownType")
    assert lines[-1] == "seriatim: and 5 more; the table events has them all"
    assert cardinal_tables.open(str(tmp_path)).arrow("events").num_rows == 25
    json.dumps(cardinal_tables.open(str(tmp_path)).about)


def test_given_an_archive_when_tables_are_to_be_there_then_it_is_refused(tmp_path: Path) -> None:
    change = FileLog.open(str(tmp_path)).begin_change()
    assert change is not None
    change.fact("covered", [])
    change.commit()
    with pytest.raises(JobError, match="belongs to something else"):
        assembly(tmp_path)
