"""Where a chain begins without a given start: children that are complete before their parents."""

import pytest

from cardinal.follower import ChainFollower, Event, Row, Step
from cardinal.producer import Messages, Producer
from cardinal.schema import Schema
from cardinal.start import BLOCKS_MAX, SECONDS
from cardinal.token import read_token
from cardinal.update import Unlinked, Why

SCHEMA = Schema({}, "blocks")
ID = b"\x07" * 32
FAR = 40  # a chain of which the blocks below this one were not sent


def hash_of(number: int) -> bytes:
    return bytes([number + 1]) * 32


class Sent:
    """Blocks with a sub-batch each, which comes when it is told to."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.producer = Producer(SCHEMA)

    def put(self, messages: Messages) -> None:
        for topic, some in messages.items():
            for key, value in some:
                self.rows.append((topic, key, value, len(self.rows) + 1))

    def block(self, *numbers: int) -> "Sent":
        for number in numbers:
            parent = hash_of(number - 1) if number else bytes(32)
            batches = {"s/": ID}
            self.put(self.producer.block(number, hash_of(number), parent, number, {}, (), batches))
        return self

    def rest(self, *numbers: int) -> "Sent":
        for number in numbers:
            self.put(self.producer.sub_batch(hash_of(number), ID, (), {"s/1": b"x"}))
        return self

    def whole(self, *numbers: int) -> "Sent":
        for number in numbers:
            self.block(number).rest(number)
        return self


def fed(follower: ChainFollower, sent: Sent, now: float = 0.0) -> list[Event]:
    """What comes of each row by itself."""
    rows, sent.rows[:] = sent.rows[:], []
    return [event for row in rows for event in follower.take([row], "s", now)]


def told(events: list[Event]) -> list[tuple[list[int], list[int]] | Why]:
    found: list[tuple[list[int], list[int]] | Why] = []
    for event in events:
        if isinstance(event, Step):
            update = event.update
            found.append(([one.number for one in update.removed], [b.number for b in update.added]))
        else:
            assert isinstance(event, Unlinked), event
            found.append(event.why)
    return found


@pytest.mark.parametrize("at_once", [False, True], ids=["row by row", "at once"])
@pytest.mark.parametrize("first", [0, FAR])
@pytest.mark.parametrize(
    "late",
    [[0], [0, 1], [1, 0], [2, 0, 1], [3, 2, 1, 0]],
    ids=lambda late: "".join(map(str, late)),
)
def test_given_children_that_are_whole_before_their_parents_when_followed_then_none_is_left_out(
    late: list[int], first: int, at_once: bool
) -> None:
    sent = Sent().block(*(first + number for number in sorted(late)))
    sent.whole(*(first + number for number in range(4) if number not in late))
    sent.rest(*(first + number for number in late))
    follower = ChainFollower()
    events = follower.take(sent.rows, "s", 0.0) if at_once else fed(follower, sent)
    steps = told(events)
    assert all(isinstance(one, tuple) and not one[0] for one in steps), "nothing is taken back"
    added = [number for one in steps if isinstance(one, tuple) for number in one[1]]
    assert added == [first, first + 1, first + 2, first + 3]


def test_given_a_first_block_of_whose_parent_nothing_came_when_whole_then_it_is_begun_at_once() -> (
    None
):
    follower, sent = ChainFollower(), Sent()
    assert told(fed(follower, sent.whole(FAR))) == [([], [FAR])]
    assert read_token(follower.token()) == ({"s": 1}, FAR)


def test_given_a_start_when_a_parent_is_late_then_nobody_waits_for_it() -> None:
    sent = Sent().block(FAR - 1).whole(FAR + 1)
    follower = ChainFollower(start=hash_of(FAR), number=FAR)
    assert told(fed(follower, sent)) == [([], [FAR + 1])]


@pytest.mark.parametrize("bound", ["age", "count", "bytes", "end", "parent"])
def test_given_a_parent_that_does_not_become_whole_when_a_bound_is_reached_then_the_chain_begins(
    bound: str,
) -> None:
    options = {"bytes": {"bytes_max": 12_000}, "parent": {"age_max": 1.0}}.get(bound, {})
    follower, sent = ChainFollower(**options), Sent()  # type: ignore[arg-type]
    assert fed(follower, sent.block(FAR).whole(FAR + 1)) == []
    assert [block.number for block in follower.retained] == [FAR + 1]
    assert follower.knows(hash_of(FAR + 1))
    assert follower.token() == "s=1"
    if bound == "age":
        assert follower.take([], "s", SECONDS) == []
        events = follower.take([], "s", SECONDS + 0.1)
    elif bound == "end":
        events = follower.flush()
    elif bound == "parent":
        evicted, *events = follower.take([], "s", 1.1)
        assert evicted.hash == hash_of(FAR)
    else:
        many = range(FAR + 2, FAR + 2 + BLOCKS_MAX)
        events = fed(follower, sent.whole(*many))
        if bound == "count":
            assert len(events) == BLOCKS_MAX + 1
        else:
            assert len(events) > 1
    assert told(events)[0] == ([], [FAR + 1])
    step = events[0]
    assert isinstance(step, Step)
    assert step.update.unlinked
    assert read_token(step.token) == ({"s": 2 if bound == "parent" else 1}, FAR + 1)


@pytest.mark.parametrize("restart", [False, True], ids=["goes on", "after a restart"])
def test_given_a_chain_that_was_begun_when_its_parents_come_then_it_starts_again_with_them(
    restart: bool,
) -> None:
    follower, sent = ChainFollower(threshold=6), Sent()
    steps = fed(follower, sent.whole(FAR + 2, FAR + 3))
    if restart:
        last = steps[-1]
        assert isinstance(last, Step)
        assert last.token == f"s=1;begun:{FAR + 2}"
        follower = ChainFollower(start=hash_of(FAR + 3), number=FAR + 3, threshold=6)
        assert follower.resume(last.token) == {"s": 1}
        assert fed(follower, sent.whole(FAR + 2, FAR + 3)) == []
    events = fed(follower, sent.whole(FAR, FAR + 1))
    assert told(events) == [([FAR + 2, FAR + 3], [FAR, FAR + 1, FAR + 2, FAR + 3])]
    assert isinstance(events[0], Step)
    assert events[0].update.unlinked
    assert events[0].update.ancestor == hash_of(FAR - 1)
    assert told(fed(follower, sent.whole(FAR + 4, *range(FAR - 1, -1, -1)))) == [
        ([], [FAR + 4]),
        (
            [*range(FAR, FAR + 5)],
            [*range(FAR - 1, FAR + 5)],
        ),
        (
            [*range(FAR - 1, FAR + 5)],
            [*range(FAR - 2, FAR + 5)],
        ),
        *[Why.OLD] * (FAR - 2),
    ]
    assert told(fed(follower, sent.whole(FAR + 5)))[-1] == ([], [FAR + 5])
    assert read_token(follower.token())[1] is None, "what is below would be too old"


def test_given_a_chain_that_was_begun_when_the_first_block_of_all_comes_then_it_is_complete() -> (
    None
):
    follower, sent = ChainFollower(), Sent()
    events = fed(follower, sent.whole(1, 2, 0))
    assert told(events) == [([], [1]), ([], [2]), ([1, 2], [0, 1, 2])]
    step = events[-1]
    assert isinstance(step, Step)
    assert (step.update.unlinked, read_token(step.token)[1]) == (False, None)


def test_given_blocks_that_are_held_back_when_numbers_are_taken_back_then_tokens_reach_them() -> (
    None
):
    follower, sent = ChainFollower(), Sent()
    fed(follower, sent.block(0).whole(1, 2))
    follower.rewind("s", 3)
    (place,) = read_token(follower.token())[0].values()
    assert place == 1
    follower.rewind("s", 1)
    again = Sent().whole(0, 1)
    assert told(fed(follower, again)) == [([], [0]), ([], [1]), ([], [2])]


def test_given_bounds_of_ones_own_when_a_parent_is_late_then_the_chain_waits_for_it_so_long() -> (
    None
):
    follower, sent = ChainFollower(hold_seconds=60.0), Sent()
    assert fed(follower, sent.block(FAR).whole(FAR + 1)) == []
    assert follower.take([], "s", 60.0) == []
    assert told(follower.take([], "s", 60.1)) == [([], [FAR + 1])]
    follower, sent = ChainFollower(hold_blocks=2), Sent()
    assert fed(follower, sent.block(FAR).whole(FAR + 1, FAR + 2)) == []
    assert len(fed(follower, sent.whole(FAR + 3))) == 3
