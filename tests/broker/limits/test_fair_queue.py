"""Fair queues: whose turn it is, whatever is put, taken and removed."""

import asyncio
from collections.abc import Callable
from operator import itemgetter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.limits.fair_queue import FairQueue, FairTurns
from testkit.manual_loop import ManualLoop

Item = tuple[str, int]
KEYS = "abc"


def queue_of(*items: Item) -> FairQueue[str, Item]:
    queue: FairQueue[str, Item] = FairQueue(itemgetter(0))
    for item in items:
        queue.put(item)
    return queue


def drained(queue: FairQueue[str, Item]) -> list[Item]:
    taken = []
    while queue:
        taken.append(queue.pop())
    assert (len(queue), list(queue), queue.keys) == (0, [], [])
    return taken


def test_given_a_key_with_many_and_one_with_few_then_they_take_turns() -> None:
    queue = queue_of(("a", 1), ("a", 2), ("a", 3), ("b", 1), ("b", 2))
    assert drained(queue) == [("a", 1), ("b", 1), ("a", 2), ("b", 2), ("a", 3)]


def test_given_an_item_taken_out_of_turn_then_its_key_comes_last() -> None:
    queue = queue_of(("a", 1), ("a", 2), ("b", 1), ("c", 1))
    queue.pop_this(("a", 1))
    assert queue.firsts() == [("b", 1), ("c", 1), ("a", 2)]
    assert drained(queue) == [("b", 1), ("c", 1), ("a", 2)]


def test_given_a_queue_that_is_full_then_it_drops_the_newest_of_the_key_with_the_most() -> None:
    queue = queue_of(("a", 1), ("b", 1), ("b", 2), ("b", 3), ("c", 1), ("c", 2))
    assert [queue.pop_newest() for _ in range(3)] == [("b", 3), ("b", 2), ("c", 2)]
    assert drained(queue) == [("a", 1), ("b", 1), ("c", 1)]


STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ["put", "put_first", "pop", "discard", "pop_this", "pop_key", "pop_newest"]
        ),
        st.sampled_from(KEYS),
        st.integers(0, 50),
    )
)


@given(STEPS)
def test_given_any_program_then_the_queue_is_a_list_of_lists(
    steps: list[tuple[str, str, int]],
) -> None:
    queue, model, count = queue_of(), list[list[Item]](), 0
    for step, key, chosen in steps:
        everything = [item for line in model for item in line]
        if step in ("put", "put_first"):
            count += 1
            item = key, count
            getattr(queue, step)(item)
            line = next((line for line in model if line[0][0] == key), None)
            if line is None:
                line = list[Item]()
                model.append(line)
            if step == "put":
                line.append(item)
            else:
                line.insert(0, item)
                model.remove(line)
                model.insert(0, line)
        elif step == "pop_key":
            expected = next((line for line in model if line[0][0] == key), [])
            assert queue.pop_key(key) == expected
            model = [line for line in model if line is not expected]
        elif everything:
            if step == "pop":
                item = queue.pop()
                assert item == everything[0]
            elif step == "pop_newest":
                item = queue.pop_newest()
                assert item == max(model, key=len)[-1]
            else:
                item = everything[chosen % len(everything)]
                getattr(queue, step)(item)
            line = next(line for line in model if item in line)
            line.remove(item)
            if step in ("pop", "pop_this"):
                model.remove(line)
                model.append(line)
            model = [line for line in model if line]
        assert list(queue) == [item for line in model for item in line]
        assert queue.keys == [line[0][0] for line in model]
        assert queue.firsts() == [line[0] for line in model]
        assert (len(queue), bool(queue)) == (sum(map(len, model)), bool(model))


# Turns of the event loop


class Actor:
    """Needs so many turns; the last may fail."""

    def __init__(
        self, turns: FairTurns, order: list["Actor"], key: str, count: int, *, fails: bool = False
    ) -> None:
        self.turns, self.order, self.key, self.count, self.fails = turns, order, key, count, fails

    def act(self) -> None:
        self.order.append(self)
        self.count -= 1
        if self.count:
            self.turns.add(self.key, self.act)
        elif self.fails:
            raise ValueError("its last")


def test_given_several_actions_then_each_turn_runs_one_and_keys_take_turns() -> None:
    loop: Any = ManualLoop()
    turns, order = FairTurns(loop), list[Actor]()
    many = [Actor(turns, order, "a", 2) for _ in range(3)]
    other = Actor(turns, order, "b", 2)
    for one in (*many, other):
        turns.add(one.key, one.act)
    for done in range(1, 9):
        loop.turn()
        assert len(order) == done
    assert order == [many[0], other, many[1], other, many[2], *many]
    assert loop.quiet


def test_given_an_action_that_fails_then_the_next_has_its_turn() -> None:
    loop: Any = ManualLoop()
    turns, order = FairTurns(loop), list[Actor]()
    for fails in (True, False):
        turns.add("a", Actor(turns, order, "a", 1, fails=fails).act)
    with pytest.raises(ValueError, match="its last"):
        loop.turn()
    loop.turn()
    assert len(order) == 2
    assert loop.quiet


def test_given_actions_that_wait_then_other_work_of_the_loop_comes_between_any_two() -> None:
    async def scenario() -> list[str]:
        loop = asyncio.get_running_loop()
        turns, done, over = FairTurns(loop), list[str](), asyncio.Event()

        def other(left: int) -> None:
            done.append("other")
            if left:
                loop.call_soon(other, left - 1)
            else:
                over.set()

        def action() -> Callable[[], None]:
            return lambda: done.append("action")

        loop.call_soon(other, 5)
        for _ in range(5):
            turns.add("a", action())
        await over.wait()
        return done

    assert asyncio.run(scenario()) == ["other", "action"] * 5 + ["other"]
