"""A disk slower than its publishers: they wait. If it hangs, they are refused, and nobody else."""

from pathlib import Path

import pytest

from tests.crash import shim
from tests.crash.shim import Faults, preload
from tests.crash.talk import heard, lives, pub, refusals, replay
from tests.crash.trial import SEED, Trial, play
from tests.support.depth import depth
from tests.support.processes import STAND_IN, SeriatimServer
from tests.support.raw import QUIET, RawClient

pytestmark = [
    pytest.mark.skipif(STAND_IN, reason="nats-server has no journal"),
    pytest.mark.skipif(shim.COMPILER is None, reason=shim.WHY_NOT),
]
BODY = b"x" * 20_000
SMALL = ("--journal_window_bytes", "1MiB")


@pytest.fixture
def faults(tmp_path: Path) -> Faults:
    return Faults(tmp_path)


class SlowTrial(Trial):
    """A trial whose window is full most of the time."""

    def __init__(self, store: Path, faults: Faults, sync: str) -> None:
        super().__init__(store, SEED, sync, *SMALL, events=(6000, 12_000))
        self.server.env |= preload(store, faults=faults)


@pytest.mark.parametrize(
    "sync", ["interval", "never", pytest.param("always", marks=pytest.mark.slow)]
)
def test_given_kills_while_the_window_is_full_then_nothing_acknowledged_is_lost(
    sync: str, tmp_path: Path, faults: Faults
) -> None:
    with faults.on("write 3MB/s"):
        play(SlowTrial(tmp_path / "store", faults, sync), depth(2, 5))


@pytest.mark.parametrize("sync", ["interval", "never"])
def test_given_a_disk_that_hangs_then_publishers_are_refused_and_all_else_goes_on(
    sync: str, tmp_path: Path, faults: Faults
) -> None:
    server = SeriatimServer("netstring", None, ["--sync", sync, *SMALL], store=tmp_path / "store")
    server.env |= preload(tmp_path / "store", faults=faults)
    with server as broker, RawClient(broker.port, QUIET) as ear:
        ear.ask(b"SUB a 1\r\n")
        with faults.on("fdatasync stall"), RawClient(broker.port, QUIET) as client:
            taken = 0
            while not (said := client.ask(pub(b"%d " % taken + BODY))):
                taken += 1
                assert taken < 60, "that is more than the window has room for"
            assert refusals(said)[0] == (b"a", b"the disk does not keep up")
            assert taken > 30
            assert lives(broker.port)
            told = heard(ear.ask(b""))
            assert [number for number, _ in told] == list(range(1, taken + 1))
            assert replay(broker.port) == told
        assert broker.await_line("messages can be written again")
        with RawClient(broker.port, QUIET) as client:
            assert client.ask(pub(b"next")) == []
        told += heard(ear.ask(b""))
        broker.kill()
        broker.start(broker.port)
        assert replay(broker.port) == told
        assert told[-1] == (taken + 1, b"next")
