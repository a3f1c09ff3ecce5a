"""cquencer's port of a member: a message is answered when it is committed, whoever coordinates."""

import socket
import threading
from collections.abc import Iterator

import pytest

from sequencer.netstring import Decoder
from tests.seriatim.cli.command import seriatim
from tests.support.cluster_start import ClusterOf
from tests.support.cquencer_clients import answer, port_of

WAIT_S = 60.0
LINES = 200


@pytest.fixture
def cluster() -> Iterator[ClusterOf]:
    with ClusterOf(3, more=["--sequencer_port", "-1", "--sequencer_framing", "netstring"]) as made:
        yield made


def test_given_a_coordinator_that_is_killed_then_each_message_has_one_number(
    cluster: ClusterOf,
) -> None:
    dead = cluster.coordinator()
    alive = [at for at in range(3) if at != dead]
    port = port_of(cluster.members[alive[0]])
    numbers: list[int] = []
    with socket.create_connection(("127.0.0.1", port), timeout=WAIT_S) as client:
        for at in range(LINES):
            if at == LINES // 2:
                killing = threading.Thread(target=cluster.members[dead].kill)
                killing.start()
            # Three messages at once, and the question which number is the newest.
            said = b"7:message,1:x,1:y,0:,"
            client.sendall(said)
            heard: list[bytes] = []
            decoder = Decoder()
            while len(heard) < 4:
                heard += decoder.feed(client.recv(1 << 12))
            found = [int(one) for one in heard]
            assert found[3] >= found[2], "the newest is not older than one's own"
            numbers += found[:3]
        killing.join()
    assert numbers == sorted(set(numbers)), "one number each, in order"
    assert len(numbers) == 3 * LINES
    other = socket.create_connection(("127.0.0.1", port_of(cluster.members[alive[1]])))
    with other:
        last = int(next(iter(Decoder().feed(answer(other, b"4:last,")))))
    assert last == 3 * LINES + 1, "nothing was sequenced twice"


def test_given_the_command_at_any_member_then_it_prints_the_numbers(cluster: ClusterOf) -> None:
    printed = []
    for member in cluster.members:
        done = seriatim("sendr", str(port_of(member)), "--framing", "netstring", stdin=b"a\nb\n")
        assert done.returncode == 0, done.stderr
        printed.append(done.stdout.replace(b"\n", b""))
    assert [int(one) for text in printed for one in Decoder().feed(text)] == [1, 2, 3, 4, 5, 6]
