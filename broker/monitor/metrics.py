"""Prometheus metrics, collected on request: they cost nothing per message."""

from collections.abc import Callable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector, CollectorRegistry

from broker.monitor.cluster_figures import cluster_metrics
from broker.monitor.cquencer_figures import COUNTERS as PORT_COUNTERS
from broker.monitor.cquencer_figures import GAUGES as PORT_GAUGES
from broker.monitor.feed_figures import COUNTERS as FEED_COUNTERS
from broker.monitor.feed_figures import REFUSED, REREQUEST_COUNTERS
from broker.monitor.journal_figures import COUNTERS as JOURNAL_COUNTERS
from broker.monitor.journal_figures import GAUGES as JOURNAL_GAUGES
from broker.monitor.limit_figures import COUNTERS as LIMIT_COUNTERS
from broker.monitor.limit_figures import GAUGES as LIMIT_GAUGES
from broker.monitor.observed import Observed
from broker.monitor.process_figures import PYTHON, build, loop_name
from broker.monitor.staging_figures import COUNTERS as STAGING_COUNTERS
from broker.monitor.staging_figures import GAUGES as STAGING_GAUGES
from broker.monitor.views import BrokerState
from broker.version import VERSION

# (metric name without prefix, key of `sublist_statistics`, description)
ROUTE_GAUGES = (
    ("subscriptions", "subscriptions", "Subscriptions of all connections."),
    ("subscription_patterns", "patterns", "Different subjects among the subscriptions."),
    ("match_nodes", "match_nodes", "Nodes that the worst subject visits among the patterns."),
    ("routes", "routes", "Subjects whose subscribers are remembered."),
    ("routes_limit", "max_routes", "Subjects whose subscribers may be remembered."),
)
ROUTE_COUNTERS = (
    ("subscription_inserts", "inserts", "Subscriptions that were made."),
    ("subscription_removes", "removes", "Subscriptions that ended."),
    ("route_misses", "misses", "Messages whose subject was not in the route table."),
    ("route_rechecks", "rechecks", "Routes compared with newer wildcard subscriptions."),
    ("route_resolves", "resolves", "Times the subscribers of a subject were searched for."),
    ("route_evictions", "evictions", "Routes forgotten to make room."),
)


