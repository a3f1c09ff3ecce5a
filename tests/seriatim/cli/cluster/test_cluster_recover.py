"""`seriatim cluster recover`: members that all lost their ids, and an etcd that lost its data."""

import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from broker.cluster.storage.membership import Membership, read_member
from sequencer.journal.replica_store import ReplicaStore
from seriatim.client.bulk_connection import BulkConnection
from tests.seriatim.cli.command import refusal, seriatim
from tests.support.cluster_start import ClusterOf
from tests.support.processes import url

TRIES = 600


@pytest.fixture(scope="module")
def cluster() -> Iterator[ClusterOf]:
    with ClusterOf(3) as made:
        yield made


def given(cluster: ClusterOf) -> tuple[str, ...]:
    return ("--cluster", cluster.name, "--etcd", cluster.etcd.endpoint)


def publish(cluster: ClusterOf, count: int) -> None:
    with BulkConnection.connect(url(cluster.members[0])) as client:
        for number in range(count):
            client.request("$SEQ.PUB.trial", b"%d" % number).check("trial")


def newest(cluster: ClusterOf) -> int:
    """The newest number that the first member shows."""
    with BulkConnection.connect(url(cluster.members[0])) as client:
        framed = bytes(client.request("$SEQ.INFO").payload)
    return int(json.loads(framed[framed.index(b"{") : framed.rindex(b"}") + 1])["last"])


def start_all(cluster: ClusterOf, threads: ThreadPoolExecutor) -> list[Future[Any]]:
    """They get ready when the cluster goes on."""
    return [threads.submit(member.start) for member in cluster.members]


def epochs_of(store: str) -> tuple[tuple[int, int], ...]:
    """The epochs of a stopped member's numbers, the newest of which only its window may have."""
    with TemporaryDirectory() as folder:
        copy = shutil.copytree(store, os.path.join(folder, "copy"))
        opened = ReplicaStore.open(copy, time.time_ns())
        found = opened.epochs()
        opened.close()
    return found


def have_the_same(cluster: ClusterOf, last: int) -> None:
    """All members have these numbers, with the same messages; and more can be published."""
    stores = [str(cluster.folder / f"store-{at}") for at in range(3)]
    found: list[bytes] = []

    def have_all() -> bool:
        """A follower shows what is committed as soon as it has heard that it is."""
        words = ("--to", str(last), "--json")
        found[:] = [seriatim("journal", "cat", one, *words).stdout for one in stores]
        return all(one.count(b"\n") == last for one in found)

    until(have_all)
    assert found[0] == found[1] == found[2]
    publish(cluster, 1)
    assert newest(cluster) == last + 1


def test_given_members_that_are_well_when_recovered_then_it_is_refused(cluster: ClusterOf) -> None:
    publish(cluster, 10)
    said = refusal("cluster", "recover", *given(cluster), "--yes", "3")
    assert "is in sync and is there: it coordinates by itself" in said
    said = refusal("cluster", "recover", *given(cluster), "-sd", str(cluster.folder / "store-0"))
    assert said == "members are there: run this without -sd, or stop them first"


def test_given_no_member_that_can_come_back_when_recovered_then_the_longest_goes_on(
    cluster: ClusterOf,
) -> None:
    last = newest(cluster)
    before = cluster.view()
    for at, member in enumerate(cluster.members):
        member.kill()
        store = str(cluster.folder / f"store-{at}")
        found = read_member(store)
        assert found is not None
        Membership(store, found).renew()  # as after a power cut of all with sync = interval
    with ThreadPoolExecutor() as threads:
        starts = start_all(cluster, threads)
        for _ in range(TRIES):
            done = seriatim("cluster", "recover", *given(cluster), "--yes", "3")
            if done.returncode == 0:
                break
            assert b"members are seen" in done.stderr or b"no member of" in done.stderr, done.stderr
            time.sleep(0.2)  # no event to await
        assert done.returncode == 0, done.stderr
        for one in starts:
            one.result()
    said = done.stdout.decode()
    assert "3 members of orders are there:" in said
    assert f"Numbers above {last} that clients were shown are lost, if there are any." in said
    assert "Nothing is published until 2 members are in sync." in said
    view = cluster.view()
    assert view["epoch"] > before["epoch"]
    assert view["stream"] == before["stream"] + 1
    have_the_same(cluster, last)


