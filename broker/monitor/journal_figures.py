"""Figures of the journal: of its files, its keeper, its replays and the known ids."""

import time
from dataclasses import dataclass, field
from typing import Any

from broker.monitor.observed import Observed
from broker.replay.replays import Replays
from sequencer.journal.ring import Ring

SECOND_NS = 1_000_000_000

# (key, metric name without prefix, description)
GAUGES = (
    ("bytes", "journal_bytes", "Bytes of the messages kept."),
    ("segments", "journal_segments", "Files of the journal."),
    ("first", "journal_first_number", "The number of the first message kept."),
    ("last", "journal_last_number", "The number of the last message written."),
    ("synced", "journal_synced_number", "The number up to which the disk has every message."),
    ("oldest", "journal_oldest_time_seconds", "When the first message kept was published."),
    (
        "ahead",
        "journal_ahead_seconds",
        "Seconds by which the newest message is dated after the clock: it is behind, or was ahead.",
    ),
    ("lost", "journal_lost_ranges", "ConnectionSlots of the journal that are damaged or missing."),
    ("full", "journal_full", "1 while publishers are refused because nothing can be written."),
    ("ids", "message_ids", "Ids of messages that are remembered against duplicates."),
    ("replaying", "replays_active", "Replays, catch-ups and reads of the journal under way."),
    ("catching_up", "catchups_active", "Slow subscribers that are served from the journal now."),
)
COUNTERS = (
    ("syncs", "journal_syncs", "Syncs of the journal."),
    ("sync_seconds", "journal_sync_seconds", "Seconds spent in syncs, in a thread of its own."),
    ("errors", "journal_errors", "Failed writes to the journal."),
    ("refused", "journal_refused_messages", "Messages refused because they could not be written."),
    ("duplicates", "duplicates", "Messages not sequenced because their id was known."),
    ("replays", "replays", "Replays, catch-ups and reads of the journal begun."),
    ("replayed", "replayed_messages", "Messages delivered from the journal."),
    ("catchups", "catchups", "Slow subscribers that the journal began to serve."),
    ("given_up", "catchups_given_up", "Of these, closed because what they needed was deleted."),
)


@dataclass(frozen=True, slots=True)
class JournalState:
    """The journal at one moment: its id and settings, and figures by the keys above."""

    journal: str = ""
    store: str = "none"  # or disk, or memory
    sync: str = "never"
    epoch: int = 0
    figures: dict[str, float] = field(default_factory=dict)


def take_journal(server: Observed) -> JournalState:
    """Take the figures. In the broker's loop; the keeper's thread may count at the same time."""
    journal, keeper, replays, window = server.journal, server.keeper, server.replays, server.window
    figures = dict.fromkeys((key for key, *_ in (*GAUGES, *COUNTERS)), 0.0)
    if window is not None:
        figures |= {"ids": len(window), "duplicates": window.duplicates}
    if journal is None:
        return JournalState(figures=figures)
    figures |= {
        "bytes": journal.bytes,
        "segments": len(journal.segments()),
        "first": journal.first,
        "last": journal.last,
        "oldest": journal.oldest_time / SECOND_NS,
        "ahead": max(journal.newest_time / SECOND_NS - time.time(), 0.0),
        "lost": len(journal.damage),
    }
    if replays is not None:
        figures |= _of_replays(replays)
    if keeper is not None:
        figures |= {
            "synced": keeper.synced,
            "full": bool(keeper.problem),
            "syncs": keeper.syncs,
            "sync_seconds": keeper.sync_seconds,
            "errors": keeper.errors,
            "refused": keeper.refused,
        }
    return JournalState(
        journal=journal.id,
        store="memory" if isinstance(journal, Ring) else "disk",
        sync=server.settings.journal.sync if keeper is not None else "never",
        epoch=journal.epoch,
        figures=figures,
    )


def _of_replays(replays: Replays) -> dict[str, float]:
    return {
        "replaying": replays.active,
        "catching_up": replays.catching_up,
        "replays": replays.started,
        "replayed": replays.replay_writer.messages,
        "catchups": replays.catch_ups,
        "given_up": replays.given_up,
    }


def journal_page(state: JournalState) -> dict[str, Any]:
    """The part of /varz about the journal. Times in seconds, sizes in bytes."""
    facts = {"journal": state.journal, "epoch": state.epoch, "store": state.store}
    whole = ((key, value if key.endswith("seconds") else int(value)) for key, value in _all(state))
    return facts | {"sync": state.sync} | dict(whole) | {"full": bool(state.figures["full"])}


def _all(state: JournalState) -> list[tuple[str, float]]:
    return sorted(state.figures.items())
