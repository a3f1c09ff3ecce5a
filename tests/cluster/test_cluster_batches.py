"""Batches in a cluster: staged and committed at any member, there once on all, whoever dies."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from testkit.model_frame import split_frame
from tests.crash.talk import is_silent
from tests.support.cluster_start import ClusterOf
from tests.support.processes import SeriatimServer
from tests.support.raw import HEADERS, RawClient, WireError
from tests.support.staging import LISTEN, Answer, Batch, Refused, answer_of, judge, request

AGAIN_S = 30.0


def eventually(is_true: Callable[[], bool]) -> None:
    """Ask until it is so: nobody reports the end of a fail-over to a client."""
    until = time.monotonic() + AGAIN_S
    while not is_true():
        assert time.monotonic() < until, "it does not come"
        time.sleep(0.02)  # no event to await


@pytest.fixture(scope="module")
def cluster() -> Iterator[ClusterOf]:
    """One for all tests here: each has applications of its own, and leaves all members alive."""
    with ClusterOf(3) as made:
        yield made


class BatchClient:
    """A publisher of batches; on a new connection after each that broke."""

    def __init__(self, server: SeriatimServer) -> None:
        self.server = server
        self._client: RawClient | None = None

    def one(self, asked: bytes) -> Answer:
        """The answer to a request. Raises `WireError` and `OSError`."""
        try:
            self.send(asked)
            return self.answer()
        except (OSError, WireError):
            self.close()
            raise

    def send(self, asked: bytes) -> None:
        """Ask, and do not wait."""
        if self._client is None:
            self._client = RawClient(self.server.port, HEADERS + LISTEN, timeout=20)
        self._client.send(asked)

    def answer(self) -> Answer:
        """The next answer."""
        assert self._client is not None, "it has asked"
        while True:
            operation = self._client.operation()
            if operation.verb in ("MSG", "HMSG"):
                return answer_of(operation)

    def is_silent(self) -> bool:
        """Whether what was asked is not answered."""
        return self._client is not None and is_silent(self._client)

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    def stage(self, batch: Batch, size: int = 20_000) -> None:
        for piece in batch.pieces(size):
            self.insist(piece)

    def insist(self, asked: bytes) -> dict[str, Any]:
        """Ask until there is an answer other than "ask again"."""
        found: list[Answer] = []

        def is_answered() -> bool:
            try:
                found[:] = [self.one(asked)]
            except (OSError, WireError):
                return False
            return not (isinstance(found[0], Refused) and found[0].status == 504)

        eventually(is_answered)
        answer = found[0]
        assert isinstance(answer, dict), answer
        return answer

    def publish(self, batch: Batch) -> dict[str, Any]:
        self.stage(batch)
        return self.insist(batch.commit())


@pytest.fixture
def at_member(cluster: ClusterOf) -> Iterator[Callable[[int], BatchClient]]:
    with ExitStack() as stack:

        def make(at: int) -> BatchClient:
            client = BatchClient(cluster.members[at])
            stack.callback(client.close)
            return client

        yield make


def payloads(cluster: ClusterOf, at: int, last: int) -> list[tuple[int, bytes]]:
    """What a member has, with its numbers; it may be some milliseconds behind."""

    def has_all() -> bool:
        with RawClient(cluster.members[at].port, HEADERS) as client:
            asked = b"SUB _INBOX.i 1\r\nPUB $SEQ.INFO _INBOX.i 0\r\n\r\n"
            found = [one for one in client.ask(asked) if one.payload]
            return bool(found) and json.loads(found[0].payload)["last"] >= last

    eventually(has_all)
    found: list[tuple[int, bytes]] = []
    with RawClient(cluster.members[at].port, HEADERS, timeout=20) as client:
        client.send(b"SUB $SEQ.RANGE.1.%d.> 1\r\n" % last)
        while True:
            operation = client.operation()
            if operation.subject.startswith(b"$SEQ.END"):
                return found
            found.append(split_frame(operation.payload))


def check(cluster: ClusterOf, batches: list[Batch], last: int) -> None:
    """All members have these batches, once, in the same order."""
    journals = [payloads(cluster, at, last) for at in range(len(cluster.members))]
    for found in journals:
        assert found == journals[0]
    judge([payload for _, payload in journals[0]], batches, set(batches))


def follower_of(cluster: ClusterOf) -> int:
    return (cluster.coordinator() + 1) % len(cluster.members)


def test_given_a_batch_at_a_follower_when_it_is_committed_then_all_members_have_it_once(
    cluster: ClusterOf, at_member: Callable[[int], BatchClient]
) -> None:
    at = follower_of(cluster)
    client = at_member(at)
    batch = Batch("import", 1, 5000, 3)
    answer = client.publish(batch)
    assert answer["rows"] == 5000
    assert not answer["repeated"]
    assert answer["last"] - answer["first"] == 4999
    again = client.insist(batch.commit())
    assert again == answer | {"repeated": True}
    other = at_member(cluster.coordinator())
    assert other.insist(batch.commit()) == again
    said = other.insist(request("BATCH", {"application": "import"}))
    assert (said["batch"], said["last"], said["committing"]) == (1, answer["last"], None)
    check(cluster, [batch], answer["last"])


def test_given_wrong_requests_at_a_follower_then_they_are_refused_as_by_one_broker(
    cluster: ClusterOf, at_member: Callable[[int], BatchClient]
) -> None:
    client = at_member(follower_of(cluster))
    batch = Batch("wrong", 7, 10)
    assert client.one(batch.commit()) == Refused(
        404, "Stage 0-0 is not here: it expired, or never was"
    )
    name, data = next(iter(batch.parts.items()))
    client.stage(batch, len(data) - 5)
    later = Batch("wrong", 8, 10)
    client.stage(later)
    refused = client.one(later.commit(after=3))
    assert refused == Refused(409, "No batch of it was committed, but this one must come after 3")
    stage = {"stage": name, "bytes": len(data), "crc32": 5}
    wish = {"application": "wrong", "batch": 7, "stages": [stage]}
    assert client.one(request("COMMIT", wish)) == Refused(409, f"Stage {name} has another checksum")
    assert client.insist(request("ABORT", {"application": "wrong", "batch": 7})) == {"dropped": 1}
    client.stage(batch)
    answer = client.insist(batch.commit(after=None))
    check(cluster, [batch], answer["last"])


def test_given_a_store_with_batches_when_it_becomes_a_cluster_then_they_are_not_published_again(
    tmp_path: Path,
) -> None:
    store = tmp_path / "store-0"
    batch, later = Batch("import", 1, 300), Batch("import", 2, 300)
    with SeriatimServer(store=store, frame="netstring") as single:
        client = BatchClient(single)
        before = client.publish(batch)
        client.close()
        single.stop()
    with (
        ClusterOf(2, more=["--staging_expiry", "10s"], folder=tmp_path) as cluster,
        ExitStack() as stack,
    ):
        publisher = stack.enter_context(closing(BatchClient(cluster.members[1])))
        assert publisher.insist(batch.commit()) == before | {"repeated": True}
        cluster.members[0].stop()
        cluster.members[0].start(cluster.members[0].port)
        assert publisher.insist(batch.commit()) == before | {"repeated": True}
        publisher.stage(later)
        answer = publisher.insist(later.commit(after=1))
        check(cluster, [batch, later], answer["last"])
        publisher.stage(Batch("import", 3, 10))  # nobody commits it: all members drop it
        folders = [member.store / "staging" for member in cluster.members]
        assert all(list(folder.glob("*.stage")) for folder in folders)
        eventually(lambda: not any(list(folder.glob("*.stage")) for folder in folders))


@pytest.mark.parametrize("step", ["staging", "staged", "committing", "committed"])
def test_given_a_coordinator_that_is_killed_then_the_batch_is_there_once(
    cluster: ClusterOf, at_member: Callable[[int], BatchClient], step: str
) -> None:
    batch = Batch(step, 1, 20_000, 2, width=40)
    coordinator = cluster.coordinator()
    client = at_member(follower_of(cluster))

    def kill() -> None:
        cluster.members[coordinator].kill()

    pieces = list(batch.pieces(100_000))
    for at, piece in enumerate(pieces):
        client.insist(piece)
        if step == "staging" and at == len(pieces) // 2:
            kill()
    if step == "staged":
        kill()
    if step == "committing":
        with RawClient(client.server.port, HEADERS + LISTEN) as watcher:
            watcher.ask(b"SUB rows.> 1\r\n")
            watcher.send(batch.commit())
            watcher.operation()  # rows are being published
            kill()
    answer = client.insist(batch.commit())
    if step == "committed":
        kill()
        assert client.insist(batch.commit()) == answer | {"repeated": True}
    assert answer["rows"] == 20_000
    cluster.members[coordinator].start(cluster.members[coordinator].port)
    later = Batch(step, 2, 100)
    last = client.publish(later)["last"]
    check(cluster, [batch, later], last)


def test_given_a_member_that_was_away_when_a_batch_is_committed_then_it_fetches_the_stages(
    cluster: ClusterOf, at_member: Callable[[int], BatchClient]
) -> None:
    coordinator = cluster.coordinator()
    away, other = ((coordinator + step) % 3 for step in (1, 2))
    client = at_member(other)
    cluster.members[away].kill()
    batch = Batch("away", 1, 3000, 2)
    client.stage(batch)
    cluster.members[away].start(cluster.members[away].port)
    eventually(lambda: len(cluster.view()["members"]) == 3)
    answer = client.insist(batch.commit())
    check(cluster, [batch], answer["last"])
