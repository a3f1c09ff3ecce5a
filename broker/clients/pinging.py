"""PING and PONG of one client: its liveness, its round trip, and INFO after its first PING.

The heartbeat of the broker calls `beat` when something is due. Round trips are measured with the
system's clock, because uvloop's counts milliseconds.
"""

import time
from typing import TYPE_CHECKING, Final

from broker.clients.heartbeat import Heartbeat
from broker.core import Core
from parser import errors

if TYPE_CHECKING:
    from broker.clients.session import Session

FIRST_PING: Final = 2.0  # seconds after CONNECT; nats-server measures the round trip then
GOLDEN: Final = 0.6180339887498949  # the golden ratio: its multiples fill the unit interval evenly
JITTER: Final = 0.2  # fraction of FIRST_PING: spreads out a thousand clients that come back at once


class Pinging:
    """The PINGs of one session. No reference back to the session: so both are freed at once."""

    __slots__ = ("_core", "_greeted", "_greeted_at", "_heartbeat", "_out", "_sent", "rtt")

    def __init__(self, core: Core, heartbeat: Heartbeat) -> None:
        self._core = core
        self._heartbeat = heartbeat
        self._greeted = False  # the second INFO was sent
        self._greeted_at = 0.0  # when the first INFO was sent
        self._sent = 0.0  # when the last PING was sent
        self._out = 0  # PINGs without an answer
        self.rtt = 0.0  # seconds; until the first PONG, the time from INFO to CONNECT

    def greeted(self) -> None:
        """Note the time of the first INFO."""
        if not self._greeted_at:
            self._greeted_at = time.monotonic()

    def start_timer(self, session: "Session") -> None:
        """Start the timer: the client may be silent for `ping_interval`."""
        self.greeted()
        self._heartbeat.schedule(session, session.heard + self._core.settings.limits.ping_interval)

    def connected(self, session: "Session") -> None:
        """Schedule the first PING soon after CONNECT, to measure the round trip."""
        if not self.rtt:
            self.rtt = time.monotonic() - self._greeted_at
        if self._sent == 0.0:
            spread = session.cid * GOLDEN % 1  # spreads any run of cids evenly
            first = min(FIRST_PING, self._core.settings.limits.ping_interval)
            due = self._core.loop.time() + first * (1 + spread * JITTER)
            self._heartbeat.schedule(session, due)

    def pinged(self, session: "Session") -> None:
        """Answer the first PING after CONNECT with INFO as well, if the client understands it."""
        if session.options.get("protocol") == 1 and not self._greeted:
            self._greeted = True
            self._core.plane.send_control(session.connection, session.info(greeting=True))

    def push_info(self, session: "Session") -> None:
        """Send INFO again, to a client that understands it."""
        if self._greeted and not session.connection.closed:
            self._core.plane.send_control(session.connection, session.info())

    def ponged(self) -> None:
        """Measure the round trip: the client answered a PING."""
        if self._out:
            self.rtt = time.monotonic() - self._sent
            self._out = 0

    def beat(self, session: "Session", now: float) -> float:
        """PING a silent client, close a stale one; return when to call again, 0 for never."""
        limits = self._core.settings.limits
        if session.connection.closed:
            return 0.0
        if self._sent and now - session.heard < limits.ping_interval:
            return session.heard + limits.ping_interval
        if session.held_by:
            self._out = 0  # its PONGs are not read meanwhile
        if self._out >= limits.ping_max:
            why = f"Stale Connection: {limits.ping_max} PINGs unanswered"
            session.expel(errors.StaleConnection, why)
            return 0.0
        self._out += 1
        self._sent = time.monotonic()
        self._core.plane.send_control(session.connection, b"PING\r\n")
        self._core.plane.release(None)
        return now + limits.ping_interval
