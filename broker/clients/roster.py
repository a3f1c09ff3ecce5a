"""All clients of the broker: who they are, the room for them, and what their sessions share.

    a connection is accepted -> Session -> admit: a cid, an origin, a place; or it is turned away
    it ends                             -> session_ended: the place is free, its counts stay

NATS clients and those of the cquencer port take the same places, and share cids and origins.
"""

import logging
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from broker.clients.acceptor import Acceptor
from broker.clients.closed_connections import ClosedConnections
from broker.clients.gatherer import Gatherer
from broker.clients.heartbeat import Heartbeat
from broker.clients.inbox import RECEIVE_BYTES, Inbox
from broker.clients.message_counts import Traffic
from broker.clients.metering import Metering
from broker.core import Core
from broker.limits.connection_slots import ConnectionSlots
from broker.settings.limits_settings import CONTROL_LINE_MAX, Limits
from broker.settings.settings import Settings
from broker.wires.disconnect_log import DisconnectLog
from parser import errors

if TYPE_CHECKING:
    from broker.clients.admission import Admission
    from broker.clients.session import Session
    from broker.wires.trusted_proxies import TrustedProxies

log = logging.getLogger("seriatim")


class Labelled(Protocol):
    """A client that the log can name."""

    @property
    def label(self) -> str: ...


class Roster:
    """The clients of one broker, for its one thread."""

    def __init__(
        self,
        core: Core,
        admission: "Admission",
        run: int,
        sessions: "dict[int, Session]",
        info: "Callable[[Session, bool], bytes]",
        closed_kept: int,
    ) -> None:
        """`run` tells this broker's publishers from those of earlier processes.

        `info` returns the INFO line for a client; `True`: it answers the client's first PING.
        """
        self._core = core
        self._run = run
        self._cids = 0  # cids given so far, to clients of every kind
        self.admission = admission
        self.info = info
        self.sessions = sessions  # by cid
        self.closed = ClosedConnections(closed_kept)
        self.total_connections = 0
        self.slow_consumers = self.stale_connections = 0
        self._closed_traffic = Traffic(0, 0, 0, 0)
        self.proxies = proxies_of(core.settings)
        self.places = ConnectionSlots(self._is_proxy)
        self.metering = Metering(core)
        self.inbox = Inbox(RECEIVE_BYTES, CONTROL_LINE_MAX, core.plane.gate.spare)
        self.gatherer = Gatherer(core, self.inbox)
        self.acceptor = Acceptor(core.loop, self.gatherer)
        self.heartbeat = Heartbeat(core.loop)
        self.closings = DisconnectLog(core.loop, lambda: core.settings.limits.closings_logged)

    @property
    def _limits(self) -> Limits:
        return self._core.settings.limits

    def trust(self, settings: Settings) -> None:
        """Trust the proxies of these settings from now on."""
        self.proxies = proxies_of(settings)

    def _is_proxy(self, ip: str) -> bool:
        return self.proxies is not None and self.proxies.trusts(ip)

    def stop(self) -> None:
        """Stop the timers."""
        self.acceptor.close()
        self.heartbeat.stop()
        self.closings.stop()

    def admit(self, session: "Session") -> bool:
        """Count a new session, and admit it if there is room."""
        self.total_connections += 1
        if not self.reserve_slot(session.ip, session):
            return False
        self.sessions[session.cid] = session
        return True

    def client_of(self, peer: str, forwarded: Sequence[str]) -> str:
        """Return the address of a client, for a peer that has sent these values of the header."""
        return peer if self.proxies is None else self.proxies.client(peer, forwarded)

    def new_client(self) -> tuple[int, int]:
        """Return a new client's cid, and its origin in the journal's records."""
        self._cids += 1
        return self._cids, self._run << 32 | (self._cids & 0xFFFFFFFF)

    def reserve_slot(self, ip: str, client: Labelled) -> bool:
        """Count a client, until `release_slot`; log it and return False if there is no room."""
        limits = self._limits
        why = self.places.enter(ip, limits.max_connections, limits.max_connections_per_address)
        if why:
            self.closings.tell(logging.WARNING, ip, "%s - %s", client.label, why)
        return not why

    def release_slot(self, ip: str) -> None:
        """Stop counting a client that has gone."""
        self.places.release(ip)
        self.acceptor.freed()

    def session_ended(self, session: "Session") -> None:
        """Forget a session that has ended; its counts stay."""
        self.heartbeat.remove(session)
        self.closed.add(session, time.time())
        self.stale_connections += session.closed_for == errors.StaleConnection.reason
        if self.sessions.pop(session.cid, None) is None:
            self.acceptor.freed()  # it was refused
        else:
            self.release_slot(session.ip)
            self._closed_traffic = self._closed_traffic.plus(session.connection)

    def cut_off(self, session: "Session", why: str) -> None:
        """Count and log a client that is disconnected as too slow."""
        self.slow_consumers += 1
        self.closings.tell(logging.INFO, session.ip, "%s - %s", session.label, why)

    def traffic(self) -> Traffic:
        """Return what was received and sent so far, with closed connections."""
        total = self._closed_traffic
        for session in self.sessions.values():
            total = total.plus(session.connection)
        return total


def proxies_of(settings: Settings) -> "TrustedProxies | None":
    """Return the proxies that may name their clients; None: there are none."""
    if not settings.proxy_header:
        return None
    from broker.wires.trusted_proxies import TrustedProxies  # only if needed

    return TrustedProxies(settings.proxy_header, settings.trusted_proxies)