def said_to_be_wrong(cluster: ClusterOf) -> str:
    """What `status` says when all three members are in the list again and have answered."""
    shown = ""

    def have_answered() -> bool:
        nonlocal shown
        done = seriatim("cluster", "status", *given(cluster))
        assert done.returncode == 1, done.stdout
        shown = done.stdout.decode() + done.stderr.decode()
        return "does not answer" not in shown and "not there" not in shown

    until(have_answered)
    return shown


def fail_over(cluster: ClusterOf) -> None:
    """The coordinator dies, another one takes over, and the first comes back."""
    before = cluster.view()["epoch"]
    coordinator = cluster.members[cluster.coordinator()]
    coordinator.kill()
    until(lambda: cluster.view()["epoch"] > before)
    coordinator.start(coordinator.port)
    until(lambda: {*cluster.view()["members"]} == {*cluster.ids()})


def until(is_so: Callable[[], bool]) -> None:
    for _ in range(TRIES):
        if is_so():
            return
        time.sleep(0.1)  # another process: no event to await
    raise AssertionError("in vain")


def test_given_etcd_put_back_to_a_backup_when_recovered_then_the_coordinator_goes_on(
    cluster: ClusterOf,
) -> None:
    until(lambda: {*cluster.view()["members"]} == {*cluster.ids()})
    cluster.etcd.kill()
    cluster.etcd.back_up()
    cluster.etcd.start()
    old = cluster.view()
    fail_over(cluster)
    new, coordinator = cluster.view(), cluster.coordinator()
    assert new["coordinator"] != old["coordinator"]

    cluster.etcd.kill()
    cluster.etcd.put_back()
    cluster.etcd.start()
    for member in cluster.members:
        assert member.await_line("etcd was put back to an older state")
    assert cluster.view() == old
    publish(cluster, 5)  # it goes on without etcd
    wrong = said_to_be_wrong(cluster)
    assert f"etcd has a view of epoch {old['epoch']}, and " in wrong
    assert f"of epoch {new['epoch']}: etcd was put back to an older state" in wrong
    assert "run `seriatim cluster recover`" in wrong
    for one in cluster.ids():
        assert f"wrong: {one}: engine's epoch is older than ours" in wrong

    def is_recovered() -> bool:
        done = seriatim("cluster", "recover", *given(cluster), "--yes", "3")
        assert done.returncode == 0 or b"members are seen" in done.stderr, done.stderr
        return done.returncode == 0

    until(is_recovered)  # when all are in the list again
    view = cluster.view()
    assert view["coordinator"] == new["coordinator"]
    assert view["epoch"] > new["epoch"]
    assert view["stream"] == old["stream"] + 1
    assert cluster.members[coordinator].await_line("etcd has the view again")
    fail_over(cluster)
    have_the_same(cluster, newest(cluster))


def test_given_an_etcd_without_its_data_when_a_store_is_recovered_then_the_cluster_goes_on(
    cluster: ClusterOf,
) -> None:
    last = newest(cluster)
    before = cluster.view()
    cluster.etcd.kill()
    cluster.etcd.lose_data()
    cluster.etcd.start()
    until(lambda: "3 members are there" in refusal("cluster", "status", *given(cluster)))
    said = refusal("cluster", "status", *given(cluster))
    assert said.startswith("etcd has lost the view of orders: ")
    assert said.endswith("or run `seriatim cluster recover`")
    for member in cluster.members:
        member.kill()
    cluster.etcd.kill()
    cluster.etcd.lose_data()
    cluster.etcd.start()
    store = str(cluster.folder / "store-1")
    assert "`seriatim cluster recover -sd DIR`" in refusal("cluster", "status", *given(cluster))
    said = refusal("cluster", "init", *given(cluster), "-sd", store)
    assert f"which etcd has lost; `seriatim cluster recover -sd {store}` brings it back" in said
    epochs = epochs_of(store)
    said = refusal("cluster", "recover", *given(cluster))
    assert "no member of orders is there" in said
    done = seriatim("cluster", "recover", *given(cluster), "-sd", store, "--yes", "2")
    assert done.returncode == 1
    assert b"--yes 2: 1 members are seen, not 2; nothing was changed" in done.stderr
    done = seriatim("cluster", "recover", *given(cluster), "-sd", store, "--yes", "1")
    assert done.returncode == 0, done.stderr
    assert f"goes up to number {last}." in done.stdout.decode()
    assert epochs_of(store) == epochs, "the others look for their numbers in this table"
    with ThreadPoolExecutor() as threads:
        for one in start_all(cluster, threads):
            one.result()
    view = cluster.view()
    assert view["epoch"] > before["epoch"] + 900
    assert view["stream"] == before["stream"] + 1
    have_the_same(cluster, last)
