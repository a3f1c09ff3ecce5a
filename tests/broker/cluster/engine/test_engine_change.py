"""A member that starts finds another etcd: one where its cluster was recovered, or a wrong one."""

import asyncio
from pathlib import Path

from broker.cluster.engine.engine_change import recovered_engine
from broker.cluster.engine.etcd import EtcdAccess
from broker.cluster.storage.membership import Membership
from tests.support.etcd_server import EtcdServer
from tests.support.keepers import cluster_name, keeper_of, view


def test_given_another_etcd_then_it_is_used_only_if_the_cluster_was_recovered_there(
    tmp_path: Path,
) -> None:
    name = cluster_name()
    known, journal = "1" * 16, view().journal
    memory = Membership.create(str(tmp_path), name)
    memory.learn(5, 100, view(5))
    memory.learn_engine(known)

    async def play(etcd: EtcdServer) -> None:
        access = EtcdAccess((etcd.endpoint,), timeout=30.0)
        assert await recovered_engine(access, name, memory, journal) == known  # it has no view
        async with keeper_of(etcd, cluster=name) as keeper:
            older = (await keeper.swap(0, view(5))).now
            assert await recovered_engine(access, name, memory, journal) == known
            await keeper.swap(older.revision, view(6))
            assert await recovered_engine(access, name, memory, "2" * 16) == known
            assert memory.remembered.engine == known
            assert await recovered_engine(access, name, memory, journal) == keeper.engine_id
            assert memory.remembered.engine == keeper.engine_id != known

    with EtcdServer() as etcd:
        asyncio.run(play(etcd))
