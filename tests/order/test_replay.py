"""The past, then live messages, by `$SEQ.FROM` and the like: no gap, no duplicate."""

import random
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.order.lagging import (
    COUNT,
    PATIENCE_S,
    Keeping,
    body,
    count_of,
    pour,
    take,
    take_until,
)
from tests.order.traffic import (
    Crew,
    Heard,
    Subscriber,
    assert_fifo,
    assert_gap_free,
    assert_same_story,
    heard,
)
from tests.support.depth import depth
from tests.support.processes import STAND_IN
from tests.support.raw import QUIET, Operation, RawClient

pytestmark = pytest.mark.skipif(STAND_IN, reason="nats-server has no past")
FILTERS = (">", "t.>", "t.*.x", "*", "u.>", "t.1.x", "*.*.x")
SMALL = ["--segment_bytes", "64KiB"]
KEEPERS = {
    "segments of 64 KiB": SMALL,
    "one segment": [],
    "synced always": ["--sync", "always"],
    "a ring": ["--no-journal"],
}


@pytest.fixture
def keeping() -> Iterator[Keeping]:
    with Keeping(arguments=SMALL) as broker:
        yield broker


def reader(broker: Keeping, *lines: bytes) -> RawClient:
    client = RawClient(broker.port, QUIET, timeout=PATIENCE_S)
    client.send(b"".join(line + b"\r\n" for line in lines))
    return client


def events(operations: list[Operation]) -> list[bytes]:
    """What the broker itself said."""
    return [one.subject for one in operations if one.subject.startswith(b"$SEQ.")]


def story(operations: list[Operation], sid: str = "0") -> list[Heard]:
    messages = [heard(one) for one in operations if not one.subject.startswith(b"$SEQ.")]
    return [message for message in messages if message.sid == sid]


def finish(broker: Keeping, listener: Subscriber) -> list[Operation]:
    """All that a reader got when everything was played, and it was live for what came last."""
    assert broker.awaits(lambda: broker.figure("replays_active") == 0)
    return listener.stop()


@pytest.mark.parametrize("arguments", KEEPERS.values(), ids=KEEPERS)
def test_given_publishers_under_way_when_many_ask_for_the_past_then_none_has_a_hole_or_a_duplicate(
    arguments: list[str],
) -> None:
    """They begin at random numbers at random moments, and go from replay to live."""
    chance = random.Random(7)
    counts = {"before": 1000, "p0": 4000, "p1": 4000, "p2": 4000}
    with Keeping(arguments=arguments) as broker, Crew(broker.port) as crew:
        judge = crew.listen(">")
        crew.publish_all(["before"], 1000)
        publishing = [crew.publish(name, 4000, seed) for seed, name in enumerate(counts) if seed]
        looking: list[Any] = []
        while not all(done.done() for done in publishing) or len(looking) < 8:
            first, pattern = (
                chance.randint(1, min(broker.head + 1000, 13_000)),
                chance.choice(FILTERS),
            )
            looking.append((first, pattern, crew.listen(f"$SEQ.FROM.{first}.{pattern}")))
            if len(looking) == 20:
                break
        assert [done.result() for done in publishing] == [[]] * len(publishing)
        runs = [story(finish(broker, listener)) for _, _, listener in looking]
        everything = judge.finish()
    assert_gap_free(everything)
    assert_fifo(everything, counts)
    for (first, pattern, _), run in zip(looking, runs, strict=True):
        numbers = [message.number for message in run]
        assert numbers == sorted(set(numbers))
        assert_same_story(run, [m for m in everything if m.number >= first], pattern)


