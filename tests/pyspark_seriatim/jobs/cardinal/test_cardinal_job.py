"""The cardinal job's command line, as far as Spark is not needed."""

from pathlib import Path

import pytest

from pyspark_seriatim.jobs.cardinal import cardinal_job as job
from pyspark_seriatim.jobs.cardinal.assembly import AssemblyOptions, Engine
from pyspark_seriatim.jobs.running.command import FAILED, run
from seriatim.settings.usage import USAGE

TOML = 'default = "blocks"\n[topics]\n"a/" = "accounts"\n"s/" = "accounts"\n"l/" = "logs"\n'


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["a.b", "ROOT"], "application 'a.b': one word of letters, digits, - and _"),
        (["chain", "ROOT", "--track", "a/"], "--track needs --schema"),
        (["chain", "ROOT", "--schema", "none.toml"], "none.toml: cannot be read: No such file"),
        (["chain", "ROOT", "--schema", "bad.toml"], "bad.toml: not valid TOML: "),
        (["chain", "ROOT", "--schema", "latin.toml"], "latin.toml: not valid TOML: "),
        (["chain", "ROOT", "--schema", "chain.toml", "--track", "a/1"], "--track: cannot track"),
        (["chain", "ROOT", "--engine", "both"], "'both' is not one of 'fold', 'state'"),
        (["chain", "ROOT", "--threshold", "-1"], "--threshold: -1 is out of range"),
        (["chain", "ROOT", "--max-offsets", "0"], "--max-offsets: 0 is out of range"),
        (["chain", "ROOT", "-s", "127.0.0.1:1"], "127.0.0.1:1"),
        (["chain"], "Missing argument 'ROOT'"),
    ],
    ids=lambda one: " ".join(one[-2:]) if isinstance(one, list) else "",
)
def test_given_options_that_cannot_be_when_run_then_one_line_says_why(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    options: list[str],
    words: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("time.sleep", lambda seconds: None)  # between attempts to connect
    Path("chain.toml").write_text(TOML)
    Path("bad.toml").write_text("default")
    Path("latin.toml").write_bytes(b'default = "\xe9"')
    assert run(job.cardinal, options) in (FAILED, USAGE)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("seriatim: ")
    assert words in line
    assert not Path("ROOT").exists()


def test_given_a_schema_when_tracked_then_its_topics_and_the_channels_are_read(
    tmp_path: Path,
) -> None:
    (tmp_path / "chain.toml").write_text(TOML)
    tracking = job.read_tracking(str(tmp_path / "chain.toml"), ["a/"])
    wanted = AssemblyOptions("evm", "root", "", tracking, Engine.FOLD, 128)
    prefix = "cardinal.evm."
    assert wanted.subjects == f"{prefix}blocks,{prefix}accounts,{prefix}reorg.>"
    assert AssemblyOptions("evm", "root", "", None, Engine.FOLD, 128).subjects == f"{prefix}>"
    assert job.read_tracking(None, ()) is None
