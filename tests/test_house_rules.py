"""The rules that no tool checks. A test names every file that breaks its rule, and what to do.

import-linter checks which room may import which, codespell checks the spelling.
"""

import ast
import gc
import importlib.metadata
import os
import re
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

import seriatim
from tests.conftest import ROOMS
from tests.support.places import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
FOLDERS = (
    *(*ROOMS, "packages", "testkit", "tests", "benchmarks", "examples", "handbook"),
    *("fuzz", "deploy", "docs", ".ci"),
)
NOT_OURS = {"node_modules", "__pycache__", "results", "corpus"}
WRITTEN = {".py", ".pxd", ".md", ".toml", ".js", ".mjs", ".mts", ".sh", ".yml", ".yaml", ""}
LATER = re.compile(r"\b(FIX" r"ME|TO" r"DO|XX" r"X|HA" r"CK)\b")
SLEEP = re.compile(r"\bsleep\((?!0\))")
NO_EVENT = "no event to await"
VAGUE = {"utils", "util", "helpers", "helper", "common", "misc", "manager"}
# Words that are not English here, and what to say instead.
WORDS = {
    r"be it": "whether, or",
    r"else than": "other than",
    r"for who (?:is|are|has|only|reads|wants|never)": "for clients that",
}
BAD_ENGLISH = re.compile("|".join(rf"\b(?:{word})\b" for word in WORDS), re.IGNORECASE)
# A docstring opens with a verb or with the noun of the thing.
OPENINGS = re.compile(
    r"(It|Its|They|Their|This|That|These|Those|So|What|Whatever|Whether|Which|Who|Whoever|Whose|"
    r"Where|Nobody|Nothing|Somebody)\b"
)
# A name may stand in several modules only if every module may have it.
EVERYWHERE = {"errors", "__init__", "__main__"}


def files(*folders: str) -> list[Path]:
    """Every file that we have written, in these folders and below."""
    found = [path for folder in folders for path in (ROOT / folder).rglob("*") if path.is_file()]
    return sorted(
        path
        for path in found
        if path.suffix in WRITTEN and not NOT_OURS & set(path.relative_to(ROOT).parts)
    )


TEXTS = [*files(*FOLDERS), *(path for path in sorted(ROOT.glob("*")) if path.suffix in WRITTEN)]
TEXTS = [path for path in TEXTS if path.is_file()]
SOURCES = [path for path in TEXTS if path.suffix == ".py"]
OF_TESTS = [path for path in SOURCES if path.is_relative_to(ROOT / "tests")]
MODULES = [path for path in files(*ROOMS) if path.suffix == ".py"]


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@cache
def text_of(path: Path) -> str:
    return path.read_text(errors="replace")


@cache
def tree_of(path: Path) -> ast.Module:
    gc.disable()  # it would look at all trees that are kept, again and again
    try:
        return ast.parse(text_of(path))
    finally:
        gc.enable()


@cache
def functions(path: Path) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    found = []
    statements: list[ast.AST] = [tree_of(path)]
    while statements:  # expressions hold none, and are most of a tree
        statement = statements.pop()
        for block in ("body", "orelse", "finalbody", "handlers", "cases"):
            inner = getattr(statement, block, [])
            statements += inner if isinstance(inner, list) else []
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            found.append(statement)
    return found


@pytest.fixture(scope="module", autouse=True)
def forgotten() -> Iterator[None]:
    """Two million objects, which would slow down all tests that follow in this process."""
    yield
    for kept in (text_of, tree_of, functions):
        kept.cache_clear()


def lines_with(pattern: re.Pattern[str], paths: Iterable[Path]) -> Iterator[tuple[str, str]]:
    """Each line in which the pattern is found: where it stands, and the line."""
    for path in paths:
        if pattern.search(text_of(path)):
            for number, line in enumerate(text_of(path).splitlines(), 1):
                if pattern.search(line):
                    yield f"{name(path)}:{number}", line.strip()


def complaints(path: Path) -> Iterator[str]:
    """What keeps a reader from seeing what a source file is for."""
    about = ast.get_docstring(tree_of(path)) or ""
    if len(about.split("\n")[0]) <= 10:
        yield "say in the first line what this file is for"


def twice(named: Iterable[tuple[str, Path]]) -> dict[str, list[str]]:
    """The names that stand in more than one file, and where."""
    places: dict[str, set[str]] = defaultdict(set)
    for one, path in named:
        places[one].add(name(path))
    return {one: sorted(found) for one, found in places.items() if len(found) > 1}


