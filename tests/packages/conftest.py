"""The npm package, packed and installed once, and what runs it, for the tests of packages."""

from pathlib import Path

import pytest

from tests.clients.conftest import node as node
from tests.packages.laid import lay, packed
from tests.packages.runtimes import Runtime, runtime_of


@pytest.fixture(scope="session")
def laid(node: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package in its node_modules, and the test scripts."""
    folder = tmp_path_factory.mktemp("seriatim-js")
    archive, _ = packed(folder)
    lay(archive, folder)
    return folder


@pytest.fixture(params=["node", "deno", "bun"])
def runtime(request: pytest.FixtureRequest, node: str) -> Runtime:
    """Each of the runtimes in turn, or those that a test asks for."""
    return runtime_of(request.param, node)
