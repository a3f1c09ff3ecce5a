"""Which PySpark is installed: with one that is too old, a job ends with one line."""

from pathlib import Path

from tests.support.older_pyspark import TOLD, older_pyspark, run


def test_given_an_older_pyspark_when_a_job_is_begun_then_it_ends_with_that_line(
    tmp_path: Path,
) -> None:
    program = """
import sys
from pyspark_seriatim.jobs.running.command import job
from pyspark_seriatim.jobs.running.spark_session import spark_session

@job
def begin() -> int:
    spark_session("a job")
    return 0

sys.exit(begin())
"""
    done = run(program, older_pyspark(tmp_path, "4.1.1"))
    assert (done.returncode, done.stderr) == (2, f"seriatim: {TOLD}\n")
