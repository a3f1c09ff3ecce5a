"""Node, Deno and Bun: how each runs a script, and a script of tests."""

from pathlib import Path
from typing import NamedTuple

import pytest

from tests.clients.conftest import BUN, DENO, FOLDER

QUIET = {"DENO_NO_UPDATE_CHECK": "1", "DO_NOT_TRACK": "1", "NO_COLOR": "1"}  # nor does it call home


class Runtime(NamedTuple):
    """A runtime of JavaScript; both commands get the name of a script."""

    name: str
    run: tuple[str, ...]
    test: tuple[str, ...]


def runtime_of(name: str, node: str) -> Runtime:
    """One of node, deno, bun; the test is skipped where npm has none for this machine."""
    if name == "node":
        return Runtime(name, (node,), (node, "--test", "--test-reporter=tap"))
    inside = {"deno": Path(DENO, "deno"), "bun": Path(BUN, "bin", "bun")}[name]
    program = FOLDER / "node_modules" / inside
    if not program.exists():
        pytest.skip(f"npm has no {name} for this machine, of those that the tests use")
    command = str(program)
    if name == "bun":
        return Runtime(name, (command, "run", "--no-install"), (command, "test"))
    # The modules are those that npm has laid out.
    flags = ("--allow-all", "--no-check", "--no-config", "--node-modules-dir=manual")
    return Runtime(name, (command, "run", *flags), (command, "test", *flags))
