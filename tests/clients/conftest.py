"""One broker for each frame mode, shared by the tests of all real clients."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.clients.served import Served
from tests.support.processes import FRAMES, server


@pytest.fixture(scope="session")
def started() -> Iterator[dict[str, Served]]:
    with ExitStack() as stack:
        yield {frame: Served(stack.enter_context(server(frame)), frame) for frame in FRAMES}


@pytest.fixture(params=FRAMES)
def served(request: pytest.FixtureRequest, started: dict[str, Served]) -> Served:
    """The running broker in each frame mode in turn. Tests keep to subjects of their own."""
    return started[request.param]
