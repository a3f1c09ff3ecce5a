"""docs/journal.md names the tools and the reader's methods as they are."""

import inspect
import re
import shlex

from sequencer.journal import Reader
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


def test_given_the_page_when_it_shows_methods_then_the_reader_has_them_with_those_arguments() -> (
    None
):
    for name, arguments in re.findall(r"^\| `reader\.(\w+)\(([^)]*)\)`", PAGE, re.MULTILINE):
        words = [word.strip() for word in arguments.split(",") if word.strip()]
        taken = list(inspect.signature(getattr(Reader, name)).parameters)[1:]
        assert len(words) == len(taken)
        assert [word for word in words if word != "ns"] == [t for t in taken if t != "time"]


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
