"""What a member answers about the past: every member the same, whoever coordinates."""

import base64
import json
import re
import socket
from collections.abc import Iterator

import pytest

from sequencer.feed.moldudp64 import MoldUDP64Codec, request, session_name
from tests.cluster.cluster_peers import replayed
from tests.seriatim.cli.command import seriatim
from tests.support.cluster_start import ClusterOf
from tests.support.multicast import Ear, new_group
from tests.support.processes import SeriatimServer
from tests.support.raw import QUIET, Operation, RawClient
from tests.support.serving import feed_text

WAIT_S = 60.0
GROUP = new_group()
ANSWERING = re.compile(r"answering re-requests on 127\.0\.0\.1:(\d+)")
WANTED = [(1, 1), (3, 7), (2, 1000), (1, 20)]  # first, count
HEARTBEATS = 1000  # of 50 ms
COUNT = 30  # messages before each test


@pytest.fixture(scope="module")
def cluster() -> Iterator[ClusterOf]:
    feed = feed_text(GROUP, codec="moldudp64", heartbeat="50ms", rerequest_port=-1)
    with ClusterOf(3, more=["--feed", feed]) as made:
        yield made


def publish(member: SeriatimServer, count: int) -> None:
    with RawClient(member.port) as client:
        client.ask(QUIET + b"".join(b"PUB a.%d 2\r\n%02d\r\n" % (n % 3, n) for n in range(count)))


def asked(member: SeriatimServer, session: bytes) -> list[bytes]:
    """Its answers to all that is wanted; and nothing about other sessions, and what is not there.

    It answers in order. So what came before the answer to the last request is all there is.
    """
    ports = [int(found[1]) for line in member.log if (found := ANSWERING.search(line))]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as peer:
        peer.settimeout(WAIT_S)
        peer.connect(("127.0.0.1", ports[-1]))
        answers: list[bytes] = []
        for first, count in WANTED:
            peer.send(request(b"another ID", first, count))
            peer.send(request(session, 1 << 40, 1))
            peer.send(request(session, first, count))
            answers.append(peer.recv(1 << 16))
    return answers


def ranges(member: SeriatimServer, last: int) -> list[list[Operation]]:
    """What it replays."""
    found = [replayed(member.port, last)]
    with RawClient(member.port) as client:
        client.ask(QUIET)
        client.send(b"SUB $SEQ.RANGE.4.%d.a.1 2\r\n" % (last - 3))
        some: list[Operation] = []
        while not some or not some[-1].subject.startswith(b"$SEQ.END."):
            some.append(client.operation())
    return [*found, some]


def all_answer_alike(members: list[SeriatimServer], session: bytes, last: int) -> None:
    """All of them have numbers 1 to `last`, and answer every question in the same way."""
    replays = [ranges(member, last) for member in members]
    assert all(one == replays[0] for one in replays)
    assert len(replays[0][0]) == last + 1, "and the end"
    answers = [asked(member, session) for member in members]
    assert all(one == answers[0] for one in answers)
    codec = MoldUDP64Codec()
    numbers = [[one.number for one in codec.decode(packet).messages] for packet in answers[0]]
    assert numbers == [list(range(first, min(first + count, last + 1))) for first, count in WANTED]


def newest(cluster: ClusterOf) -> int:
    """How many messages there are."""
    with RawClient(cluster.members[cluster.coordinator()].port) as client:
        client.ask(QUIET + b"SUB _INBOX.1 1\r\n")
        client.send(b"PUB $SEQ.INFO _INBOX.1 0\r\n\r\n")
        payload = client.operation().payload
    return int(json.loads(payload[payload.index(b"{") : payload.rindex(b"}") + 1])["last"])


def session_of(cluster: ClusterOf) -> bytes:
    view = cluster.view()
    return session_name(view["journal"], view["stream"])


def test_given_any_member_when_asked_for_the_past_then_it_answers_as_the_coordinator_does(
    cluster: ClusterOf,
) -> None:
    publish(cluster.members[1], COUNT)
    all_answer_alike(cluster.members, session_of(cluster), newest(cluster))


def test_given_a_coordinator_that_died_when_asked_at_once_then_the_others_answer_alike(
    cluster: ClusterOf,
) -> None:
    publish(cluster.members[2], COUNT)
    dead, session = cluster.coordinator(), session_of(cluster)
    last = newest(cluster)
    alive = [member for at, member in enumerate(cluster.members) if at != dead]
    cluster.members[dead].kill()

    # Then: they answer as soon as one of them coordinates
    all_answer_alike(alive, session, last)

    # And: the next coordinator's messages, in the same session
    publish(alive[0], 5)
    all_answer_alike(alive, session, last + 5)
    assert session_of(cluster) == session

    # And: the one that comes back
    cluster.members[dead].start(cluster.members[dead].port)
    all_answer_alike(cluster.members, session, last + 5)


def test_given_a_cluster_that_was_recovered_then_running_feeds_are_another_stream(
    cluster: ClusterOf,
) -> None:
    publish(cluster.members[0], COUNT)
    last, before, old = newest(cluster), cluster.view(), session_of(cluster)

    # When: etcd has an older view than the members, and an operator has them go on
    restored = json.dumps({**before, "epoch": before["epoch"] - 1}).encode()
    key = f"/seriatim/{cluster.name}/view".encode()
    fields = {"key": base64.b64encode(key).decode(), "value": base64.b64encode(restored).decode()}
    cluster.etcd.call("/v3/kv/put", fields)
    place = ["--cluster", cluster.name, "--etcd", cluster.etcd.endpoint]
    done = seriatim("cluster", "recover", *place, "--yes", "3")
    assert done.returncode == 0, done.stderr
    new = session_of(cluster)
    assert new != old

    # Then: members that ran all the time send and answer in the new session
    with Ear(GROUP) as ear:
        assert any(ear.next()[:10] == new for _ in range(HEARTBEATS))
    publish(cluster.members[0], 5)
    all_answer_alike(cluster.members, new, last + 5)
