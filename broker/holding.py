"""Publishers wait a little for the subscribers that they outrun.

A flood is brought down to the speed of its readers in this way, instead of cutting them off.

    hold          at the end of a publisher's turn, for every subscriber whose outbox is crowded
    drained       the subscriber has caught up: its publishers go on
    time is over  they go on, too, and the subscriber lags: it holds nobody before it has drained

So a reader that is dead or far too slow stalls nobody: its outbox grows to `max_pending`, and it
is cut off.
"""

import asyncio
from typing import Protocol

from broker.dataplane.gate import Gate


class HeldPublisher(Protocol):
    """Who may be held: a session, cquencer's port, or the commits of staging."""

    held_by: int  # subscribers that it waits for

    def go_on(self) -> None:
        """It waits for nobody any more."""


class HoldingSubscriber(Protocol):
    """What a subscriber's connection says of it."""

    lagging: bool  # it has held its publishers as long as it may


def hold(publisher: HeldPublisher, gate: Gate, seconds: float) -> None:
    """Have a publisher wait for the subscribers that it has outrun in this event."""
    for connection in gate.crowded:
        if not connection.closed and not connection.writable and seconds:
            connection.session.hold(publisher, seconds)
    gate.crowded.clear()


class HeldPublishers:
    """Those that wait for one subscriber."""

    __slots__ = ("_loop", "_publishers", "_subscriber", "_timer")

    def __init__(self, loop: asyncio.AbstractEventLoop, subscriber: HoldingSubscriber) -> None:
        self._loop = loop
        self._subscriber = subscriber
        self._publishers: set[HeldPublisher] = set()
        self._timer: asyncio.TimerHandle | None = None

    def hold(self, publisher: HeldPublisher, seconds: float) -> None:
        """Have one more wait, but none of them for longer than this."""
        if publisher in self._publishers:
            return
        self._publishers.add(publisher)
        publisher.held_by += 1
        if self._timer is None:
            self._timer = self._loop.call_later(seconds, self._time_is_over)

    def drained(self) -> None:
        """The subscriber has caught up."""
        self._subscriber.lagging = False
        self.release()

    def release(self) -> None:
        """Let all of them go on."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for publisher in self._publishers:
            publisher.held_by -= 1
            if publisher.held_by == 0:
                self._loop.call_soon(publisher.go_on)
        self._publishers.clear()

    def _time_is_over(self) -> None:
        self._timer = None
        self._subscriber.lagging = True
        self.release()
