"""One suite, two builds and two loops: `pytest --pure` runs the Python sources and nothing else.

In this process an import hook passes the compiled modules over; the brokers that tests
start get a copy of the sources without them, first on their path.
"""

import os
import shutil
import sys
import tempfile
from importlib.machinery import SOURCE_SUFFIXES, FileFinder, SourceFileLoader
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from tests.support.places import ROOT

ROOMS = ("parser", "sublist", "sequencer", "broker", "cardinal", "pyspark_seriatim", "seriatim")
# The same in both builds.
NEVER_COMPILED = tuple(ROOT / "tests" / room for room in ("cardinal", "pyspark_seriatim", "spark"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--pure", action="store_true", help="ignore our compiled modules")
    parser.addoption(
        "--explore", action="store_true", help="hypothesis: examples of this run alone"
    )
    parser.addoption("--loop", default="asyncio", help="the brokers' event loop, or uvloop")


def pytest_configure(config: pytest.Config) -> None:
    os.environ["SERIATIM_LOOP"] = config.getoption("--loop")
    # A change is judged by what it changes, and not by examples that nobody saw before; nor by
    # how long one takes, which on a busy machine says nothing.
    untimed = hypothesis.settings(
        deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
    )
    hypothesis.settings.register_profile("steady", untimed, derandomize=True)
    hypothesis.settings.register_profile("explore", untimed)
    hypothesis.settings.load_profile("explore" if config.getoption("--explore") else "steady")
    if not config.getoption("--pure"):
        return
    sources_only = FileFinder.path_hook((SourceFileLoader, SOURCE_SUFFIXES))

    def ours(path: str) -> Any:
        if not path.startswith(str(ROOT)) or "/.venv/" in path:
            raise ImportError  # someone else's folder: the usual finders take it
        return sources_only(path)

    sys.path_hooks.insert(0, ours)
    sys.path_importer_cache.clear()
    sources = tempfile.mkdtemp(prefix="seriatim-sources-")
    for room in ROOMS:
        plain = shutil.ignore_patterns("*.so", "__pycache__")
        shutil.copytree(ROOT / room, Path(sources, room), ignore=plain)
    config.add_cleanup(lambda: shutil.rmtree(sources, ignore_errors=True))
    os.environ["PYTHONPATH"] = sources


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """With --pure, what is no other there is passed over."""
    ours = collection_path in NEVER_COMPILED or "cardinal" in collection_path.stem
    return True if config.getoption("--pure") and ours else None


def pytest_report_header() -> str:
    from broker.version import is_compiled

    return f"hot modules: {'compiled' if is_compiled() else 'uncompiled'}"
