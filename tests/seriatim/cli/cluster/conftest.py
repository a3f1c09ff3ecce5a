"""One etcd for all tests of `seriatim cluster`."""

from collections.abc import Iterator

import pytest

from tests.support.etcd_server import EtcdServer


@pytest.fixture(scope="session")
def etcd() -> Iterator[EtcdServer]:
    with EtcdServer() as server:
        yield server
