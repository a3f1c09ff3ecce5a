"""A member's disk refuses a sync: what it has not got is not acknowledged by anyone.

With `sync = interval` the member has acknowledged it already. It stops then, and comes back as a
new member: troubles.py has that, under traffic.
"""

from contextlib import closing
from pathlib import Path

import pytest

from tests.cluster.test_catching_up import replayed
from tests.cluster.test_cluster_batches import BatchClient, eventually
from tests.crash import shim
from tests.crash.shim import Faults, preload
from tests.crash.talk import heard, is_silent, pub
from tests.support.cluster_start import ClusterOf
from tests.support.processes import SeriatimServer
from tests.support.raw import QUIET, RawClient
from tests.support.staging import Batch

pytestmark = pytest.mark.skipif(shim.COMPILER is None, reason=shim.WHY_NOT)


class FaultyCluster(ClusterOf):
    """The disk of one member fails on command."""

    faulty = 1

    def prepare(self) -> None:
        super().prepare()
        self.faults = Faults(self.folder)

    def made(self, at: int, store: Path) -> SeriatimServer:
        member = super().made(at, store)
        if at == self.faulty:
            member.env |= preload(store, faults=self.faults)
        return member


def test_given_always_when_a_sync_of_a_follower_fails_then_its_number_waits_for_the_next() -> None:
    with FaultyCluster(2, more=["--sync", "always"]) as cluster:
        first, second = cluster.members
        before = cluster.ids()
        with RawClient(first.port, QUIET) as client, RawClient(second.port, QUIET) as ear:
            ear.ask(b"SUB > 1\r\n")
            assert client.ask(pub(b"one")) == []
            assert heard([ear.operation()]) == [(1, b"one")]
            with cluster.faults.on("fdatasync 5 .segment"):
                client.send(pub(b"two") + b"PING\r\n")
                assert second.await_line("publishers are refused")
                assert is_silent(client)
                assert is_silent(ear)
            assert client.operation().verb == "PONG"
            assert heard([ear.operation()]) == [(2, b"two")]
        assert replayed(first.port, 2) == replayed(second.port, 2)
        assert cluster.ids() == before, "it had acknowledged nothing that may be lost"


class FaultyCoordinator(FaultyCluster):
    """The disk of its first member fails, which coordinates."""

    faulty = 0


@pytest.mark.parametrize("kind", [FaultyCluster, FaultyCoordinator])
def test_given_a_disk_that_hangs_on_notes_then_its_member_serves_and_the_commit_waits(
    kind: type[FaultyCluster],
) -> None:
    batch = Batch("app", 1, 3)
    with kind(2) as cluster:
        first, slow = cluster.members[1 - kind.faulty], cluster.members[kind.faulty]
        with closing(BatchClient(first)) as publisher, RawClient(slow.port, QUIET) as ear:
            ear.ask(b"SUB a 1\r\n")
            publisher.stage(batch)
            with cluster.faults.on("fdatasync stall notes"):
                publisher.send(batch.commit())
                assert publisher.is_silent()
                with RawClient(first.port, QUIET) as client:
                    assert client.ask(pub(b"one")) == []
                assert heard([ear.operation()]) == [(1, b"one")], "it shows what is committed"
                assert ear.ask(b"") == [], "and answers a PING"
            assert publisher.answer() == {
                **{"application": "app", "batch": 1, "rows": 3, "repeated": False},
                **{"first": 2, "last": 4},
            }


@pytest.mark.parametrize("kind", [FaultyCluster, FaultyCoordinator])
def test_given_a_disk_that_refuses_notes_then_the_others_go_on_without_its_member(
    kind: type[FaultyCluster],
) -> None:
    with kind(3) as cluster:
        sound = cluster.members[2]
        with closing(BatchClient(sound)) as publisher:
            publisher.stage(Batch("app", 1, 3))
            with cluster.faults.on("fdatasync 28 notes", "write 28 notes"):
                assert publisher.insist(Batch("app", 1, 3).commit())["rows"] == 3
                assert cluster.coordinator() != kind.faulty
                assert cluster.members[kind.faulty].await_line("No space left on device")
            publisher.stage(Batch("app", 2, 3))
            assert publisher.insist(Batch("app", 2, 3).commit())["rows"] == 3
        eventually(lambda: len(cluster.view()["members"]) == 3)
