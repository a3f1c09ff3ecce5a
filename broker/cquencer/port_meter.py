"""Limits how fast clients of cquencer's port publish: `limits.publish_rate`, `publish_bytes`.

The port asks before each read, and messages published since the last one are counted then. A client
that must wait is not read: `proceed` lets the port watch it again.
"""

import select

from broker.cquencer.cquencer_client import CquencerClient
from broker.cquencer.cquencer_port import CquencerPort
from broker.limits.meter import SHORTEST, Meter

SHORTEST_NETSTRING = 4  # `1:x,`


class PortPublisher:
    """A client of the port as a publisher."""

    def __init__(self, port: CquencerPort, client: CquencerClient) -> None:
        self._port = port
        self._client = client

    def published(self) -> tuple[int, int]:
        return self._client.messages, self._client.bytes

    def need(self) -> int:
        return 0

    def hold_back(self) -> None:
        """Do nothing: the port holds back itself, when `readable` returns 0."""

    def proceed(self) -> None:
        client = self._client
        if client.fd >= 0 and client.pending_bytes == 0:
            self._port.watch(client, select.EPOLLIN)


class PortMeter:
    """The meter of one client. It charges before each read: the port does not report."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter

    def readable(self) -> int:
        """Return how many bytes may be read now; 0: none yet."""
        self._meter.charge()
        room = self._meter.readable(self._meter.allowance.loop.time())
        return room * SHORTEST_NETSTRING // SHORTEST

    def leave(self) -> None:
        """Charge the rest of a client that has gone, and stop metering."""
        self._meter.charge()
        self._meter.leave()
