"""A live subscriber beside others on a real server: its waits are measured, and the others read."""

import pytest

from benchmarks.errors import BenchmarkError
from benchmarks.scenarios import Stalls
from benchmarks.servers import KNOWN
from benchmarks.stalls import run_stalls

LAG = Stalls(
    name="x", about="", messages=600, size=512, rate=1000, others=4, laggards=2, subject="bench.>"
)
REPLAYS = Stalls(
    name="x", about="", messages=600, size=512, rate=1000, kept=2000, others=2, subscriptions=5,
    laggards=2, subject="$SEQ.FROM.1.>",
)  # fmt: skip


@pytest.mark.parametrize("stalls", [LAG, REPLAYS], ids=["lag", "replays"])
def test_given_others_that_lag_or_replay_then_the_waits_of_a_live_one_are_measured(
    stalls: Stalls,
) -> None:
    sample = run_stalls(stalls, KNOWN["seriatim"])
    assert sample.messages == sample.deliveries == 600
    assert 0 < sample.p50_us <= sample.p99_us <= sample.p999_us
    assert sample.seconds >= 0.5
    assert sample.server_cpu_seconds > 0


def test_given_others_that_get_nothing_then_the_run_is_an_error() -> None:
    silent = Stalls(
        name="x", about="", messages=300, size=17, rate=1000, others=1, laggards=1, subject="none"
    )
    with pytest.raises(BenchmarkError, match="got nothing"):
        run_stalls(silent, KNOWN["seriatim"])
