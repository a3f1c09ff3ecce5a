"""The queues of cursors: the order in which they continue, and removal of any of them."""

from typing import Any, cast

from broker.dataplane.connection import Connection
from broker.replay.cursor import Cursor
from broker.replay.queues import CursorQueue, Waiting
from parser.machine import Parser


def connection() -> Connection:
    return Connection(cast(Any, None), Parser(4096, 1 << 20), 1 << 20)


def cursors(of: Connection, count: int) -> list[Cursor]:
    return [Cursor(of, number) for number in range(count)]


def test_given_one_connection_with_many_and_one_with_few_when_taken_then_by_turns() -> None:
    many, few = cursors(connection(), 5), cursors(connection(), 2)
    ready = CursorQueue()
    for cursor in (*many, *few):
        ready.put(cursor)
    taken = []
    while ready:
        taken.append(ready.pop())
    assert taken == [many[0], few[0], many[1], few[1], many[2], many[3], many[4]]
    assert all(cursor.queue is None for cursor in taken)


def test_given_one_that_goes_first_when_taken_then_it_is_before_all_others() -> None:
    ready = CursorQueue()
    many, few = cursors(connection(), 3), cursors(connection(), 2)
    for cursor in (*many, few[0]):
        ready.put(cursor)
    ready.put_first(few[1])
    assert ready.pop() is few[1]
    assert ready.pop() is many[0]


def test_given_any_that_end_when_taken_then_the_others_are_there() -> None:
    ready, parked = CursorQueue(), CursorQueue()
    one, other = connection(), connection()
    stand, sit = cursors(one, 4), cursors(other, 4)
    for cursor in stand:
        ready.put(cursor)
    for cursor in sit:
        parked.put(cursor)
    for cursor in (stand[0], stand[3], sit[1], sit[2]):
        assert cursor.queue is not None
        cursor.queue.discard(cursor)
        assert cursor.queue is None
    assert [ready.pop(), ready.pop()] == stand[1:3]
    assert list(parked) == parked.pop_key(other) == [sit[0], sit[3]]
    assert not ready
    assert parked.keys == []
    parked.put(sit[0])
    parked.discard(sit[0])
    assert parked.keys == parked.pop_key(other) == []


def test_given_many_that_wait_for_numbers_when_some_end_then_the_others_come_in_order() -> None:
    waiting = Waiting()
    owner = connection()
    numbers = [(at * 7919) % 1009 // 2 for at in range(1009)]  # two for each number
    asked = [Cursor(owner, number) for number in numbers]
    for cursor in asked:
        waiting.put(cursor)
    for cursor in asked[::3]:
        waiting.discard(cursor)
    kept = [cursor for at, cursor in enumerate(asked) if at % 3]
    taken = []
    for last in (100, 99, 1000):
        while (one := waiting.pop_reached(last)) is not None:
            assert one.number <= last
            taken.append(one)
    assert taken == sorted(kept, key=lambda cursor: cursor.number)
    assert len(waiting) == 0
