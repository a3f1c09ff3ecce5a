"""Requests for numbers that are here, and may not be shown yet."""

import asyncio
from collections import Counter
from pathlib import Path

from broker.cluster.awaited_numbers import TURN, WAITING_MAX, AwaitedNumbers
from broker.cluster.storage.membership import Membership
from broker.cluster.storage.store_log import StoreLog
from sequencer.sequencer import Sequencer
from tests.support.replica_stores import append, open_replica
from tests.support.stores import SECOND


def test_given_numbers_above_the_watermark_when_asked_for_then_they_wait_for_it(
    tmp_path: Path,
) -> None:
    async def work() -> None:
        store = open_replica(tmp_path)
        append(store, [SECOND] * 5, epoch=1)
        loop = asyncio.get_running_loop()
        log = StoreLog(store, Membership.create(str(tmp_path), "orders"), loop)
        shown = Sequencer()
        shown.skip_to(2)
        awaited = AwaitedNumbers(log, shown, loop)
        answered: list[int] = []
        last = asyncio.Event()

        assert not awaited.wait(2, last.set), "it can be answered now"
        assert not awaited.wait(6, last.set), "it is not here"

        def answer_last() -> None:
            answered.append(5)
            last.set()

        assert awaited.wait(5, answer_last)
        assert awaited.wait(4, lambda: answered.append(4))
        assert awaited.wait(3, lambda: answered.append(3))
        shown.skip_to(4)
        awaited.delivered()
        assert answered == [3, 4]
        await last.wait()  # it is never committed: answered all the same
        assert answered == [3, 4, 5]
        assert awaited.wait(5, lambda: answered.append(6))
        awaited.stop()
        log.close()

    asyncio.run(work())


def test_given_thousands_whose_wait_expires_then_they_are_answered_in_short_turns(
    tmp_path: Path,
) -> None:
    async def work() -> list[int]:
        store = open_replica(tmp_path)
        append(store, [SECOND] * 5, epoch=1)
        loop = asyncio.get_running_loop()
        log = StoreLog(store, Membership.create(str(tmp_path), "orders"), loop)
        awaited = AwaitedNumbers(log, Sequencer(), loop)
        answered: list[int] = []  # in which turn
        all_answered = asyncio.Event()
        turns = 0

        def turn() -> None:
            nonlocal turns
            turns += 1
            if not all_answered.is_set():
                loop.call_soon(turn)

        def answer() -> None:
            answered.append(turns)
            if len(answered) == WAITING_MAX:
                all_answered.set()

        turn()  # before the first of them waits: a slow machine needs long until the last does
        for at in range(WAITING_MAX):
            assert awaited.wait(1 + at % 5, answer)
        assert not awaited.wait(1, answer), "so many are enough"
        await all_answered.wait()
        awaited.stop()
        log.close()
        return answered

    answered = asyncio.run(work())
    assert max(Counter(answered).values()) <= 2 * TURN, "others have had their turns"
