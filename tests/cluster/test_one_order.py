"""Members on this machine, a real etcd: one order. test_troubles.py has more, and needs root."""

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


def test_given_coordinators_that_are_killed_then_nothing_acknowledged_is_lost(
    cluster: ClusterOf,
) -> None:
    async def kill(trial: ClusterTrial) -> None:
        await trial.kill(trial.coordinator())

    ClusterTrial(cluster, SEED).play([kill] * depth(1, 20))
