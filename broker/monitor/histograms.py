"""Histograms of how long things took: copied in the broker's loop, summed up in another thread."""

from collections.abc import Callable, Iterator
from itertools import accumulate
from typing import Final, NamedTuple

from prometheus_client.core import HistogramMetricFamily, Metric

from broker.monitor.figures import PREFIX
from broker.runtime.durations import BOUNDS, Durations
from broker.runtime.loop_latency import LOOP_LATENCY
from broker.server import Server

LABELS: Final = (*map(str, BOUNDS), "+Inf")
TakenDurations = tuple[list[int], float]  # the counts by bucket, and the sum in seconds


class Histogram(NamedTuple):
    """One histogram of a broker; `read` returns None where nothing is measured."""

    metric: str  # without the prefix
    about: str
    read: Callable[[Server], Durations | None]


HISTOGRAMS: Final = (
    Histogram(
        "loop_turn_seconds",
        "How long the broker's thread was busy at a stretch, each time.",
        lambda of: LOOP_LATENCY.durations,
    ),
    Histogram(
        "publish_write_seconds",
        "From the turn in which a message of a client was read until the journal had it.",
        lambda of: of.plane.gate.writing,
    ),
    Histogram(
        "journal_sync_seconds",
        "How long a sync took, with the time until the broker's thread learned of its end.",
        lambda of: of.keeper.syncs if of.keeper else None,
    ),
    Histogram(
        "replay_wait_seconds",
        "From the SUB of a replay to its first message, or to its end if it has none.",
        lambda of: of.replays.waits_for_first if of.replays else None,
    ),
)


def take_durations(server: Server) -> list[TakenDurations]:
    """Copy all of them, in the order of `HISTOGRAMS`."""
    taken = []
    for one in HISTOGRAMS:
        durations = one.read(server)
        if durations is None:
            durations = Durations()
        taken.append((durations.counts[:], durations.seconds))
    return taken


def histogram_metrics(taken: list[TakenDurations]) -> Iterator[Metric]:
    """Yield the metrics."""
    for one, (counts, seconds) in zip(HISTOGRAMS, taken, strict=True):
        buckets = list(zip(LABELS, accumulate(counts), strict=True))
        yield HistogramMetricFamily(PREFIX + one.metric, one.about, buckets, seconds)
