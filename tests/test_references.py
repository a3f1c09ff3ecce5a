"""The pages that are made from the code are current, and the page of errors has all of them."""

import re
from collections.abc import Iterator

import pytest

import seriatim
from handbook.__main__ import DOCS, PAGES
from handbook.cli_reference import child_of
from handbook.python_reference import PARTS
from parser import errors
from seriatim.cli import INTERRUPTED
from seriatim.cli.commands import command_tree
from seriatim.cli.errors import FAILED
from seriatim.settings.usage import USAGE
from tests.support.places import ROOT

ERRORS = (DOCS / "errors.md").read_text()


@pytest.mark.parametrize("name", PAGES)
def test_given_the_code_when_a_page_is_made_of_it_then_it_is_the_one_in_the_docs(name: str) -> None:
    assert (DOCS / name).read_text() == PAGES[name](), "write it again: python -m handbook"


def test_given_the_names_of_the_client_when_looked_up_then_each_is_in_the_reference() -> None:
    listed = [name for names in PARTS.values() for name in names]
    assert sorted([*listed, "__version__"]) == sorted(seriatim.__all__)


def commands() -> Iterator[str]:
    """The paths of all commands."""
    tree = command_tree()
    waiting = [(tree, tree.make_context("seriatim", [], resilient_parsing=True))]
    while waiting:
        command, context = waiting.pop()
        yield context.command_path
        if hasattr(command, "list_commands"):
            waiting += [child_of(command, context, one) for one in command.list_commands(context)]


def test_given_all_commands_when_looked_up_then_each_is_in_the_reference() -> None:
    page = (DOCS / "commands.md").read_text()
    sections = set(re.findall(r"^##+ `(.+)`$", page, re.MULTILINE))
    assert sections == set(commands()) - {"seriatim"}


@pytest.mark.parametrize("command", ["serve", "doctor"])
def test_given_the_broker_itself_when_looked_up_then_its_address_and_port_are_listed(
    command: str,
) -> None:
    page = (DOCS / "commands.md").read_text()
    section = page.partition(f"## `seriatim {command}`\n")[2].partition("\n## ")[0]
    assert {"`-a`", "`-p`", "`-m`", "`-sd`"} <= set(re.findall(r"`-[a-z]+`", section))
    assert "#the-broker" not in section, "these are the options of a client"


def test_given_the_wires_errors_when_looked_up_then_the_page_has_the_words_of_each() -> None:
    source = (ROOT / "parser" / "errors.py").read_text()
    source = re.sub(r'"\s+b"', "", source)  # of words in several lines
    words = re.findall(r"b\"-ERR '(.+?)'\\r\\n\"", source)
    assert len(words) > 25
    said = [re.sub(r"(%[bd])+", "...", one) for one in words]
    assert [one for one in said if f"| `{one}` |" not in ERRORS] == []


def test_given_the_clients_errors_when_looked_up_then_the_page_has_each() -> None:
    raised = [name for name in PARTS["Errors"] if name != "BrokerError"]
    assert [name for name in raised if f"| `{name}` |" not in ERRORS] == []


def test_given_the_statuses_of_commands_when_looked_up_then_the_page_has_each() -> None:
    assert errors.AGAIN == 504
    for status in (FAILED, USAGE, INTERRUPTED):
        assert f"\n| {status} | all |" in ERRORS
