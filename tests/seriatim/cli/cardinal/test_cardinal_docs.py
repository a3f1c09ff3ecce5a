"""docs/cardinal.md: its commands and its program are run unchanged, and do what it says."""

import os
import re
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cardinal.errors import SchemaError
from cardinal.pattern import Pattern, PatternError
from cardinal.schema import Schema
from cardinal.simulation import Plan, Simulation
from cardinal.update import ChainUpdate
from tests.seriatim.cli.command import COMMAND, COMMAND_S, environment, seriatim
from tests.support.places import ROOT
from tests.support.processes import SeriatimServer

PAGE = (ROOT / "docs" / "cardinal.md").read_text()
PLAN = Plan(blocks=9, updates=3, sub_batch=1, value_bytes=2, forks=0.4, seed=6)


def block_of(mark: str) -> str:
    """The fenced block behind a mark."""
    found = re.search(rf"<!-- {mark} -->\n```\w*\n(.*?)```", PAGE, re.DOTALL)
    assert found is not None
    return found[1]


def commands() -> list[str]:
    return block_of("run: shell").replace("\\\n", "").splitlines()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    """Where the first three commands have been run, and the broker's URL."""
    folder = tmp_path_factory.mktemp("guide")
    serve, simulate, produce, *_ = commands()
    assert serve == "seriatim serve --store_dir store &"
    with SeriatimServer("netstring", store=folder / "store") as broker:
        url = f"nats://127.0.0.1:{broker.port}"
        for line in (simulate, produce):
            done = seriatim(*line.split()[1:], env={"SERIATIM_URL": url}, cwd=folder)
            assert (done.returncode, done.stderr) == (0, b"")
        yield folder, url


@pytest.mark.parametrize(("line", "shown"), [(3, "consume"), (4, "inspect")])
def test_given_the_commands_when_run_then_they_print_what_the_page_shows(
    line: int, shown: str, place: tuple[Path, str]
) -> None:
    folder, url = place
    path = f"{Path(COMMAND).parent}:{os.environ['PATH']}"
    env = environment({"SERIATIM_URL": url, "PATH": path})
    command = commands()[line].replace("jq -c", f"{sys.executable} -c '{JQ}' #")
    done = subprocess.run(["sh", "-c", command], cwd=folder, env=env, capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.decode() == block_of(f"shows: {shown}")


JQ = """
import json, sys
for line in sys.stdin:
    update = json.loads(line)
    told = [[one["number"] for one in update[name]] for name in ("removed", "added")]
    print(json.dumps(told, separators=(",", ":")))
"""


def test_given_the_program_when_it_is_stopped_and_run_again_then_its_state_is_the_chains(
    place: tuple[Path, str],
) -> None:
    folder, url = place
    (folder / "accounts.py").write_text(block_of("run: python"))
    env = environment({"PYTHONPATH": str(ROOT)})
    simulation = Simulation(PLAN)
    list(simulation.blocks())
    for until in (2, 4, len(simulation.chain) - 1):
        command = [sys.executable, "accounts.py", url, str(until)]
        done = subprocess.run(
            command, cwd=folder, env=env, capture_output=True, timeout=COMMAND_S, check=False
        )
        said = done.stderr.decode().splitlines()
        said = [line for line in said if not line.startswith("Interrupted(")]  # a busy machine's
        assert (done.returncode, said) == (0, [])
        assert done.stdout.decode().splitlines()[-1] == f"block {until} is applied"
    with sqlite3.connect(folder / "accounts.db") as db:
        state = dict(db.execute("select key, value from state"))
    db.close()
    assert state == {k: v for k, v in simulation.state.items() if k.startswith("a/")}


def test_given_the_page_when_it_lists_the_commands_then_they_are_all_and_their_flags_exist() -> (
    None
):
    listed = re.findall(r"^\| `seriatim cardinal (\w+)([^`]*)`([^\n]*)", PAGE, re.MULTILINE)
    assert [name for name, _, _ in listed] == ["produce", "consume", "inspect", "simulate"]
    for name, usage, text in listed:
        shown = seriatim("cardinal", name, "--help").stdout.decode()
        for flag in re.findall(r"(?<![\w-])--?[a-z][a-z-]*", usage + text):
            assert re.search(rf"(?<![\w-]){flag}(?![\w-])", shown), (name, flag)


def test_given_the_page_when_it_names_flags_of_an_update_then_it_has_them() -> None:
    assert {"removed", "added", "unlinked"} <= set(ChainUpdate.__dataclass_fields__)


# Each thing that Go's expressions have (the page of its `regexp/syntax`), once.
GO = r"""
    . [xyz] [^xyz] \d \D \w \W \s \S \pL \p{Greek} \P{L} [[:alpha:]] [[:^digit:]]
    xy x|y x* x+ x? x{2,5} x{2,} x{2} x*? x+? x?? x{2,5}? x{2,}? x{2}?
    (a) (?P<n>a) (?<n>a) (?:a) (?i)a (?i:a) (?s). (?m)a (?U)a* ^a a^ a$ \Aa a\b a\B a\z
    \a \f \t \n \r \v \* \101 \x7F \x{41} \Qa.b\E \C
    [\d] [^\d] [\D] [^\D] [\p{L}] []a] [a[] [a-c-e] [a\-c] [-a] [a-] (a*)* (a?)+ a{ a{,2} } ]
"""


def refused() -> list[tuple[list[str], list[str]]]:
    """Of each line of the page's table the examples, and the errors."""
    table = PAGE.partition("<!-- refused -->\n")[2].partition("\n\n")[0].splitlines()[2:]
    rows = [line.strip("| ").split(" | ") for line in table]
    return [
        (re.findall("`(.+?)`", some), re.findall("`(.+?)`", errors)) for _, some, errors in rows
    ]


def test_given_the_page_when_it_lists_refused_patterns_then_the_errors_are_as_it_says() -> None:
    listed = refused()
    assert len(listed) > 10
    for some, errors in listed:
        told = []
        for text in some:
            with pytest.raises(PatternError) as caught:
                Pattern(text)
            told.append(str(caught.value))
            assert any(error in told[-1] for error in errors), (text, told[-1])
            with pytest.raises(SchemaError, match="character"):
                Schema({f"k/{text}": "topic"}, "default")
        assert all(any(error in one for one in told) for error in errors), errors


def test_given_the_syntax_of_go_when_a_part_of_it_is_refused_then_the_page_lists_it() -> None:
    listed = {text for some, _ in refused() for text in some}
    found = set()
    for text in GO.split():
        try:
            Pattern(text)
        except PatternError:
            found.add(text)
    assert found == listed & set(GO.split())
