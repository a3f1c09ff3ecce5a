"""What can happen to a cluster, each under the traffic of a ClusterTrial.

    trial.play([kill_coordinator, ...])

A trouble ends when the cluster is whole again, so that another one may follow.
"""

import asyncio
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.cluster.cluster_trial import ClusterTrial, Trouble, info, journal
from tests.cluster.hosted_cluster import ETCD, HostedCluster, ShimmedCluster
from tests.crash.ledger import Broken
from tests.support.depth import depth

ZOMBIE_S = depth(30, 100) / 10  # more than `cluster.dead`
UNACKNOWLEDGED = 2500  # JGroups' SEQUENCER remembers 2000 to tell what came twice
REPLAY_BUFFER = 4096
REPLAYED = 20_000  # that takes seconds; all of a soak's journal would take minutes
HOUR_S = 3600.0
DAY_S = 25 * HOUR_S
WRONG_S = 2.0
ALONE_S = 3.0  # one is there before the others
FAILED = 1  # the status of a broker that cannot go on
CUT_S = depth(25, 40) / 10  # longer than `cluster.dead` and another's turn


def hosted(trial: ClusterTrial) -> HostedCluster:
    assert isinstance(trial.cluster, HostedCluster), "this trouble needs a network of its own"
    return trial.cluster


def shimmed(trial: ClusterTrial) -> ShimmedCluster:
    assert isinstance(trial.cluster, ShimmedCluster), "this trouble needs clocks of its own"
    return trial.cluster


# Processes


async def kill_coordinator(trial: ClusterTrial) -> None:
    await trial.kill(trial.coordinator())
    await trial.whole()


async def kill_anyone(trial: ClusterTrial) -> None:
    await trial.kill(trial.anyone())
    await trial.whole()


async def kill_two_in_a_row(trial: ClusterTrial) -> None:
    """The second coordinator dies as soon as it is one, and before the first is back."""
    first = trial.cluster.coordinator()
    epoch = trial.cluster.view()["epoch"]
    await trial.die(trial.lives[first])
    view = await trial.view(lambda view: view["epoch"] > epoch)
    second = trial.cluster.number_of(view["coordinator"])
    await trial.die(trial.lives[second])
    await asyncio.gather(*(trial.start(trial.lives[at]) for at in (first, second)))
    await trial.whole()


async def zombie(trial: ClusterTrial) -> None:
    """A coordinator that stands still, and goes on when another one has long begun."""
    epoch = trial.cluster.view()["epoch"]
    await trial.freeze(trial.coordinator(), ZOMBIE_S)
    await trial.view(lambda view: view["epoch"] > epoch)
    await trial.whole()


async def anyone_stands_still(trial: ClusterTrial) -> None:
    """For less or more time than others wait for it."""
    await trial.freeze(trial.anyone(), trial.chance.uniform(0.2, 2 * ZOMBIE_S))
    await trial.whole()


async def restart_anyone(trial: ClusterTrial) -> None:
    """It is asked to stop, hands over or leaves, and comes back."""
    lives = trial.anyone()
    lives.dies()
    await asyncio.to_thread(lives.server.stop)
    await trial.start(lives)
    await trial.whole()


async def all_killed(trial: ClusterTrial) -> None:
    """One starts alone, and serves its clients; the others come when these have subscribed."""
    await trial.die_all()
    first, *others = trial.chance.sample(trial.lives, len(trial.lives))
    await trial.start(first)
    await asyncio.sleep(trial.chance.uniform(0, ALONE_S))  # no event to await: its clients do that
    await asyncio.gather(*map(trial.start, others))
    await trial.whole()


async def restored_store(trial: ClusterTrial) -> None:
    """A follower's files are put back to a copy of them, in place, and it starts before others."""
    at = trial.followers_of(trial.cluster.coordinator())[0]
    restored, store = trial.lives[at], (trial.cluster.folder / f"store-{at}").resolve()
    await trial.die(restored)
    with TemporaryDirectory() as folder:
        copy = shutil.copytree(store, Path(folder, "copy"))
        await trial.start(restored)
        await trial.whole()
        await trial.traffic()
        await trial.die_all()
        put_back(copy, store)
    starting = asyncio.create_task(trial.start(restored))
    await asyncio.sleep(trial.chance.uniform(0, ALONE_S))  # no event to await: it is to be alone
    await asyncio.gather(*(trial.start(lives) for lives in trial.lives if lives is not restored))
    await starting
    await trial.whole()


