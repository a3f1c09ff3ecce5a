"""`seriatim cardinal` against a broker of its own, for the tests of its commands."""

from collections.abc import Callable, Iterator
from itertools import count

import pytest

from seriatim.cli import main
from tests.support.processes import SeriatimServer

APPLICATIONS = count()
Ask = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def cardinal_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SeriatimServer]:
    with SeriatimServer("netstring", store=tmp_path_factory.mktemp("store")) as process:
        yield process


@pytest.fixture
def flags(cardinal_broker: SeriatimServer) -> list[str]:
    """An application of the test's own, and the broker."""
    return ["-a", f"test{next(APPLICATIONS)}", "-s", f"127.0.0.1:{cardinal_broker.port}"]


@pytest.fixture
def ask(capsys: pytest.CaptureFixture[str]) -> Ask:
    """Run a command of cardinal in this process: its status, what it printed, and what it said."""

    def run(*arguments: str) -> tuple[int, str, str]:
        status = main(["cardinal", *arguments])
        done = capsys.readouterr()
        assert "Traceback" not in done.err
        return status, done.out, done.err

    return run
