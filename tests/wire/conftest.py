"""The two servers of a differential test: nats-server and the one under test, by limits."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.support.processes import (
    STAND_IN,
    Limit,
    NatsServer,
    SeriatimServer,
    ServerProcess,
    server,
)

LIMITS: dict[str, dict[str, Limit]] = {
    "default": {},
    "tiny": {"max_control_line": 256},
    "long": {"max_control_line": 65536},
    "small": {"max_control_line": 512, "max_payload": 10, "max_subscriptions": 2},
}

Choose = Callable[[str], ServerProcess]


def _started(make: Callable[[dict[str, Limit]], ServerProcess]) -> Iterator[Choose]:
    running: dict[str, ServerProcess] = {}
    with ExitStack() as stack:

        def choose(limits: str = "default") -> ServerProcess:
            if limits not in running:
                running[limits] = stack.enter_context(make(LIMITS[limits]))
            return running[limits]

        yield choose


@pytest.fixture(scope="session")
def oracle() -> Iterator[Choose]:
    """nats-server with the named limits."""
    yield from _started(NatsServer)


@pytest.fixture(scope="session")
def framed() -> Iterator[Choose]:
    """Ours with netstring frames, with the named limits."""
    if STAND_IN:
        pytest.skip("nats-server writes no frames")
    yield from _started(lambda limits: SeriatimServer("netstring", limits))


@pytest.fixture(scope="session")
def tested() -> Iterator[Choose]:
    """The server under test, frame mode `none`, with the named limits."""
    yield from _started(lambda limits: server("none", limits))
