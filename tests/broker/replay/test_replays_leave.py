"""Replays, reads and subscriptions that end early, of a real broker: no memory stays.

Everything is done twice to warm up, and then again and again: what a round leaves behind adds up.
"""

import signal

import pytest

from broker.version import is_compiled
from tests.support.churn import ENDINGS, KINDS, LIMITS, NEVER, Churned, Party, play, possible
from tests.support.depth import depth
from tests.support.processes import STAND_IN, SeriatimServer
from tests.support.raw import HEADERS, RawClient

pytestmark = pytest.mark.skipif(STAND_IN, reason="of our own process")

MIB = 1 << 20
FILES = 8  # segments that are open
ROUNDS = depth(1, 3) if is_compiled() else 1  # after those that warm up
WARM = 2  # rounds; the allocator grows by up to 1 MB in the first, and then by half of that in all
COUNT = 2000 if is_compiled() else 40  # of a kind, each time
SEGMENTS = ["--segment_bytes", "1MiB", "--retain_bytes", "64MiB"]
# What stays in the allocator's corners is less. 250 bytes of each of one kind would be as much.
GROWN_MAX = 1_500_000
HANGS_S = 10.0
IN_GATE = (("UNSUB max", False), ("RST", False), ("cut off", False), ("too slow", True))
ABANDONED, WAITING = (depth(50_000, 200_000), 50_000) if is_compiled() else (5000, 5000)


@pytest.mark.parametrize(
    ("ending", "deaf"),
    [
        # All of them are among the parties of tests/crash/test_churn.py, too.
        pytest.param(way, deaf, marks=[] if (way, deaf) in IN_GATE else [pytest.mark.slow])
        for deaf in (False, True)
        for way in ENDINGS
        if possible("LAST", way, deaf)
    ],
)
def test_given_clients_when_they_leave_early_then_nothing_stays_of_what_they_began(
    ending: str, deaf: bool
) -> None:
    kinds = [kind for kind in KINDS if possible(kind, ending, deaf)]
    parties = [Party(kind, ending, COUNT, 1, deaf) for kind in kinds]
    with (
        SeriatimServer("none", LIMITS, ["-m", "-1", *SEGMENTS]) as process,
        Churned(process) as broker,
    ):
        for at in range(WARM + ROUNDS):
            for party in parties:
                play(broker, party)
            broker.rest()
            if at == WARM - 1:
                warm, files = broker.resident(), broker.descriptors()
        assert broker.resident() - warm <= GROWN_MAX
        assert broker.descriptors() <= files + FILES


def test_given_replays_that_were_abandoned_and_others_that_wait_when_stopped_then_it_ends() -> None:
    with SeriatimServer("none", LIMITS) as process, RawClient(process.port, HEADERS) as client:
        for at in range(0, ABANDONED, 1000):
            sids = range(at, at + 1000)
            client.ask(b"".join(b"SUB $SEQ.FROM.%d.a %d\r\n" % (NEVER, sid) for sid in sids))
            client.ask(b"".join(b"UNSUB %d\r\n" % sid for sid in sids))
        for at in range(0, WAITING, 1000):
            sids = range(at, at + 1000)
            client.ask(b"".join(b"SUB $SEQ.FROM.%d.a %d\r\n" % (NEVER, sid) for sid in sids))
        process.signal(signal.SIGTERM)
        assert process.wait(HANGS_S) == 0
