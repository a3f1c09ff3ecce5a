"""docs/journal.md names the tools as they are, and its Python runs."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from tests.sequencer.stores import WrittenStore
from tests.seriatim.cli.command import seriatim
from tests.support.places import ROOT

PAGE = (ROOT / "docs" / "journal.md").read_text()


def test_given_the_page_when_it_lists_the_commands_then_they_are_all_and_their_flags_exist() -> (
    None
):
    listed = re.findall(r"^\| `seriatim journal (\w+)([^`]*)`([^\n]*)", PAGE, re.MULTILINE)
    assert [name for name, _, _ in listed] == [
        *("info", "cat", "export", "verify", "copy", "truncate", "index")
    ]
    for name, usage, text in listed:
        shown = seriatim("journal", name, "--help").stdout.decode()
        for flag in re.findall(r"(?<![\w-])--?[a-z]+", usage + text):
            assert re.search(rf"(?<![\w-]){flag}(?![\w-])", shown), (name, flag)


def test_given_the_page_when_its_python_is_run_then_it_reads_a_store(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    WrittenStore(tmp_path, (88485, 88490))
    examples = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert len(examples) == 2
    for example in examples:
        code = example.replace("/var/lib/seriatim", str(tmp_path))
        code = code.replace("start=88485", "start=88485, follow=False")
        names: dict[str, Any] = {}
        exec(code, names)
    assert len(capsys.readouterr().out.splitlines()) == 6
    assert names["frame"]["number"].tolist() == list(range(88485, 88491))


def test_given_the_examples_when_looked_at_then_each_begins_with_a_command_there_is() -> None:
    lines = re.findall(r"^seriatim journal .*$", PAGE, re.MULTILINE)
    assert len(lines) >= 3
    for line in lines:
        assert shlex.split(line)[2] in (
            "info",
            "cat",
            "export",
            "verify",
            "copy",
            "truncate",
            "index",
        )
