"""The long trials are for the compiled broker, which is the one that anybody's data is given to."""

import pytest


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--pure"):
        return
    skip = pytest.mark.skip(reason="a long trial, of the compiled broker only")
    for item in items:
        if item.path.parent.name == "crash" and item.get_closest_marker("slow"):
            item.add_marker(skip)
