"""The power of the broker's disk is cut under traffic: `sync = "always"` loses nothing reported.

The disk is an ext4 of its own, and the kernel does the cut: whatever no finished sync had forced
out is gone when it is mounted again. tests/crash/test_sync.py tests the same on a disk that may
also keep any part of the rest, and needs no root.
"""

import asyncio
from collections.abc import Iterator

import pytest

from tests.crash.disks import PowerDisk, why_no_cut
from tests.crash.ledger import Broken
from tests.crash.trial import SEED, Trial, play
from tests.support.depth import depth
from tests.support.processes import STAND_IN

pytestmark = pytest.mark.skipif(STAND_IN, reason="nats-server keeps nothing")
ROUNDS = depth(2, 4)


class PowerTrial(Trial):
    """Each life ends with a cut, between two calls of the process, which dies behind it."""

    def __init__(self, disk: PowerDisk, seed: int, sync: str) -> None:
        super().__init__(disk.folder / "store", seed, sync)
        self.disk = disk

    def end_life(self) -> None:
        self.server.suspend()
        self.disk.cut()
        self.server.kill()
        self.disk.restore()


@pytest.fixture
def disk() -> Iterator[PowerDisk]:
    if why_no_cut():
        pytest.skip(why_no_cut())
    with PowerDisk() as disk:
        yield disk


def test_given_power_cuts_when_always_synced_then_nothing_acknowledged_is_lost(
    disk: PowerDisk,
) -> None:
    play(PowerTrial(disk, SEED, "always"), ROUNDS)


def test_given_power_cuts_when_never_synced_then_acknowledged_messages_are_lost(
    disk: PowerDisk,
) -> None:
    """Or the test above would prove nothing."""
    trial = PowerTrial(disk, 1, "never")
    with pytest.raises(ExceptionGroup) as caught:
        asyncio.run(trial.run(lambda rounds: rounds < 4))
    assert caught.group_contains(Broken)
