"""The manual page: it is current, complete, installed, and what readers of such pages accept."""

import re
import subprocess

import pytest

from seriatim.cli.commands import command_tree
from tests.seriatim.cli.command import seriatim
from tests.support.debian import program
from tests.support.places import ROOT

PAGE = ROOT / "seriatim" / "cli" / "seriatim.1"


def test_given_the_commands_when_the_page_is_made_then_the_repository_has_it() -> None:
    done = seriatim("man")
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.decode() == PAGE.read_text(), "run: seriatim man > seriatim/cli/seriatim.1"


@pytest.mark.parametrize(
    ("name", "package", "arguments"),
    [
        ("mandoc", "mandoc", ["-T", "lint", "-W", "warning"]),
        ("groff", "groff-base", ["-man", "-ww", "-z"]),
    ],
    ids=["mandoc", "groff"],
)
def test_given_the_page_when_it_is_formatted_then_nothing_is_wrong(
    name: str, package: str, arguments: list[str]
) -> None:
    command = [program(name, package), *arguments, str(PAGE)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_given_the_page_when_read_then_each_command_and_option_is_as_it_is_typed() -> None:
    command = [program("mandoc"), "-T", "utf8", "-O", "width=200", str(PAGE)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    text = re.sub(".\b", "", done.stdout)  # bold and italic are characters printed over others
    for name, command_of in command_tree().commands.items():
        assert f"seriatim {name}" in text
        for option in command_of.params:
            if option.param_type_name == "option" and not option.hidden:
                assert option.opts[-1] in text, option.opts
    assert "seriatim context add prod -s tls://broker --creds ops.creds" in text
    assert "[bold]" not in text
    assert "[cyan]" not in text
    assert "`" not in text
