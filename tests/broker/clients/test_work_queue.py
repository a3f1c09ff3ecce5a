"""Clients that bring much work: served in turn, one in each turn of the loop."""

from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import pytest

from broker.clients.work_queue import WorkQueue
from broker.dataplane.user import User
from testkit.manual_loop import ManualLoop
from tests.support.serving import serving

FLOODS = 40
TURN = 400  # replays that begin in one turn, at least


class Behind:
    """Needs so many turns; the last may fail."""

    def __init__(
        self,
        work_queue: WorkQueue,
        order: list["Behind"],
        turns: int,
        *,
        fails: bool = False,
        user: str = "",
        ip: str = "192.0.2.1",
    ) -> None:
        self.work_queue, self.order, self.turns, self.fails = work_queue, order, turns, fails
        self.user = User(user, b"", None) if user else None
        self.ip = ip

    def resume(self) -> None:
        self.order.append(self)
        self.turns -= 1
        if self.turns:
            self.work_queue.add(cast(Any, self))
        elif self.fails:
            raise ValueError("its last")


def test_given_several_then_each_turn_serves_one_and_they_take_turns() -> None:
    loop: Any = ManualLoop()
    work_queue, order = WorkQueue(loop), list[Behind]()
    three = [Behind(work_queue, order, 2) for _ in range(3)]
    for one in three:
        work_queue.add(cast(Any, one))
    for served in range(1, 7):
        loop.turn()
        assert len(order) == served
    assert order == three * 2
    assert loop.quiet


def test_given_many_of_one_user_then_users_take_turns_and_so_do_addresses_without_users() -> None:
    loop: Any = ManualLoop()
    work_queue, order = WorkQueue(loop), list[Behind]()
    many = [Behind(work_queue, order, 2, user="mallory", ip=f"192.0.2.{at}") for at in range(3)]
    alice = Behind(work_queue, order, 2, user="alice")
    strangers = [Behind(work_queue, order, 1, ip=ip) for ip in ("192.0.2.1", "192.0.2.1")]
    other = Behind(work_queue, order, 2, ip="alice")  # no address is like a user's name
    for one in (*many, alice, *strangers, other):
        work_queue.add(cast(Any, one))
    for _ in range(12):
        loop.turn()
    assert order == [
        *(many[0], alice, strangers[0], other),
        *(many[1], alice, strangers[1], other),
        *(many[2], *many),
    ]
    assert loop.quiet


def test_given_one_that_fails_then_the_next_has_its_turn() -> None:
    loop: Any = ManualLoop()
    work_queue, order = WorkQueue(loop), list[Behind]()
    for fails in (True, False):
        work_queue.add(cast(Any, Behind(work_queue, order, 1, fails=fails)))
    with pytest.raises(ValueError, match="its last"):
        loop.turn()
    loop.turn()
    assert len(order) == 2
    assert loop.quiet


def test_given_many_clients_that_bring_much_work_then_another_is_served_between_any_two(
    tmp_path: Path,
) -> None:
    flood = b"".join(b"SUB $SEQ.FROM.999999.a %d\r\n" % sid for sid in range(1500))
    with serving(tmp_path) as broker:
        floods, other = [broker.client() for _ in range(FLOODS)], broker.client()
        for client in floods:
            client.send(flood + b"PING\r\n")
        replays, seen = broker.server.replays, list[int]()
        assert replays is not None
        while replays.opened.open < FLOODS * 1500:
            assert other.ask(b"") == []
            seen.append(replays.opened.open)
        steps = [after - before for before, after in pairwise(seen[1:])]
        assert max(steps) < FLOODS * TURN / 2, "one turn of each, if it waited for all"
