"""Tries what a start needs of the machine before the store is opened.

A certificate that cannot be read, or a port that another process has, does not go away by itself,
and a supervisor restarts the broker every second. Each opening of the store would cost an
epoch and a new window of 64 MiB.

Addresses are bound and let go. Between that and the listening another process may take one; then
the start fails later, as it always could.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from broker.addresses import cannot_listen, open_sockets
from broker.settings.settings import Settings

CLIENT_FLAGS: Final = "--port and --addr"
WEBSOCKET_FLAGS: Final = "--websocket_port and --websocket_host"
CQUENCER_FLAGS: Final = (
    "--sequencer_port and --sequencer_host (of seriatim cq: TCP_PORT and --host)"
)
MEMBER_FLAGS: Final = "--cluster_port and --cluster_host"


class WantedAddress(NamedTuple):
    """An address to listen on, and how a user chooses another."""

    host: str
    port: int
    flags: str
    whom: str = ""


def rehearse(settings: Settings) -> None:
    """Raise `OSError`, with what to change, if the broker surely cannot start."""
    if settings.tls.is_on:
        from broker.wires.tls_contexts import client_facing_context  # loads ssl

        client_facing_context(settings.tls)
    for one in wanted_addresses(settings):
        try:
            sockets = open_sockets(one.host, max(one.port, 0))
        except OSError as error:
            raise cannot_listen(one.host, one.port, error, one.flags, one.whom) from error
        for bound in sockets:
            bound.close()


def wanted_addresses(settings: Settings) -> Iterator[WantedAddress]:
    """Yield all addresses that a broker with these settings listens on for connections."""
    host, web, cq = settings.host, settings.websocket, settings.sequencer
    if settings.port:
        yield WantedAddress(host, settings.port, CLIENT_FLAGS)
    for one in settings.listeners:
        yield WantedAddress(one.host, one.port, CLIENT_FLAGS)
    if web.port:
        yield WantedAddress(web.host or host, web.port, WEBSOCKET_FLAGS)
    for scheme, port in (("http", settings.http_port), ("https", settings.https_port)):
        if port:
            flags = f"--{scheme}_port and --http_host"
            yield WantedAddress(settings.http_host or host, port, flags, "monitoring")
    if cq.port:
        yield WantedAddress(cq.host or host, cq.port, CQUENCER_FLAGS, "cquencer's clients")
    if settings.cluster.name:
        cluster = settings.cluster
        yield WantedAddress(cluster.host or host, cluster.port, MEMBER_FLAGS, "members")
