"""What JGroups' SEQUENCER is tested for, and what it fails at: on real processes and networks.

    SequencerOrderTest      senders at every member: one order
    SequencerFailoverTest   the coordinator dies meanwhile: everything of the others, in order, once
    SequencerMergeTest      members are cut off from each other, and come together again

One cluster serves all tests here, until one of them fails. The gate takes a trouble of each kind: a
kill, a cut, a stop, a disk; a soak takes all, and then any of them at random for SOAK_SECONDS.
"""

import time
from collections.abc import Callable, Iterator
from random import Random

import pytest

from tests.cluster import troubles
from tests.cluster.cluster_trial import ClusterTrial, Trouble
from tests.cluster.hosted_cluster import HostedCluster, why_not
from tests.crash.trial import SEED, SOAK_S

Play = Callable[..., None]
# Neither a cut nor an hour by the clock shall end the patience, or the window of ids.
PATIENT = ["--cluster_patience", "60s", "--cluster_stranded", "600s", "--dedupe_window", "24h"]
IN_A_ROW = 5  # troubles between two judgements in a soak

TROUBLES = {
    # It replays all that came before: enough to fill buffers, and not more.
    "killed during replays": troubles.kill_during_replays,
    "a coordinator that was stopped goes on": troubles.zombie,
    "killed between its journal and the others": troubles.dies_after_numbering,
    "a coordinator's disk full": troubles.full_disk_of_coordinator,
    "a sync of a coordinator fails": troubles.failed_sync_of_coordinator,
    "a coordinator cut off from all": troubles.CUTS["a coordinator from all"],
}
RARE = {
    "killed with more unacknowledged than a window": troubles.more_than_a_window,
    "two coordinators killed in a row": troubles.kill_two_in_a_row,
    "killed when some members have the message": troubles.some_reached,
    "a follower's disk full": troubles.full_disk_of_follower,
    "clocks hours apart": troubles.clocks_apart,
    "a coordinator killed": troubles.kill_coordinator,
    "anyone killed": troubles.kill_anyone,
    "a coordinator's disk broken": troubles.broken_disk_of_coordinator,
    "a sync of a follower fails": troubles.failed_sync_of_follower,
    "anyone stands still": troubles.anyone_stands_still,
    "anyone is restarted": troubles.restart_anyone,
    "a follower's clock jumps": troubles.clock_jumps,
    "etcd killed": troubles.etcd_killed,
    "etcd stopped, and a coordinator killed": troubles.etcd_stopped,
    **{f"cut: {name}": cut for name, cut in troubles.CUTS.items()},
}


class Holder:
    """The running cluster; the next one is made when a test has spoilt it."""

    def __init__(self) -> None:
        self.cluster: HostedCluster | None = None

    def get(self) -> HostedCluster:
        if self.cluster is None:
            self.cluster = HostedCluster(more=PATIENT)
            self.cluster.__enter__()
        return self.cluster

    def close(self, error: BaseException | None = None) -> None:
        cluster, self.cluster = self.cluster, None
        if cluster is not None:
            cluster.__exit__(type(error) if error else None, error, None)


@pytest.fixture(scope="module")
def holder() -> Iterator[Holder]:
    if why_not():
        pytest.skip(why_not())
    holder = Holder()
    yield holder
    holder.close()


@pytest.fixture
def play(holder: Holder) -> Play:
    def played(*what: Trouble, seed: int = SEED) -> None:
        try:
            ClusterTrial(holder.get(), seed).play(list(what))
        except BaseException as error:
            holder.close(error)
            raise

    return played


def test_given_senders_at_every_member_then_all_see_one_order(play: Play) -> None:
    play()


@pytest.mark.parametrize("name", TROUBLES)
def test_given_a_trouble_when_all_send_then_there_is_one_order(play: Play, name: str) -> None:
    play(TROUBLES[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", RARE)
def test_given_a_rarer_trouble_when_all_send_then_there_is_one_order(play: Play, name: str) -> None:
    play(RARE[name])


@pytest.mark.slow
def test_given_any_troubles_for_long_then_there_is_one_order(play: Play) -> None:
    known = {**TROUBLES, **RARE}
    chance, end = Random(SEED), time.monotonic() + SOAK_S
    done = 0
    while not done or time.monotonic() < end:
        names = chance.choices(list(known), k=IN_A_ROW)
        print(f"CRASH_SEED={SEED}: after {done} troubles {', '.join(names)}")
        play(*(known[name] for name in names), seed=SEED + done)
        done += len(names)


def test_given_etcd_lost_its_data_then_members_go_on_and_say_so(play: Play, holder: Holder) -> None:
    play(troubles.etcd_lost)
    holder.close()  # it cannot be mended
