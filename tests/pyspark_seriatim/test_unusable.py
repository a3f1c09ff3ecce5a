"""The source that stands in if the real one cannot be used: it says why."""

from pathlib import Path

from tests.support.older_pyspark import TOLD, older_pyspark, run


def test_given_an_older_pyspark_that_looks_for_sources_then_it_finds_one_that_says_why_not(
    tmp_path: Path,
) -> None:
    program = """
from pyspark_seriatim import DefaultSource
from pyspark.sql.datasource import DataSource
assert issubclass(DefaultSource, DataSource) and DefaultSource.name() == "seriatim"
DefaultSource(options={})
"""
    done = run(program, older_pyspark(tmp_path, "4.1.1"))
    assert done.stderr.splitlines()[-1] == f"pyspark_seriatim.errors.PySparkNotUsable: {TOLD}"


def test_given_what_is_missing_besides_pyspark_when_the_source_is_used_then_it_is_reported(
    tmp_path: Path,
) -> None:
    (tmp_path / "pyarrow.py").write_text("raise ImportError('no pyarrow here')\n")
    program = "from pyspark_seriatim import DefaultSource; DefaultSource(options={})"
    done = run(program, str(tmp_path))
    assert done.stderr.splitlines()[-1] == "ImportError: no pyarrow here"
