"""`seriatim spark`: its jobs are listed, loaded on demand, and reported if that fails."""

import os
import subprocess
import sys
from pathlib import Path

from seriatim.cli.spark import JOBS
from tests.support.places import ROOT

SERIATIM = Path(sys.executable).with_name("seriatim")
WITHOUT_THE_EXTRA = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("pyarrow", "pyspark", "numpy", "pandas"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())
from seriatim.cli import main
sys.argv[0] = "seriatim"
sys.exit(main())
"""


def run(*command: str) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "120", "NO_COLOR": "1"}
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60)


def test_given_the_group_when_help_is_asked_then_every_job_is_in_it() -> None:
    done = run(str(SERIATIM), "spark", "--help")
    assert done.returncode == 0
    assert [job for job in JOBS if f" {job} " not in done.stdout] == []


def test_given_the_command_line_when_it_is_loaded_then_nothing_of_spark_is() -> None:
    program = "import sys, seriatim.cli.commands, seriatim.cli.spark; print(*sys.modules)"
    loaded = run(sys.executable, "-c", program).stdout.split()
    assert "seriatim.cli.spark" in loaded
    assert not {"pyspark", "pyarrow", "numpy", "pyspark_seriatim"} & set(loaded)


def test_given_a_job_when_its_arguments_are_wrong_then_one_line_says_so() -> None:
    done = run(str(SERIATIM), "spark", "archive")
    assert (done.returncode, done.stdout) == (64, "")
    assert done.stderr == "seriatim: Missing argument 'ROOT'; see --help\n"


def test_given_no_spark_extra_when_a_job_is_asked_for_then_the_error_says_how_to_get_it() -> None:
    given = {"archive": "x", "audit": "--archive x", "replay": "x", "stats": "--archive x"}
    for job, arguments in {**given, "cardinal": "chain x"}.items():
        done = run(sys.executable, "-c", WITHOUT_THE_EXTRA, "spark", job, *arguments.split())
        assert done.returncode == 2
        assert done.stderr.endswith(
            " is not installed: pip install '.[spark]' in a checkout of Seriatim\n"
        ), job
