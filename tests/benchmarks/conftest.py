"""Makes the benchmark importable: it belongs to the repository, not to the distribution."""

import contextlib
import itertools
import os
import socket
import sys

import pytest

from tests.support.places import ROOT
from tests.support.workers import own

if str(ROOT) not in sys.path:
    sys.path.append(str(ROOT))

# Below what the system gives to who asks for any port (32768 and up), and what feeds have in tests.
PORTS = own(range(10_000, 20_000))

_tried = itertools.count(os.getpid() * 997)


def own_port(kind: int = socket.SOCK_STREAM) -> int:
    """A port that nobody has now, and nobody is given before the server has bound it."""
    while True:
        port = PORTS[next(_tried) % len(PORTS)]
        with socket.socket(socket.AF_INET, kind) as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


@pytest.fixture(autouse=True)
def own_ports(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program is told its port, and a test beside this one may be given that meanwhile."""
    for module in ("process", "feeding", "receiving"):
        monkeypatch.setattr(f"benchmarks.{module}.free_port", own_port)
