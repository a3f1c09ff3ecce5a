"""A network namespace of our own needs root."""

import pytest

from tests.network.hosts import why_not


@pytest.fixture(autouse=True)
def _network_can_be_made() -> None:
    if why_not():
        pytest.skip(why_not())