def put_back(copy: Path, to: Path) -> None:
    """Have a directory be like its copy, with the inodes that it has."""
    for there in to.rglob("*"):
        if there.is_file() and not (copy / there.relative_to(to)).exists():
            there.unlink()
    for kept in copy.rglob("*"):
        there = to / kept.relative_to(copy)
        if kept.is_dir():
            there.mkdir(exist_ok=True)
        else:
            with open(there, "r+b" if there.exists() else "wb") as file:
                file.truncate(0)
                file.write(kept.read_bytes())


async def kill_during_replays(trial: ClusterTrial) -> None:
    """Each other member is sending the newest of its journal, through a small buffer."""
    coordinator = trial.coordinator()
    last = (await info(coordinator))["last"]
    first = max(1, last - REPLAYED + 1)
    others = [trial.lives[at] for at in trial.followers_of(trial.cluster.coordinator())]
    replays = [asyncio.create_task(journal(one, first, last, REPLAY_BUFFER)) for one in others]
    await trial.kill(coordinator)
    for replay in replays:
        if len(await replay) != last - first + 1:
            raise Broken(f"{len(await replay)} messages were replayed, of {first} to {last}")
    await trial.whole()


async def more_than_a_window(trial: ClusterTrial) -> None:
    """A coordinator dies when a publisher at another member has thousands under way."""
    coordinator = trial.coordinator()
    floods = []
    for at in trial.followers_of(trial.cluster.coordinator()):
        floods.append(await trial.flood(at, UNACKNOWLEDGED))
    await trial.die(coordinator)
    await asyncio.gather(*floods)
    await trial.start(coordinator)
    await trial.whole()


async def some_reached(trial: ClusterTrial) -> None:
    """A coordinator reaches only some of the members, and dies."""
    cluster, at = hosted(trial), trial.cluster.coordinator()
    unreached = trial.followers_of(at)[0]
    cluster.cut(at, unreached)
    await trial.ledger.more(300)
    await trial.die(trial.lives[at])
    cluster.heal()
    await trial.start(trial.lives[at])
    await trial.whole()


async def dies_after_numbering(trial: ClusterTrial) -> None:
    """A coordinator dies between its own write and the first byte to another member."""
    cluster, at = shimmed(trial), trial.cluster.coordinator()
    lives = trial.lives[at]
    lives.dies()
    cluster.faults[at].set("write die")
    await asyncio.to_thread(lives.server.wait)
    cluster.faults[at].set()
    await trial.start(lives)
    await trial.whole()


# Networks


def cut_off(*pairs: tuple[str, str]) -> Trouble:
    """Cut what goes from one to another.

    They are "c" the coordinator, "f" its followers, "1" one of these, "2" the others, "e" etcd.
    """

    async def trouble(trial: ClusterTrial) -> None:
        cluster, at = hosted(trial), trial.cluster.coordinator()
        others = trial.followers_of(at)
        who = {"c": [at], "f": others, "1": others[:1], "2": others[1:], "e": [ETCD]}
        for here, there in pairs:
            for one in who[here]:
                for other in who[there]:
                    cluster.cut(one, other)
        await asyncio.sleep(CUT_S)  # no event to await: the time is what is tested
        cluster.heal()
        await trial.whole()

    return trouble


def both_ways(*pairs: tuple[str, str]) -> Trouble:
    return cut_off(*pairs, *((there, here) for here, there in pairs))


CUTS = {
    "a coordinator from the members": both_ways(("c", "f")),
    "a coordinator from etcd": both_ways(("c", "e")),
    "a coordinator from all": both_ways(("c", "f"), ("c", "e")),
    "a coordinator that is not heard": cut_off(("c", "f"), ("c", "e")),
    "a coordinator that is not heard by members": cut_off(("c", "f")),
    "a coordinator that does not hear": cut_off(("f", "c"), ("e", "c")),
    "a coordinator that does not hear members": cut_off(("f", "c")),
    "a coordinator that does not hear etcd": cut_off(("e", "c")),
    "a coordinator from one follower": both_ways(("c", "1")),
    "a follower from all": both_ways(("1", "c"), ("1", "2"), ("1", "e")),
    "a follower that is not heard": cut_off(("1", "c"), ("1", "e")),
    "a follower that does not hear": cut_off(("c", "1"), ("e", "1")),
    "followers from etcd": both_ways(("f", "e")),
    "all from etcd": both_ways(("c", "e"), ("f", "e")),
}


# The engine


