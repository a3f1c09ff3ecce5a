"""Members on this machine, a real etcd: one order, whatever happens to the processes."""

from collections.abc import Iterator

import pytest

from tests.cluster.cluster_trial import ClusterTrial
from tests.crash.trial import SEED
from tests.support.cluster_start import ClusterOf
from tests.support.depth import depth


@pytest.fixture
def cluster() -> Iterator[ClusterOf]:
    with ClusterOf(3) as made:
        yield made


def test_given_traffic_at_every_member_then_all_see_one_order(cluster: ClusterOf) -> None:
    ClusterTrial(cluster, SEED).play([])


def test_given_coordinators_that_are_killed_then_nothing_that_was_told_is_lost(
    cluster: ClusterOf,
) -> None:
    async def kill(trial: ClusterTrial) -> None:
        await trial.kill(trial.coordinator())

    ClusterTrial(cluster, SEED).play([kill] * depth(2, 20))


def test_given_any_member_killed_then_nothing_that_was_told_is_lost(cluster: ClusterOf) -> None:
    async def kill(trial: ClusterTrial) -> None:
        await trial.kill(trial.anyone())

    ClusterTrial(cluster, SEED).play([kill] * depth(3, 30))


def test_given_a_coordinator_that_comes_back_after_a_stop_then_nobody_hears_it(
    cluster: ClusterOf,
) -> None:
    async def freeze(trial: ClusterTrial) -> None:
        await trial.freeze(trial.coordinator(), 4.0)

    ClusterTrial(cluster, SEED).play([freeze] * depth(1, 10))
