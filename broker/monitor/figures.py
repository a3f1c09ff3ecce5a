"""Each figure of a broker, named once: its key on a page, its metric, and where it is read.

`take` reads a table of them in the broker's loop; pages and metrics are made of what it returns. A
figure without a metric is on a page only.
"""

import time
from collections.abc import Callable, Iterator
from operator import itemgetter
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, NamedTuple, TypeVar

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from broker.runtime.loop_latency import LOOP_LATENCY
from broker.server import Server

if TYPE_CHECKING:
    from broker.cquencer.cquencer_service import Cquencer
    from broker.feeds.outlet import Outlet
    from broker.staging.staging_service import StagingService
    from broker.streams.consumers import RunningConsumer
    from broker.streams.stream_service import StreamService
    from broker.streams.stream_view import Stream
    from broker.streams.streams import Streams
    from sequencer.feed.rerequest import Rerequests

SECOND_NS: Final = 1_000_000_000
PREFIX: Final = "seriatim_"  # of every metric
Part = TypeVar("Part")
Figures = dict[str, float]  # by their keys
Family = type[CounterMetricFamily] | type[GaugeMetricFamily]


class Figure(NamedTuple, Generic[Part]):
    """One figure of a part of the broker."""

    key: str
    metric: str  # without the prefix
    about: str
    read: Callable[[Part], float]


class Gauge(Figure[Part]):
    """A figure that can fall."""

    family: ClassVar[Family] = GaugeMetricFamily


class Counter(Figure[Part]):
    """A figure that only rises."""

    family: ClassVar[Family] = CounterMetricFamily


Table = tuple[Gauge[Part] | Counter[Part], ...]


def take(part: Part | None, table: Table[Part]) -> Figures:
    """Read the figures of a part; all are 0 if there is no such part."""
    return {one.key: 0 if part is None else one.read(part) for one in table}


def metrics_of(table: Table[Any], figures: Figures) -> Iterator[Metric]:
    """Yield the metrics of a table."""
    for one in table:
        if one.metric:
            yield one.family(PREFIX + one.metric, one.about, value=figures[one.key])


def gauges_first(table: Table[Part]) -> Table[Part]:
    """Return the table in the order of /metrics, where that differs from the page's."""
    return tuple(sorted(table, key=lambda one: isinstance(one, Counter)))


class WholeBroker(NamedTuple):
    """The broker as a whole; `unsent` are the bytes that each client's socket has not taken."""

    server: Server
    unsent: list[int]


# The fields of /varz that nats-server has, too, and more of the kind.
BROKER: Table[WholeBroker] = (
    Gauge("connections", "connections", "Clients connected now.", lambda at: len(at.unsent)),
    Gauge(
        *("max_connections", "connections_limit", "Clients that may be connected at once."),
        lambda at: at.server.settings.limits.max_connections,
    ),
    Counter(
        *("total_connections", "connections_accepted", "Clients that ever connected."),
        lambda at: at.server.roster.total_connections,
    ),
    Counter(
        *("slow_consumers", "slow_consumers", "Clients closed for not reading fast enough."),
        lambda at: at.server.roster.slow_consumers,
    ),
    Counter("stale_connections", "", "", lambda at: at.server.roster.stale_connections),
    Counter("stalled_clients", "", "", lambda at: at.server.core.stalls),
    Counter(
        *("auth_failures", "auth_failures", "Attempts to authenticate that failed."),
        lambda at: at.server.admission.failures,
    ),
    Gauge(
        *("sequence", "sequence", "The number of the last message."),
        lambda at: at.server.last_number,
    ),
    Gauge(
        *("pending_bytes", "pending_bytes", "Bytes not yet sent, of all clients."),
        lambda at: sum(at.unsent),
    ),
    Gauge(
        *("pending_bytes_max", "pending_bytes_max"),
        "Bytes not yet sent, of the client with the most.",
        lambda at: max(at.unsent, default=0),
    ),
    Gauge(
        *("loop_turn_seconds_max", "loop_turn_seconds_max"),
        "The longest that the broker's thread was busy at a stretch, lately.",
        lambda at: LOOP_LATENCY.worst(),
    ),
    Gauge(
        *("start", "start_time_seconds", "When the broker started."),
        lambda at: at.server.started_at,
    ),
)

