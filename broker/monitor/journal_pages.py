"""The pages about the past: /journalz, the files of the journal, and /replayz, who reads it."""

from collections.abc import Sequence
from itertools import islice
from typing import Any, NamedTuple

from broker.monitor.query import Page
from broker.monitor.views import heading
from broker.replay.replays import OpenCursor
from broker.server import Server
from sequencer.journal.protocols import SegmentView
from sequencer.journal.ring import Ring

SECOND_NS = 1_000_000_000


class SegmentState(NamedTuple):
    """One segment, at one moment. Sizes in bytes, times in ns since 1970; 0: not known."""

    first: int
    last: int
    bytes: int
    oldest: int
    newest: int


class JournalTaken(NamedTuple):
    """The journal at one moment, for /journalz."""

    facts: dict[str, Any]
    total: int
    segments: list[SegmentState]


def take_journal(server: Server, page: Page) -> JournalTaken:
    """Take the journal and one page of its segments, newest first."""
    journal = server.journal
    if journal is None:
        return JournalTaken({"store": "none"}, 0, [])
    is_ring = isinstance(journal, Ring)
    kept = server.settings.journal
    facts: dict[str, Any] = {
        "journal": journal.id,
        "epoch": journal.epoch,
        "store": "memory" if is_ring else "disk",
        "first": journal.first,
        "last": journal.last,
        "bytes": journal.bytes,
        "oldest": journal.oldest_time / SECOND_NS,
        "newest": journal.newest_time / SECOND_NS,
    }
    if is_ring:
        facts["ring_bytes"] = kept.ring_bytes
    else:
        facts |= {
            "path": server.settings.store_dir,
            "segment_bytes": kept.segment_bytes,
            "window_bytes": kept.window_bytes,
            "retain_bytes": kept.retain_bytes,
            "retain_seconds": kept.retain_age,
            "retain_count": kept.retain_count,
        }
    if server.keeper is not None:
        keeper = server.keeper
        facts |= {"sync": kept.sync, "synced": keeper.synced, "problem": keeper.problem}
    segments: Sequence[SegmentView] = journal.segments()
    newest_first = reversed(segments)
    chosen = islice(newest_first, page.offset, page.offset + page.limit)
    return JournalTaken(facts, len(segments), [_taken(one) for one in chosen])


def _taken(segment: SegmentView) -> SegmentState:
    numbers = segment.first, segment.last, segment.size - segment.start
    times = getattr(segment, "oldest", 0), getattr(segment, "newest", 0)  # of any kind of segment
    return SegmentState(*numbers, *times)


def journal_page(server: Server, now: float, page: Page, taken: JournalTaken) -> dict[str, Any]:
    """/journalz: the journal, its retention, and one page of its segments."""
    return {
        **heading(server, now),
        **taken.facts,
        "num_segments": taken.total,
        "offset": page.offset,
        "limit": page.limit,
        "segments": [
            {
                "first": one.first,
                "last": one.last,
                "bytes": one.bytes,
                "oldest": one.oldest / SECOND_NS,
                "newest": one.newest / SECOND_NS,
            }
            for one in taken.segments
        ],
    }


class ReplaysTaken(NamedTuple):
    """The readers of the journal at one moment; `last` is its last number."""

    last: int
    active: int
    cursors: list[OpenCursor]


def take_replays(server: Server, page: Page) -> ReplaysTaken:
    """Take one page of what reads the journal now."""
    replays = server.replays
    if replays is None:
        return ReplaysTaken(0, 0, [])
    cursors = list(islice(replays.open_cursors(), page.offset, page.offset + page.limit))
    return ReplaysTaken(replays.journal.last, replays.active, cursors)


def replays_page(server: Server, now: float, page: Page, taken: ReplaysTaken) -> dict[str, Any]:
    """/replayz: replays, catch-ups and reads, and how far each is behind."""
    return {
        **heading(server, now),
        "last": taken.last,
        "active": taken.active,
        "offset": page.offset,
        "limit": page.limit,
        "replays": [
            {
                "cid": one.cid,
                "kind": one.kind,
                "asked": one.asked.decode("utf-8", "replace"),
                "next": one.number,
                "behind": max(taken.last - one.number + 1, 0),
                "state": one.state,
            }
            for one in taken.cursors
        ],
    }
