"""Decides whether an unknown etcd, found at the start, keeps this member's cluster.

Usually it does not: the endpoint is wrong. But if an operator has recovered the cluster in a new
etcd (`seriatim cluster recover -sd`), the view there is of this journal, with an epoch above all
that this member knows. An etcd that was only restored, or belongs to others, has no such view.
"""

from broker.cluster.engine.etcd import EtcdAccess, EtcdGateway
from broker.cluster.engine.etcd_keeper import EtcdKeeper
from broker.cluster.engine.view_keeper import EngineError
from broker.cluster.storage.membership import Membership
from sequencer.replica.view import BadView


async def recovered_engine(
    access: EtcdAccess, cluster: str, memory: Membership, journal: str
) -> str:
    """Return the id of the etcd that this member may use: the known or the recovered one."""
    known = memory.remembered.engine
    gateway = EtcdGateway(access)
    keeper = EtcdKeeper(gateway, cluster)
    try:
        view = (await keeper.read()).view
    except (EngineError, BadView):
        return known
    finally:
        await keeper.close()
    if not known or keeper.engine_id == known or view is None:
        return known
    if view.journal == journal and view.epoch > memory.epoch:
        memory.learn_engine(keeper.engine_id)
    return memory.remembered.engine
