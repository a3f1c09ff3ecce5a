"""A member's disk refuses a sync: what it has not got is not acknowledged by anyone.

With `sync = interval` the member has acknowledged it already. It stops then, and comes back as a
new member: troubles.py has that, under traffic.
"""

from pathlib import Path

import pytest

from tests.cluster.test_catching_up import replayed
from tests.crash import shim
from tests.crash.shim import Faults, preload
from tests.crash.talk import heard, is_silent, pub
from tests.support.cluster_start import ClusterOf
from tests.support.processes import SeriatimServer
from tests.support.raw import QUIET, RawClient

pytestmark = pytest.mark.skipif(shim.COMPILER is None, reason=shim.WHY_NOT)


class FaultyCluster(ClusterOf):
    """The disk of its last member fails on command."""

    def prepare(self) -> None:
        super().prepare()
        self.faults = Faults(self.folder)

    def made(self, at: int, store: Path) -> SeriatimServer:
        member = super().made(at, store)
        if at:
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
