"""The reader next to a real broker that writes, rolls, deletes, is killed and starts again."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from sequencer.journal import Lost, Reader, Record
from seriatim.client.chunk_columns import Columns
from tests.support.processes import STAND_IN, SeriatimServer
from tests.support.raw import QUIET, RawClient

pytestmark = pytest.mark.skipif(STAND_IN, reason="nats-server keeps no such journal")
BURST = 500
SMALL = ["--segment_bytes", "128KiB"]


def payload_of(number: int) -> bytes:
    return b"%d." % number + b"x" * (number % 400)


def publish(client: RawClient, first: int, last: int) -> None:
    """Messages that carry their own numbers; all are sequenced when this returns."""
    for begin in range(first, last + 1, BURST):
        end = min(begin + BURST, last + 1)
        texts = ((number % 5, payload_of(number)) for number in range(begin, end))
        wire = b"".join(b"PUB live.%d %d\r\n%b\r\n" % (n, len(p), p) for n, p in texts)
        client.ask(wire)


@contextmanager
def flood(port: int, last: int) -> Iterator[threading.Thread]:
    """Numbers 1 to `last` are published while inside."""
    client = RawClient(port, QUIET)
    thread = threading.Thread(target=publish, args=(client, 1, last))
    thread.start()
    try:
        yield thread
    finally:
        thread.join()
        client.close()


def check(item: Record) -> int:
    assert bytes(item.payload) == payload_of(item.number)
    assert item.subject == b"live.%d" % (item.number % 5)
    return item.number


@pytest.mark.parametrize("way", ["records", "columns"])
def test_given_a_broker_that_writes_when_tailed_then_every_message_comes_once_in_order(
    way: str,
) -> None:
    last = 30_000
    pause = threading.Event()
    with SeriatimServer(arguments=SMALL) as broker, flood(broker.port, last):
        reader = Reader(str(broker.store), 1 << 16)
        seen: list[int] = []
        if way == "records":
            for item in reader.tail(lambda: pause.wait(0.002) or True, 1, last):
                assert isinstance(item, Record)
                seen.append(check(item))
        else:
            for chunk in reader.columns(1, last, idle=lambda: pause.wait(0.002) or True):
                assert not isinstance(chunk, Lost)
                seen += Columns(chunk).numbers
        assert seen == list(range(1, last + 1))
        assert len(reader.view.segments()) > 1, "it has gone from segment to segment"


def test_given_retention_behind_a_slow_reader_when_read_then_losses_are_reported() -> None:
    with SeriatimServer(arguments=[*SMALL, "--retain_bytes", "1MiB"]) as broker:
        reader = Reader(str(broker.store), 1 << 16)
        follower = reader.follow(1)
        last, expected, losses = 0, 1, 0
        with RawClient(broker.port, QUIET) as client:
            for _ in range(3):
                later: set[int] = set()
                # It may have the file with the next message open; so the one after that goes, too.
                while not later or reader.view.segments()[0] <= min(later):
                    publish(client, last + 1, last + BURST)
                    last += BURST
                    later.update(one for one in reader.view.segments() if one > expected)
                for item in follower.poll():  # a chunk only, so it falls behind again
                    expected, losses = follow_on(item, expected, losses)
        while items := follower.poll():
            for item in items:
                expected, losses = follow_on(item, expected, losses)
        follower.close()
    assert expected == last + 1
    assert losses > 0


def follow_on(item: Record | Lost, expected: int, losses: int) -> tuple[int, int]:
    """What comes next, when this item is what comes."""
    if isinstance(item, Lost):
        assert item.first == expected
        assert item.damage is None, "it is deleted, and not damaged"
        return item.last + 1, losses + 1
    assert check(item) == expected
    return expected + 1, losses


def test_given_a_broker_that_is_killed_and_starts_again_when_tailed_then_nothing_is_lost() -> None:
    with SeriatimServer(arguments=SMALL) as broker:
        reader = Reader(str(broker.store))
        follower = reader.follow(1)
        seen: list[int] = []
        for begin in (1, 4001, 8001):
            with RawClient(broker.port, QUIET) as client:
                publish(client, begin, begin + 3999)
            while items := follower.poll():
                seen += [check(item) for item in items if isinstance(item, Record)]
            assert seen == list(range(1, begin + 4000))
            broker.kill()
            broker.start()
        assert follower.poll() == []
        assert reader.epoch == 4
        follower.close()
