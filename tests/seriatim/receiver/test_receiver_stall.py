"""A suspended process: what came meanwhile waits in the sockets, and is not missing."""

import asyncio
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pytest

from sequencer.netstring import encode_frame
from seriatim.receiver import Event, FeedMessage, Group, Receiver
from tests.support.multicast import mouth, new_group

STILL_S = 3600.0  # far more than a number may be late


class Loop:
    """The loop, whose clock can jump."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.ahead = 0.0

    def time(self) -> float:
        return self._loop.time() + self.ahead

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loop, name)


class Arrivals:
    """The datagrams of a socket; behind the next time that they are read something happens."""

    def __init__(self, arrivals: Any, happens: Callable[[], None]) -> None:
        self._arrivals = arrivals
        self._happens: Callable[[], None] | None = happens

    def read(self, *arguments: Any) -> int:
        count: int = self._arrivals.read(*arguments)
        happens, self._happens = self._happens, None
        if happens is not None:
            happens()
        return count

    def __getattr__(self, name: str) -> Any:
        return getattr(self._arrivals, name)


@pytest.mark.parametrize("late", [0, 1], ids=["the same socket", "the other socket"])
def test_given_a_stall_when_what_is_missing_waits_in_a_socket_then_it_is_not_lost(
    late: int,
) -> None:
    async def listen() -> list[Event]:
        groups = [new_group(), new_group()]
        async with Receiver([Group(*one, interface="127.0.0.1") for one in groups]) as receiver:
            with ExitStack() as stack:
                mouths = [stack.enter_context(mouth(one)) for one in groups]
                loop: Any = Loop()

                def stall() -> None:
                    mouths[late].send(encode_frame(3, b"three"))
                    loop.ahead = STILL_S

                receiver._loop = loop
                receiver._arrivals[0] = Arrivals(receiver._arrivals[0], stall)  # type: ignore[call-overload]
                for number in (2, 4):
                    mouths[0].send(encode_frame(number, b"%d" % number))
                return [await anext(receiver) for _ in range(3)]

    events = asyncio.run(listen())
    assert [one.number for one in events if isinstance(one, FeedMessage)] == [2, 3, 4]