@pytest.mark.parametrize("arguments", KEEPERS.values(), ids=KEEPERS)
def test_given_numbers_when_a_range_of_them_is_asked_for_then_those_come_and_then_the_end(
    arguments: list[str],
) -> None:
    with Keeping(arguments=arguments) as broker:
        pour(broker.port, b"a", 300, size=900)
        pour(broker.port, b"b", 300, size=900, first=300)
        client = reader(broker, b"SUB $SEQ.RANGE.100.450.b 1", b"SUB $SEQ.RANGE.590.605.* 2")
        with client:
            said = take_until(client, b"$SEQ.END.450")
            others = [one for one in said if one.sid == b"2"]
            assert [m.number for m in story(said, "1")] == list(range(301, 451))
            others += take(client, 11 - len(others))
            assert client.ask(b"") == [], "it waits for its last numbers"
            pour(broker.port, b"c", 3, size=9)
            pour(broker.port, b"d", 5, size=9)
            others += take_until(client, b"$SEQ.END.605")
            assert [m.number for m in story(others, "2")] == list(range(590, 606))
            assert events(others) == [b"$SEQ.END.605"]
            assert client.ask(b"PUB b 0\r\n\r\n") == [], "it has ended"
            again = reader(broker, b"SUB $SEQ.RANGE.5.5.a 1")
            with again:
                assert [o.subject for o in take(again, 2)] == [b"a", b"$SEQ.END.5"]


def test_given_a_number_that_is_not_given_yet_when_it_is_asked_for_then_all_begins_there(
    keeping: Keeping,
) -> None:
    pour(keeping.port, b"a", 10)
    with (
        reader(keeping, b"SUB $SEQ.FROM.21.> 1") as later,
        reader(keeping, b"SUB $SEQ.FROM.11.> 1") as at_once,
        reader(keeping, b"SUB $SEQ.RANGE.15.16.> 1") as between,
    ):
        for client in (later, at_once, between):
            assert client.ask(b"") == []
        pour(keeping.port, b"a", 30, first=10)
        assert [count_of(one) for one in take(later, 20)] == list(range(20, 40))
        assert [count_of(one) for one in take(at_once, 30)] == list(range(10, 40))
        assert [count_of(one) for one in take(between, 3)[:2]] == [14, 15]


def test_given_waiting_replays_that_are_given_up_then_nothing_of_them_stays(
    keeping: Keeping,
) -> None:
    pour(keeping.port, b"a", 10)
    with reader(keeping) as client:
        for at in range(3000):
            client.send(b"SUB $SEQ.RANGE.%d.%d.> %d\r\nUNSUB %d\r\n" % (10**9, 10**12, at, at))
        assert client.ask(b"") == []
        assert keeping.awaits(lambda: keeping.figure("replays_active") < 200)
        client.send(b"SUB $SEQ.FROM.11.a 1\r\nPUB a 9\r\n00000000 \r\n")
        assert take(client, 1)[0].subject == b"a"
    assert keeping.awaits(lambda: keeping.figure("connections") == 0)


def test_given_a_moment_when_all_since_is_asked_for_then_it_begins_with_the_first_of_that_time(
    keeping: Keeping,
) -> None:
    pour(keeping.port, b"a", 200)
    with reader(keeping, b"SUB in 1") as client:
        (told,) = client.ask(b"PUB $SEQ.INFO in 0\r\n\r\n")
        now = int(re.findall(rb'"time":(\d+)', told.payload)[0])
        while int(re.findall(rb'"time":(\d+)', told.payload)[0]) <= now + 2:
            (told,) = client.ask(b"PUB $SEQ.INFO in 0\r\n\r\n")
        pour(keeping.port, b"a", 200, first=200)
    wishes = [b"$SEQ.SINCE.%d.a" % ms for ms in (now + 1, now + 1_000_000_000, 1)]
    with Crew(keeping.port) as crew:
        listener = crew.listen(*(wish.decode() for wish in wishes))
        pour(keeping.port, b"a", 100, first=400)
        assert keeping.awaits(lambda: keeping.figure("replays_active") == 1)
        said = listener.stop()
        assert [count_of(one) for one in said if one.sid == b"0"] == list(range(200, 500))
        assert [one for one in said if one.sid == b"1"] == [], "that time has not come"
        assert [count_of(one) for one in said if one.sid == b"2"] == list(range(500))


