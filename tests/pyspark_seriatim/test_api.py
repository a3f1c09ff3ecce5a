"""A PySpark without names of the API: reported in one line, whatever is imported first."""

from pathlib import Path

import pytest

from tests.support.older_pyspark import TOLD, older_pyspark, run


@pytest.mark.parametrize("module", ["source", "stream", "sink", "narrowing"])
def test_given_an_older_pyspark_when_the_source_is_imported_then_both_versions_are_reported(
    tmp_path: Path, module: str
) -> None:
    done = run(f"import pyspark_seriatim.{module}", older_pyspark(tmp_path, "4.1.1"))
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == f"pyspark_seriatim.errors.PySparkNotUsable: {TOLD}"


@pytest.mark.parametrize("version", ["3.5.7", "4.10.0.dev1"])
def test_given_a_pyspark_without_sources_in_python_then_it_is_reported(
    tmp_path: Path, version: str
) -> None:
    place = older_pyspark(tmp_path, version, without="sql/datasource.py")
    done = run("from pyspark_seriatim import DefaultSource", place)
    words = {
        "3.5.7": "PySpark 3.5.7 is installed, but 4.2 or later is needed",
        "4.10.0.dev1": "this PySpark cannot be used: No module named 'pyspark.sql.datasource'",
    }
    assert f"PySparkNotUsable: {words[version]}" in done.stderr.splitlines()[-1]
