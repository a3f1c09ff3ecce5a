"""Requests end in their own time, in whatever order they began, and leave no timer behind."""

import asyncio

import pytest

import seriatim
from seriatim.client.errors import ConnectionLost
from seriatim.client.pending_requests import PendingRequests
from tests.support.processes import SeriatimServer, url

TIMES = (0.4, 0.1, 0.3, 0.2, 30.0)


def test_given_requests_that_nobody_answers_then_each_ends_in_its_own_time() -> None:
    async def ask(stream: seriatim.Client, seconds: float) -> float:
        begun = asyncio.get_running_loop().time()
        with pytest.raises(seriatim.NoAnswer, match="quiet: no answer in time"):
            await stream.request("quiet", b"", timeout=seconds)
        ended.append(seconds)
        return asyncio.get_running_loop().time() - begun

    async def scenario(where: str) -> None:
        async with seriatim.connect(where) as stream:
            quiet = await stream.subscribe("quiet")
            asked = [asyncio.create_task(ask(stream, seconds)) for seconds in TIMES]
            took = await asyncio.gather(*asked[:-1])
            assert all(took >= seconds for took, seconds in zip(took, TIMES, strict=False))
            assert ended == sorted(TIMES)[:-1]
            assert not asked[-1].done(), "it has more time"
            asked[-1].cancel()
            assert quiet.received == len(TIMES)
            assert (await stream.info()).last >= 0, "the next request is answered as ever"

    ended: list[float] = []
    with SeriatimServer() as broker:
        asyncio.run(scenario(url(broker)))


def timers(loop: asyncio.AbstractEventLoop) -> list[asyncio.TimerHandle]:
    """The loop's timers that are still due."""
    return [one for one in loop._scheduled if not one.cancelled()]  # type: ignore[attr-defined]


def test_given_requests_then_one_timer_serves_them_and_goes_at_the_end() -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        pending = PendingRequests(loop)
        now = loop.time()
        answers = [pending.add(f"r.{at}", "a", now + 10 + at) for at in range(1000)]
        assert len(timers(loop)) == 1
        for at in range(1, 1000):
            pending.drop(f"r.{at}")
        earlier = pending.add("r.x", "a", now + 5)
        assert len(timers(loop)) == 1
        pending.close(ConnectionLost("closed"))
        assert timers(loop) == []
        for answer in (answers[0], earlier):
            with pytest.raises(ConnectionLost, match="closed"):
                await answer
        assert not answers[1].done()

    asyncio.run(scenario())
