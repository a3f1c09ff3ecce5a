"""The power of members is cut under traffic: what `sync` promises in a cluster.

Each member has a disk of its own, an ext4 whose power the kernel cuts: what no finished sync has
forced out is gone. A machine that has started again has another boot id.
"""

import asyncio
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

from sequencer.journal.crc import crc32c
from tests.cluster.cluster_trial import ClusterTrial, Trouble
from tests.crash.disks import PowerDisk, why_no_cut
from tests.crash.trial import SEED
from tests.support.cluster_start import ClusterOf
from tests.support.depth import depth

ROUNDS = depth(1, 5)


class PoweredCluster(ClusterOf):
    """Members with a disk each."""

    def __init__(self, sync: str) -> None:
        super().__init__(3, more=["--sync", sync, "--cluster_patience", "60s"])
        self.sync = sync
        self.disks: list[PowerDisk] = []

    def prepare(self) -> None:
        super().prepare()
        for at in range(3):
            disk = self._stack.enter_context(PowerDisk())
            (disk.folder / "store").mkdir()
            (self.folder / f"store-{at}").symlink_to(disk.folder / "store")
            self.disks.append(disk)

    def lose_power(self, members: Sequence[int]) -> None:
        """All of them at once, between two calls of each process."""
        for at in members:
            self.members[at].suspend()
        for at in members:
            self.disks[at].cut()
        for at in members:
            self.members[at].kill()
            self.disks[at].restore()
            self.restart_machine(at)

    def restart_machine(self, at: int) -> None:
        """The kernel has another boot id than when the member was open."""
        file = self.folder / f"store-{at}" / "cluster" / "member.json"
        fields = json.loads(file.read_bytes())
        del fields["crc"]
        fields["boot"] = "that of the machine before its power was cut"
        fields["crc"] = crc32c(json.dumps(fields, sort_keys=True).encode())
        file.write_text(json.dumps(fields))


@contextmanager
def powered(sync: str) -> Iterator[PoweredCluster]:
    if why_no_cut():
        pytest.skip(why_no_cut())
    with PoweredCluster(sync) as cluster:
        yield cluster


def power_cut(cluster: PoweredCluster, everybody: bool) -> Trouble:
    """The power of one member or of all, and their start."""

    async def trouble(trial: ClusterTrial) -> None:
        members = range(3) if everybody else [trial.lives.index(trial.anyone())]
        for at in members:
            trial.lives[at].dies()
        await asyncio.to_thread(cluster.lose_power, members)
        await asyncio.gather(*(trial.start(trial.lives[at]) for at in members))
        await trial.view(lambda view: {*view["members"]} == {*cluster.ids()})

    return trouble


@pytest.mark.parametrize("sync", ["always", "interval"])
def test_given_a_power_cut_of_one_member_then_nothing_told_is_lost(sync: str) -> None:
    with powered(sync) as cluster:
        ClusterTrial(cluster, SEED).play([power_cut(cluster, False)] * ROUNDS)


def test_given_a_power_cut_of_all_when_always_synced_then_nothing_told_is_lost() -> None:
    with powered("always") as cluster:
        ClusterTrial(cluster, SEED).play([power_cut(cluster, True)] * ROUNDS)
