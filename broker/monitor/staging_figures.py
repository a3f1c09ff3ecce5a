"""Figures of exactly-once publishing: what is staged now, and what was committed."""

from broker.monitor.observed import Observed

# (key, metric name without prefix, description)
GAUGES = (
    ("stages", "staging_stages", "Stages that wait to be committed."),
    ("bytes", "staging_bytes", "Bytes staged."),
    ("applications", "staging_applications", "Publishers whose last batch is remembered."),
    ("committing", "staging_commits_active", "Commits under way, and waiting for their turn."),
)
COUNTERS = (
    ("pieces", "staging_pieces", "Pieces that were staged."),
    ("commits", "staging_commits", "Batches that were committed."),
    ("rows", "staging_rows", "Messages that were published by commits."),
    ("repeated", "staging_commits_repeated", "Commits of a batch that was committed before."),
    ("expired", "staging_expired", "Stages that were not committed in time."),
)


def take_staging(server: Observed) -> dict[str, int]:
    """Take the figures, by the keys above; 0 if nothing was ever staged."""
    staging_service = server.staging
    if staging_service is None:
        return dict.fromkeys((key for key, *_ in (*GAUGES, *COUNTERS)), 0)
    return {
        "stages": len(staging_service.stages),
        "bytes": staging_service.stages.bytes,
        "applications": len(staging_service.applications.done),
        "committing": len(staging_service.commits),
        "pieces": staging_service.pieces,
        "commits": staging_service.commits.committed,
        "rows": staging_service.publishing.rows,
        "repeated": staging_service.commits.repeated,
        "expired": staging_service.stages.expired,
    }
