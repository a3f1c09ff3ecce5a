"""Figures of the streams: /jsz, the part of /varz about them, and their metrics.

    take_streams   what all of them are together: for every page, and for /metrics
    take_series    streams and consumers that have metrics of their own: `SERIES_MAX` of each
    take_details   streams and consumers for /jsz: a page of them, some in each turn of the loop

All three run in the broker's loop. Where there are no streams, the room is not even loaded.
"""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Final

from prometheus_client.core import Metric

from broker.monitor.figures import (
    CONSUMER,
    PREFIX,
    SECOND_NS,
    STREAM,
    STREAMS,
    Figures,
    StreamAt,
    Table,
    metrics_of,
    take,
)
from broker.monitor.query import ACCOUNT, HealthQuery, JetStreamQuery
from broker.runtime.loop_latency import LOOP_LATENCY
from broker.server import Server

if TYPE_CHECKING:
    from broker.streams.stream_service import StreamService

# Streams, and durable consumers, that have metrics of their own: each is ten time series, and a
# thousand of them are more than a broker has otherwise. Ephemeral consumers have none: their names
# are new each time, and Prometheus would keep all of them.
SERIES_MAX: Final = 200
LOOKED_AT_MAX: Final = 10_000  # consumers that are looked at for that: some milliseconds
TURN: Final = 64  # consumers that are described in one turn: about a millisecond
DELETED_SHIFT: Final = 6  # so many deleted messages of a stream, as a power of 2, take as long
UNLIMITED: Final = -1


@dataclass(frozen=True, slots=True)
class StreamsState:
    """All streams together, at one moment; `facts` is empty where there are none."""

    facts: dict[str, Any]
    limits: dict[str, int]
    figures: Figures


@dataclass(frozen=True, slots=True)
class Series:
    """The streams and consumers that have metrics of their own, by their labels."""

    streams: dict[tuple[str, ...], Figures] = field(default_factory=dict)
    consumers: dict[tuple[str, ...], Figures] = field(default_factory=dict)


def take_streams(server: Server) -> StreamsState:
    """Take the totals."""
    service, settings = server.streams, server.settings
    figures = take(service, STREAMS)
    if service is None:
        return StreamsState({}, {}, figures)
    journal = settings.journal
    facts: dict[str, Any] = {
        "max_memory": 0,
        "max_storage": journal.retain_bytes or UNLIMITED,
        "store_dir": service.streams.journal.path,
        "sync_interval": round(journal.sync_interval * SECOND_NS),
    }
    if journal.sync == "always":
        facts["sync_always"] = True
    facts["strict"] = True
    return StreamsState(facts, {"max_consumers": settings.streams.max_consumers}, figures)


def take_series(server: Server) -> Series:
    """Take the figures of single streams and consumers, the oldest ones."""
    service, series = server.streams, Series()
    if service is None:
        return series
    streams = service.streams
    for stream in islice(streams.shown(), SERIES_MAX):
        series.streams[stream.name,] = take(StreamAt(streams, stream), STREAM)
    consumers = chain.from_iterable(one.consumers.values() for one in streams.shown())
    looked_at = islice(consumers, LOOKED_AT_MAX)
    durable = (one for one in looked_at if one.machine.config.is_durable)
    for consumer in islice(durable, SERIES_MAX):
        series.consumers[consumer.stream.name, consumer.name] = take(consumer, CONSUMER)
    return series


def stream_metrics(state: StreamsState, series: Series) -> Iterator[Metric]:
    """Yield the metrics of all streams, and of single ones."""
    yield from metrics_of(STREAMS, state.figures)
    yield from _labelled(STREAM, ["stream"], series.streams)
    yield from _labelled(CONSUMER, ["stream", "consumer"], series.consumers)


def _labelled(
    table: Table[Any], labels: list[str], series: dict[tuple[str, ...], Figures]
) -> Iterator[Metric]:
    for one in table:
        family = one.family(PREFIX + one.metric, one.about, labels=labels)
        for values, figures in series.items():
            family.add_metric(values, figures[one.key])
        yield family


