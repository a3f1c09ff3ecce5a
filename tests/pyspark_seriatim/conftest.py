"""Brokers to read from, without Spark: a process with a journal, and the options to reach it."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pyspark_seriatim.client import Client
from pyspark_seriatim.options import Options
from tests.support.processes import SeriatimServer
from tests.support.raw import HEADERS, RawClient

QUICK = {"fetchOffset.retryIntervalMs": "10", "requestTimeoutMs": "10000"}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[SeriatimServer]:
    """A broker with a journal of its own."""
    with SeriatimServer("netstring", store=tmp_path / "journal") as server:
        yield server


@pytest.fixture
def options(broker: SeriatimServer) -> Callable[..., Options]:
    """The options of a read from that broker: `options("stream", subscribe="a.>")`."""

    def make(where: str = "batch", **given: object) -> Options:
        texts = {name: str(value) for name, value in given.items()}
        return Options.parse({"servers": f"127.0.0.1:{broker.port}", **QUICK, **texts}, where)

    return make


@pytest.fixture
def client(options: Callable[..., Options]) -> Iterator[Client]:
    made = Client(options())
    yield made
    made.close()


@pytest.fixture
def publish(broker: SeriatimServer) -> Callable[..., None]:
    """Publish payloads to a subject; they are numbered when it returns."""

    def put(subject: bytes, *payloads: bytes, headers: bytes = b"", reply: bytes = b"") -> None:
        sent = []
        for payload in payloads:
            head = b"%b %b" % (subject, reply)
            if headers:
                sizes = b"%d %d" % (len(headers), len(headers) + len(payload))
                sent.append(b"HPUB %b %b\r\n%b%b\r\n" % (head, sizes, headers, payload))
            else:
                sent.append(b"PUB %b %d\r\n%b\r\n" % (head, len(payload), payload))
        with RawClient(broker.port) as raw:
            raw.send(HEADERS + b"".join(sent) + b"PING\r\n")
            assert raw.until_pong() == []

    return put