def test_given_subjects_when_their_last_messages_are_asked_for_then_these_come_and_then_live(
    keeping: Keeping,
) -> None:
    with RawClient(keeping.port, QUIET) as publisher:
        for at in range(3000):
            text = body(at, 500)
            publisher.send(b"PUB s.%d %d\r\n%b\r\n" % (at * at % 97, len(text), text))
        publisher.ask(b"")
    last = {b"s.%d" % (at * at % 97): at for at in range(3000)}
    with (
        reader(keeping, b"SUB $SEQ.LAST.s.* 1") as all_of_them,
        reader(keeping, b"SUB $SEQ.LAST.s.1 1", b"UNSUB 1 2") as one_of_them,
        reader(keeping, b"SUB $SEQ.LAST.none.> 1") as none_of_them,
    ):
        found = take(all_of_them, len(last))
        assert {one.subject: count_of(one) for one in found} == last
        assert [count_of(one) for one in found] == sorted(last.values())
        assert [count_of(one) for one in take(one_of_them, 1)] == [last[b"s.1"]]
        pour(keeping.port, b"s.1", 2)
        assert [count_of(one) for one in take(all_of_them, 2)] == [0, 1]
        assert [count_of(one) for one in take(one_of_them, 1)] == [0]
        assert one_of_them.ask(b"") == []
        assert none_of_them.ask(b"") == []
    assert keeping.awaits(lambda: keeping.figure("replays_active") == 0)


def test_given_replays_that_end_early_then_the_broker_is_at_rest_and_others_are_served(
    keeping: Keeping,
) -> None:
    """UNSUB in the middle, UNSUB max, at the last message of all, CONNECT again, and a close."""
    with RawClient(keeping.port, QUIET) as publisher:
        for at in range(COUNT):
            publisher.send(b"PUB s.%d %d\r\n%b\r\n" % (at % 10, len(body(at)), body(at)))
        publisher.ask(b"")
    counted = reader(keeping, b"SUB $SEQ.FROM.1.> 1", b"UNSUB 1 700")
    to_the_last = reader(keeping, b"SUB $SEQ.LAST.s.* 1", b"UNSUB 1 10")
    ended = keeping.deaf()
    ended.send(b"SUB $SEQ.FROM.1.> 1\r\n")
    again = keeping.deaf()
    again.send(b"SUB $SEQ.FROM.1.> 1\r\nSUB $SEQ.LAST.> 2\r\n")
    closed = keeping.deaf()
    closed.send(b"SUB $SEQ.RANGE.1.99999.> 1\r\nSUB $SEQ.LAST.> 2\r\nSUB $SEQ.FROM.5.> 3\r\n")
    assert [count_of(one) for one in take(counted, 700)] == list(range(700))
    assert [count_of(one) for one in take(to_the_last, 10)] == list(range(COUNT - 10, COUNT))
    assert [count_of(one) for one in take(ended, 20)] == list(range(20))
    rest = ended.ask(b"UNSUB 1\r\n")
    assert [count_of(one) for one in rest] == list(range(20, 20 + len(rest)))
    assert len(rest) < COUNT - 20
    assert [count_of(one) for one in take(again, 1)] == [0]
    assert len(again.ask(QUIET)) < COUNT + 10
    closed.reset()
    assert keeping.awaits(lambda: keeping.figure("replays_active") == 0)
    with reader(keeping, b"SUB $SEQ.FROM.1.> 1") as other:
        assert [count_of(one) for one in take(other, COUNT)] == list(range(COUNT))
    for client in (counted, to_the_last, ended, again):
        assert client.ask(b"PUB s.1 0\r\n\r\n") == []
        client.close()


def test_given_numbers_that_retention_has_deleted_when_they_are_asked_for_then_it_is_reported() -> (
    None
):
    arguments = [*SMALL, "--retain_bytes", "512KiB"]
    with Keeping(arguments=arguments) as broker:
        pour(broker.port, b"a", 500)
        assert broker.forgets(512 << 10)
        assert broker.await_line("deleted numbers")
        pour(broker.port, b"a", 5, first=500)  # all may be deleted where the disk is slow
        assert broker.forgets(512 << 10)
        first = broker.figure("journal_first_number")
        wishes = [
            "FROM.1.a",
            f"RANGE.3.{first + 1}.a",
            "RANGE.3.7.a",
            "SINCE.1.a",
            f"FROM.{first}.a",
        ]
        with Crew(broker.port) as crew:
            said = finish(broker, crew.listen(*(f"$SEQ.{wish}" for wish in wishes)))
        subjects = [[one.subject for one in said if one.sid == sid] for sid in b"0 1 2 3 4".split()]
        kept = [b"a"] * (506 - first)
        lost = b"$SEQ.LOST.1.%d" % (first - 1)
        assert subjects[0] == subjects[3] == [lost, *kept]
        end = b"$SEQ.END.%d" % (first + 1)
        assert subjects[1] == [b"$SEQ.LOST.3.%d" % (first - 1), b"a", b"a", end]
        assert subjects[2] == [b"$SEQ.LOST.3.7", b"$SEQ.END.7"]
        assert subjects[4] == kept


