"""Figures of the limits: how near they are, and how often they were reached."""

from broker.monitor.observed import Observed

# (key, metric name without prefix, description)
GAUGES = (
    ("addresses", "client_addresses", "Addresses from which clients are connected."),
    (
        "most_from_one_address",
        "connections_from_one_address_max",
        "Clients of the address that has most.",
    ),
    (
        "subscriptions_counted",
        "subscriptions_counted",
        "What counts against max_subscriptions_total: subscriptions, long ones several times.",
    ),
    ("replays_open", "replays_open", "Replays of subscriptions that are not live yet."),
    ("publishers_paused", "publishers_paused", "Clients that have published too much for now."),
    ("unsent_bytes", "unsent_bytes", "What counts against max_pending_total."),
)
COUNTERS = (
    ("connections_refused", "connections_refused", "Clients that found no place."),
    (
        "connections_refused_by_address",
        "connections_refused_by_address",
        "Clients that found no place among those of their address.",
    ),
    ("subscriptions_refused", "subscriptions_refused", "Subscriptions that were too many."),
    ("subjects_refused", "subjects_refused", "Subscriptions and messages with too many tokens."),
    ("replays_refused", "replays_refused", "Replays that were too many."),
    ("reads_refused", "reads_refused", "Reads that were too many."),
    ("publisher_pauses", "publisher_pauses", "Times a client had published too much."),
)


def take_limits(server: Observed) -> dict[str, int]:
    """Take the figures, by the keys above."""
    return server.limit_counts()