# Of the counters of the route table, all of which /subsz shows.
ROUTES: Table[dict[str, int]] = tuple(
    kind(key, metric, about, itemgetter(key))
    for kind, key, metric, about in (
        (Gauge, "subscriptions", "subscriptions", "Subscriptions of all connections."),
        (Gauge, "patterns", "subscription_patterns", "Different subjects among the subscriptions."),
        (
            *(Gauge, "match_nodes", "match_nodes"),
            "Nodes that the worst subject visits among the patterns.",
        ),
        (Gauge, "routes", "routes", "Subjects whose subscribers are remembered."),
        (Gauge, "max_routes", "routes_limit", "Subjects whose subscribers may be remembered."),
        (Gauge, "route_bytes", "route_bytes", "Memory of the route table and its routes."),
        (Counter, "inserts", "subscription_inserts", "Subscriptions that were made."),
        (Counter, "removes", "subscription_removes", "Subscriptions that ended."),
        (Counter, "misses", "route_misses", "Messages whose subject was not in the route table."),
        (
            *(Counter, "passed", "route_passed"),
            "Messages whose route was made for them alone, and not kept.",
        ),
        (
            *(Counter, "rechecks", "route_rechecks"),
            "Routes compared with newer wildcard subscriptions.",
        ),
        (
            *(Counter, "resolves", "route_resolves"),
            "Times the subscribers of a subject were searched for.",
        ),
        (Counter, "evictions", "route_evictions", "Routes forgotten to make room."),
    )
)

# Of the journal, its keeper, its replays and the known ids, as far as there are any. The keeper's
# thread may count while they are read.
JOURNAL: Table[Server] = (
    Gauge(
        *("bytes", "journal_bytes", "Bytes of the messages kept."),
        lambda of: of.journal.bytes if of.journal else 0,
    ),
    Gauge(
        *("segments", "journal_segments", "Files of the journal."),
        lambda of: len(of.journal.segments()) if of.journal else 0,
    ),
    Gauge(
        *("first", "journal_first_number", "The number of the first message kept."),
        lambda of: of.journal.first if of.journal else 0,
    ),
    Gauge(
        *("last", "journal_last_number", "The number of the last message written."),
        lambda of: of.journal.last if of.journal else 0,
    ),
    Gauge(
        *("synced", "journal_synced_number", "The number up to which the disk has every message."),
        lambda of: of.keeper.synced if of.keeper else 0,
    ),
    Gauge(
        *("oldest", "journal_oldest_time_seconds", "When the first message kept was published."),
        lambda of: of.journal.oldest_time / SECOND_NS if of.journal else 0,
    ),
    Gauge(
        *("ahead", "journal_ahead_seconds"),
        "Seconds by which the newest message is dated after the clock: it is behind, or was ahead.",
        lambda of: max(of.journal.newest_time / SECOND_NS - time.time(), 0) if of.journal else 0,
    ),
    Gauge(
        *(
            "lost",
            "journal_lost_ranges",
            "Places of the journal that are damaged or missing.",
        ),
        lambda of: len(of.journal.damage) if of.journal else 0,
    ),
    Gauge(
        *("full", "journal_full", "1 while publishers are refused because nothing can be written."),
        lambda of: bool(of.keeper and of.keeper.problem),
    ),
    Gauge(
        *("ids", "message_ids", "Ids of messages that are remembered against duplicates."),
        lambda of: len(of.window) if of.window is not None else 0,
    ),
    Gauge(
        *("replaying", "replays_active", "Replays, catch-ups and reads of the journal under way."),
        lambda of: of.replays.active if of.replays else 0,
    ),
    Gauge(
        *("catching_up", "catchups_active"),
        "Slow subscribers that are served from the journal now.",
        lambda of: of.replays.catching_up if of.replays else 0,
    ),
    # Of these two, a histogram is the metric.
    Counter("syncs", "", "", lambda of: of.keeper.syncs.total if of.keeper else 0),
    Counter("sync_seconds", "", "", lambda of: of.keeper.syncs.seconds if of.keeper else 0.0),
    Counter(
        *("errors", "journal_errors", "Failed writes to the journal."),
        lambda of: of.keeper.errors if of.keeper else 0,
    ),
    Counter(
        *("refused", "journal_refused_messages"),
        "Messages refused because they could not be written.",
        lambda of: of.keeper.refused if of.keeper else 0,
    ),
    Counter(
        *("duplicates", "duplicates", "Messages not sequenced because their id was known."),
        lambda of: of.window.duplicates if of.window is not None else 0,
    ),
    Counter(
        *("replays", "replays", "Replays, catch-ups and reads of the journal begun."),
        lambda of: of.replays.started if of.replays else 0,
    ),
    Counter(
        *("replayed", "replayed_messages", "Messages delivered from the journal."),
        lambda of: of.replays.replay_writer.messages if of.replays else 0,
    ),
    Counter(
        *("catchups", "catchups", "Slow subscribers that the journal began to serve."),
        lambda of: of.replays.catch_ups if of.replays else 0,
    ),
    Counter(
        *("given_up", "catchups_given_up"),
        "Of these, closed because what they needed was deleted.",
        lambda of: of.replays.given_up if of.replays else 0,
    ),
)

