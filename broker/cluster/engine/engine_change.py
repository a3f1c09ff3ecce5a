"""A member that starts finds another etcd than the one it knows: whether that keeps its cluster.

Usually it does not: a wrong endpoint. But if an operator has recovered the cluster in a new etcd
(`seriatim cluster recover -sd`), the view there is of this journal, with an epoch above all that
this member knows. No etcd that was only restored, or belongs to others, has that.
"""

from broker.cluster.engine.etcd import EtcdAccess, EtcdGateway
from broker.cluster.engine.etcd_keeper import EtcdKeeper
from broker.cluster.engine.view_keeper import EngineError
from broker.cluster.storage.membership import Membership
from sequencer.replica.view import BadView


async def recovered_engine(
    access: EtcdAccess, cluster: str, memory: Membership, journal: str
) -> str:
    """The id of the etcd that this member may use: the one it knows, or the recovered one."""
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
