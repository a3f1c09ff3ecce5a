"""Many subscriptions of one connection that lags, and those that come and go meanwhile."""

from collections.abc import Iterator

import pytest

from tests.order.lagging import COUNT, Keeping, body, count_of, pour, take, take_until
from tests.order.traffic import SUBJECTS, Crew, assert_same_story, heard
from tests.support.depth import depth
from tests.support.processes import STAND_IN
from tests.support.raw import QUIET, Operation, RawClient

pytestmark = pytest.mark.skipif(STAND_IN, reason="nats-server has no journal behind a subscriber")
END = b"PUB end 9\r\n%b\r\n" % body(0, 9)
PUBLISHED = depth(500, 1500)  # messages of each publisher
OVERLAPPING = (">", "t.>", "t.*.x", "t.1.*", "*", "u.>", "t.1.x", "*.*.x", "*.1")


@pytest.fixture
def keeping() -> Iterator[Keeping]:
    with Keeping() as broker:
        yield broker


def counts(operations: list[Operation], sid: bytes = b"1") -> list[int]:
    return [count_of(one) for one in operations if one.sid == sid and one.subject != b"end"]


@pytest.mark.parametrize(
    "wishes",
    [pytest.param(3, marks=pytest.mark.slow), 9, pytest.param(30, marks=pytest.mark.slow), 250],
)
def test_given_overlapping_wishes_when_their_connection_lags_then_each_tells_its_whole_story(
    keeping: Keeping, wishes: int
) -> None:
    subjects = [f"t.{'123'[at % 3]}.{'xyz'[at % 5 % 3]}" for at in range(wishes)]
    patterns = [*OVERLAPPING, *subjects][:wishes]
    lines = [b"SUB %b %d" % (word.encode(), sid) for sid, word in enumerate(patterns)]
    slow = keeping.deaf(*lines, b"SUB end 999")
    with Crew(keeping.port) as crew:
        judge = crew.listen(">")
        crew.publish_all(["p0", "p1", "p2"], PUBLISHED)
        pour(keeping.port, SUBJECTS[0].encode(), 40 * COUNT // wishes + 300, size=4000)
        crew.publish_all(["p3", "p4"], PUBLISHED)
        assert keeping.figure("catchups_active") >= 1
        everything = judge.finish()
        with RawClient(keeping.port, QUIET) as publisher:
            publisher.ask(END)
        messages = [heard(one) for one in take_until(slow, b"end")]
        messages += [heard(one) for one in slow.ask(b"")]  # the end came to more than one
    story = [m for m in messages if m.subject != "end"]
    numbers = [message.number for message in story]
    assert numbers == sorted(numbers), "one connection sees one order over its subscriptions"
    for sid, pattern in enumerate(patterns):
        assert_same_story([m for m in story if m.sid == str(sid)], everything, pattern)


def test_given_a_subscription_that_ends_while_its_connection_lags_then_the_others_go_on(
    keeping: Keeping,
) -> None:
    with keeping.deaf(b"SUB flood 1", b"SUB flood 2", b"SUB > 3") as slow:
        pour(keeping.port, b"flood")
        assert keeping.lags(1)
        slow.send(b"UNSUB 2\r\nPUB over 0\r\n\r\n")
        assert keeping.awaits(lambda: keeping.head == COUNT + 1)
        pour(keeping.port, b"flood", first=COUNT)
        with RawClient(keeping.port, QUIET) as publisher:
            publisher.ask(END)
        said = take_until(slow, b"end")
        assert counts(said, b"1") == list(range(2 * COUNT))
        assert len([one for one in said if one.sid == b"3"]) == 2 * COUNT + 2
        assert counts(said, b"2") == list(range(COUNT)), "what was published before, and no more"


def test_given_a_second_connect_while_a_connection_lags_then_what_was_before_it_still_comes(
    keeping: Keeping,
) -> None:
    with keeping.deaf(b"SUB flood 1", b"SUB * 2") as slow:
        pour(keeping.port, b"flood")
        assert keeping.lags(1)
        slow.send(QUIET + b"SUB flood 1\r\nSUB end 9\r\nPUB over 0\r\n\r\n")
        assert keeping.awaits(lambda: keeping.head == COUNT + 1)
        pour(keeping.port, b"flood", first=COUNT)
        with RawClient(keeping.port, QUIET) as publisher:
            publisher.ask(END)
        said = take_until(slow, b"end")
        assert counts(said, b"1") == list(range(2 * COUNT)), "the old one, then the new one"
        assert counts(said, b"2") == list(range(COUNT))


def test_given_a_wish_that_comes_while_its_connection_lags_then_it_begins_there(
    keeping: Keeping,
) -> None:
    with keeping.deaf(b"SUB flood 1", b"SUB end 9") as slow:
        pour(keeping.port, b"flood")
        assert keeping.lags(1)
        slow.send(b"SUB *od 4\r\nSUB flood 2\r\nSUB f* 5\r\nSUB * 3\r\nPUB begun 0\r\n\r\n")
        assert keeping.awaits(lambda: keeping.head == COUNT + 1)
        pour(keeping.port, b"flood", first=COUNT)
        with RawClient(keeping.port, QUIET) as publisher:
            publisher.ask(END)
        said = take_until(slow, b"end")
        assert counts(said, b"1") == list(range(2 * COUNT))
        assert counts(said, b"2") == list(range(COUNT, 2 * COUNT))
        assert [one.subject for one in said if one.sid == b"3"][:2] == [b"begun", b"flood"]
        assert counts(said, b"4") == counts(said, b"5") == [], "they are no wildcards"


@pytest.mark.parametrize("most", [COUNT // 2, COUNT, COUNT + 7])
def test_given_an_end_that_was_agreed_while_a_connection_lags_then_it_is_kept_to_the_message(
    keeping: Keeping, most: int
) -> None:
    with keeping.deaf(b"SUB flood 1", b"SUB flood 2", b"SUB end 9") as slow:
        pour(keeping.port, b"flood")
        assert keeping.lags(1)
        slow.send(b"UNSUB 2 %d\r\nPUB agreed 0\r\n\r\n" % most)
        assert keeping.awaits(lambda: keeping.head == COUNT + 1)
        pour(keeping.port, b"flood", first=COUNT)
        with RawClient(keeping.port, QUIET) as publisher:
            publisher.ask(END)
        said = take_until(slow, b"end")
        assert counts(said, b"2") == list(range(most))
        assert counts(said, b"1") == list(range(2 * COUNT))
        assert keeping.figure("subscriptions") == 2


def test_given_a_member_that_lags_then_its_group_does_the_work_without_it(
    keeping: Keeping,
) -> None:
    with (
        keeping.deaf(b"SUB work q 1", b"SUB flood 2", b"SUB end 9") as slow,
        RawClient(keeping.port, QUIET + b"SUB work q 1\r\nSUB end 9\r\n") as healthy,
    ):
        healthy.ask(b"")
        pour(keeping.port, b"flood")
        assert keeping.lags(1)
        pour(keeping.port, b"work", 500, size=10)
        assert keeping.lags(1)
        assert counts(take(healthy, 500)) == list(range(500)), "one that lags gets no new work"
        assert counts(take(slow, COUNT), b"2") == list(range(COUNT))
        assert keeping.awaits(lambda: keeping.lags(0))
        pour(keeping.port, b"work", 500, size=10, first=500)
        with RawClient(keeping.port, QUIET) as publisher:
            publisher.ask(END)
        shares = [counts(take_until(client, b"end")) for client in (slow, healthy)]
        assert sorted(shares[0] + shares[1]) == list(range(500, 1000))
        assert all(shares), "it has its share again"


@pytest.mark.parametrize("members", [1, 2, 5])
def test_given_a_group_of_which_all_lag_then_each_message_goes_to_one_of_them(
    keeping: Keeping, members: int
) -> None:
    everyone = [
        keeping.deaf(b"SUB flood 7", b"SUB * q 1", b"SUB work r 2", b"SUB end 9")
        for _ in range(members)
    ]
    pour(keeping.port, b"flood")
    assert keeping.lags(members)
    pour(keeping.port, b"work", 3000, size=10, first=10_000)
    for client in everyone[1:2]:
        client.send(b"SUB work q 3\r\n")
        assert keeping.awaits(lambda: keeping.figure("subscriptions") == 4 * members + 1)
    pour(keeping.port, b"work", 3000, size=10, first=20_000)
    pour(keeping.port, b"flood", first=COUNT)
    with RawClient(keeping.port, QUIET) as publisher:
        publisher.ask(END)
    runs = [take_until(client, b"end") for client in everyone]
    runs = [run + client.ask(b"") for run, client in zip(runs, everyone, strict=True)]
    for run in runs:
        assert counts(run, b"7") == list(range(2 * COUNT))
    worked = [*range(10_000, 13_000), *range(20_000, 23_000)]
    shared = [count_of(o) for run in runs for o in run if o.sid == b"2"]
    assert sorted(shared) == worked
    taken = [o for run in runs for o in run if o.sid in (b"1", b"3") and o.subject != b"end"]
    if members == 1:
        assert counts(taken) == [*range(COUNT), *worked, *range(COUNT, 2 * COUNT)]
    else:
        assert sorted(count_of(o) for o in taken if o.sid == b"1" and o.subject == b"flood") == [
            *range(2 * COUNT)
        ]
