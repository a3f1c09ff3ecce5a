"""Handshakes take turns with everything else that the loop does."""

import asyncio

import pytest

from broker.wires.handshake_queue import HandshakeQueue


def test_given_many_that_wait_then_others_get_a_turn_between_any_two() -> None:
    async def scenario() -> list[str]:
        loop = asyncio.get_running_loop()
        handshakes, done = HandshakeQueue(loop), []
        over = asyncio.Event()

        def other(left: int) -> None:
            done.append("other")
            if left:
                loop.call_soon(other, left - 1)
            else:
                over.set()

        loop.call_soon(other, 5)
        for _ in range(5):
            handshakes.add(lambda: done.append("step"))
        await over.wait()
        return done

    done = asyncio.run(scenario())
    assert done == ["other", "step"] * 5 + ["other"]


def test_given_a_step_that_fails_then_the_next_are_done() -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        told: list[object] = []
        loop.set_exception_handler(lambda _, context: told.append(context["exception"]))
        handshakes, done = HandshakeQueue(loop), asyncio.Event()
        failure = ValueError("a defect")

        def fail() -> None:
            raise failure

        handshakes.add(fail)
        handshakes.add(done.set)
        await asyncio.wait_for(done.wait(), 10)
        assert told == [failure]
        again = asyncio.Event()
        handshakes.add(again.set)
        await asyncio.wait_for(again.wait(), 10)

    asyncio.run(scenario())


@pytest.mark.parametrize("times", [1, 3])
def test_given_one_that_comes_back_during_its_step_then_it_waits_again(times: int) -> None:
    async def scenario() -> None:
        handshakes, done = HandshakeQueue(asyncio.get_running_loop()), asyncio.Event()
        left = times

        def step() -> None:
            nonlocal left
            left -= 1
            if left:
                handshakes.add(step)
            else:
                done.set()

        handshakes.add(step)
        await asyncio.wait_for(done.wait(), 10)

    asyncio.run(scenario())
