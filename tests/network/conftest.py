"""A network of our own needs root. Uncompiled, the scenes that decide most are enough."""

import pytest

from tests.network.hosts import why_not


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--pure"):
        return
    skip = pytest.mark.skip(reason="a scene for the compiled build only")
    for item in items:
        if item.path.parent.name == "network" and item.get_closest_marker("slow"):
            item.add_marker(skip)


@pytest.fixture(autouse=True)
def _network_can_be_made() -> None:
    if why_not():
        pytest.skip(why_not())