async def take_details(service: "StreamService", query: JetStreamQuery) -> Iterator[dict[str, Any]]:
    """Take a page of streams, and of the consumers of each, some in each turn."""
    details, left = [], query.consumers_limit if query.consumers else 0
    named = sorted(service.streams.shown(), key=lambda stream: stream.name)
    if query.stream:
        named = [one for one in named if one.name == query.stream]
    first, with_config, work = query.streams_offset, query.config, 0
    for stream in named[first : first + query.streams_limit]:
        detail = await service.stream_detail(stream, with_config)
        details.append(detail)
        work += 1 + (len(stream.ledger.deleted) >> DELETED_SHIFT)
        if query.consumers and stream.consumers:
            offset = query.consumers_offset
            consumers = list(islice(stream.consumers.values(), offset, offset + left + 1))
            if len(consumers) > left:
                detail["consumers_cut"] = True
            taken: list[dict[str, Any]] = []
            for some in range(0, min(len(consumers), left), TURN):
                begun = LOOP_LATENCY.start_timing()
                chosen = consumers[some : min(some + TURN, left)]
                taken += (service.consumer_detail(one, with_config) for one in chosen)
                LOOP_LATENCY.end(begun)
                work = 0
                await asyncio.sleep(0)
            left -= len(taken)
            detail["consumer_detail"] = iter(taken)
        if work >= TURN:
            work = 0
            await asyncio.sleep(0)
    return iter(details)


def missing_in_streams(service: "StreamService", query: HealthQuery) -> str:
    """Say what /healthz is asked about and is not there, in nats-server's words."""
    if query.account not in ("", ACCOUNT):
        return f'JetStream account "{query.account}" not found'
    if not query.stream:
        return ""
    stream = service.streams.look_up(query.stream)
    if stream is None:
        return f'JetStream stream "{query.stream}" not found on account "{ACCOUNT}"'
    if query.consumer and query.consumer not in stream.consumers:
        return (
            f'JetStream consumer "{query.consumer}" not found for stream "{query.stream}"'
            f' on account "{ACCOUNT}"'
        )
    return ""


def jetstream_page(
    heading: dict[str, Any],
    state: StreamsState,
    query: JetStreamQuery,
    details: Iterator[dict[str, Any]] | None,
) -> dict[str, Any]:
    """/jsz: all streams together, and the only account in detail if it is asked for."""
    if not state.facts:
        return _nothing(heading)
    figures, limits = state.figures, query.page
    page: dict[str, Any] = {
        **_statistics(state),
        **heading,
        "config": state.facts,
        "limits": state.limits,
        "streams": figures["streams"],
        **({"streams_leader": figures["streams"]} if query.raft else {}),
        "consumers": figures["consumers"],
        **({"consumers_leader": figures["consumers"]} if query.raft else {}),
        "messages": figures["messages"],
        "bytes": figures["bytes"],
        "ready": not figures["loading"],
        "lost": figures["lost"],
        "total": 1,
    }
    if query.accounts and limits.offset == 0 and query.account in ("", ACCOUNT):
        account = {"name": ACCOUNT, "id": ACCOUNT, **_statistics(state), "accounts": 0}
        if details is not None:
            account |= {"streams_offset": query.streams_offset}
            account |= {"streams_limit": query.streams_limit, "stream_detail": details}
        page["account_details"] = iter((account,))
    return page


def jetstream_part(state: StreamsState) -> dict[str, Any]:
    """The part of /varz about streams; empty where there are none, as in nats-server."""
    if not state.facts:
        return {}
    return {"config": state.facts, "stats": _statistics(state), "limits": state.limits}


def _statistics(state: StreamsState) -> dict[str, Any]:
    figures = state.figures
    return {
        "memory": 0,
        "storage": figures["bytes"],
        "reserved_memory": 0,
        "reserved_storage": 0,
        "accounts": 1,
        "ha_assets": 0,
        "api": {
            "level": figures["level"],
            "total": figures["api_requests"],
            "errors": figures["api_errors"],
        },
    }


def _nothing(heading: dict[str, Any]) -> dict[str, Any]:
    """/jsz, as nats-server answers without JetStream."""
    nothing = ("memory", "storage", "reserved_memory", "reserved_storage", "accounts", "ha_assets")
    counts = ("streams", "consumers", "messages", "bytes", "total")
    return {
        **dict.fromkeys(nothing, 0),
        "api": {"level": 0, "total": 0, "errors": 0},
        **heading,
        "disabled": True,
        "config": {"max_memory": 0, "max_storage": 0},
        **dict.fromkeys(counts, 0),
    }
