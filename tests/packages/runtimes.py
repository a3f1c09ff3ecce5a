"""Node, Deno and Bun: how each runs a script, and a script of tests."""

import platform
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
    """One of node, deno, bun; skips the test on a machine for which they are not installed."""
    if name == "node":
        return Runtime(name, (node,), (node, "--test", "--test-reporter=tap"))
    inside = {"deno": Path(DENO, "deno"), "bun": Path(BUN, "bin", "bun")}[name]
    program = FOLDER / "node_modules" / inside
    if platform.machine() != "x86_64":
        pytest.skip(f"the tests install {name} only for x86_64")
    assert program.exists(), f"npm did not install {name}"
    command = str(program)
    if name == "bun":
        return Runtime(name, (command, "run", "--no-install"), (command, "test"))
    # The modules are those that npm has laid out.
    flags = ("--allow-all", "--no-check", "--no-config", "--node-modules-dir=manual")
    return Runtime(name, (command, "run", *flags), (command, "test", *flags))