def test_given_retention_that_overtakes_a_slow_replay_then_what_it_missed_is_reported() -> None:
    arguments = ["--segment_bytes", "1MiB", "--retain_bytes", "16MiB"]
    with Keeping(arguments=arguments) as broker, broker.deaf() as slow:
        pour(broker.port, b"a", COUNT)
        slow.send(b"SUB $SEQ.RANGE.1.%d.a 1\r\n" % (4 * COUNT))
        assert broker.awaits(lambda: broker.figure("replays") == 1)
        pour(broker.port, b"a", 3 * COUNT, first=COUNT)
        assert broker.forgets(16 << 20)
        said = take_until(slow, b"$SEQ.END.%d" % (4 * COUNT))
    expected = 1
    gaps = 0
    for one in said[:-1]:
        lost = re.fullmatch(rb"\$SEQ\.LOST\.(\d+)\.(\d+)", one.subject)
        if lost is None:
            assert heard(one).number == expected
            expected += 1
        else:
            assert int(lost[1]) == expected
            expected = int(lost[2]) + 1
            gaps += 1
    assert expected == 4 * COUNT + 1
    assert gaps


def test_given_messages_longer_than_a_buffer_then_they_are_replayed_whole(
    keeping: Keeping,
) -> None:
    sizes = [1, 262_080, 262_144, 300_000, 10, 1_000_000, 1_048_576, 0, 70_000, 262_100] * 3
    with RawClient(keeping.port, QUIET) as publisher:
        for at, size in enumerate(sizes):
            text = b"%c" % (65 + at) * size
            publisher.send(b"PUB s.%d %d\r\n%b\r\n" % (at, size, text))
        publisher.ask(b"")
    with (
        reader(keeping, b"SUB $SEQ.FROM.1.> 1") as client,
        reader(keeping, b"SUB $SEQ.LAST.> 1") as last,
    ):
        for one in (client, last):
            found = [heard(operation) for operation in take(one, len(sizes))]
            assert [m.number for m in found] == list(range(1, len(sizes) + 1))
            assert [len(m.payload) for m in found] == sizes
            letters = [chr(65 + at) if size else "" for at, size in enumerate(sizes)]
            assert [m.payload[:1] for m in found] == letters


def test_given_two_replays_on_one_connection_then_each_tells_its_story(keeping: Keeping) -> None:
    pour(keeping.port, b"a", COUNT)
    with Crew(keeping.port) as crew:
        listener = crew.listen("$SEQ.FROM.1.a", "$SEQ.FROM.900.>", "a")
        pour(keeping.port, b"a", COUNT, first=COUNT)
        said = finish(keeping, listener)
    for sid, first in (("0", 1), ("1", 900), ("2", COUNT + 1)):
        assert [m.number for m in story(said, sid)] == list(range(first, 2 * COUNT + 1))


def test_given_slow_readers_of_the_past_then_memory_is_bounded(keeping: Keeping) -> None:
    for turn in range(4):
        pour(keeping.port, b"a", COUNT, first=turn * COUNT)
    before = keeping.peak_memory()
    slow = [keeping.deaf() for _ in range(40)]
    for client in slow:
        client.send(b"SUB $SEQ.FROM.1.> 1\r\n")
    for client in slow[: depth(4, 20)]:
        assert [count_of(one) for one in take(client, 4 * COUNT)] == list(range(4 * COUNT))
    grown = keeping.peak_memory() - before
    print(f"40 slow replays of 49 MiB cost {grown / (1 << 20):.1f} MiB")
    assert grown < 40 * (3 << 18) + (8 << 20)
    for client in slow:
        client.close()
