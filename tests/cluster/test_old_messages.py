"""What was published before a client subscribed is not delivered to it as if it were new.

A member knows what is committed a tenth of a second late, and after a kill it has more in its
journal than it knows to be committed. Clients that come then have seen that already.
"""

import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack

from sequencer.journal.watermark import read_watermark
from tests.crash.talk import heard, pub
from tests.support.cluster_start import ClusterOf
from tests.support.raw import QUIET, Operation, RawClient, next_operation

VERBOSE = b'CONNECT {"verbose":true,"pedantic":false}\r\n'
SUBS = b"SUB a 1\r\nSUB a workers 2\r\n"
BURST = 200
SHOWN = 2000  # messages before the kill: the watermark on the disk is never up to date meanwhile
PLAIN, GROUP = b"1", b"2"
SERVED_SOON = ["--cluster_patience", "1s"]


def subscribed(port: int) -> RawClient:
    """A client that knows that its SUBs were read, however long its PONG takes."""
    client = RawClient(port)
    client.send(VERBOSE + SUBS)
    assert [client.operation().verb for _ in range(3)] == ["+OK"] * 3
    return client


def messages(client: RawClient) -> Iterator[Operation]:
    while True:
        operation = client.operation()
        if operation.verb == "MSG":
            yield operation


def numbers_until(client: RawClient, end: bytes) -> dict[bytes, list[int]]:
    """The numbers that a client gets until a plain subscription gets this payload, by sid."""
    found: dict[bytes, list[int]] = {PLAIN: [], GROUP: []}
    for one in messages(client):
        ((number, payload),) = heard([one])
        found[one.sid].append(number)
        if payload == end and one.sid == PLAIN:
            return found
    raise AssertionError("the messages do not end")


def kill_all(cluster: ClusterOf) -> None:
    for member in cluster.members:
        os.kill(member.pid, signal.SIGKILL)
    for member in cluster.members:
        member.kill()


def test_given_all_killed_under_load_when_one_starts_alone_then_nothing_comes_twice() -> None:
    with ClusterOf(3, more=SERVED_SOON) as cluster, ExitStack() as stack:
        ears = [stack.enter_context(subscribed(member.port)) for member in cluster.members]
        for ear in ears:
            assert ear.ask(b"") == [], "the group is known everywhere"
        follower = (cluster.coordinator() + 1) % 3
        shown: dict[bytes, set[int]] = {PLAIN: set(), GROUP: set()}
        store = cluster.folder / f"store-{follower}"
        with RawClient(cluster.members[follower].port) as publisher:
            assert publisher.ask(QUIET + pub(b"old")) == []
            while (mark := read_watermark(str(store))) is None or not mark.number:
                pass  # it knows something at its next start, and so serves clients soon
            newest = 0
            while newest < SHOWN:
                publisher.send(pub(b"old") * BURST)
                for one in messages(ears[follower]):
                    ((number, _),) = heard([one])
                    shown[one.sid].add(number)
                    newest = max(newest, number)
                    if one.sid == PLAIN and (newest - 1) % BURST == 0 and newest > 1:
                        break
            publisher.send(pub(b"old") * BURST)  # some of it is written, and not committed
            kill_all(cluster)
        for ear in ears:
            for one in drained(ear):
                ((number, _),) = heard([one])
                shown[one.sid].add(number)

        # When: one starts alone, and serves a client before the others are there
        alone, *others = cluster.members[follower:] + cluster.members[:follower]
        alone.start(alone.port)
        with subscribed(alone.port) as client:
            for member in others:
                member.start(member.port)
            client.send(b"PING\r\n")
            with RawClient(others[0].port) as publisher:
                assert publisher.ask(QUIET + pub(b"new")) == []
            found = numbers_until(client, b"new")

            # Then: no number comes twice, to the group neither
            assert not shown[PLAIN] & set(found[PLAIN])
            assert not shown[GROUP] & set(found[GROUP])
            assert len(found[PLAIN]) == 1, "nothing is new but what was published since"

        # And: a replay has all of it
        with RawClient(alone.port) as reader:
            reader.send(QUIET + b"SUB $SEQ.FROM.1.a 1\r\n")
            assert numbers_until(reader, b"new")[PLAIN] == list(range(1, found[PLAIN][-1] + 1))


def drained(client: RawClient) -> list[Operation]:
    """The messages that a client had not read of a member that is dead by now."""
    data, at = client.until_closed(), 0
    found = []
    while (step := next_operation(data, at)) is not None:
        operation, at = step
        found += [operation] if operation.verb == "MSG" else []
    return found
