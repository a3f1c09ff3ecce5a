"""`seriatim journal export`: the complete file, or none."""

import base64
import csv
import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sequencer.journal.record import RecordBatch
from seriatim.cli import main
from seriatim.cli.errors import FAILED
from seriatim.cli.journal import journal_export
from seriatim.settings.usage import USAGE
from tests.sequencer.stores import SALT, WrittenStore, payload_of, subject_of, time_of
from tests.seriatim.cli.command import COMMAND, environment, seriatim


def exported(path: Path, target: Path, *arguments: str) -> str:
    """Run it; what it says."""
    done = seriatim("journal", "export", str(path), "-o", str(target), *arguments)
    assert (done.returncode, done.stdout) == (0, b""), done.stderr
    return done.stderr.decode()


def with_odd_bytes(path: Path) -> WrittenStore:
    """A store of three messages, two of them with bytes that are no text."""
    store = WrittenStore(path, (1, 0))
    batch = RecordBatch(SALT, 1)
    batch.append_message(1, time_of(1), b"a.\xff", b"", b"", b"\xff\0")
    batch.append_message(2, time_of(2), b"a.b", b"r", b"NATS/1.0\r\nK: v\r\n\r\n", b"base64:x")
    batch.append_message(3, time_of(3), b"a.b", b"", b"", b"")
    store.append(1, bytes(batch.view()))
    return store


def test_given_a_journal_when_exported_to_parquet_then_every_column_is_right(
    tmp_path: Path,
) -> None:
    WrittenStore(tmp_path, (1, 500), (501, 1000))
    said = exported(tmp_path, tmp_path / "all.parquet")
    table = pq.read_table(tmp_path / "all.parquet")
    assert said.startswith("seriatim: exported 1000 messages, ")
    assert table.schema.field("time").type == pa.timestamp("ns", tz="UTC")
    assert table.schema.field("subject").type == pa.string()
    assert table.column("number").to_pylist() == list(range(1, 1001))
    assert table.column("time").cast(pa.int64()).to_pylist() == [time_of(n) for n in range(1, 1001)]
    assert table.column("payload").to_pylist() == [payload_of(n) for n in range(1, 1001)]
    subjects = [subject_of(number).decode() for number in range(1, 1001)]
    assert table.column("subject").to_pylist() == subjects
    assert table.column("headers").to_pylist()[4] == b"NATS/1.0\r\nA: 5\r\n\r\n"
    assert table.column("reply").to_pylist()[5:7] == ["", "answers"]


def test_given_a_part_when_exported_then_only_that_is_in_the_file(tmp_path: Path) -> None:
    WrittenStore(tmp_path, (1, 500), (501, 1000))
    target = tmp_path / "part.parquet"
    exported(
        tmp_path, target, "--from", "400", "--to", "600", "--subject", "orders.1", "--microseconds"
    )
    table = pq.read_table(target)
    assert table.column("number").to_pylist() == list(range(400, 601, 3))
    assert table.schema.field("time").type == pa.timestamp("us", tz="UTC")


def test_given_more_than_a_row_group_when_exported_then_there_are_several(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_export, "GROUP_ROWS_MAX", 400)
    monkeypatch.setattr(journal_export, "CHUNK_ROWS_MAX", 100)
    WrittenStore(tmp_path, (1, 1000))
    target = tmp_path / "groups.parquet"
    assert main(["journal", "export", str(tmp_path), "-o", str(target)]) == 0
    file = pq.ParquetFile(target)
    groups = [file.metadata.row_group(at).num_rows for at in range(file.num_row_groups)]
    assert groups == [400, 400, 200]
    assert file.read().column("number").to_pylist() == list(range(1, 1001))


