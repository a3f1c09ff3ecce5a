"""Waiting for a hash or a number: success, timeouts, and what will never come."""

import asyncio

from cardinal.block import Block
from cardinal.transport.waiting import AppliedWaiters, Outcome
from cardinal.update import ChainUpdate
from tests.clients.served import run

LONG, SHORT = 100.0, 0.01


def block(number: int, name: str = "x") -> Block:
    return Block(f"{name}{number}".encode(), number, number, b"", {}, set())


def added(*blocks: Block, removed: tuple[Block, ...] = ()) -> ChainUpdate:
    return ChainUpdate(list(blocks), list(removed), b"")


def test_given_a_waiter_when_the_block_is_applied_then_it_is_called() -> None:
    async def scenario() -> None:
        waiting = AppliedWaiters()
        waits = [
            asyncio.create_task(waiting.for_hash(b"x2", LONG)),
            asyncio.create_task(waiting.for_hash(b"x2", LONG)),
            asyncio.create_task(waiting.for_number(2, LONG)),
        ]
        late = asyncio.create_task(waiting.for_number(3, LONG))
        await asyncio.sleep(0)
        waiting.applied(added(block(1), block(2)))
        assert await asyncio.gather(*waits) == [Outcome.SUCCESS] * 3
        assert not late.done()
        waiting.applied(added(block(3)))
        assert await late is Outcome.SUCCESS

    run(scenario())


def test_given_a_block_that_was_applied_when_asked_for_then_the_answer_is_there() -> None:
    async def scenario() -> None:
        waiting = AppliedWaiters(remember=2)
        waiting.applied(added(block(1), block(2), block(3)))
        assert await waiting.for_hash(b"x3", SHORT) is Outcome.SUCCESS
        assert await waiting.for_number(1, SHORT) is Outcome.SUCCESS
        assert await waiting.for_hash(b"x1", SHORT) is Outcome.TIMEOUT, "not remembered"
        assert await waiting.for_number(4, SHORT) is Outcome.TIMEOUT
        waiting.applied(added(block(2, "y"), removed=(block(2), block(3))))
        assert await waiting.for_hash(b"x3", SHORT) is Outcome.TIMEOUT, "removed"
        assert await waiting.for_number(3, SHORT) is Outcome.TIMEOUT

    run(scenario())


def test_given_a_block_that_will_not_come_when_waited_for_then_it_is_reported() -> None:
    async def scenario() -> None:
        waiting = AppliedWaiters()
        one = asyncio.create_task(waiting.for_hash(b"x1", LONG))
        other = asyncio.create_task(waiting.for_hash(b"x2", LONG))
        number = asyncio.create_task(waiting.for_number(7, LONG))
        await asyncio.sleep(0)
        waiting.given_up(b"x1")
        assert await one is Outcome.NOT_FOUND
        assert not other.done()
        waiting.close()
        assert await asyncio.gather(other, number) == [Outcome.NOT_FOUND] * 2
        assert await waiting.for_hash(b"x9", LONG) is Outcome.NOT_FOUND
        assert await waiting.for_number(9, LONG) is Outcome.NOT_FOUND

    run(scenario())


def test_given_a_wait_that_is_cancelled_when_the_block_comes_then_nothing_is_left() -> None:
    async def scenario() -> None:
        waiting = AppliedWaiters()
        wait = asyncio.create_task(waiting.for_hash(b"x1", LONG))
        await asyncio.sleep(0)
        wait.cancel()
        await asyncio.gather(wait, return_exceptions=True)
        waiting.applied(added(block(1)))
        assert await waiting.for_hash(b"x1", SHORT) is Outcome.SUCCESS

    run(scenario())