# How near the limits are, and how often they were reached.
LIMITS: Table[Server] = (
    Gauge(
        *("addresses", "client_addresses", "Addresses from which clients are connected."),
        lambda of: of.roster.places.networks,
    ),
    Gauge(
        *("most_from_one_address", "connections_from_one_address_max"),
        "Clients of the address that has most.",
        lambda of: of.roster.places.most_from_one,
    ),
    Counter(
        *("connections_refused", "connections_refused", "Clients that found no place."),
        lambda of: of.roster.places.refused,
    ),
    Counter(
        *("connections_refused_by_address", "connections_refused_by_address"),
        "Clients that found no place among those of their address.",
        lambda of: of.roster.places.refused_by_address,
    ),
    Gauge(
        *("subscriptions_counted", "subscriptions_counted"),
        "What counts against max_subscriptions_total: subscriptions, long ones several times.",
        lambda of: of.control.total.used,
    ),
    Counter(
        *("subscriptions_refused", "subscriptions_refused", "Subscriptions that were too many."),
        lambda of: of.control.refused_subscriptions,
    ),
    Counter(
        *("subjects_refused", "subjects_refused"),
        "Subscriptions and messages with too many tokens.",
        lambda of: of.control.refused_for_tokens,
    ),
    Gauge(
        *("replays_open", "replays_open", "Replays of subscriptions that are not live yet."),
        lambda of: of.replays.opened.open if of.replays else 0,
    ),
    Counter(
        *("replays_refused", "replays_refused", "Replays that were too many."),
        lambda of: of.replays.opened.refused if of.replays else 0,
    ),
    Counter(
        *("reads_refused", "reads_refused", "Reads that were too many."),
        lambda of: of.control.request_handler.refused_reads if of.control.request_handler else 0,
    ),
    Gauge(
        *("publishers_paused", "publishers_paused"),
        "Clients that have published too much for now.",
        lambda of: of.roster.metering.pauses.now,
    ),
    Counter(
        *("publisher_pauses", "publisher_pauses", "Times a client had published too much."),
        lambda of: of.roster.metering.pauses.begun,
    ),
    Gauge(
        *("unsent_bytes", "unsent_bytes", "What counts against max_pending_total."),
        lambda of: of.plane.gate.budget.bytes,
    ),
)

