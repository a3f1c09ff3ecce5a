"""One broker for each file of tests."""

from collections.abc import Iterator

import pytest

from tests.support.processes import SeriatimServer


@pytest.fixture(scope="module")
def broker() -> Iterator[SeriatimServer]:
    with SeriatimServer("netstring") as server:
        yield server
