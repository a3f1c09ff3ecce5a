"""Brokers for the tests of the order."""

from collections.abc import Iterator

import pytest

from tests.support.processes import STAND_IN, SeriatimServer, ServerProcess


@pytest.fixture(scope="session")
def broker() -> Iterator[ServerProcess]:
    """Ours, numbers in netstring frames, shared by tests that count from what they see first."""
    if STAND_IN:
        pytest.skip("nats-server has no total order")
    with SeriatimServer("netstring") as running:
        yield running
