"""One suite, two builds and two loops: `pytest --pure` runs only the Python sources.

In this process an import hook skips the compiled modules; the brokers that tests start get a copy
of the sources without them, first on their path.
"""

import gc
import os
import shutil
import signal
import sys
import tempfile
from importlib.machinery import SOURCE_SUFFIXES, FileFinder, SourceFileLoader
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from tests.support.both_builds import is_of_both
from tests.support.places import ROOT

EXPLORE, PURE = "TESTS_EXPLORE", "TESTS_PURE"  # tests/support/depth.py reads them
# Folders whose files take long: clusters, attackers, kills, networks, browsers and their like.
LONG = frozenset(
    {
        "attacks",
        "clients",
        "cluster",
        "crash",
        "examples",
        "network",
        "order",
        "packages",
        "replica",
    }
)
ROOMS = ("parser", "sublist", "sequencer", "broker", "cardinal", "pyspark_seriatim", "seriatim")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--pure", action="store_true", help="ignore our compiled modules")
    parser.addoption(
        "--explore", action="store_true", help="slow tests too, in full depth, at random"
    )
    parser.addoption("--loop", default="asyncio", help="the brokers' event loop, or uvloop")


def pytest_configure(config: pytest.Config) -> None:
    os.environ["SERIATIM_LOOP"] = config.getoption("--loop")
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A shell ignores Ctrl-C for what it starts in the background, and programs inherit that.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if config.getoption("--explore"):
        os.environ[EXPLORE] = "1"
    if config.getoption("--pure"):
        os.environ[PURE] = "1"
        hide_compiled_modules(config)
    # A change is judged by what it changes, and not by examples that nobody saw before; nor by
    # how long one takes, which on a busy machine says nothing.
    from tests.support.depth import IS_SOAK, examples

    hypothesis.settings.register_profile(
        "gate",
        deadline=None,
        suppress_health_check=[hypothesis.HealthCheck.too_slow],
        derandomize=not IS_SOAK,
        max_examples=examples(100),
    )
    hypothesis.settings.load_profile("gate")


def hide_compiled_modules(config: pytest.Config) -> None:
    """Nothing here, nor in what is started from here, imports them."""
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
    """With --pure, a file that the build cannot change is passed over, unless it is asked for."""
    if not config.getoption("--pure") or config.getoption("--explore"):
        return None
    if not collection_path.name.startswith("test_") or is_asked(collection_path, config):
        return None
    return None if is_of_both(collection_path) else True


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Slow tests run with `--explore`, or if the command names their file. Long files come first:

    begun last, they would keep one process busy while the others have nothing left.
    """
    items.sort(key=lambda item: not LONG & set(item.path.parts))
    if config.getoption("--explore"):
        return
    slow = [
        item
        for item in items
        if item.get_closest_marker("slow") and not is_asked(item.path, config)
    ]
    config.hook.pytest_deselected(items=slow)
    items[:] = [item for item in items if item not in slow]


def pytest_collection() -> None:
    """What is collected stays to the end: the garbage collector need not look at it meanwhile."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Nor again later."""
    gc.freeze()
    gc.enable()


def is_asked(file: Path, config: pytest.Config) -> bool:
    """Whether the command names this very file."""
    return file in {Path(one.split("::")[0]).absolute() for one in config.args}


def pytest_report_header() -> str:
    from broker.version import is_compiled

    return f"hot modules: {'compiled' if is_compiled() else 'uncompiled'}"