# Of the cquencer port.
PORT: "Table[Cquencer]" = (
    Gauge(
        *("connections", "port_connections", "Clients of cquencer's port connected now."),
        lambda of: of.port.connections,
    ),
    Counter(
        *("accepted", "port_connections_accepted"),
        "Clients of cquencer's port that ever connected.",
        lambda of: of.accepted,
    ),
    Counter("messages", "port_messages", "Messages from them.", lambda of: of.port.messages),
    Counter("bytes", "port_bytes", "Their payload bytes.", lambda of: of.port.bytes),
    Counter(
        *("queries", "port_queries", "Times that they asked for the last number."),
        lambda of: of.port.queries,
    ),
    Counter(
        *("errors", "port_errors", "Times that they got an error instead of a number."),
        lambda of: of.port.errors,
    ),
)

# Of exactly-once publishing: what is staged now, and what was committed.
STAGING: "Table[StagingService]" = (
    Gauge(
        *("stages", "staging_stages", "Stages that wait to be committed."),
        lambda of: len(of.stages),
    ),
    Gauge("bytes", "staging_bytes", "Bytes staged.", lambda of: of.stages.bytes),
    Gauge(
        *("applications", "staging_applications", "Publishers whose last batch is remembered."),
        lambda of: len(of.applications.done),
    ),
    Gauge(
        *("committing", "staging_commits_active", "Commits under way, and waiting for their turn."),
        lambda of: len(of.commits),
    ),
    Counter("pieces", "staging_pieces", "Pieces that were staged.", lambda of: of.pieces),
    Counter(
        *("commits", "staging_commits", "Batches that were committed."),
        lambda of: of.commits.committed,
    ),
    Counter(
        *("rows", "staging_rows", "Messages that were published by commits."),
        lambda of: of.publishing.rows,
    ),
    Counter(
        *("repeated", "staging_commits_repeated", "Commits of a batch that was committed before."),
        lambda of: of.commits.repeated,
    ),
    Counter(
        *("expired", "staging_expired", "Stages that were not committed in time."),
        lambda of: of.stages.expired,
    ),
)

# Of all streams together. /jsz and /varz have what has no metric.
STREAMS: "Table[StreamService]" = (
    Gauge("streams", "streams", "Streams.", lambda of: len(of.streams.by_name)),
    Gauge(
        *("consumers", "consumers", "Consumers of all streams."),
        lambda of: of.streams.consumers.count(),
    ),
    Gauge("messages", "", "", lambda of: sum(one.messages for one in of.ledgers)),
    Gauge("bytes", "", "", lambda of: sum(one.size for one in of.ledgers)),
    Gauge("level", "", "", lambda of: of.api_level),
    Gauge(
        *("loading", "streams_loading"),
        "1 while the journal is read for the streams: their API waits.",
        lambda of: not of.is_ready(),
    ),
    Counter(
        *("api_requests", "stream_api_requests"),
        "Requests to the API of streams.",
        lambda of: of.api.requests,
    ),
    Counter(
        *("api_errors", "stream_api_errors", "Of these, answered with an error."),
        lambda of: of.api.errors,
    ),
    Gauge(
        *("subjects", "streams_subjects", "Subjects with messages of all streams."),
        lambda of: of.streams.subjects.count,
    ),
    Counter(
        *("left_out", "streams_left_out_messages"),
        "Messages that are in no stream, because of `streams.max_subjects`.",
        lambda of: of.streams.subjects.left_out,
    ),
    Counter(
        *("lost", "consumers_lost_messages"),
        "Messages that retention deleted before a consumer had got or acknowledged them.",
        lambda of: of.streams.consumers.lost,
    ),
)


class StreamAt(NamedTuple):
    """One stream, among all of them."""

    streams: "Streams"
    stream: "Stream"


# Of one stream, whose name is a label.
STREAM: "Table[StreamAt]" = (
    Gauge(
        *("messages", "stream_messages", "Messages that are visible in a stream."),
        lambda of: of.stream.ledger.messages,
    ),
    Gauge(
        *("bytes", "stream_bytes", "Their bytes, as JetStream counts them."),
        lambda of: of.stream.ledger.size,
    ),
    Gauge(
        *("subjects", "stream_subjects", "Subjects with visible messages in a stream."),
        lambda of: len(of.stream.ledger.entries),
    ),
    Gauge(
        *("first", "stream_first_number"),
        "The number of the first visible message, or one that it is not below; 0: there is none.",
        lambda of: of.streams.first_at_least(of.stream) if of.stream.ledger.messages else 0,
    ),
    Gauge(
        *("last", "stream_last_number", "The number of the newest message of a stream."),
        lambda of: of.stream.ledger.last,
    ),
    Gauge(
        *("consumers", "stream_consumers", "Consumers of a stream."),
        lambda of: len(of.stream.consumers),
    ),
)

