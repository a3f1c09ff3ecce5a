"""The counters of the limits, for monitoring: broker/monitor/limit_figures.py describes them."""

from broker.clients.changing_limits import LimitedParts


def limit_counts(parts: LimitedParts) -> dict[str, int]:
    """Copy the counters. Call it in the broker's loop."""
    places, control, pauses = parts.places, parts.control, parts.metering.pauses
    replays, requests = parts.replays, control.request_handler
    refused = control.refused_for_count + control.total.refused + control.user_matches.refused
    return {
        "addresses": places.networks,
        "most_from_one_address": places.most_from_one,
        "connections_refused": places.refused,
        "connections_refused_by_address": places.refused_by_address,
        "subscriptions_counted": control.total.used,
        "subscriptions_refused": refused,
        "subjects_refused": control.refused_for_tokens,
        "replays_open": replays.opened.open if replays is not None else 0,
        "replays_refused": replays.opened.refused if replays is not None else 0,
        "reads_refused": requests.refused_reads if requests is not None else 0,
        "publishers_paused": pauses.now,
        "publisher_pauses": pauses.begun,
        "unsent_bytes": parts.plane.gate.budget.bytes,
    }