class BrokerCollector(Collector):
    """All metrics of one broker, at one moment."""

    def __init__(self, server: Observed, take: Callable[[], BrokerState]) -> None:
        self._server = server
        self._take = take

    def describe(self) -> Iterator[Metric]:
        """Return nothing; otherwise the registry would collect once at the start, for the names."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        """Take the broker's state once, and yield its metrics."""
        state = self._take()
        yield from self._broker(state)
        yield from self._routes(state)
        yield from self._journal(state)
        yield from self._feeds(state)
        yield from self._port(state)
        yield from self._staging(state)
        yield from self._limits(state)
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

    def _broker(self, state: BrokerState) -> Iterator[Metric]:
        traffic = state.traffic
        yield _by_direction(
            "messages", "Messages from and to clients.", traffic.in_msgs, traffic.out_msgs
        )
        yield _by_direction(
            "bytes",
            "Payload bytes, headers included, from and to clients.",
            traffic.in_bytes,
            traffic.out_bytes,
        )
        yield _gauge("connections", "Clients connected now.", state.connections)
        yield _gauge(
            "connections_limit",
            "Clients that may be connected at once.",
            self._server.settings.limits.max_connections,
        )
        yield _counter(
            "connections_accepted", "Clients that ever connected.", state.total_connections
        )
        yield _counter(
            "slow_consumers", "Clients closed for not reading fast enough.", state.slow_consumers
        )
        yield _counter(
            "auth_failures", "Attempts to authenticate that failed.", state.auth_failures
        )
        yield _gauge("sequence", "The number of the last message.", state.last_number)
        yield _gauge("pending_bytes", "Bytes not yet sent, of all clients.", state.pending_bytes)
        yield _gauge(
            "pending_bytes_max",
            "Bytes not yet sent, of the client with the most.",
            state.pending_bytes_max,
        )
        yield _gauge(
            "loop_turn_seconds_max",
            "The longest that the broker's thread was busy at a stretch, lately.",
            state.turn_seconds_max,
        )
        yield _gauge("start_time_seconds", "When the broker started.", self._server.started_at)

    def _routes(self, state: BrokerState) -> Iterator[Metric]:
        for name, key, about in ROUTE_GAUGES:
            if key in state.sublist:
                yield _gauge(name, about, state.sublist[key])
        for name, key, about in ROUTE_COUNTERS:
            if key in state.sublist:
                yield _counter(name, about, state.sublist[key])
        yield _counter("route_lookups", "Messages whose route was looked up.", state.lookups())

    def _journal(self, state: BrokerState) -> Iterator[Metric]:
        journal = state.journal
        for key, name, about in JOURNAL_GAUGES:
            yield _gauge(name, about, journal.figures[key])
        for key, name, about in JOURNAL_COUNTERS:
            yield _counter(name, about, journal.figures[key])
        yield _labelled_one(
            "journal_info",
            "1, with what the journal is as labels.",
            journal=journal.journal,
            store=journal.store,
            sync=journal.sync,
        )

    def _port(self, state: BrokerState) -> Iterator[Metric]:
        for key, name, about in PORT_GAUGES:
            yield _gauge(name, about, state.port[key])
        for key, name, about in PORT_COUNTERS:
            yield _counter(name, about, state.port[key])

    def _staging(self, state: BrokerState) -> Iterator[Metric]:
        for key, name, about in STAGING_GAUGES:
            yield _gauge(name, about, state.staging[key])
        for key, name, about in STAGING_COUNTERS:
            yield _counter(name, about, state.staging[key])

    def _limits(self, state: BrokerState) -> Iterator[Metric]:
        for key, name, about in LIMIT_GAUGES:
            yield _gauge(name, about, state.limits[key])
        for key, name, about in LIMIT_COUNTERS:
            yield _counter(name, about, state.limits[key])

    def _feeds(self, state: BrokerState) -> Iterator[Metric]:
        feeds, asked = state.feeds, [feed for feed in state.feeds if feed.rerequests]
        last = {feed.name: feed.last for feed in feeds}
        yield _by_feed(GaugeMetricFamily, "feed_last_number", "The last number dealt with.", last)
        for key, name, about in FEED_COUNTERS:
            values = {feed.name: feed.figures[key] for feed in feeds}
            yield _by_feed(CounterMetricFamily, name, about, values)
        for key, name, about in REREQUEST_COUNTERS:
            values = {feed.name: feed.rerequests[key] for feed in asked}
            yield _by_feed(CounterMetricFamily, name, about, values)
        refused = CounterMetricFamily(
            "seriatim_feed_rerequests_refused",
            "Requests that got no answer, by reason.",
            labels=["feed", "reason"],
        )
        for feed in asked:
            for reason in REFUSED:
                refused.add_metric([feed.name, reason], feed.rerequests[reason])
        yield refused


def registry(server: Observed, take: Callable[[], BrokerState]) -> CollectorRegistry:
    """Make a registry for the metrics of the broker and of its process."""
    made = CollectorRegistry(auto_describe=False)
    made.register(BrokerCollector(server, take))
    ProcessCollector(registry=made)
    return made


def _gauge(name: str, about: str, value: float) -> Metric:
    return GaugeMetricFamily(f"seriatim_{name}", about, value=value)


def _counter(name: str, about: str, value: float) -> Metric:
    return CounterMetricFamily(f"seriatim_{name}", about, value=value)


def _by_direction(name: str, about: str, into: int, out: int) -> Metric:
    family = CounterMetricFamily(f"seriatim_{name}", about, labels=["direction"])
    family.add_metric(["in"], into)
    family.add_metric(["out"], out)
    return family


def _by_feed(
    kind: type[CounterMetricFamily] | type[GaugeMetricFamily],
    name: str,
    about: str,
    values: dict[str, int],
) -> Metric:
    family = kind(f"seriatim_{name}", about, labels=["feed"])
    for feed, value in values.items():
        family.add_metric([feed], value)
    return family


def _labelled_one(name: str, about: str, **labels: str) -> Metric:
    family = GaugeMetricFamily(f"seriatim_{name}", about, labels=list(labels))
    family.add_metric(list(labels.values()), 1)
    return family
