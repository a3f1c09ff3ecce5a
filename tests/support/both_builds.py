"""Which test files run in both builds: those that run hot modules in the test's own process.

A file that only starts a broker, or a command, proves what is the same whoever interprets it. So
its imports decide: with them, and what they import of ours, it reaches a hot module or it does not.
A few files that talk to a broker process run in both builds too, so that the uncompiled broker is
proven as a program as well. With `--explore --pure`, as in a soak, every file runs.
"""

import ast
from functools import cache
from pathlib import Path

from tests.support.places import ROOT

TESTS = ROOT / "tests"
# It starts programs; what it imports to do so is not what a test reaches.
STARTER = TESTS / "support" / "processes.py"
# What talks to a broker of either build, whatever it imports.
PROGRAMS = (
    TESTS / "wire",
    TESTS / "order" / "test_total_order.py",
    TESTS / "clients" / "test_nats_py.py",
)
# What proves something else, for which it happens to need a hot module: disks, networks, commands,
# settings, pages, examples, and Spark, all of which the compiled pass holds.
COMPILED_ONLY = (
    TESTS / "benchmarks",
    TESTS / "broker" / "monitor",
    TESTS / "broker" / "settings",
    TESTS / "cardinal",
    TESTS / "clients",
    TESTS / "cluster",
    TESTS / "crash",
    TESTS / "deploy",
    TESTS / "examples",
    TESTS / "network",
    TESTS / "order",
    TESTS / "pyspark_seriatim",
    TESTS / "seriatim" / "cli",
    TESTS / "spark",
    TESTS / "broker" / "reloading",
    # Bounds of memory, of work in a turn, of waiting: those of the build that users run.
    TESTS / "broker" / "clients" / "test_admission.py",
    TESTS / "broker" / "streams" / "test_stream_bounds.py",
    TESTS / "broker" / "limits" / "test_matches.py",
    TESTS / "broker" / "clients" / "test_relief.py",
    TESTS / "broker" / "replay" / "test_memory.py",
    TESTS / "broker" / "replay" / "test_memory_resident.py",
    TESTS / "broker" / "replay" / "test_replays_leave.py",
    TESTS / "broker" / "test_server_limits.py",
    TESTS / "broker" / "runtime" / "test_trimming.py",
    TESTS / "broker" / "test_turn_bounds.py",
    TESTS / "seriatim" / "receiver" / "test_fillers.py",
    TESTS / "seriatim" / "receiver" / "test_receiver_away.py",
)


# The fields of a statement that hold statements.
BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")


def is_of_both(file: Path) -> bool:
    """Whether this test file is to run with `--pure` too."""
    if any(file.is_relative_to(one) for one in PROGRAMS):
        return True
    elsewhere = any(file.is_relative_to(one) for one in COMPILED_ONLY)
    return not elsewhere and not file.stem.endswith("_docs") and bool(hot_modules_of(file))


@cache
def hot_modules_of(file: Path) -> frozenset[Path]:
    """The hot modules that a file imports, by whatever way."""
    seen: set[Path] = set()
    left = [file]
    while left:
        found = _imports(left.pop()) - seen
        seen |= found
        left += found - {STARTER}
    return frozenset(path for path in seen if is_hot(path))


def is_hot(file: Path) -> bool:
    return file.stem != "__init__" and file.with_suffix(".pxd").exists()


@cache
def _imports(file: Path) -> set[Path]:
    """The files of ours that a file imports itself, wherever in it: modules and their packages."""
    named: set[str] = set()
    statements: list[ast.AST] = [ast.parse(file.read_text())]
    while statements:  # expressions hold no imports, and are most of a tree
        node = statements.pop()
        if isinstance(node, ast.Import):
            named |= {one.name for one in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            named |= {node.module, *(f"{node.module}.{one.name}" for one in node.names)}
        blocks: tuple[str, ...] = BLOCKS
        if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING":
            blocks = ("orelse",)  # the rest is never run
        for block in blocks:
            inner = getattr(node, block, [])
            statements += inner if isinstance(inner, list) else []
    return {found for name in named for found in _files(name)}


@cache
def _files(name: str) -> tuple[Path, ...]:
    """The files that are run when this module is imported, if it is one of ours."""
    words = name.split(".")
    found = []
    for count in range(1, len(words) + 1):
        path = ROOT.joinpath(*words[:count])
        found += [one for one in (path.with_suffix(".py"), path / "__init__.py") if one.is_file()]
    return tuple(found)
