"""Data that are not as expected: refused with a message, also by a Python without `assert`."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.places import ROOT

HERE = ROOT
RUN_S = 60.0
ARCHIVE = """
import sys
from dataclasses import replace
from pathlib import Path

from pyspark_seriatim.jobs.archive.compaction import Compactor
from pyspark_seriatim.jobs.filelog import FileLog
from tests.support.archives import put, rows

root = sys.argv[1]
log = FileLog.open(root)
put(log, rows([1, 2], ["a", "a"]))
put(log, rows([3, 4], ["a", "a"]))
first = log.files()[0]
run = lambda merge, groups: [merge(group) for group in groups]
"""
OTHER_COUNT = """
log.state.files[first.path] = replace(first, rows=3)
Compactor(run).compact(log)
"""
OTHER_FOLDER = """
(other,) = put(FileLog.open(f"{root}/other"), rows([1, 2], ["b", "b"]))
Path(root, "other", other.path).replace(Path(root, first.path))
log.state.files[first.path] = replace(first, footer="")  # as in a list of before
Compactor(run).compact(log)
"""
BATCH = """
from pyspark_seriatim.jobs.archive.archiving import check_rows

check_rows((1, 10), {rows}, {seen})
"""
REORG = """
from cardinal.block import Block
from cardinal.follower import ChainFollower
from cardinal.update import ChainUpdate
from pyspark_seriatim.jobs.cardinal.fold import Fold

def block(name, number, parent):
    return Block(name * 32, number, number, parent * 32, {}, set(), {"j": number}, number, 0)

fold = Fold(ChainFollower(), "j", "x.")
one, other, new = block(b"1", 1, b"0"), block(b"2", 1, b"0"), block(b"3", 2, b"0")
fold._move(ChainUpdate([one], [], one.parent), lambda block: 0, None)
fold._move(ChainUpdate([new], [other], one.parent), lambda block: 0, None)
"""
SUMMARY = """
from pyspark_seriatim.jobs.audit.findings import Ranges

found = Ranges(3)
found.add(7, 9)
found.add(8, 8)
"""


@pytest.mark.parametrize(
    ("script", "words"),
    [
        (
            ARCHIVE + OTHER_COUNT,
            "WrongRows: .* have 4 rows, but 5 by the list; they were not merged",
        ),
        (
            ARCHIVE + OTHER_FOLDER,
            "WrongRows: .* rows that belong in other folders: .*/token=a, .*/token=b;",
        ),
        (BATCH.format(rows=11, seen=[(1, 10)]), "WrongRows: .* 11 rows of 10 different numbers;"),
        (
            BATCH.format(rows=5, seen=[(8, 12)]),
            "WrongRows: .* there are rows of other numbers: 11 to 12;",
        ),
        (REORG, "WrongChain: a reorg onto 0x30.* removes blocks other than the last 1"),
        (SUMMARY, "WrongSummary: numbers 8 to 8 come after 9"),
    ],
    ids=["count", "folder", "twice", "outside", "reorg", "summary"],
)
@pytest.mark.parametrize(
    "optimize",
    [pytest.param("", marks=pytest.mark.slow), "1"],
    ids=["asserts", "no-asserts"],
)
def test_given_data_that_cannot_be_then_an_error_of_its_own_says_so(
    tmp_path: Path, script: str, words: str, optimize: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)],
        cwd=HERE,
        env=os.environ | {"PYTHONOPTIMIZE": optimize, "PYTHONPATH": str(HERE)},
        capture_output=True,
        text=True,
        timeout=RUN_S,
    )
    assert done.returncode == 1
    assert re.search(words, done.stderr.strip().splitlines()[-1]), done.stderr
