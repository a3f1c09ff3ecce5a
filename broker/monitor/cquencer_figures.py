"""Figures of the cquencer port: its totals, and the connected clients."""

from dataclasses import dataclass
from itertools import islice
from typing import Any

from broker.monitor.observed import CallerView, Observed
from broker.monitor.query import Page

# (key, metric name without prefix, description)
GAUGES = (("connections", "port_connections", "Clients of cquencer's port connected now."),)
COUNTERS = (
    ("accepted", "port_connections_accepted", "Clients of cquencer's port that ever connected."),
    ("messages", "port_messages", "Messages from them."),
    ("bytes", "port_bytes", "Their payload bytes."),
    ("queries", "port_queries", "Times that they asked for the last number."),
    ("errors", "port_errors", "Times that they got an error instead of a number."),
)


@dataclass(frozen=True, slots=True)
class TakenCaller:
    """One connection, and its figures at that moment."""

    client: CallerView
    heard: int  # ns since 1970; 0: nothing received yet
    pending_bytes: int
    figures: tuple[int, int, int, int]  # messages, bytes, queries, errors


def take_port(server: Observed) -> dict[str, int]:
    """Take the totals, by the keys above; 0 if there is no such port."""
    cquencer = server.cquencer
    if cquencer is None:
        return dict.fromkeys((key for key, *_ in (*GAUGES, *COUNTERS)), 0)
    port = cquencer.port
    return {
        "connections": port.connections,
        "accepted": cquencer.accepted,
        "messages": port.messages,
        "bytes": port.bytes,
        "queries": port.queries,
        "errors": port.errors,
    }


def port_page(server: Observed, figures: dict[str, int]) -> dict[str, Any]:
    """The part of /varz about the port; empty if there is none."""
    cquencer, settings = server.cquencer, server.settings.sequencer
    if cquencer is None:
        return {}
    host, port = cquencer.addresses[0]
    where = {"host": host, "port": port, "framing": settings.framing, "subject": settings.subject}
    return where | figures


def take_callers(server: Observed, page: Page) -> tuple[int, list[TakenCaller]]:
    """Take one page of connections, oldest first, and how many there are in all."""
    clients = {} if server.cquencer is None else server.cquencer.clients
    chosen = islice(clients.values(), page.offset, page.offset + page.limit)
    return len(clients), [
        TakenCaller(
            client=client,
            heard=client.heard,
            pending_bytes=client.pending_bytes,
            figures=(client.messages, client.bytes, client.queries, client.errors),
        )
        for client in chosen
    ]
