"""`kill -9` at random moments of many commits: every row of every batch is published once.

Publishers of batches, small ones and some that take many turns, repeat each request until it is
answered; others publish meanwhile. tests/crash/test_staging_cut.py tests every step.
"""

import threading
from pathlib import Path
from random import Random

import pytest

from tests.crash.staging import Lives, kept, publish
from tests.crash.trial import SEED
from tests.support.depth import depth
from tests.support.processes import STAND_IN, SeriatimServer
from tests.support.raw import QUIET, RawClient
from tests.support.staging import Batch, judge

pytestmark = pytest.mark.skipif(STAND_IN, reason="nats-server stages nothing")
PUBLISHERS, BATCHES, KILLS = 3, depth(8, 16), depth(2, 6)
NOISE = b"PUB noise 20\r\nnoise 1 1 ..........\r\n"


def plan(chance: Random, name: str) -> list[Batch]:
    return [
        Batch(name, number, chance.choice((1, 20, 300, 300, 20_000)), chance.choice((1, 3)))
        for number in range(BATCHES)
    ]


@pytest.mark.parametrize("sync", ["interval", pytest.param("always", marks=pytest.mark.slow)])
def test_given_kills_at_random_moments_then_every_row_is_published_once(
    sync: str, tmp_path: Path
) -> None:
    chance, lives = Random(f"{SEED} {sync}"), Lives()
    plans = [plan(chance, f"publisher-{at}") for at in range(PUBLISHERS)]
    server = SeriatimServer("netstring", None, ["--sync", sync], store=tmp_path / "store")
    threads = [
        threading.Thread(target=publish, args=(lives, batches), daemon=True) for batches in plans
    ]
    for thread in threads:
        thread.start()
    print(f"CRASH_SEED={SEED}")
    try:
        for _ in range(KILLS):
            server.start(lives.port or -1)
            lives.born(server.port)
            with RawClient(server.port, QUIET) as other:
                other.send(NOISE * 50)
                lives.more(chance.randint(0, 9), threads)
                if chance.random() < 0.5:  # in the middle of a commit, perhaps
                    other.ask(NOISE * chance.randrange(2000))
            server.kill()
        server.start(lives.port)
        lives.born(server.port)
        for thread in threads:
            thread.join(120)
        assert not any(thread.is_alive() for thread in threads), "somebody was never answered"
        assert lives.answers == PUBLISHERS * BATCHES
        server.stop()
    finally:
        server.kill()
    batches = [batch for one in plans for batch in one]
    assert judge(kept(tmp_path / "store"), batches, {*batches}) == {*batches}
    assert [path.name for path in (tmp_path / "store" / "staging").iterdir()] == ["notes"]
