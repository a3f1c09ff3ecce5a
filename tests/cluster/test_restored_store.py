"""An older state of a member's disk is put back: what it had acknowledged since is not there.

The member must not count as one that has it, or it takes over and gives the numbers again.
"""

import base64
import shutil
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.cluster.cluster_peers import replayed
from tests.crash.talk import pub
from tests.support.cluster_start import ClusterOf
from tests.support.processes import NotReadyError, SeriatimServer
from tests.support.raw import QUIET, RawClient

SINCE = 50  # messages that were confirmed after the snapshot
WAIT_S = 60.0


def publish(member: SeriatimServer, payload: bytes, count: int) -> None:
    with RawClient(member.port) as client:
        assert client.ask(QUIET + pub(payload) * count) == []


def save(store: Path, copy: Path) -> None:
    shutil.copytree(store, copy)


def put_back(copy: Path, store: Path) -> None:
    """Every file as it was, in place: the same inodes, and the machine has not started again."""
    for path in store.rglob("*"):
        if path.is_file() and not (copy / path.relative_to(store)).exists():
            path.unlink()
    shutil.copytree(copy, store, dirs_exist_ok=True)


def await_in_sync(cluster: ClusterOf) -> None:
    end = time.monotonic() + WAIT_S
    while sorted(cluster.view()["members"]) != sorted(cluster.ids()):
        assert time.monotonic() < end, (cluster.view(), cluster.ids())


def end_lease(cluster: ClusterOf, member: str) -> None:
    """A member that is dead leaves etcd's list; its lease would last for ten seconds."""
    key = f"/seriatim/{cluster.name}/member/{member}".encode()
    cluster.etcd.call("/v3/kv/deleterange", {"key": base64.b64encode(key).decode()})


def starting(pool: ThreadPoolExecutor, member: SeriatimServer) -> "Future[SeriatimServer]":
    """A member that serves clients only when another one is there."""
    return pool.submit(member.start, member.port)


def have_all(cluster: ClusterOf, last: int) -> bool:
    first, second = (replayed(member.port, last) for member in cluster.members)
    return len(first) == last + 1 and first == second


def test_given_a_store_that_was_put_back_then_the_member_is_a_new_one_and_nothing_is_lost() -> None:
    with ClusterOf(2) as cluster, ThreadPoolExecutor() as pool:
        first, second = cluster.members
        store, copy = cluster.folder / "store-1", cluster.folder / "copy"
        publish(first, b"before", 3)
        second.kill()
        save(store, copy)
        second.start(second.port)
        await_in_sync(cluster)
        publish(first, b"since", SINCE)

        # When: the disk of an earlier process is put back, and the coordinator dies
        second.kill()
        first.kill()
        put_back(copy, store)
        restored = cluster.ids()[1]
        started = starting(pool, second)

        # Then: the member has another id, and takes over from nobody
        assert second.await_line("this store was put back to an older state")
        assert cluster.ids()[1] != restored
        first.start(first.port)
        started.result()
        await_in_sync(cluster)
        assert have_all(cluster, 3 + SINCE)

        # When: the disk of the same process is put back, and the coordinator knows what it had
        save(store, again := cluster.folder / "again")
        publish(first, b"later", SINCE)
        second.kill()
        put_back(again, store)
        restored = cluster.ids()[1]

        # Then: it is told, and comes back as another one
        with pytest.raises(NotReadyError, match="it had number 103, and its journal goes up to 53"):
            second.start(second.port)
        assert cluster.ids()[1] != restored
        second.start(second.port)
        await_in_sync(cluster)
        assert have_all(cluster, 3 + 2 * SINCE)

        # When: it is an earlier process's again, and etcd does not answer at the start
        second.kill()
        first.kill()
        put_back(copy, store)
        end_lease(cluster, cluster.ids()[1])
        cluster.etcd.kill()
        started = starting(pool, second)
        assert second.await_line("started without etcd")
        cluster.etcd.start()

        # Then: it stops when etcd is there, and takes over from nobody
        with pytest.raises(NotReadyError, match="put back to an older state"):
            started.result()
        started = starting(pool, second)
        first.start(first.port)
        started.result()
        await_in_sync(cluster)
        assert have_all(cluster, 3 + 2 * SINCE)
