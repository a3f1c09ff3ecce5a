"""Tries what a start needs of the machine before the store is opened.

A certificate that cannot be read, or a port that another process has, does not go away by itself,
and a supervisor restarts the broker every second. Each opening of the store would cost an
epoch and a new window of 64 MiB.

Addresses for clients stay bound, and listen from then on: a client that comes back while the broker
starts waits for INFO, which is nothing that it notices. Those of monitoring and of members are let
go; if another process takes one before it is bound again, the start fails later.
"""

import os
import socket
from collections.abc import Iterable, Iterator, MutableMapping
from contextlib import suppress
from typing import Final, NamedTuple

from broker import addresses
from broker.addresses import (
    cannot_listen,
    hold,
    listen_at,
    open_listeners,
    open_sockets,
    take_held,
)
from broker.runtime.passed_sockets import COUNT, passed_sockets
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
    is_for_clients: bool = True  # of the protocols, not of monitoring or members


def listen_early(settings: Settings, inherited: Iterable[int]) -> None:
    """Let clients connect while the rest of the broker is loaded: they wait for INFO.

    `inherited` are sockets that listen already, perhaps at an address that is not wanted. An error
    is left for `rehearse`, which has a log to tell it. So is what systemd has passed.
    """
    hold(socket.socket(fileno=fd) for fd in inherited)
    if COUNT not in os.environ:
        with suppress(OSError):
            _hold_all(settings)


def rehearse(settings: Settings, environment: MutableMapping[str, str]) -> None:
    """Raise `OSError`, with what to change, if the broker surely cannot start.

    Otherwise clients can connect from now on. A member of a cluster lets them do so later: until it
    may serve, they should find another.
    """
    passed = passed_sockets(environment)
    hold(passed)
    places = [_place(one) for one in passed]
    if settings.tls.is_on:
        from broker.wires.tls_contexts import client_facing_context  # loads ssl

        client_facing_context(settings.tls)
    useless = _hold_all(settings)
    for place in places:
        if place in useless:
            raise OSError(
                f"systemd has passed a socket for {place}, where this broker does not listen for"
                f" clients; change ListenStream= in the .socket unit, or {CLIENT_FLAGS}"
            )


def _hold_all(settings: Settings) -> list[str]:
    """Bind all addresses, and hold those for clients. Return where sockets were held for nothing.

    Raises `OSError`, and holds none, if one of the addresses cannot be bound.
    """
    kept: list[socket.socket] = []
    try:
        for one in wanted_addresses(settings):
            try:
                kept += _bound(one)
            except OSError as error:
                flags, whom = one.flags, one.whom
                raise cannot_listen(one.host, one.port, error, flags, whom) from error
        if not settings.cluster.name:
            for bound in reversed(kept):  # the main one last
                listen_at(bound)
    except BaseException:
        for bound in kept:
            bound.close()
        raise
    finally:
        unwanted = take_held()
        useless = [_place(bound) for bound in unwanted]
        for bound in unwanted:
            bound.close()
    hold(kept)
    return useless


def _place(bound: socket.socket) -> str:
    return addresses.shown(*bound.getsockname()[:2])


def _bound(wanted: WantedAddress) -> list[socket.socket]:
    """Bind an address; return its sockets if clients will wait at them."""
    if wanted.is_for_clients and wanted.port > 0:
        return open_listeners(wanted.host, wanted.port)
    for bound in open_sockets(wanted.host, max(wanted.port, 0)):
        bound.close()
    return []


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
            yield WantedAddress(settings.http_host or host, port, flags, "monitoring", False)
    if cq.port:
        yield WantedAddress(cq.host or host, cq.port, CQUENCER_FLAGS, "cquencer's clients")
    if settings.cluster.name:
        cluster = settings.cluster
        yield WantedAddress(cluster.host or host, cluster.port, MEMBER_FLAGS, "members", False)
