"""The tables of a chain: what is in them, how a reorg changes files, how small ones are merged."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from cardinal.block import Block
from pyspark_seriatim.jobs.cardinal import cardinal_tables
from pyspark_seriatim.jobs.cardinal.cardinal_tables import (
    SCHEMAS,
    LatestBlocks,
    Writer,
    run_to_merge,
)
from pyspark_seriatim.jobs.cardinal.fold import Added, EventRow, FoldOutcome, Reorged
from pyspark_seriatim.jobs.errors import JobError
from pyspark_seriatim.jobs.filelog import FileLog
from pyspark_seriatim.jobs.filelog.versions import DataFile
from tests.pyspark_seriatim.jobs.cardinal.streams import JOURNAL, check

WEIGHT_MAX = 2**256 - 1


def hash_of(number: int, branch: str = "") -> bytes:
    return f"{branch}{number}".encode().rjust(32)


def added(first: int, last: int, branch: str = "", parent: str = "") -> list[Added]:
    """Blocks one upon the other, with two keys set and one deleted each."""
    found = []
    for number in range(first, last + 1):
        on = hash_of(number - 1, parent if number == first else branch)
        updates = {f"b{number}": b"2", f"a{number}": b""}
        place = (hash_of(number, branch), number, WEIGHT_MAX, on)
        block = Block(*place, updates, {f"z{number}"}, {JOURNAL: number * 10}, number * 10 + 3)
        found.append(Added(block, 1_000_000 * number))
    return found


class Root:
    """A log, and outcomes put into it one by one."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        self.log = FileLog.open(self.path)
        self.writer = Writer(self.log)

    def put(self, outcome: FoldOutcome, stable: int = 0) -> None:
        change = self.log.begin_change()
        assert change is not None
        self.writer.write(change, outcome, stable)
        change.commit()

    def edges(self, table: str) -> list[tuple[int, int, int]]:
        return [(one.first, one.last, one.rows) for one in self.log.files(table)]


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return Root(tmp_path)


def test_given_a_batch_when_written_then_the_tables_say_all_of_it(root: Root) -> None:
    reorg = Reorged(33, 3_000_000, b"a" * 32, [b"r" * 32], [b"s" * 32, b"t" * 32], True)
    event_row = EventRow(34, 4_000_000, "Evicted", b"e" * 32, 9, "block 9 given up")
    root.put(FoldOutcome(None, added(1, 2), [reorg], [event_row]))
    tables = cardinal_tables.open(root.path)
    assert all(tables.arrow(name).schema == SCHEMAS[name] for name in SCHEMAS)
    block = tables.arrow("blocks").to_pylist()[1]
    assert block.pop("timestamp").timestamp() == 2.0
    assert block == {
        "number": 2,
        "hash": hash_of(2),
        "parent": hash_of(1),
        "weight": str(WEIGHT_MAX),
        "updates": 2,
        "deletes": 1,
        "first_sequence": 20,
        "last_sequence": 23,
    }
    rows = [tuple(row.values()) for row in tables.arrow("updates").to_pylist()]
    assert rows == [
        (hash_of(number), number, position, f"{key}{number}", value, value is None)
        for number in (1, 2)
        for position, (key, value) in enumerate([("z", None), ("a", b""), ("b", b"2")])
    ]
    (one,) = tables.arrow("reorgs").to_pylist()
    assert (one["sequence"], one["depth"], one["beyond"]) == (33, 1, True)
    assert (one["removed"], one["added"]) == ([b"r" * 32], [b"s" * 32, b"t" * 32])
    (one,) = tables.arrow("events", ["kind", "block", "number", "text"]).to_pylist()
    assert tuple(one.values()) == ("Evicted", b"e" * 32, 9, "block 9 given up")


