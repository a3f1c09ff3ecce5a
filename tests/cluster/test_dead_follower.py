"""A follower dies: publishing goes on as soon as its port refuses, however long `slow` is."""

import json

from tests.cluster.test_cluster_batches import eventually
from tests.support.cluster_start import ClusterOf
from tests.support.raw import QUIET, RawClient

SLOW = [
    "--cluster_dead",
    "58",
    "--cluster_slow",
    "57",
    "--cluster_stranded",
    "60",
]  # longer than this test may take


def test_given_a_killed_follower_when_silence_alone_takes_a_minute_then_publishing_goes_on() -> (
    None
):
    with ClusterOf(3, more=SLOW) as cluster:
        eventually(lambda: len(cluster.view()["members"]) == 3)
        before, leader = cluster.ids(), cluster.coordinator()
        dead = next(at for at in range(3) if at != leader)
        with RawClient(cluster.members[leader].port, QUIET + b"SUB r 1\r\n") as client:
            cluster.members[dead].kill()
            (number,) = client.ask(b"PUB $SEQ.PUB.a r 1\r\nx\r\n")
            assert number.verb == "MSG"
            assert before[dead] not in cluster.view()["members"]
            cluster.members[dead].start()
            eventually(lambda: before[dead] in cluster.view()["members"])
            (facts,) = client.ask(b"PUB $SEQ.INFO r 0\r\n\r\n")
        with RawClient(cluster.members[dead].port, QUIET + b"SUB r 1\r\n") as client:
            (found,) = client.ask(b"PUB $SEQ.INFO r 0\r\n\r\n")
        assert json.loads(found.payload)["last"] == json.loads(facts.payload)["last"] == 1
