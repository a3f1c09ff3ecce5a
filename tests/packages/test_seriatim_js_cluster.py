"""The npm package in a cluster whose coordinators die, and whose majority dies."""

from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

import pytest

from tests.cluster.test_cluster_operating import await_all_in_sync
from tests.packages.runtimes import Runtime
from tests.packages.scripts import Running, reading_from, running
from tests.support.cluster_start import ClusterOf
from tests.support.processes import STAND_IN, url

pytestmark = [
    pytest.mark.skipif(STAND_IN, reason="nats-server gives no numbers"),
    pytest.mark.parametrize("runtime", ["node"], indirect=True),
]
WAYS = ("nats", "nats-io", "connect")
MORE = 300  # lines of each publisher: more than it has in flight


def expected_rows(publishers: list[Running]) -> list[str]:
    """The lines that a reader must print: each message once, in the order of the numbers."""
    rows: dict[int, str] = {}
    for publisher in publishers:
        given = [(int(at), int(number)) for at, number in map(str.split, publisher.lines)]
        assert sorted(at for at, _ in given) == list(range(len(given))), "each has its number"
        numbers = [number for _, number in sorted(given)]
        assert numbers == sorted(numbers), "in the order of the calls"
        assert len(set(numbers) - rows.keys()) == len(numbers), "and no other has it"
        rows.update((number, f"{number} {at}") for at, number in given)
    return [rows[number] for number in sorted(rows)]


def publishing(
    runtime: Runtime, laid: Path, way: str, urls: str, subject: str
) -> AbstractContextManager[Running]:
    """Start a publisher that publishes until `tell`, and then a few more messages."""
    return running(runtime, laid, "publisher.mjs", way, urls, f"orders.{subject}", "50", "told")


def test_given_coordinators_that_are_killed_then_all_is_published_and_read_once(
    runtime: Runtime, laid: Path
) -> None:
    with ClusterOf(3) as cluster, ExitStack() as stack:
        first = cluster.coordinator()
        places = [url(member) for member in cluster.members]
        others = ",".join(place for place in places if place != places[first])
        # Some know the coordinator alone, and learn of the others; some are with other members.
        known = dict(zip(WAYS, (places[first], others, places[first]), strict=True))
        readers = [
            stack.enter_context(reading_from(runtime, laid, way, known[way], losses="yield"))
            for way in WAYS
        ]
        publishers = [
            stack.enter_context(
                running(
                    runtime, laid, "publisher.mjs", way, known[way], f"orders.{way}", "50", "told"
                )
            )
            for way in WAYS
        ]
        for one in publishers:
            one.goes_on(MORE)
        cluster.members[first].kill()
        for one in publishers:
            one.goes_on(MORE)
        second = cluster.coordinator()
        assert second != first
        cluster.members[first].start(cluster.members[first].port)
        await_all_in_sync(cluster)
        cluster.members[second].kill()
        for one in publishers:
            one.goes_on(MORE)
        assert cluster.coordinator() != second
        for one in publishers:
            one.tell()
        for one in publishers:
            one.end()
        rows = expected_rows(publishers)
        for reader in readers:
            reader.until(rows[-1])
            assert reader.lines == rows


def test_given_a_majority_that_dies_then_what_is_published_waits_for_it(
    runtime: Runtime, laid: Path
) -> None:
    with ClusterOf(3, more=["--cluster_patience", "1s"]) as cluster, ExitStack() as stack:
        first, *others = sorted(range(3), key=lambda at: at != cluster.coordinator())
        last = others.pop()
        places = [url(member) for member in cluster.members]
        readers = [
            stack.enter_context(reading_from(runtime, laid, way, places[first], losses="yield"))
            for way in WAYS
        ]
        publishers = [
            stack.enter_context(publishing(runtime, laid, way, places[first], way)) for way in WAYS
        ]
        for one in publishers:
            one.goes_on(MORE)
        for at in (first, *others):
            cluster.members[at].kill()
        assert cluster.members[last].await_line("nothing is published")
        late = stack.enter_context(publishing(runtime, laid, "connect", places[last], "late"))
        publishers.append(late)
        for at in (first, *others):
            cluster.members[at].start(cluster.members[at].port)
        for one in publishers:
            one.goes_on(MORE)
        for one in publishers:
            one.tell()
        for one in publishers:
            one.end()
        rows = expected_rows(publishers)
        for reader in readers:
            reader.until(rows[-1])
            assert reader.lines == rows
