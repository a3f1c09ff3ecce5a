"""Prometheus metrics, collected on request: they cost nothing per message."""

from collections.abc import Callable, Iterator
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector, CollectorRegistry

from broker.monitor.cluster_figures import cluster_metrics
from broker.monitor.figures import (
    BROKER,
    FEED,
    JOURNAL,
    LIMITS,
    PORT,
    PREFIX,
    REFUSED,
    REREQUESTS,
    ROUTES,
    STAGING,
    Figures,
    Table,
    gauges_first,
    metrics_of,
    take,
)
from broker.monitor.histograms import histogram_metrics
from broker.monitor.process_figures import PYTHON, build, loop_name
from broker.monitor.slow_clients import SlowNames
from broker.monitor.stream_figures import Series, stream_metrics
from broker.monitor.views import BrokerState, FeedState
from broker.server import Server
from broker.version import VERSION


class BrokerCollector(Collector):
    """All metrics of one broker, at one moment."""

    def __init__(self, server: Server, take: Callable[[], tuple[BrokerState, Series]]) -> None:
        self._server = server
        self._take = take
        self._names = SlowNames()

    def describe(self) -> Iterator[Metric]:
        """Return nothing; otherwise the registry would collect once at the start, for the names."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        """Take the broker's state once, and yield its metrics."""
        state, series = self._take()
        traffic, journal = state.traffic, state.journal
        about = "Messages from and to clients."
        yield _by_direction("messages", about, traffic.in_msgs, traffic.out_msgs)
        about = "Payload bytes, headers included, from and to clients."
        yield _by_direction("bytes", about, traffic.in_bytes, traffic.out_bytes)
        yield from metrics_of(BROKER, state.figures)
        yield from metrics_of(ROUTES, take(state.sublist, ROUTES))
        about = "Messages whose route was looked up."
        yield CounterMetricFamily(f"{PREFIX}route_lookups", about, value=traffic.in_msgs)
        yield from metrics_of(JOURNAL, journal.figures)
        yield _labelled_one(
            "journal_info",
            "1, with what the journal is as labels.",
            journal=journal.journal,
            store=journal.store,
            sync=journal.sync,
        )
        yield from _feeds(state.feeds)
        yield from metrics_of(PORT, state.port)
        yield from metrics_of(STAGING, state.staging)
        yield from metrics_of(gauges_first(LIMITS), state.limits)
        yield from histogram_metrics(state.durations)
        yield from self._names.metrics(state.slowest)
        yield from stream_metrics(state.streams, series)
        if state.cluster is not None:
            yield from cluster_metrics(state.cluster)
        yield _labelled_one(
            "build_info",
            "1, with what is running as labels.",
            version=VERSION,
            build=build(),
            python=PYTHON,
            loop=loop_name(),
            frame=self._server.settings.frame,
        )


def _feeds(feeds: list[FeedState]) -> Iterator[Metric]:
    yield from _by_feed(FEED, {feed.name: feed.figures for feed in feeds})
    asked = {feed.name: feed.rerequests for feed in feeds if feed.rerequests}
    yield from _by_feed(REREQUESTS, asked)
    refused = CounterMetricFamily(
        f"{PREFIX}feed_rerequests_refused",
        "Requests that got no answer, by reason.",
        labels=["feed", "reason"],
    )
    for feed, figures in asked.items():
        for reason in REFUSED:
            refused.add_metric([feed, reason.key], figures[reason.key])
    yield refused


def _by_feed(table: Table[Any], feeds: dict[str, Figures]) -> Iterator[Metric]:
    for one in table:
        family = one.family(PREFIX + one.metric, one.about, labels=["feed"])
        for feed, figures in feeds.items():
            family.add_metric([feed], figures[one.key])
        yield family


def registry(server: Server, take: Callable[[], tuple[BrokerState, Series]]) -> CollectorRegistry:
    """Make a registry for the metrics of the broker and of its process."""
    made = CollectorRegistry(auto_describe=False)
    made.register(BrokerCollector(server, take))
    ProcessCollector(registry=made)
    return made


def _by_direction(name: str, about: str, into: int, out: int) -> Metric:
    family = CounterMetricFamily(PREFIX + name, about, labels=["direction"])
    family.add_metric(["in"], into)
    family.add_metric(["out"], out)
    return family


def _labelled_one(name: str, about: str, **labels: str) -> Metric:
    family = GaugeMetricFamily(PREFIX + name, about, labels=list(labels))
    family.add_metric(list(labels.values()), 1)
    return family