async def etcd_killed(trial: ClusterTrial) -> None:
    """Nothing changes while no view must change; a member that dies meanwhile is replaced later."""
    etcd = trial.cluster.etcd
    await asyncio.to_thread(etcd.kill)
    await trial.traffic()
    await asyncio.to_thread(etcd.start)
    await trial.traffic()


async def etcd_stopped(trial: ClusterTrial) -> None:
    """It accepts connections and answers nothing; then the coordinator dies."""
    coordinator = trial.coordinator()
    trial.cluster.etcd.pause()
    await trial.traffic()
    await trial.die(coordinator)
    trial.cluster.etcd.go_on()
    await trial.start(coordinator)
    await trial.whole()


async def etcd_lost(trial: ClusterTrial) -> None:
    """Its data is gone: the members go on as they are. Nothing can follow on this cluster."""
    etcd = trial.cluster.etcd
    await asyncio.to_thread(etcd.kill)
    etcd.lose_data()
    await asyncio.to_thread(etcd.start)
    await trial.traffic()
    for lives in trial.lives:
        assert await asyncio.to_thread(lives.server.await_line, "etcd has lost the view")
    await trial.traffic()


# Clocks


async def clocks_apart(trial: ClusterTrial) -> None:
    """A coordinator's clock is an hour ahead, then another one's an hour behind."""
    cluster, at = shimmed(trial), trial.cluster.coordinator()
    cluster.set_clock(at, HOUR_S)
    for other in trial.followers_of(at):
        cluster.set_clock(other, -HOUR_S)
    await trial.traffic()
    await trial.kill(trial.lives[at])
    await trial.whole()
    for other in range(len(trial.lives)):
        cluster.set_clock(other, 0)
    await trial.traffic()


async def clock_jumps(trial: ClusterTrial) -> None:
    """A follower's clock is wrong for two seconds. Later it coordinates, with the right time."""
    cluster = shimmed(trial)
    for at in trial.followers_of(trial.cluster.coordinator()):
        cluster.set_clock(at, trial.chance.choice((-DAY_S, DAY_S, DAY_S)))
        await asyncio.sleep(WRONG_S)  # no event to await: the time is what is tested
        cluster.set_clock(at, 0)
    await trial.traffic()
    await trial.kill(trial.coordinator())
    await trial.whole()
    await trial.traffic()


# Disks


async def full_disk_of_coordinator(trial: ClusterTrial) -> None:
    """Its clients wait until another one coordinates and there is room: none is refused."""
    cluster, at = hosted(trial), trial.cluster.coordinator()
    epoch = trial.cluster.view()["epoch"]
    with cluster.full(at):
        await trial.view(lambda view: view["epoch"] > epoch)
        await trial.traffic()
    await trial.whole()


async def broken_disk_of_coordinator(trial: ClusterTrial) -> None:
    """Not even the view can be written down any more; then it can again."""
    cluster, at = hosted(trial), trial.cluster.coordinator()
    lives, epoch = trial.lives[at], trial.cluster.view()["epoch"]
    await trial.retire(lives)
    with cluster.faults[at].on("write 5", "fallocate 5"):
        await trial.view(lambda view: view["epoch"] > epoch)
        await trial.traffic()
    await trial.whole()
    await lives.born()


async def failed_sync_of_coordinator(trial: ClusterTrial) -> None:
    await _failed_sync(trial, trial.cluster.coordinator())


async def failed_sync_of_follower(trial: ClusterTrial) -> None:
    await _failed_sync(trial, trial.followers_of(trial.cluster.coordinator())[0])


async def _failed_sync(trial: ClusterTrial, at: int) -> None:
    """What it has acknowledged may never get to the disk: it stops, and comes back as a new one."""
    cluster, lives = shimmed(trial), trial.lives[at]
    before = cluster.ids()[at]
    lives.dies()
    with cluster.faults[at].on("fdatasync 5 .segment"):  # its id can still be written down
        assert await asyncio.to_thread(lives.server.wait) == FAILED
    assert lives.server.said("what was acknowledged may be lost"), "it says why"
    assert cluster.ids()[at] != before
    await trial.start(lives)
    await trial.view(lambda view: {*view["members"]} == {*cluster.ids()})


async def full_disk_of_follower(trial: ClusterTrial) -> None:
    """The others go on without it."""
    cluster, at = hosted(trial), trial.followers_of(trial.cluster.coordinator())[0]
    with cluster.full(at):
        await trial.view(lambda view: len(view["members"]) < len(trial.lives))
        await trial.traffic()
    await trial.whole()
