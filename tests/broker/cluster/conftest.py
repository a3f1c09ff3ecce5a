"""One etcd for all tests that do not stop it; each test has a cluster name of its own."""

from collections.abc import Iterator

import pytest

from tests.support.etcd_server import EtcdServer


@pytest.fixture(scope="session")
def etcd() -> Iterator[EtcdServer]:
    with EtcdServer() as server:
        yield server
