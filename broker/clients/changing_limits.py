"""Copies the limits that can change at run time to the parts that use them: at start and reload.

A lowered limit ends nothing that exists already; it refuses additions. The other limits are read
once, when a connection begins or the broker starts.
"""

from collections.abc import Mapping
from typing import Protocol

from broker.clients.control import Control
from broker.clients.metering import Metering
from broker.clients.session import Session
from broker.dataplane.plane import Plane
from broker.limits.connection_slots import ConnectionSlots
from broker.replay.replays import Replays
from broker.settings.limits_settings import Limits


class LimitedParts(Protocol):
    """The parts of a broker that have limits: broker/server.py."""

    @property
    def plane(self) -> Plane: ...
    @property
    def control(self) -> Control: ...
    @property
    def places(self) -> ConnectionSlots: ...
    @property
    def metering(self) -> Metering: ...
    @property
    def sessions(self) -> Mapping[int, Session]: ...
    @property
    def replays(self) -> Replays | None: ...


def set_limits(parts: LimitedParts, limits: Limits) -> None:
    """Apply these limits from now on."""
    control, plane = parts.control, parts.plane
    parts.places.most = limits.max_connections
    parts.places.most_per_address = limits.max_connections_per_address
    control.max_subscriptions = limits.max_subscriptions
    control.total.most = limits.max_subscriptions_total
    control.user_matches.limit(limits.max_matches_per_user)
    plane.gate.budget.limit = limits.max_pending_total
    if control.classifier.max_tokens != limits.max_subject_tokens:
        control.classifier.max_tokens = limits.max_subject_tokens
        plane.sublist.forget_routes()
    if parts.replays is not None:
        opened = parts.replays.opened
        opened.most = limits.max_replays
        opened.most_total = limits.max_replays_total
    metering = parts.metering
    if metering.set_limits(limits.publish_rate, limits.publish_bytes, limits.publish_burst):
        for session in parts.sessions.values():
            session.measure()
