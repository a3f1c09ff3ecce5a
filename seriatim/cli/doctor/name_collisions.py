"""Finds other modules that have the name of one of our packages, and says which one Python takes.

Our packages have plain names (`parser`, `broker`, ...). Python takes the first that it finds on
sys.path, and a program's own folder comes first there.
"""

import os
import sys
from collections.abc import Iterator
from importlib import metadata
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Final

import seriatim
from seriatim.cli.check.check_results import CheckResult
from seriatim.cli.doctor.examination import failed, ok, warning

OURS: Final = (
    *("broker", "cardinal", "parser", "pyspark_seriatim", "sequencer", "seriatim", "sublist"),
)
HOME: Final = Path(seriatim.__file__).resolve().parent.parent
WHAT: Final = "names"


def collisions() -> Iterator[CheckResult]:
    """Look on sys.path, in the working directory, and in the other distributions."""
    found = [*_on_path(), *_here(), *_of_others()]
    yield from found
    if not found:
        yield ok(WHAT, f"no other module is called {', '.join(OURS[:-1])} or {OURS[-1]}")


def _on_path() -> Iterator[CheckResult]:
    """Compare with the other entries of sys.path: one before ours hides it, one after is hidden."""
    entries = _entries()
    ours = entries.index(HOME) if HOME in entries else len(entries)
    for at, entry in enumerate(entries):
        for name in OURS if entry != HOME else ():
            other = _module_in(entry, name)
            if other and at < ours:
                yield failed(
                    WHAT,
                    f"{other} hides Seriatim's {name}, {HOME / name}",
                    f"Python takes the first on sys.path, so commands and programs that import"
                    f" {name} fail",
                    f"rename it, or take {entry} out of PYTHONPATH",
                )
            elif other:
                yield warning(
                    WHAT,
                    f"Seriatim's {name}, {HOME / name}, hides {other}",
                    f"programs that import {name} get Seriatim's",
                    "give Seriatim an environment of its own, or rename the other one",
                )


def _entries() -> list[Path]:
    return list(dict.fromkeys(Path(entry or os.curdir).resolve() for entry in sys.path))


def _here() -> Iterator[CheckResult]:
    """Look at the working directory, which comes first for programs that start there."""
    here = Path.cwd().resolve()
    if here == HOME or here in _entries():
        return
    for name in OURS:
        if other := _module_in(here, name):
            yield warning(
                WHAT,
                f"{other} is in the working directory",
                f"`seriatim` is not affected. A program that Python runs from here gets this {name}"
                f" instead of Seriatim's, {HOME / name}; imports of seriatim.receiver may fail",
                "rename it, or move it into a package; `python -P` leaves the folder out",
            )


def _of_others() -> Iterator[CheckResult]:
    """Look for distributions that own a package of our name, perhaps in the same folder."""
    owned = metadata.packages_distributions()
    for name in OURS:
        for other in sorted(set(owned.get(name, ())) - {"seriatim"}):
            yield warning(
                WHAT,
                f"the distribution {other} has a package {name}, too",
                "in one environment the one that was installed last wins, or both are mixed",
                f"pip uninstall {other}; or give Seriatim an environment of its own",
            )


def _module_in(folder: Path, name: str) -> str:
    """The file of a module or package in this folder; empty if there is none.

    A folder without __init__.py counts for nothing: Python takes it only if there is no other.
    """
    spec = PathFinder.find_spec(name, [str(folder)])
    return spec.origin or "" if spec is not None and spec.loader is not None else ""
