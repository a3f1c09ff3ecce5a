"""The session of a job: what is decided before it starts."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pyspark_seriatim.jobs.errors import JobError, first_line
from pyspark_seriatim.jobs.running.spark_session import _check_master

BEGIN = """
from pyspark_seriatim.jobs.running.spark_session import spark_session

spark_session('a job')
"""


def begun(**environment: str) -> str:
    """What is said in a process of its own, where nobody has begun a session."""
    named = ("PYSPARK_", "SPARK_", "JAVA_HOME")
    kept = {key: value for key, value in os.environ.items() if not key.startswith(named)}
    done = subprocess.run(
        [sys.executable, "-c", BEGIN], env=kept | environment, capture_output=True, text=True
    )
    assert done.returncode == 1
    return done.stderr.splitlines()[-1]


def test_given_no_java_when_a_session_is_wanted_then_the_error_says_how_to_get_it(
    tmp_path: Path,
) -> None:
    said = begun(PATH=str(tmp_path))
    assert "Spark needs Java 17 or 21, but there is no `java`: apt-get install default-jre" in said


def test_given_a_java_home_without_java_then_it_is_named(tmp_path: Path) -> None:
    assert f"JAVA_HOME is {tmp_path}, but there is no bin/java" in begun(JAVA_HOME=str(tmp_path))


@pytest.mark.parametrize(
    "master",
    [
        "foo",
        "",
        "local[x]",
        "local[2",
        "localhost:7077",
        "spark://",
        "local-cluster[2]",
        "mesos://h:1",
    ],
)
def test_given_a_master_that_spark_does_not_know_then_it_is_reported_before_a_jvm_is_started(
    master: str,
) -> None:
    with pytest.raises(
        JobError, match=r"^--master .*: write local\[\*\], local\[4\], spark://HOST"
    ):
        _check_master(master)


@pytest.mark.parametrize(
    "master",
    [
        *("local", "local[*]", "local[2]", "local[2,3]", "local[*, 4]", "local-cluster[2,1,1024]"),
        *("yarn", "spark://a:7077,b:7077", "k8s://https://h:443"),
    ],
)
def test_given_a_master_of_spark_then_nothing_is_reported(master: str) -> None:
    _check_master(master)


def test_given_an_error_of_the_jvm_then_its_first_line_is_reported() -> None:
    assert first_line(ValueError("\n what it was\n  at java.lang.Thread")) == "what it was"
    assert first_line(ValueError()) == "ValueError"
