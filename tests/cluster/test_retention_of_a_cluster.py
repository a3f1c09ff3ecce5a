"""Retention deletes what every member in sync has, also while others are away or not there yet."""

import json
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.cluster.test_catching_up import replayed
from tests.crash.talk import pub
from tests.support.cluster_start import ClusterOf
from tests.support.processes import SeriatimServer
from tests.support.raw import QUIET, RawClient

KEPT = 20
BODY = bytes(8000)  # a segment holds eight
TRIES, PAUSE_S = 600, 0.1
LIMITS = ["--segment_bytes", "65536", "--retain_count", str(KEPT)]


@pytest.fixture(scope="module")
def cluster() -> Iterator[ClusterOf]:
    with ClusterOf(3, more=LIMITS) as made:
        yield made


def until(is_so: Callable[[], bool]) -> None:
    for _ in range(TRIES):
        if is_so():
            return
        time.sleep(PAUSE_S)  # another process: no event to await
    raise AssertionError("in vain")


def info(member: SeriatimServer) -> dict[str, Any]:
    with RawClient(member.port) as client:
        client.send(QUIET + b"SUB _INBOX.info 1\r\nPUB $SEQ.INFO _INBOX.info 0\r\n\r\n")
        found: dict[str, Any] = json.loads(client.operation().payload)
        return found


def publish(member: SeriatimServer, count: int) -> int:
    """Large messages, which are committed; the last number."""
    with RawClient(member.port, QUIET) as client:
        assert client.ask(pub(BODY) * count) == []
    return int(info(member)["last"])


def have_the_same(cluster: ClusterOf) -> None:
    """All members have what the last one kept, and get a new message."""
    until(lambda: {*cluster.view()["members"]} == {*cluster.ids()})
    last = publish(cluster.members[0], 1)
    found = [replayed(member.port, last)[-KEPT:] for member in cluster.members]
    assert all(one == found[0] for one in found[1:])
    assert found[0][-1].subject == b"$SEQ.END.%d" % last


def test_given_a_member_away_when_retention_deletes_what_it_needs_then_it_says_what_it_missed(
    cluster: ClusterOf,
) -> None:
    had = publish(cluster.members[0], 10)
    away = cluster.members[2]
    until(lambda: bool(info(away)["last"] == had))
    away.kill()
    until(lambda: len(cluster.view()["members"]) == 2)
    publish(cluster.members[0], 200)  # what one read brings is in one segment
    there = cluster.members[:2]
    until(lambda: all(info(member)["first"] > had + 30 for member in there))

    away.start(away.port)
    assert away.said(f"numbers {had + 1} to ")
    assert away.said("were deleted everywhere before they came here")
    assert info(away)["first"] > had + 30
    have_the_same(cluster)


def test_given_a_copy_that_begins_above_one_when_it_joins_then_it_is_a_member_like_others(
    cluster: ClusterOf,
) -> None:
    stopped, copy = cluster.members[1], cluster.folder / "store-3"
    first = info(stopped)["first"]
    assert first > 1
    stopped.signal(signal.SIGTERM)
    assert stopped.wait() == 0
    shutil.copytree(cluster.folder / "store-1", copy)
    missed = publish(cluster.members[0], 5)
    joiner = cluster.made(3, copy)
    cluster.members.append(joiner)
    with joiner:
        stopped.start(stopped.port)
        assert joiner.said("is a copy")
        assert info(joiner)["last"] == missed
        have_the_same(cluster)
        cluster.members.remove(joiner)
