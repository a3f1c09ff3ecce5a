"""deploy/spark/show.py: an archive as a table, and an error where there is none."""

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from pyspark_seriatim.jobs.filelog import DataFile, FileLog
from tests.support.places import ROOT

SHOW = ROOT / "deploy" / "spark" / "show.py"


def show(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, str(SHOW), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_given_an_archive_and_no_chain_when_shown_then_its_folders_are_and_the_end_is_an_error(
    tmp_path: Path,
) -> None:
    log = FileLog.open(str(tmp_path))
    change = log.begin_change()
    assert change is not None
    rows = pa.table({"subject": ["orders.eu", "orders.us"], "payload": [b"tea", b"\x00" * 99]})
    Path(change.directory).mkdir(parents=True, exist_ok=True)
    pq.write_table(rows, f"{change.directory}/a.parquet")
    where = "date=2026-01-01/token=orders"
    file = DataFile(f"{where}/a.parquet", "messages", 2, 0, first=3, last=4)
    change.add(f"{change.directory}/a.parquet", file)
    change.commit()
    done = show(str(tmp_path), str(tmp_path / "chain"))
    (row,) = (line for line in done.stdout.splitlines() if where in line)
    cells = [cell.strip() for cell in row.strip("│").split("│")]
    assert cells == [where, "1", "2", "3", "4", "orders.us", "0x000000000…"]
    assert done.returncode == 1
    assert done.stderr == f"show.py: {tmp_path}/chain: there are no blocks\n"


def test_given_no_archive_when_shown_then_it_is_reported(tmp_path: Path) -> None:
    done = show(str(tmp_path / "a"), str(tmp_path / "b"))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"show.py: {tmp_path}/a: there are no messages\n"
