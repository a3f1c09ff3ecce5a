"""Clients that come and go at random: the others notice nothing, and memory stays flat.

SOAK_SECONDS=600    in the environment: for so long
CRASH_SEED=7        repeats the seed of a failure
"""

import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.crash.beside import Listener, Steady, Watcher
from tests.crash.trial import SEED, SOAK_S
from tests.support.churn import (
    CONSUMERS,
    ENDINGS,
    KINDS,
    LIMITS,
    Churned,
    Party,
    play,
    possible,
    request_of,
)
from tests.support.counted import Counts, grown
from tests.support.depth import depth
from tests.support.processes import STAND_IN, SeriatimServer, ServerProcess

pytestmark = pytest.mark.skipif(STAND_IN, reason="of our own process")

MIB = 1 << 20
PARTIES = depth(30, 60)  # at least
EVERY = 10  # parties from one sample to the next
SAMPLES = 24  # fewer say nothing: warming up takes as many as a quarter of it
COUNTS = (1, 20, 300)
RETAINED = 16 * MIB  # reached while it warms up
SETTINGS = [
    *("-m", "-1", "--segment_bytes", "1MiB", "--retain_bytes", "16MiB"),
    *("--dedupe_window", "1s", "--staging_expiry", "1s"),
]
# Each subject has a route until there are so many: `$SEQ.GET.N` would fill the table for minutes,
# two blocks each, and patterns that go empty it now and then.
ROUTES: dict[str, str | int] = {"max_routes": 64}
FILES = 40  # those of segments that are open, of connections, pages and stages under way

# How much more the second half of a run may hold than the first, in the middle, after a quarter
# that warms up: journal to its retention, table of routes, pools of threads, stores that are lent.
# Of replays that stay there would be a hundred times as many as parties between the halves.
BLOCKS_MAX = 1000  # 64 routes, and a hundred timers that asyncio keeps when cancelled
MALLOC_MAX = MIB  # bytes in use: stores and chunks that are lent come and go
# The allocator's holes make the process grow for longer, by less and less: nothing is in them. It
# keeps up to MALLOC_TRIM_THRESHOLD_ (4 MiB, seriatim/cli/serve.py) at the end of its heap, too.
RESIDENT_MAX = 2 * MIB


class Samples:
    """What the broker held whenever nobody was there but those that stay."""

    def __init__(self, broker: Churned, counts: Counts) -> None:
        self.broker = broker
        self.counts = counts
        self.taken: list[dict[str, Any]] = []

    def take(self) -> None:
        """One more."""
        sample = self.counts.take(self.broker.process.pid)
        self.taken.append(sample | {"resident": self.broker.resident()})

    def judge(self) -> None:
        """Nothing grows from the first half to the second, but for the first quarter."""
        half = (len(self.taken) - len(self.taken) // 4) // 2
        first, second = self.taken[-2 * half : -half], self.taken[-half:]
        for what, most in (
            ("blocks", BLOCKS_MAX),
            ("malloc", MALLOC_MAX),
            ("resident", RESIDENT_MAX),
        ):
            before, after = (
                statistics.median(one[what] for one in part) for part in (first, second)
            )
            print(f"{what}: {before:.0f}, then {after:.0f}")
            assert after - before <= most, (what, grown(first[0], second[-1]))


@contextmanager
def beside(process: ServerProcess) -> Iterator[Listener]:
    """Those that behave well: nothing is wrong with them at the end."""
    listener, steady, watcher = Listener(process.port), Steady(process.port), Watcher(process)
    with listener.client, steady.client:
        for one in (listener, steady, watcher):
            one.start()
        yield listener
        watcher.finish()
        steady.finish()
        assert (watcher.error, steady.error) == ("", "")
        steady.client.ask(b"PUB over 0\r\n\r\n")
        listener.finish()
    assert listener.error == ""
    assert steady.told == listener.steady, "each message once, with the number that was answered"
    assert len(steady.told) > PARTIES
    assert watcher.pages > 0


def churn(
    broker: Churned,
    chance: Random,
    samples: Samples,
    kinds: tuple[str, ...] = KINDS,
    least: int = PARTIES,
) -> int:
    """Parties at random, for as long as it is to be; how many."""
    choices = [
        (kind, ending, deaf)
        for kind in kinds
        for ending in ENDINGS
        for deaf in (False, True)
        if possible(kind, ending, deaf)
    ]
    start, done = time.monotonic(), 0
    while done < least or time.monotonic() - start < SOAK_S:
        kind, ending, deaf = chance.choice(choices)
        party = Party(kind, ending, chance.choice(COUNTS), chance.randint(1, 4), deaf)
        try:
            play(broker, party)
            broker.rest()
            if kind in CONSUMERS:
                broker.rest_of_consumers()
        except BaseException:
            print(f"{done}: {party}")
            raise
        done += 1
        if done % EVERY == 0:
            samples.take()
            broker.refresh()
    return done


def test_given_clients_that_come_and_go_at_random_then_memory_is_flat_and_order_holds(
    tmp_path: Path,
) -> None:
    print(f"CRASH_SEED={SEED}")
    counts = Counts(tmp_path)
    process = SeriatimServer(
        "none", {**LIMITS, **ROUTES, "ping_interval": "1h"}, SETTINGS, store=tmp_path / "store"
    )
    process.env |= counts.env
    with process, Churned(process, others=2) as broker, beside(process) as listener:
        files = broker.descriptors()
        samples = Samples(broker, counts)
        done = churn(broker, Random(SEED), samples)
        print(f"{done} parties, {listener.heard} messages")
        for what in ("blocks", "malloc", "resident"):
            print(what, *(sample[what] for sample in samples.taken))
        broker.until(lambda told: told["staging"]["stages"] == 0)
        broker.until(lambda told: told["staging"]["applications"] <= 1)  # remembered for good
        assert broker.descriptors() <= files + FILES
        assert broker.status()["journal"]["bytes"] <= RETAINED + 4 * MIB
        if len(samples.taken) >= SAMPLES:
            samples.judge()


def test_given_consumers_that_come_and_go_at_random_then_memory_is_flat(tmp_path: Path) -> None:
    print(f"CRASH_SEED={SEED}")
    counts = Counts(tmp_path)
    process = SeriatimServer(
        "none",
        {**LIMITS, **ROUTES, "ping_interval": "1h"},
        [*SETTINGS, "--jetstream"],
        store=tmp_path / "store",
    )
    process.env |= counts.env
    with process, Churned(process) as broker:  # nobody subscribes to `>`, who would be pushed to
        stream = request_of("STREAM.CREATE.S", 0, {"name": "S", "subjects": ["p"]})
        broker.publisher.ask(stream)
        samples = Samples(broker, counts)
        done = churn(broker, Random(SEED), samples, CONSUMERS, depth(3, PARTIES))
        print(f"{done} parties")
        for what in ("blocks", "malloc", "resident"):
            print(what, *(sample[what] for sample in samples.taken))
        if len(samples.taken) >= SAMPLES:
            samples.judge()
