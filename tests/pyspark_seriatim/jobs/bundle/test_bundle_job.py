"""The zip for executors: its contents, and that it is self-contained."""

import subprocess
import sys
import zipfile
from pathlib import Path

import numpy
import pyarrow
import pyspark
import pytest

from pyspark_seriatim.jobs.bundle import bundle_job
from pyspark_seriatim.jobs.running.command import DONE, FAILED, run

# Modules with something in them that runs in executors, which have pyarrow, and no terminal.
RUN_THERE = (
    "pyspark_seriatim.sink",
    "pyspark_seriatim.source",
    "pyspark_seriatim.stream",
    *(
        f"pyspark_seriatim.jobs.{name}"
        for name in (
            "archive.archiving",
            "archive.compaction",
            "archive.rows",
            "audit.auditing",
            "audit.census",
            "cardinal.state",
            "replay.replaying",
        )
    ),
)
IMPORTING = """
import sys
from importlib import import_module
made, *places = sys.argv[1:]
sys.path[:0] = [made]
sys.path += places  # without the .pth files there
for name in ("typer", "rich", "orjson", "nats", "broker"):
    sys.modules[name] = None
for name in {names}:
    module = import_module(name)
    assert module.__file__.startswith(made + "/"), module.__file__
"""


def test_given_the_zip_and_pyarrow_and_nothing_else_when_executors_import_then_it_suffices(
    tmp_path: Path,
) -> None:
    made = tmp_path / "seriatim.zip"
    bundle_job.write(made)
    places = [str(Path(str(one.__file__)).parents[1]) for one in (numpy, pyarrow, pyspark)]
    program = IMPORTING.replace("{names}", repr(RUN_THERE))
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", program, str(made), *places],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_given_the_zip_then_nothing_of_the_broker_and_nothing_compiled_is_in_it(
    tmp_path: Path,
) -> None:
    made = tmp_path / "seriatim.zip"
    count = bundle_job.write(made)
    with zipfile.ZipFile(made) as archive:
        names = archive.namelist()
    assert len(names) == count
    assert {name.split("/")[0] for name in names} == {*("pyspark_seriatim", "cardinal", "seriatim")}
    assert {Path(name).suffix for name in names} <= bundle_job.SUFFIXES
    assert "pyspark_seriatim/jobs/archive/__main__.py" in names


def test_given_the_same_sources_when_bundled_twice_then_the_zips_are_the_same(
    tmp_path: Path,
) -> None:
    bundle_job.write(tmp_path / "a.zip")
    bundle_job.write(tmp_path / "b.zip")
    assert (tmp_path / "a.zip").read_bytes() == (tmp_path / "b.zip").read_bytes()
    assert len(list(tmp_path.iterdir())) == 2, "nothing else is left there"


def test_given_a_name_when_bundled_from_the_command_line_then_the_zip_is_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(bundle_job.bundle, [str(tmp_path / "seriatim.zip")]) == DONE
    assert capsys.readouterr().out.startswith(f"{tmp_path}/seriatim.zip: ")
    assert zipfile.is_zipfile(tmp_path / "seriatim.zip")


def test_given_a_name_that_spark_does_not_take_when_bundled_then_it_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(bundle_job.bundle, [str(tmp_path / "seriatim.whl")]) == FAILED
    assert "Spark accepts a zip only if its name ends in .zip" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_given_a_folder_that_is_not_there_when_bundled_then_it_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(bundle_job.bundle, [str(tmp_path / "no" / "seriatim.zip")]) == FAILED
    assert "No such file or directory" in capsys.readouterr().err
