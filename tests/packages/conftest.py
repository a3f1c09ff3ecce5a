"""The npm package, packed and installed once, for the tests of packages."""

from pathlib import Path

import pytest

from tests.clients.conftest import node as node
from tests.packages.laid import lay, packed


@pytest.fixture(scope="session")
def laid(node: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package in its node_modules, and the test scripts."""
    folder = tmp_path_factory.mktemp("seriatim-js")
    archive, _ = packed(folder)
    lay(archive, folder)
    return folder
