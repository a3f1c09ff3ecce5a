"""The pure parts of `stats`: times as typed, the output, and what is refused."""

import json
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from pyspark_seriatim.jobs.errors import WrongArguments
from pyspark_seriatim.jobs.running.command import FAILED, run
from pyspark_seriatim.jobs.stats.stats_job import duration_us, moment_ms, stats
from pyspark_seriatim.jobs.stats.stats_output import write_table
from seriatim.settings.usage import USAGE
from tests.support.parquet_folders import rows, write

NOW = 1_767_225_600_000  # 2026-01-01T00:00Z
MINUTE = 60_000_000


def windows(begins: list[int], subjects: list[str], messages: list[int]) -> pa.Table:
    """Rows as `measure` makes them; begins in minutes."""
    moments = pa.array([NOW * 1000 + at * MINUTE for at in begins], pa.timestamp("us", "UTC"))
    sizes = [10 * one for one in messages]
    columns = {"window": moments, "subject": subjects, "messages": messages, "bytes": sizes}
    return pa.table(columns)


@pytest.mark.parametrize(
    ("text", "us"),
    [("1ms", 1000), ("10s", 10_000_000), ("1.5m", 90_000_000), ("1w", 604_800_000_000)],
)
def test_given_a_duration_when_read_then_it_is_microseconds(text: str, us: int) -> None:
    assert duration_us("--window", text) == us


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("10m", NOW - 600_000),
        ("1m30s", NOW - 90_000),
        ("600", NOW - 600_000),
        ("2026-01-01", NOW),
        ("2026-01-01T00:00:01.5", NOW + 1500),
        ("2026-01-01T01:00+01:00", NOW),
        (str(NOW), NOW),
    ],
)
def test_given_a_moment_when_read_then_it_is_milliseconds(text: str, ms: int) -> None:
    assert moment_ms("--since", text, NOW) == ms


@pytest.mark.parametrize("text", ["", "m", "0s", "1y", "-1s", "1 m x"])
def test_given_no_duration_when_read_then_the_error_names_the_option(text: str) -> None:
    with pytest.raises(WrongArguments, match=f"--window {text}: "):
        duration_us("--window", text)
    with pytest.raises(WrongArguments, match="--since"):
        moment_ms("--since", f"{text}?", NOW)


def test_given_unix_seconds_when_read_then_it_asks_instead_of_reading_everything() -> None:
    with pytest.raises(WrongArguments, match="1679909168: seconds or milliseconds"):
        moment_ms("--since", "1679909168", NOW)


def test_given_a_table_when_written_then_each_format_holds_it(tmp_path: Path) -> None:
    table = windows([0, 1], ["orders", "b\xe4r"], [10, 20])
    for ending in ("parquet", "csv", "jsonl"):
        write_table(str(tmp_path / "out" / f"t.{ending}"), table)
    out = tmp_path / "out"
    assert sorted(path.name for path in out.iterdir()) == ["t.csv", "t.jsonl", "t.parquet"]
    assert pq.read_table(out / "t.parquet") == table
    assert pa.csv.read_csv(out / "t.csv").column("messages").to_pylist() == [10, 20]
    lines = [json.loads(line) for line in (out / "t.jsonl").read_text().splitlines()]
    assert lines[1] == {
        "window": datetime(2026, 1, 1, 0, 1, tzinfo=UTC).isoformat(),
        "subject": "b\xe4r",
        "messages": 20,
        "bytes": 200,
    }


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "nothing to measure: give --server or --archive"),
        (["--archive", "ROOT", "--server", "h:1"], "give --server or --archive"),
        (["--archive", "ROOT", "--window", "1y"], "--window 1y: "),
        (["--archive", "ROOT", "--out", "x.xls"], "--out x.xls: the name says the format"),
        (["--archive", "ROOT", "--out", "ROOT/a.parquet/y/x.csv"], "/a.parquet/y/x.csv: "),
        (["--archive", "ROOT", "--out", "ROOT/folder.csv"], "/folder.csv: that is a folder"),
        (["--archive", "ROOT", "--out", "nosuch://b/x.csv"], "nosuch://b/x.csv: Unrecognized"),
        (["--archive", "ROOT", "--from", "3", "--to", "2"], "--to 2 is below --from 3"),
        (["--archive", "ROOT", "--since", "5s", "--until", "1h"], "--until 1h is before --since"),
        (["--server", "h:1", "--from", "3", "--since", "1h"], "--from and --since"),
        (["--server", "h:1", "--subject", "a b"], "subscribe: "),
        (["--archive", "ROOT", "--subject", "a..b"], "--subject a..b"),
        (["--archive", "ROOT", "--depth", "0"], "--depth: 0 is out of range"),
    ],
)
def test_given_what_cannot_be_measured_when_asked_then_one_line_says_why(
    arguments: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = write(tmp_path, {"a.parquet": rows([1, 2])})
    (tmp_path / "folder.csv").mkdir()
    assert run(stats, [one.replace("ROOT", root) for one in arguments]) in (FAILED, USAGE)
    captured = capsys.readouterr()
    assert captured.err.startswith("seriatim: ")
    assert words in captured.err
    assert (captured.err.count("\n"), captured.out) == (1, "")


def test_given_a_file_that_cannot_be_written_when_measured_then_the_figures_are_printed_before(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: str, *_: object) -> None:
        raise OSError(28, "No space left on device", path)

    table = windows([0], ["orders"], [10])
    measured = SimpleNamespace(windows=table, subjects=table.slice(0, 1))
    for name, found in (
        ("spark_session", lambda *_: None),
        ("measure", lambda *_: measured),
        ("print_measured", lambda *_: print("the table")),
        ("write_table", full),
    ):
        monkeypatch.setattr(f"pyspark_seriatim.jobs.stats.stats_job.{name}", found)
    root = write(tmp_path, {"a.parquet": rows([1, 2])})
    assert run(stats, ["--archive", root, "--out", f"{root}/new/of/it/x.csv"]) == 2
    captured = capsys.readouterr()
    assert captured.out == "the table\n"
    assert captured.err == f"seriatim: {root}/new/of/it/x.csv: No space left on device\n"