def test_given_bytes_that_are_no_text_when_exported_then_none_is_lost(tmp_path: Path) -> None:
    with_odd_bytes(tmp_path)
    exported(tmp_path, tmp_path / "odd.parquet")
    table = pq.read_table(tmp_path / "odd.parquet")
    assert table.column("subject").to_pylist() == ["a.\\xff", "a.b", "a.b"]
    assert table.column("payload").to_pylist() == [b"\xff\0", b"base64:x", b""]
    exported(tmp_path, tmp_path / "odd.csv")
    with (tmp_path / "odd.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    payloads = [row["payload"] for row in rows]
    assert payloads[0] == "base64:" + base64.b64encode(b"\xff\0").decode()
    assert payloads[1] == "base64:" + base64.b64encode(b"base64:x").decode()
    assert payloads[2] == ""
    assert rows[1]["headers"] == "NATS/1.0\r\nK: v\r\n\r\n"
    assert rows[1]["time"] == "2023-11-14T22:13:22.000000000Z"
    exported(tmp_path, tmp_path / "odd.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "odd.jsonl").read_text().splitlines()]
    assert [line["number"] for line in lines] == [1, 2, 3]
    assert lines[1]["headers"] == {"K": "v"}


def test_given_standard_output_when_exported_then_it_goes_there(tmp_path: Path) -> None:
    WrittenStore(tmp_path, (1, 3))
    done = seriatim("journal", "export", str(tmp_path), "-o", "-", "--format", "jsonl")
    assert done.returncode == 0
    assert [json.loads(line)["number"] for line in done.stdout.splitlines()] == [1, 2, 3]


def test_given_damage_when_exported_then_the_rest_is_there_and_the_status_is_one(
    tmp_path: Path,
) -> None:
    WrittenStore(tmp_path, (1, 10)).spoil(1, 5)
    target = tmp_path / "rest.parquet"
    done = seriatim("journal", "export", str(tmp_path), "-o", str(target))
    assert done.returncode == 1
    assert b"number 5 is lost by damage in segment 1" in done.stderr
    assert pq.read_table(target).num_rows == 9


def test_given_an_empty_journal_when_exported_then_the_file_has_no_rows(tmp_path: Path) -> None:
    WrittenStore(tmp_path, (1, 0))
    exported(tmp_path, tmp_path / "none.parquet")
    assert pq.read_table(tmp_path / "none.parquet").num_rows == 0


def test_given_a_file_that_is_there_when_exported_then_only_force_replaces_it(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    WrittenStore(tmp_path, (1, 3))
    target = tmp_path / "there.csv"
    target.write_text("mine")
    command = ["journal", "export", str(tmp_path), "-o", str(target)]
    assert main(command) == 1
    assert "the file exists already; --force replaces it" in capfd.readouterr().err
    assert target.read_text() == "mine"
    assert main([*command, "--force"]) == 0
    assert target.read_text().count("\n") == 4


def test_given_a_full_disk_when_exported_then_no_half_file_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    WrittenStore(tmp_path, (1, 3))

    def full(*_: object) -> bytes:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(journal_export, "as_json", full)
    target = tmp_path / "full.jsonl"
    assert main(["journal", "export", str(tmp_path), "-o", str(target)]) == 1
    assert "No space left on device" in capfd.readouterr().err
    assert list(tmp_path.glob("full.jsonl*")) == []


@pytest.mark.parametrize(
    ("output", "format", "told"),
    [
        ("x.txt", None, "x.txt: its extension is unknown; give --format parquet|csv|jsonl"),
        ("x", "xml", '--format: "xml" is not one of parquet, csv, jsonl'),
        ("-", "parquet", "Parquet cannot be written to a pipe; give a file with -o"),
    ],
)
def test_given_no_possible_format_when_exported_then_one_line_says_so(
    tmp_path: Path,
    output: str,
    format: str | None,
    told: str,
    capfd: pytest.CaptureFixture[str],
) -> None:
    WrittenStore(tmp_path, (1, 3))
    chosen = ["--format", format] if format else []
    assert main(["journal", "export", str(tmp_path), "-o", output, *chosen]) in (FAILED, USAGE)
    assert capfd.readouterr().err == f"seriatim: {told}\n"


def test_given_no_pyarrow_when_parquet_is_asked_for_then_the_extra_is_named(
    tmp_path: Path,
) -> None:
    WrittenStore(tmp_path, (1, 3))
    code = (
        "import sys; sys.modules['pyarrow'] = None;"
        " from seriatim.cli import main; sys.exit(main(sys.argv[1:]))"
    )
    target = tmp_path / "x.parquet"
    done = subprocess.run(
        [sys.executable, "-c", code, "journal", "export", str(tmp_path), "-o", str(target)],
        capture_output=True,
        text=True,
        check=False,
        env=environment(),
    )
    assert done.returncode == 1
    assert done.stderr.startswith("seriatim: Parquet needs pyarrow, which is not installed here:")
    assert "pip install 'pyarrow>=15'" in done.stderr
    assert not target.exists()


def test_given_a_pipe_that_closes_when_exported_then_it_ends_in_silence(tmp_path: Path) -> None:
    WrittenStore(tmp_path, (1, 20_000))
    line = f"'{COMMAND}' journal export '{tmp_path}' -o - --format csv | head -n 1"
    done = subprocess.run(
        ["bash", "-c", line], capture_output=True, text=True, check=True, env=environment()
    )
    assert (done.stdout, done.stderr) == ("number,time,subject,reply,headers,payload\n", "")
