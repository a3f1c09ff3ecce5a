"""The frame `stamp` in a cluster: every member gives a message the same number and time."""

from contextlib import ExitStack

from tests.support.cluster_start import ClusterOf
from tests.support.raw import RawClient
from tests.support.stamps import BLOCKS, STAMPS, check_stamps, publish_blocks

COUNT = len(BLOCKS)


def test_given_members_then_all_clients_read_the_same_time_live_and_later() -> None:
    with ClusterOf(3) as cluster, ExitStack() as stack:
        ports = [member.port for member in cluster.members]
        ears = [stack.enter_context(RawClient(port, STAMPS)) for port in ports]
        for ear in ears:
            ear.ask(b"SUB a 1\r\n")
        publish_blocks(ports[-1], b"a", 1)
        heard = [[ear.operation() for _ in range(COUNT)] for ear in ears]
        assert heard[0] == heard[1] == heard[2]
        check_stamps(ports[0], heard[0], 1)
        for ear in ears:
            ear.send(b"SUB $SEQ.RANGE.1.%d.a 2\r\n" % COUNT)
            past = [ear.operation() for _ in range(COUNT + 1)][:-1]
            assert [(one.header, one.payload) for one in past] == [
                (one.header, one.payload) for one in heard[0]
            ]
