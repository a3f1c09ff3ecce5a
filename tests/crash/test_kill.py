"""`kill -9` at random moments: nothing that a client was told is lost, or changes later."""

from pathlib import Path

import pytest

from tests.crash.trial import SEED, Trial, play
from tests.support.depth import depth
from tests.support.processes import STAND_IN

pytestmark = pytest.mark.skipif(STAND_IN, reason="nats-server has no numbers to lose")
ROUNDS = depth(2, 5)


@pytest.mark.parametrize(
    "sync", ["interval", "always", pytest.param("never", marks=pytest.mark.slow)]
)
def test_given_kills_at_random_moments_then_nothing_acknowledged_is_lost(
    sync: str, tmp_path: Path
) -> None:
    play(Trial(tmp_path / "store", SEED, sync), ROUNDS)


def test_given_kills_when_old_segments_are_deleted_then_the_rest_is_whole(tmp_path: Path) -> None:
    """Nobody follows from 1 here: that is lost, and said so, to who comes too late.

    A message makes three events, or few more, and some 800 bytes: three lives fill over 4 MiB.
    """
    trial = Trial(
        tmp_path / "store", SEED, "interval", "--retain_bytes", "4MiB", events=(8000, 15_000)
    )
    trial.followers.clear()
    play(trial, 3)
    assert trial.info["first"] > 1