# Of one durable consumer; its stream and its name are labels.
CONSUMER: "Table[RunningConsumer]" = (
    Gauge(
        *("pending", "consumer_pending", "Messages that a consumer has not been sent yet."),
        lambda of: max(of.machine.deliverer.ahead, 0),
    ),
    Gauge(
        *("ack_pending", "consumer_ack_pending", "Messages sent that are not acknowledged."),
        lambda of: of.machine.deliverer.table.count,
    ),
    Gauge(
        *("redelivered", "consumer_redelivered"),
        "Of these, sent more than once.",
        lambda of: of.machine.deliverer.table.redelivered,
    ),
    Gauge(
        *("waiting", "consumer_waiting", "Pull requests that wait for messages."),
        lambda of: len(of.machine.deliverer.waiting or ()),
    ),
    Gauge(
        *("floor", "consumer_ack_floor", "All up to this number is acknowledged."),
        lambda of: of.machine.deliverer.floor()[1],
    ),
    Counter(
        *("deliveries", "consumer_deliveries", "Messages sent, and sent again, by a consumer."),
        lambda of: of.machine.deliverer.number,
    ),
    Counter(
        *("lost", "consumer_lost_messages"),
        "Messages that retention deleted before this consumer had got or acknowledged them.",
        lambda of: of.machine.lost,
    ),
)

# Of one feed, whose name is a label.
FEED: "Table[Outlet]" = (
    Gauge("last", "feed_last_number", "The last number dealt with.", lambda of: of.feed.previous),
    Counter(
        *("messages", "feed_messages", "Messages put into datagrams."),
        lambda of: of.feed.messages,
    ),
    Counter(
        *("datagrams", "feed_datagrams", "Datagrams sent, heartbeats included."),
        lambda of: of.feed.sent.datagrams,
    ),
    Counter("bytes", "feed_bytes", "Bytes of the datagrams sent.", lambda of: of.feed.sent.bytes),
    Counter(
        *("skipped", "feed_skipped", "Messages left out by the feed's subject."),
        lambda of: of.feed.skipped,
    ),
    Counter(
        *("too_long", "feed_too_long"),
        "Messages not sent, because they were too long for a datagram.",
        lambda of: of.feed.too_long,
    ),
    Counter(
        *("broken", "feed_broken", "Messages not sent, because a custom codec failed on them."),
        lambda of: of.feed.broken,
    ),
    Counter(
        *("errors", "feed_errors", "Datagrams that the system did not send."),
        lambda of: of.feed.sent.errors,
    ),
    Counter("heartbeats", "feed_heartbeats", "Heartbeats sent.", lambda of: of.heartbeats),
)

# Of what one feed was asked for again.
REREQUESTS: "Table[Rerequests]" = (
    Counter(
        *("requests", "feed_rerequests", "Requests for what receivers missed."),
        lambda of: of.requests,
    ),
    Counter("answered", "feed_rerequests_answered", "Of these, answered.", lambda of: of.answered),
    Counter(
        *("messages", "feed_rerequest_messages", "Messages in the answers."),
        lambda of: of.messages,
    ),
    Counter("bytes", "feed_rerequest_bytes", "Bytes of the answers.", lambda of: of.bytes),
)

# Requests that got no answer: one metric, by reason.
REFUSED: "Table[Rerequests]" = (
    Counter("malformed", "", "", lambda of: of.malformed),
    Counter("unknown_session", "", "", lambda of: of.unknown_session),
    Counter("ahead", "", "", lambda of: of.ahead),
    Counter("limited", "", "", lambda of: of.limited),
    Counter("failed", "", "", lambda of: of.failed),
)
