"""The rules a tool does not know, held by a test. Each failure says what to do.

Which room may import which is import-linter's business, and spelling is codespell's.
"""

import ast
import importlib.metadata
import os
import re
import tomllib
from pathlib import Path

import pytest

from tests.conftest import ROOMS
from tests.support.places import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
FUNCTION_LINES_MAX, FILE_LINES_MAX, DOCSTRING_LINES_MAX = 70, 500, 25
FOLDERS = (*ROOMS, "tests", "benchmarks", "fuzz", "deploy", "docs", ".ci")
NOT_OURS = {"node_modules", "__pycache__", "results", "corpus"}
WRITTEN = {".py", ".pxd", ".md", ".toml", ".mjs", ".sh", ".yml", ".yaml", ""}
LATER = re.compile(r"\b(FIX" r"ME|TO" r"DO|XX" r"X|HA" r"CK)\b")
SLEEP = re.compile(r"\bsleep\((?!0\))")
NO_EVENT = "no event to await"
VAGUE = {"utils", "util", "helpers", "helper", "common", "misc", "manager"}
# Modules whose tests have another name than theirs.
ELSEWHERE = {
    "broker/cquencer/cquencer_client.py": "tests/broker/cquencer/test_cquencer_port_netstrings.py",
    "broker/__main__.py": "tests/broker/test_server.py",
    "broker/settings/knob.py": "tests/broker/settings/test_settings.py",
    "broker/dataplane/outcomes.py": "tests/broker/dataplane/test_replay_writer.py",
    "broker/process.py": "tests/broker/test_server.py",
    "broker/clients/session.py": "tests/broker/test_server_limits.py",
    "broker/settings/journal_settings.py": "tests/broker/settings/test_settings.py",
    "broker/version.py": "tests/test_builds.py",
    "cardinal/errors.py": "tests/cardinal/test_message_codec_malformed.py",
    "cardinal/messages.py": "tests/cardinal/test_message_codec.py",
    "parser/ops.py": "tests/parser/test_table.py",
    "sequencer/digits.py": "tests/broker/dataplane/test_frame.py",
    "sublist/route.py": "tests/sublist/test_sublist.py",
}


def files(*folders: str) -> list[Path]:
    """Every file that we have written, in these folders and below."""
    found = [path for folder in folders for path in (ROOT / folder).rglob("*") if path.is_file()]
    return sorted(
        path
        for path in found
        if path.suffix in WRITTEN and not NOT_OURS & set(path.relative_to(ROOT).parts)
    )


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


TEXTS = [*files(*FOLDERS), *(path for path in sorted(ROOT.glob("*")) if path.suffix in WRITTEN)]
TEXTS = [path for path in TEXTS if path.is_file()]
SOURCES = [path for path in TEXTS if path.suffix == ".py"]
TEST_FILES = [path for path in SOURCES if path.name.startswith("test_")]
MODULES = [p for room in ROOMS for p in sorted((ROOT / room).glob("*.py")) if p.stem != "__init__"]


def functions(tree: ast.Module) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    return [
        node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]


@pytest.mark.parametrize("path", SOURCES, ids=name)
def test_given_a_source_file_when_read_then_it_fits_a_head(path: Path) -> None:
    text = path.read_text()
    tree = ast.parse(text)
    about = ast.get_docstring(tree) or ""
    assert about, "say in the first line what this file is for"
    assert about.count("\n") < DOCSTRING_LINES_MAX, "a docstring is the head, not the body"
    assert len(about.splitlines()[0]) > 10, "say more in the first line"
    assert text.count("\n") <= FILE_LINES_MAX, "split the file where its docstring has an 'and'"
    for function in functions(tree):
        lines = (function.end_lineno or 0) - function.lineno + 1
        assert lines <= FUNCTION_LINES_MAX, f"{function.name} is {lines} lines: split it"


@pytest.mark.parametrize("path", [p for p in TEXTS if p.suffix == ".pxd"], ids=name)
def test_given_a_pxd_when_read_then_it_says_whose_types_it_holds(path: Path) -> None:
    text = path.read_text()
    whose = f"# The compiler's view of {path.stem}.py: types only, never behaviour.\n"
    assert path.stem == "__init__" or text.startswith(whose)
    assert text.count("\n") <= FILE_LINES_MAX


@pytest.mark.parametrize("path", TEXTS, ids=name)
def test_given_a_text_when_read_then_nothing_is_left_for_later_in_it(path: Path) -> None:
    found = LATER.findall(path.read_text(errors="replace"))
    assert found == [], "do it, or write it down where work is planned"


@pytest.mark.parametrize("path", TEST_FILES, ids=name)
def test_given_a_test_file_when_read_then_its_tests_are_sentences(path: Path) -> None:
    tests = [f.name for f in functions(ast.parse(path.read_text())) if f.name.startswith("test")]
    crooked = [one for one in tests if not re.fullmatch(r"test_given_\w+?_then_\w+", one)]
    assert crooked == [], "name it test_given_..._when_..._then_..."
    assert len(set(tests)) == len(tests), "the second of two tests of one name hides the first"


@pytest.mark.parametrize("path", [p for p in SOURCES if p.is_relative_to(ROOT / "tests")], ids=name)
def test_given_a_test_file_when_read_then_it_waits_for_events_and_not_for_time(path: Path) -> None:
    lines = [line.strip() for line in path.read_text().splitlines() if SLEEP.search(line)]
    waiting = [line for line in lines if NO_EVENT not in line and "re.compile" not in line]
    assert waiting == [], f"await what happens; or say in the line that there is {NO_EVENT}"


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_given_a_module_then_its_tests_stand_where_it_stands(path: Path) -> None:
    elsewhere = ELSEWHERE.get(name(path))
    if elsewhere is not None:
        assert (ROOT / elsewhere).exists()
        return
    room = ROOT / "tests" / path.parent.name
    assert list(room.glob(f"test_{path.stem}*.py")), f"write {name(room)}/test_{path.stem}.py"


def test_given_the_tests_then_they_are_no_packages() -> None:
    packages = []
    for folder, folders, names in os.walk(ROOT / "tests"):
        folders[:] = set(folders) - NOT_OURS  # npm may be filling one of them meanwhile
        packages += [folder] if "__init__.py" in names else []
    assert packages == [], "importlib mode needs none"


@pytest.mark.parametrize("path", SOURCES, ids=name)
def test_given_a_file_then_its_name_says_its_duty(path: Path) -> None:
    assert path.stem not in VAGUE, "name it after what it does"


def test_given_the_project_then_its_names_are_the_rooms_wherever_they_are_listed() -> None:
    tools = PROJECT["tool"]
    packages = {package.split(".")[0] for package in tools["setuptools"]["packages"]}
    wheel = set(tools["check-wheel-contents"]["toplevel"])
    layers = set(tools["importlinter"]["root_packages"])
    assert packages == wheel == layers == set(ROOMS)
    assert set(tools["mypy"]["packages"]) >= set(ROOMS)


def test_given_the_project_then_every_package_is_listed() -> None:
    here = {
        ".".join(path.parent.relative_to(ROOT).parts)
        for room in ROOMS
        for path in (ROOT / room).rglob("__init__.py")
    }
    assert here == set(PROJECT["tool"]["setuptools"]["packages"])


@pytest.mark.parametrize("room", ROOMS)
def test_given_this_environment_then_no_other_distribution_owns_our_names(room: str) -> None:
    owners = set(importlib.metadata.packages_distributions().get(room, []))
    assert owners <= {"seriatim"}, f"'{room}' is also {owners}: use a fresh environment"
