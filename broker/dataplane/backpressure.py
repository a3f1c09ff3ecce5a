"""Publishers wait briefly for subscribers that cannot keep up.

This slows a flood down to the speed of its readers, instead of disconnecting them.

    hold          at the end of a publisher's turn, for every subscriber whose outbox is crowded
    drained       the subscriber has caught up: its publishers go on
    time is over  they go on as well; the subscriber lags, and holds none until it has drained

So a reader that is dead or far too slow does not stall anyone: its outbox grows to `max_pending`,
and it is disconnected.
"""

import asyncio

from broker.dataplane.client_session import HeldPublisher
from broker.dataplane.connection import Connection
from broker.dataplane.gate import Gate


def hold(publisher: HeldPublisher, gate: Gate, seconds: float) -> None:
    """Make a publisher wait for the subscribers that it has outrun in this event."""
    for connection in gate.crowded:
        if not connection.closed and not connection.writable and seconds:
            connection.session.hold(publisher, seconds)
    gate.crowded.clear()


class PausedPublishers:
    """The publishers that wait for one subscriber."""

    __slots__ = ("_loop", "_publishers", "_subscriber", "_timer")

    def __init__(self, loop: asyncio.AbstractEventLoop, subscriber: Connection) -> None:
        self._loop = loop
        self._subscriber = subscriber
        self._publishers: set[HeldPublisher] = set()
        self._timer: asyncio.TimerHandle | None = None

    def hold(self, publisher: HeldPublisher, seconds: float) -> None:
        """Make one more publisher wait; none of them waits longer than `seconds`."""
        if publisher in self._publishers:
            return
        self._publishers.add(publisher)
        publisher.held_by += 1
        if self._timer is None:
            self._timer = self._loop.call_later(seconds, self._time_is_over)

    def drained(self) -> None:
        """Let the publishers go on: the subscriber has caught up."""
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
                self._loop.call_soon(publisher.resume)
        self._publishers.clear()

    def _time_is_over(self) -> None:
        self._timer = None
        self._subscriber.lagging = True
        self.release()
