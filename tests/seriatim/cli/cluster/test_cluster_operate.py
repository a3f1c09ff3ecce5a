"""`seriatim cluster handover | remove | stop` with members that run."""

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from seriatim.client.bulk_connection import BulkConnection
from tests.seriatim.cli.command import refusal, seriatim
from tests.support.cluster_start import ClusterOf
from tests.support.processes import SeriatimServer, url


@pytest.fixture(scope="module")
def cluster() -> Iterator[ClusterOf]:
    with ClusterOf(3) as made:
        yield made


def run(cluster: ClusterOf, *arguments: str) -> str:
    """What the command prints."""
    done = seriatim("cluster", *arguments, *given(cluster))
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


def refused(cluster: ClusterOf, *arguments: str) -> str:
    return refusal("cluster", *arguments, *given(cluster))


def given(cluster: ClusterOf) -> tuple[str, ...]:
    return ("--cluster", cluster.name, "--etcd", cluster.etcd.endpoint)


def id_of(cluster: ClusterOf, at: int) -> str:
    file = cluster.folder / f"store-{at}" / "cluster" / "member.json"
    found: str = json.loads(file.read_text())["member"]
    return found


def publish(member: SeriatimServer) -> int:
    """Publish one message; its number."""
    with BulkConnection.connect(url(member)) as client:
        framed = bytes(client.request("$SEQ.PUB.trial", b"one").payload)  # 1:7,
        return int(framed.partition(b":")[2].rstrip(b","))


def newest(member: SeriatimServer) -> int:
    """The newest number that it shows."""
    with BulkConnection.connect(url(member)) as client:
        framed = bytes(client.request("$SEQ.INFO").payload)
    return int(json.loads(framed[framed.index(b"{") : framed.rindex(b"}") + 1])["last"])


def until_members(cluster: ClusterOf, check: Callable[[list[str]], bool]) -> None:
    """Until the members of the view are as they should be."""
    for _ in range(600):
        if check(cluster.view()["members"]):
            return
        time.sleep(0.1)  # no event to await
    raise AssertionError(f"the view is still {cluster.view()}")


def all_in_sync(cluster: ClusterOf) -> None:
    """Until all three are."""
    until_members(cluster, lambda members: len(members) == 3)


def test_given_a_member_when_handed_over_to_then_it_coordinates(cluster: ClusterOf) -> None:
    all_in_sync(cluster)
    publish(cluster.members[0])
    old = cluster.coordinator()
    to = (old + 1) % 3
    said = run(cluster, "handover", id_of(cluster, to))
    assert said.startswith(f"{id_of(cluster, to)} coordinates now. Publishing paused for ")
    assert cluster.coordinator() == to
    all_in_sync(cluster)  # on a busy machine, one may be out of sync for a moment
    first = publish(cluster.members[old])
    assert publish(cluster.members[to]) == first + 1


def test_given_no_member_when_handed_over_then_another_one_coordinates(cluster: ClusterOf) -> None:
    all_in_sync(cluster)
    old = cluster.coordinator()
    assert "coordinates now" in run(cluster, "handover")
    assert cluster.coordinator() != old


def test_given_a_wrong_member_when_handed_over_then_nothing_changes(cluster: ClusterOf) -> None:
    at = cluster.coordinator()
    said = refused(cluster, "handover", id_of(cluster, at))
    assert said == "not handed over: this member is already the coordinator"
    assert "no member is called nobody; there are " in refused(cluster, "handover", "nobody")
    assert cluster.coordinator() == at


def test_given_a_member_that_runs_when_removed_then_it_comes_back(cluster: ClusterOf) -> None:
    all_in_sync(cluster)
    at = cluster.coordinator()
    gone = id_of(cluster, (at + 1) % 3)
    said = run(cluster, "remove", gone)
    assert said.startswith(f"{gone} is removed: nothing waits for it.\nIt runs, so it comes back ")
    publish(cluster.members[at])
    other = id_of(cluster, (at + 2) % 3)
    assert "2 must stay in sync" in refused(cluster, "remove", other)
    member = cluster.members[(at + 1) % 3]
    member.kill()
    until_members(cluster, lambda members: gone not in members)
    assert "there is nothing to remove" in refused(cluster, "remove", gone)
    member.start(member.port)
    assert "it coordinates" in refused(cluster, "remove", id_of(cluster, at))
    all_in_sync(cluster)


def test_given_a_coordinator_that_died_when_asked_then_the_next_one_answers(
    cluster: ClusterOf,
) -> None:
    all_in_sync(cluster)
    at = cluster.coordinator()
    gone, member = id_of(cluster, at), cluster.members[at]
    member.kill()
    said = refused(cluster, "remove", gone)
    assert said == f"not removed: {gone} is not in sync: there is nothing to remove"
    member.start(member.port)
    all_in_sync(cluster)


def test_given_a_coordinator_that_takes_nothing_when_asked_then_it_is_reported_soon() -> None:
    with ClusterOf(1) as alone:
        pid, who = alone.members[0].pid, id_of(alone, 0)
        os.kill(pid, signal.SIGSTOP)
        said = refused(alone, "handover")
        os.kill(pid, signal.SIGCONT)
    # Its lease ends meanwhile on a machine that is busy.
    gone = f"{who} is to coordinate, and is not in etcd's list: "
    assert said.startswith((f"{who} is to coordinate, and did not take this in 3 s.", gone))


def test_given_all_stopped_when_started_again_then_the_cluster_goes_on(cluster: ClusterOf) -> None:
    all_in_sync(cluster)
    number = publish(cluster.members[2])
    said = run(cluster, "stop")
    assert said.startswith(f"3 members stopped, at number {number}.\n")
    for member in cluster.members:
        assert member.wait() == 0
    assert len(cluster.view()["members"]) == 3
    assert "no member is there" in refused(cluster, "stop")
    who = id_of(cluster, cluster.coordinator())
    said = refused(cluster, "handover")
    assert said.startswith(f"{who} is to coordinate, and is not in etcd's list: it is dead, or ")
    with ThreadPoolExecutor() as threads:
        list(threads.map(lambda one: one.start(), reversed(cluster.members)))
    assert [newest(one) for one in cluster.members] == [number] * 3
    assert publish(cluster.members[1]) == number + 1
