"""The clocks of members jump: that is told, and whoever coordinates then knows nothing of it."""

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.monitor.cluster_figures import PREFIX
from tests.crash.shim import COMPILER, WHY_NOT
from tests.support.cluster_start import ClusterOf
from tests.support.commands import run_command
from tests.support.processes import BIN, SeriatimServer
from tests.support.set_clock import BOUND_S, Asker, SetClock
from tests.support.web import http_port, metrics

pytestmark = pytest.mark.skipif(COMPILER is None, reason=WHY_NOT)
DAY = 86_400


class ClockedCluster(ClusterOf):
    """Each member has a clock of its own."""

    def prepare(self) -> None:
        super().prepare()
        self.clocks = [SetClock(self.folder / f"clock-{at}") for at in range(3)]

    def made(self, at: int, store: Path) -> SeriatimServer:
        member = super().made(at, store)
        member.env.update(self.clocks[at].env)
        return member

    def status(self) -> tuple[int, list[str]]:
        """What `cluster status` finds wrong."""
        command = [str(BIN / "seriatim"), "cluster", "status", "--cluster", self.name, "--json"]
        command += ["--etcd", self.etcd.endpoint]
        done = run_command(command, os.environ)
        return done.returncode, json.loads(done.stdout)["problems"]

    def until_status(self, text: str) -> None:
        end = time.monotonic() + BOUND_S
        while not any(text in problem for problem in self.status()[1]):
            assert time.monotonic() < end, self.status()


@pytest.fixture
def cluster() -> Iterator[ClockedCluster]:
    with ClockedCluster(3, more=["-m", "-1"]) as made:
        yield made


def test_given_followers_whose_clocks_were_a_day_ahead_when_one_takes_over_then_ids_are_known_there(
    cluster: ClockedCluster,
) -> None:
    old = cluster.coordinator()
    followers = [at for at in range(3) if at != old]
    askers = {at: Asker(cluster.members[at].port) for at in range(3)}
    before = {f"before-{at}": askers[at].number(f"before-{at}") for at in range(3)}
    for at in followers:
        cluster.clocks[at].ahead(DAY)
    numbers = before | {f"at-{at}": askers[at].number(f"at-{at}") for at in range(3)}
    for at in followers:
        name = cluster.ids()[at]
        assert cluster.members[old].await_line(f"the clock of member {name} is 864")
    cluster.until_status("s ahead of the coordinator's: set it")
    assert cluster.status()[0] == 1
    figures = metrics(http_port(cluster.members[old]))
    for at in followers:
        ahead = figures[f'{PREFIX}clock_seconds{{member="{cluster.ids()[at]}"}}']
        assert abs(ahead - DAY) < 60
    for at in followers:
        cluster.clocks[at].ahead(0)
        name = cluster.ids()[at]
        assert cluster.members[old].await_line(f"the clock of member {name} agrees again")
    cluster.members[old].kill()
    for at in followers:
        assert {one: askers[at].number(one) for one in numbers} == numbers
    fresh = askers[followers[0]].number("fresh")
    assert fresh == max(numbers.values()) + 1
    assert askers[followers[0]].info()["newest"] < (time.time() + DAY / 2) * 1000
    for one in askers.values():
        one.client.close()
