"""The file of each job, for spark-submit, and its package, for `python -m`."""

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from seriatim.cli.spark import JOBS
from tests.support.places import ROOT


@pytest.mark.parametrize("job", JOBS)
def test_given_a_job_when_its_file_is_run_then_it_is_the_command_and_finds_the_right_modules(
    job: str, tmp_path: Path
) -> None:
    file = ROOT / "pyspark_seriatim" / "jobs" / job / "__main__.py"
    found = subprocess.run(
        [sys.executable, file, "--help"], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert (found.returncode, found.stderr) == (0, "")
    about = getattr(import_module(f"pyspark_seriatim.jobs.{job}.{job}_job"), job).__doc__
    assert about.split("\n")[0] in " ".join(found.stdout.split())


def test_given_a_job_when_its_package_is_run_then_it_is_the_command() -> None:
    found = subprocess.run(
        [sys.executable, "-m", "pyspark_seriatim.jobs.bundle", "seriatim.whl"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    assert (found.returncode, found.stdout) == (2, "")
    assert "Spark accepts a zip only if its name ends in .zip" in found.stderr
