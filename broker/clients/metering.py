"""Gives each connection its meter: the limit of how fast it may publish.

    a client with a user           its user's: all connections of a user share an allowance
    without authentication         its own, with the limits of the settings
    before authentication          none; but at most `CONNECT_READ` bytes are read at a time
    no limit anywhere              no meter: it costs nothing

A user's debt stays when its connections end, so reconnecting gains nothing.
"""

from typing import Final

from broker.clients.gatherer import ClientInput
from broker.core import Core
from broker.dataplane.user import User
from broker.limits.meter import Allowance, Meter, MeteredPublisher, Pauses, StrangerMeter

CONNECT_READ: Final = 1 << 13  # bytes per read before authentication; most CONNECTs are shorter
EVERYTHING: Final = 1 << 20  # more work than one turn may cause: the rest must wait


class MeteredClient:
    """A NATS client as a publisher."""

    def __init__(self, reader: ClientInput) -> None:
        self._connection = reader.connection
        self.hold_back = reader.session.hold_back
        self.proceed = reader.session.proceed

    def published(self) -> tuple[int, int]:
        return self._connection.in_msgs, self._connection.in_bytes

    def need(self) -> int:
        return self._connection.parser.need


class Metering:
    """The allowances of all users and clients. One per broker, for its one thread."""

    def __init__(self, core: Core) -> None:
        self.pauses = Pauses()
        self._core = core
        self._users: dict[str, Allowance] = {}  # as many as the settings have users
        self._strangers = Allowance(core.loop, CONNECT_READ)

    def measure(self, reader: ClientInput) -> None:
        """Start metering a client. Call it again when its user or a limit has changed."""
        if reader.connection.stranger:
            connection = reader.connection
            reader.meter = StrangerMeter(self._strangers, lambda: connection.parser.need)
            return
        user, before = reader.session.user, reader.meter
        if before is None or isinstance(before, StrangerMeter):
            reader.meter = before = None
            if not self._is_limited(user):
                return
        meter = self.meter(MeteredClient(reader), user, before)
        if meter is before:
            return
        if before is not None:
            before.detach()
        reader.meter = meter
        if meter is not None and not meter.allowance.is_free():
            meter.pause()
            self._core.plane.charge_work(EVERYTHING)  # so that the rest of the input waits, too

    def _is_limited(self, user: User | None) -> bool:
        """True if a client of this user may have a limit, or the user had one."""
        limits = self._core.settings.limits
        if limits.publish_rate or limits.publish_bytes:
            return True
        return user is not None and bool(
            user.publish_rate or user.publish_bytes or user.name in self._users
        )

    def meter(
        self, publisher: MeteredPublisher, user: User | None, before: Meter | None
    ) -> Meter | None:
        """Return a publisher's meter: `before` if that still fits; None if it has no limits."""
        limits, name = self._core.settings.limits, None if user is None else user.name
        rate = (0 if user is None else user.publish_rate) or limits.publish_rate
        size = (0 if user is None else user.publish_bytes) or limits.publish_bytes
        if before is not None and before.user != name:
            before = None
        allowance = before.allowance if before is not None else None
        if allowance is None and name is not None:
            allowance = self._users.get(name)
        if not (rate or size):
            if allowance is not None:
                allowance.limit(0, 0, limits.publish_burst)
            return None
        if allowance is None:
            allowance = Allowance(self._core.loop)
        if name is not None:
            self._users[name] = allowance
        allowance.limit(rate, size, limits.publish_burst)
        return before or Meter(allowance, publisher, self.pauses, name)

    def end(self, reader: ClientInput) -> None:
        """Stop metering a client that has gone."""
        if reader.meter is not None:
            reader.meter.detach()
            reader.meter = None