def test_given_a_cut_when_written_then_only_the_files_it_reaches_are_new(root: Root) -> None:
    for first in (1, 11, 21):
        root.put(FoldOutcome(None, added(first, first + 9)))
    before = root.log.paths("blocks")
    root.put(FoldOutcome(15, added(15, 17, "n", parent="")))
    assert root.edges("blocks") == [(1, 10, 10), (11, 14, 4), (15, 17, 3)]
    assert root.edges("updates") == [(1, 10, 30), (11, 14, 12), (15, 17, 9)]
    assert root.log.paths("blocks")[0] == before[0]
    hashes = check(cardinal_tables.open(root.path))
    assert hashes == [hash_of(n) for n in range(1, 15)] + [hash_of(n, "n") for n in range(15, 18)]
    root.put(FoldOutcome(0, added(1, 2, "m")))
    assert check(cardinal_tables.open(root.path)) == [hash_of(1, "m"), hash_of(2, "m")]


def test_given_a_version_that_is_read_when_others_follow_then_it_stays(root: Root) -> None:
    root.put(FoldOutcome(None, added(1, 5)))
    tables = cardinal_tables.open(root.path)
    root.put(FoldOutcome(3, added(3, 4, "n")))
    assert check(tables) == [hash_of(n) for n in range(1, 6)]
    assert len(check(cardinal_tables.open(root.path))) == 4


def test_given_small_files_when_they_are_stable_then_they_are_merged(root: Root) -> None:
    for number in range(1, 40):
        root.put(FoldOutcome(None, added(number, number)), stable=number - 10)
    assert root.edges("blocks")[0] == (1, 16, 16)
    assert len(root.edges("blocks")) == 1 + 39 - 16
    assert check(cardinal_tables.open(root.path)) == [hash_of(n) for n in range(1, 40)]
    paths = root.log.paths("updates")
    assert pq.ParquetFile(paths[0]).metadata.num_rows == 48
    assert root.log.vacuum(0.0) >= 2 * 16
    assert check(cardinal_tables.open(root.path)) == [hash_of(n) for n in range(1, 40)]


def test_given_a_merged_file_when_a_cut_reaches_it_then_it_is_rewritten(root: Root) -> None:
    for number in range(1, 21):
        root.put(FoldOutcome(None, added(number, number)), stable=number)
    assert root.edges("blocks")[0] == (1, 16, 16)
    root.put(FoldOutcome(9, added(9, 9, "n")))
    assert root.edges("blocks") == [(1, 8, 8), (9, 9, 1)]
    assert check(cardinal_tables.open(root.path))[-1] == hash_of(9, "n")


@pytest.mark.parametrize(
    ("sizes", "merged"),
    [
        ([10] * 15, []),
        ([10] * 20, list(range(16))),
        ([10] * 3 + [1 << 20] + [10] * 16, list(range(4, 20))),
        ([300 << 20] * 20, []),
        ([300 << 20] + [2 << 20] * 17, list(range(1, 17))),
    ],
    ids=["too few", "the first", "a run", "large ones stay", "medium ones"],
)
def test_given_files_of_sizes_when_merged_then_neighbours_of_one_size_are(
    sizes: list[int], merged: list[int]
) -> None:
    files = [DataFile(str(at), "blocks", 1, size, at, at) for at, size in enumerate(sizes)]
    assert [one.first for one in run_to_merge(files)] == merged


def test_given_a_block_when_asked_what_stands_on_it_then_the_files_say(root: Root) -> None:
    stored = LatestBlocks(root.log)
    assert stored.behind(hash_of(1), None) == []
    for first in (1, 11, 21):
        root.put(FoldOutcome(None, added(first, first + 9)))
    rest = [(number, hash_of(number)) for number in range(1, 31)]
    assert stored.behind(hash_of(12), None) == rest[12:]
    assert stored.behind(hash_of(12), 25) == rest[12:24]
    assert stored.behind(hash_of(30), None) == []
    assert stored.behind(b"unknown", None) == rest, "nothing is known to stand elsewhere"


def test_given_no_such_table_when_read_then_it_says_which_there_are(root: Root) -> None:
    tables = cardinal_tables.open(root.path)
    assert tables.about == {}
    assert tables.arrow("blocks").num_rows == 0
    with pytest.raises(JobError, match='no table "block": there are blocks, updates, reorgs'):
        tables.arrow("block")
