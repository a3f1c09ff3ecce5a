"""The power of members is cut under traffic: what `sync` promises in a cluster.

Each member has a disk of its own, an ext4 whose power the kernel cuts: what no finished sync has
forced out is gone. A machine that has started again has another boot id.
"""

import asyncio
import json
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from sequencer.journal.crc import crc32c
from seriatim.client.bulk_connection import BulkConnection
from tests.cluster.cluster_trial import ClusterTrial, Trouble
from tests.cluster.test_catching_up import replayed
from tests.crash.disks import PowerDisk, why_no_cut
from tests.crash.shim import COMPILER, WHY_NOT, Faults, preload
from tests.crash.trial import SEED
from tests.seriatim.cli.command import seriatim
from tests.support.cluster_start import ClusterOf
from tests.support.depth import depth
from tests.support.processes import NotReadyError, SeriatimServer, url
from tests.support.web import http_port, metrics

ROUNDS = depth(1, 5)
TRIES = 600
PAUSE_S = 0.1
SYNCS = 2  # the one member whose syncs end


class PoweredCluster(ClusterOf):
    """Members with a disk each."""

    def __init__(self, sync: str) -> None:
        super().__init__(3, more=["--sync", sync, "--cluster_patience", "60s", "-m", "-1"])
        self.sync = sync
        self.disks: list[PowerDisk] = []

    def prepare(self) -> None:
        super().prepare()
        for at in range(3):
            disk = self._stack.enter_context(PowerDisk())
            (disk.folder / "store").mkdir()
            (self.folder / f"store-{at}").symlink_to(disk.folder / "store")
            self.disks.append(disk)

    def lose_power(self, members: Sequence[int], standing: Sequence[int] = ()) -> None:
        """All of them at once, between two calls of each process. Some are suspended already."""
        for at in members:
            if at not in standing:
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
def test_given_a_power_cut_of_one_member_then_nothing_acknowledged_is_lost(sync: str) -> None:
    with powered(sync) as cluster:
        ClusterTrial(cluster, SEED).play([power_cut(cluster, False)] * ROUNDS)


def test_given_a_power_cut_of_all_when_always_synced_then_nothing_acknowledged_is_lost() -> None:
    with powered("always") as cluster:
        ClusterTrial(cluster, SEED).play([power_cut(cluster, True)] * ROUNDS)


class UnsyncedCluster(PoweredCluster):
    """While `unsynced`, one member syncs, and the disks of the others take their time."""

    def prepare(self) -> None:
        super().prepare()
        self.faults = Faults(self.folder)

    def made(self, at: int, store: Path) -> SeriatimServer:
        member = super().made(at, store)
        if at != SYNCS:
            member.env |= preload(store, faults=self.faults)
        return member

    def unsynced(self) -> AbstractContextManager[None]:
        return self.faults.on("fdatasync stall .segment")

    def publish(self, at: int, texts: list[bytes]) -> list[int]:
        """The numbers of these messages, which are committed."""
        with BulkConnection.connect(url(self.members[at])) as client:
            said = [bytes(client.request("$SEQ.PUB.a", one).check("a").payload) for one in texts]
        return [int(one.partition(b":")[2].rstrip(b",")) for one in said]

    def await_synced(self, number: int, members: Sequence[int] = (SYNCS,)) -> None:
        ports = [http_port(self.members[at]) for at in members]
        name = "seriatim_journal_synced_number"
        self.until(lambda: all(metrics(port)[name] >= number for port in ports))

    def until(self, is_so: Callable[[], bool]) -> None:
        for _ in range(TRIES):
            if is_so():
                return
            time.sleep(PAUSE_S)  # another process: no event to await
        raise AssertionError("in vain")

    def operate(self, *words: str) -> CompletedProcess[bytes]:
        given = ("--cluster", self.name, "--etcd", self.etcd.endpoint)
        return seriatim("cluster", words[0], *given, *words[1:])

    def start_recovered(self, members: list[int]) -> str:
        """Start these, which wait for a coordinator; recover; what that said."""
        with ThreadPoolExecutor() as threads:
            starts = [threads.submit(self.members[at].start) for at in members]
            said: list[str] = []

            def is_done() -> bool:
                done = self.operate("recover", "--yes", str(len(members)))
                said.append(done.stdout.decode() + done.stderr.decode())
                return done.returncode == 0

            self.until(is_done)
            for one in starts:
                one.result()
        return said[-1]

    def have_the_same(self, last: int) -> list[bytes]:
        """What all members have."""
        self.until(lambda: {*self.view()["members"]} == {*self.ids()})
        found = [replayed(member.port, last) for member in self.members]
        assert found[0] == found[1] == found[2]
        return [one.payload for one in found[0][:-1]]


@pytest.fixture(scope="module")
def unsynced() -> Iterator[UnsyncedCluster]:
    if COMPILER is None or why_no_cut():
        pytest.skip(WHY_NOT if COMPILER is None else why_no_cut())
    with UnsyncedCluster("interval") as cluster:
        yield cluster


def test_given_a_power_cut_of_all_when_not_synced_then_the_longest_journal_is_recovered(
    unsynced: UnsyncedCluster,
) -> None:
    before, stream = unsynced.ids(), unsynced.view()["stream"]
    unsynced.publish(0, [b"synced, for an epoch begins"])
    with unsynced.unsynced():
        unsynced.publish(0, [b"synced %d" % at for at in range(49)])
        unsynced.await_synced(50)
        unsynced.members[SYNCS].suspend()
        assert unsynced.publish(0, [b"lost %d" % at for at in range(20)])[-1] == 70
        unsynced.lose_power(range(3), standing=[SYNCS])

    said = unsynced.start_recovered([0, 1, 2])
    assert "Numbers above 50 that clients were shown are lost, if there are any." in said
    assert unsynced.view()["stream"] == stream + 1
    assert not {*before} & {*unsynced.ids()}, "each may have lost what it had acknowledged"
    assert unsynced.publish(1, [b"new"]) == [51]
    found = unsynced.have_the_same(51)
    assert [b"synced" in one for one in found] == [True] * 50 + [False]


@pytest.mark.slow
def test_given_a_member_with_more_when_started_after_a_recovery_then_it_stops_and_keeps_it(
    unsynced: UnsyncedCluster,
) -> None:
    last = unsynced.publish(0, [b"this will be synced by all"])[0]
    unsynced.await_synced(last, range(3))
    unsynced.have_the_same(last)
    with unsynced.unsynced():
        unsynced.publish(0, [b"one has this"] * 10)
        unsynced.await_synced(last + 10)
        unsynced.lose_power(range(3))

    unsynced.start_recovered([0, 1])
    assert unsynced.publish(1, [b"new"]) == [last + 1]
    late, store = unsynced.members[SYNCS], unsynced.folder / f"store-{SYNCS}"
    for _ in range(2):  # also if it is started again
        with pytest.raises(NotReadyError, match="was recovered without it"):
            late.start()
        said = seriatim("journal", "info", str(store)).stdout
        assert b"%d" % (last + 10) in said
    folder = store.resolve()
    folder.rename(folder.with_name("saved"))
    folder.mkdir()
    late.start()
    assert unsynced.have_the_same(last + 1)[-1].endswith(b"new,,")