def test_given_the_sources_when_read_then_each_says_what_it_is_for() -> None:
    found = [f"{name(path)}: {what}" for path in SOURCES for what in complaints(path)]
    assert not found, "\n".join(found)


def test_given_the_pxd_files_when_read_then_each_says_whose_types_it_holds() -> None:
    found = []
    for path in [path for path in TEXTS if path.suffix == ".pxd"]:
        whose = f"# The compiler's view of {path.stem}.py: types only, never behaviour.\n"
        if path.stem != "__init__" and not text_of(path).startswith(whose):
            found.append(f"{name(path)}: begin with {whose}")
    assert not found, "\n".join(found)


def test_given_our_texts_when_read_then_nothing_is_left_for_later_in_them() -> None:
    found = [
        f"{where}: do it, or plan it elsewhere: {line}" for where, line in lines_with(LATER, TEXTS)
    ]
    assert not found, "\n".join(found)


def test_given_our_texts_when_read_then_their_words_are_english() -> None:
    here = [path for path in TEXTS if path != Path(__file__)]
    found = [f"{where}: {line}" for where, line in lines_with(BAD_ENGLISH, here)]
    assert not found, "\n".join([f"say it otherwise: {WORDS}", *found])


def test_given_the_sources_when_read_then_docstrings_open_with_a_verb_or_a_noun() -> None:
    described = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    found = [
        f"{name(path)}: {about.splitlines()[0]}"
        for path in SOURCES
        if path not in OF_TESTS
        for node in ast.walk(tree_of(path))
        if isinstance(node, described)
        if OPENINGS.match(about := ast.get_docstring(node) or "")
    ]
    assert not found, "\n".join(found)


def test_given_the_tests_when_read_then_their_names_are_sentences() -> None:
    found = []
    for path in [path for path in OF_TESTS if path.name.startswith("test_")]:
        tests = [f.name for f in functions(path) if f.name.startswith("test")]
        crooked = [one for one in tests if not re.fullmatch(r"test_given_\w+?_then_\w+", one)]
        found += [f"{name(path)}: {one}: call it test_given_..._then_..." for one in crooked]
        hidden = {one for one in tests if tests.count(one) > 1}
        found += [f"{name(path)}: the second {one} hides the first" for one in sorted(hidden)]
    assert not found, "\n".join(found)


def test_given_the_tests_when_read_then_they_wait_for_events_and_not_for_time() -> None:
    found = [
        f"{where}: await what happens; or say in the line that there is {NO_EVENT}: {line}"
        for where, line in lines_with(SLEEP, OF_TESTS)
        if NO_EVENT not in line and "re.compile" not in line
    ]
    assert not found, "\n".join(found)


def test_given_the_rooms_then_each_has_its_tests_in_the_same_place() -> None:
    rooms = {path.parent.relative_to(ROOT) for path in MODULES if path.stem != "__init__"}
    missing = [room for room in sorted(rooms) if not any((ROOT / "tests" / room).glob("test_*.py"))]
    assert missing == [], "write their tests in the same folder below tests/"


def test_given_the_tests_then_they_are_no_packages() -> None:
    packages = []
    for folder, folders, names in os.walk(ROOT / "tests"):
        folders[:] = set(folders) - NOT_OURS  # npm may be filling one of them meanwhile
        packages += [folder] if "__init__.py" in names else []
    assert packages == [], "importlib mode needs none"


def test_given_the_sources_then_each_name_says_its_duty() -> None:
    vague = [name(path) for path in SOURCES if path.stem in VAGUE]
    assert vague == [], "name it after what it does"


def test_given_the_distribution_then_a_name_leads_to_one_module_or_class() -> None:
    # A user's word, such as Message, may be that of a part inside as well: it is the same thing.
    stems = twice((path.stem, path) for path in MODULES if path.stem not in EVERYWHERE)
    classes = twice(
        (node.name, path)
        for path in MODULES
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.ClassDef) and node.name not in seriatim.__all__
    )
    again = sorted((stems | classes).items())
    found = [f"{one}: {', '.join(places)}" for one, places in again]
    assert not found, "\n".join(["rename all but one:", *found])


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


def test_given_this_environment_then_no_other_distribution_owns_our_names() -> None:
    owned = importlib.metadata.packages_distributions()
    owners = {room: set(owned.get(room, [])) - {"seriatim"} for room in ROOMS}
    others = {room: found for room, found in owners.items() if found}
    assert others == {}, "use a fresh environment: these would hide ours"
