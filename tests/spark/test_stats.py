"""`seriatim spark stats` with Spark: its figures compared with plain Python's."""

import json
import statistics
from collections import defaultdict
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from pyspark_seriatim.jobs.running.command import run
from pyspark_seriatim.jobs.stats.stats_job import stats
from tests.support.parquet_folders import rows, write
from tests.support.processes import SeriatimServer

BEGIN = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp() * 1_000_000)
SECOND = 1_000_000
COUNT = 2000


@pytest.fixture
def archive(tmp_path: Path) -> str:
    """A message each 100 ms, of four subjects and many sizes."""
    numbers = range(1, COUNT + 1)
    table = rows(
        numbers,
        subject=[f"{'ab'[n % 2]}.{'xyz'[n % 3]}.deep" for n in numbers],
        payload=[b"." * (n * n % 97) for n in numbers],
        timestamp=[BEGIN + n * SECOND // 10 for n in numbers],
    )
    return write(
        tmp_path / "archive", {"1.parquet": table.slice(0, 900), "2.parquet": table.slice(900)}
    )


def plainly(depth: int, window_s: int) -> dict[tuple[int, str], list[int]]:
    """The sizes of each window and subject."""
    found = defaultdict(list)
    for n in range(1, COUNT + 1):
        subject = ".".join(["ab"[n % 2], "xyz"[n % 3], "deep"][:depth])
        found[n // 10 // window_s * window_s, subject].append(n * n % 97)
    return found


def percentile(sizes: Sequence[int], share: float) -> float:
    """Between the two nearest, as Spark has it."""
    at = (len(sizes) - 1) * share
    low, high = sorted(sizes)[int(at)], sorted(sizes)[min(int(at) + 1, len(sizes) - 1)]
    return low + (high - low) * (at - int(at))


def test_given_an_archive_when_measured_then_every_figure_is_right(
    spark: SparkSession, archive: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "t.parquet"
    asked = ["--archive", archive, "--window", "10s", "--depth", "2", "--json", "--out", str(out)]
    assert run(stats, asked) == 0
    wanted = plainly(2, 10)
    found = pq.read_table(out).to_pylist()
    assert len(found) == len(wanted)
    for row in found:
        begin = int(row["window"].timestamp() * SECOND) - BEGIN
        sizes = wanted[begin // SECOND, row["subject"]]
        assert (row["messages"], row["bytes"]) == (len(sizes), sum(sizes))
        assert (row["size_min"], row["size_max"]) == (min(sizes), max(sizes))
        assert row["size_mean"] == pytest.approx(statistics.fmean(sizes))
        assert row["size_p50"] == pytest.approx(percentile(sizes, 0.5))
        assert row["size_p95"] == pytest.approx(percentile(sizes, 0.95))
        assert row["messages_per_second"] == pytest.approx(len(sizes) / 10)
        assert row["bytes_per_second"] == pytest.approx(sum(sizes) / 10)
    told = json.loads(capsys.readouterr().out)
    assert told["all"]["messages"] == COUNT
    assert told["all"]["first"] == "2026-01-01T00:00:00.100000+00:00"
    assert told["all"]["messages_per_second"] == pytest.approx(COUNT / 210)  # 21 windows
    busiest = [one["messages"] for one in told["subjects"]]
    assert busiest == sorted(busiest, reverse=True)
    assert sum(busiest) == COUNT
    assert {one["subject"] for one in told["subjects"]} == {subject for _, subject in wanted}


def test_given_bounds_when_measured_then_only_what_is_inside_counts(
    spark: SparkSession, archive: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def messages(*bounds: str) -> int:
        assert run(stats, ["--archive", archive, "--json", *bounds]) == 0
        whole = json.loads(capsys.readouterr().out)["all"]
        return whole["messages"] if whole else 0

    assert messages("--from", "11", "--to", "20") == 10
    assert messages("--since", "2026-01-01T00:01", "--until", "2026-01-01T00:02") == 600
    assert messages("--subject", "a.*.deep") == COUNT // 2
    assert messages("--from", str(COUNT + 1)) == 0


def test_given_a_journal_when_measured_then_it_is_printed(
    spark: SparkSession,
    broker: SeriatimServer,
    publish: Callable[..., None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    publish([b"x" * 1500] * 30)
    publish([b"y"] * 10, b"trades.us")
    url = ["--server", f"127.0.0.1:{broker.port}"]
    assert run(stats, [*url, "--window", "1h", "--top", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    cells = "orders 30 45 kB 1.5 kB 1.5 kB 1.5 kB 1.5 kB 1.5 kB"
    assert " ".join(lines[1].split()).startswith(cells)
    assert lines[2].strip() == "... 1 more"
    assert " ".join(lines[3].split()).startswith("all 2 40 45 kB 1 B 1.5 kB 1.5 kB 1.5 kB 1.13 kB")
    assert run(stats, [*url, "--from", "31", "--subject", "trades.>", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["all"]["messages"] == 10
