"""Clients that begin and leave at random: order for the others, and memory that stays flat.

SOAK_SECONDS=600    in the environment: for so long
CRASH_SEED=7        the seed of a failure again
"""

import statistics
import threading
import time
from pathlib import Path
from random import Random

import pytest

from tests.crash.trial import SEED, SOAK_S
from tests.support.churn import ENDINGS, KINDS, LIMITS, Churned, Party, play, possible
from tests.support.frames import split_frame
from tests.support.processes import STAND_IN, SeriatimServer
from tests.support.raw import HEADERS, RawClient

pytestmark = pytest.mark.skipif(STAND_IN, reason="of our own process")

MIB = 1 << 20
PARTIES = 40  # at least
STEADY_SEED = 7  # where it is not a soak: a change is judged by what it changes
GROWN_MAX = 4 * MIB  # between a window after the warm-up and the end; a soak begins a million
WINDOW = 8  # samples
COUNTS = (1, 20, 300)
SEGMENTS = ["--segment_bytes", "1MiB", "--retain_bytes", "64MiB"]


class Listener(threading.Thread):
    """Hears every message there is, and each number in its turn."""

    def __init__(self, port: int) -> None:
        super().__init__()
        self.client = RawClient(port, HEADERS[:-3] + b',"frame":"netstring"}\r\n', timeout=120.0)
        self.client.ask(b"SUB > 1\r\n")
        self.heard, self.error = 0, ""

    def run(self) -> None:
        """Until the message that ends it."""
        while True:
            operation = self.client.operation()
            if operation.verb != "MSG":
                self.error = self.error or f"{operation} after {self.heard}"
                return
            number = split_frame(operation.payload)[0]
            if self.heard and number != self.heard + 1:
                self.error = self.error or f"{number} after {self.heard}"
            self.heard = number
            if operation.subject == b"over":
                return


@pytest.mark.slow
def test_given_clients_that_come_and_go_at_random_then_memory_is_flat_and_order_holds(
    tmp_path: Path,
) -> None:
    seed = SEED if SOAK_S else STEADY_SEED
    print(f"CRASH_SEED={seed}")
    chance = Random(seed)
    choices = [
        (kind, ending, deaf)
        for kind in KINDS
        for ending in ENDINGS
        for deaf in (False, True)
        if possible(kind, ending, deaf)
    ]
    with (
        SeriatimServer(
            "none",
            {**LIMITS, "ping_interval": "1h"},
            ["-m", "-1", *SEGMENTS],
            store=tmp_path / "store",
        ) as process,
        Churned(process, others=1) as broker,
    ):
        listener = Listener(process.port)
        listener.start()
        resident: list[int] = []
        files = broker.descriptors()
        start, done = time.monotonic(), 0
        while done < PARTIES or time.monotonic() - start < SOAK_S:
            kind, ending, deaf = chance.choice(choices)
            party = Party(kind, ending, chance.choice(COUNTS), chance.randint(1, 4), deaf)
            try:
                play(broker, party)
                broker.rest()
            except BaseException:
                print(f"{done}: {party}")
                raise
            done += 1
            if done % (PARTIES // 2) == 0:
                resident.append(broker.resident())
                broker.refresh()
        broker.publisher.ask(b"PUB over 0\r\n\r\n")
        listener.join(120.0)
        listener.client.close()
        print(f"{done} parties, {listener.heard} messages", *(size // 1024 for size in resident))
        assert (listener.error, listener.is_alive()) == ("", False)
        assert broker.descriptors() <= files + 70, "one more for a segment that is retained"
        if len(resident) > 4 * WINDOW:  # the first quarter warms up
            warm = statistics.median(resident[len(resident) // 4 :][:WINDOW])
            assert statistics.median(resident[-WINDOW:]) - warm <= GROWN_MAX
