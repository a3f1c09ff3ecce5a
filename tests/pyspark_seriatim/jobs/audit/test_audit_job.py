"""What `audit` refuses before Spark starts: one line, and status 2."""

from pathlib import Path

import pytest

from pyspark_seriatim.jobs.audit.audit_job import audit
from pyspark_seriatim.jobs.running.command import FAILED, run
from seriatim.settings.usage import USAGE
from tests.support.parquet_folders import rows, write


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "nothing to audit: give --server, --archive, or both"),
        (["--archive", "no/such"], "no/such: nothing is there"),
        (["--archive", "nosuch://x/y"], "nosuch://x/y: Unrecognized filesystem type"),
        (["--archive", "ROOT", "--from", "5", "--to", "4"], "--to 4 is below --from 5"),
        (["--archive", "ROOT", "--subject", "a..b"], "--subject a..b: not a valid subject"),
        (["--archive", "ROOT", "--from", "0"], "--from: 0 is out of range"),
        (["--archive", "ROOT", "--limit", "0"], "--limit: 0 is out of range"),
        (["--server", "127.0.0.1:1"], "127.0.0.1:1"),
        (["--server", "h:99999"], "servers: "),
    ],
)
def test_given_what_cannot_be_audited_when_asked_then_one_line_says_why(
    arguments: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = write(tmp_path, {"a.parquet": rows([1, 2])})
    assert run(audit, [root if one == "ROOT" else one for one in arguments]) in (FAILED, USAGE)
    captured = capsys.readouterr()
    assert captured.err.startswith("seriatim: ")
    assert words in captured.err
    assert (captured.err.count("\n"), captured.out) == (1, "")
