"""Roots that are no file system, or not reachable: one line, with what is needed; and folders."""

import subprocess
import sys
from pathlib import Path

import pytest

from pyspark_seriatim.jobs.errors import JobError
from pyspark_seriatim.jobs.filelog.files import Files, _unreached

LIBJVM = OSError("Unable to load libjvm\ndlopen(/a/libjvm.so) failed: no\ndlopen(/b/libjvm.so)")


@pytest.mark.parametrize("root", ["nosuch://x/y", "http://h/x", "jdbc:odd://x"])
def test_given_an_unknown_file_system_when_opened_then_the_error_lists_the_known_ones(
    root: str,
) -> None:
    with pytest.raises(JobError, match=f"^{root}: .*; write a path, or file://, hdfs://") as told:
        Files(root)
    assert "\n" not in str(told.value)


@pytest.mark.parametrize("scheme", ["hdfs", "viewfs"])
def test_given_no_java_for_hdfs_when_opened_then_one_line_says_what_it_takes(
    scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    told = _unreached(scheme, LIBJVM)
    assert told.startswith(f"Unable to load libjvm; {scheme}:// needs Hadoop's client")
    for wanted in ("JAVA_HOME (not set)", "libhdfs.so", "CLASSPATH as `hadoop classpath --glob`"):
        assert wanted in told
    assert "\n" not in told
    monkeypatch.setenv("JAVA_HOME", "/opt/java")
    assert "JAVA_HOME (/opt/java)" in _unreached(scheme, LIBJVM)


def test_given_a_store_that_does_not_answer_when_opened_then_its_own_first_line_is_reported() -> (
    None
):
    assert _unreached("s3", OSError("no such host\nmore")) == "no such host"


MAKING = "import os, sys\nwhile True:\n    os.mkdir(sys.argv[1])\n    os.rmdir(sys.argv[1])"
LISTED = 100_000  # a dozen of them meet the folder as it is being made


def test_given_a_folder_that_is_being_made_when_its_names_are_asked_for_then_there_are_none(
    tmp_path: Path,
) -> None:
    files = Files(str(tmp_path))
    with subprocess.Popen([sys.executable, "-c", MAKING, tmp_path / "folder"]) as maker:
        try:
            assert not any(files.names("folder") for _ in range(LISTED))
            assert maker.poll() is None
        finally:
            maker.kill()
