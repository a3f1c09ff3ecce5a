"""Many small publishers on real servers: each message is counted, and the rate is what it says."""

import dataclasses

import pytest

from benchmarks import many_small
from benchmarks.errors import BenchmarkError
from benchmarks.many_small import run_many_small
from benchmarks.scenarios import ManySmall
from benchmarks.servers import KNOWN
from tests.benchmarks.test_flood import stub

SMALL = ManySmall(
    name="x", about="", messages=2000, size=16, publishers=20, rate=10_000, together=5,
    subscribers=2,
)  # fmt: skip


@pytest.mark.parametrize("server", ["seriatim", "nats-server"])
def test_given_a_server_when_many_publish_a_little_then_each_message_is_counted(
    server: str,
) -> None:
    sample = run_many_small(SMALL, KNOWN[server])
    assert (sample.messages, sample.deliveries) == (2000, 4000)
    assert sample.server_cpu_seconds > 0
    assert sample.generator_cpu_seconds > 0
    assert sample.in_per_second < 20_000


def test_given_messages_that_do_not_divide_when_run_then_each_publisher_sends_as_many() -> None:
    small = dataclasses.replace(SMALL, messages=50, subscribers=1, together=1)
    assert run_many_small(small, KNOWN["nats-server"]).messages == 40


def test_given_a_broker_that_loses_one_when_run_then_the_run_is_an_error() -> None:
    with pytest.raises(BenchmarkError, match="a subscriber got"):
        run_many_small(SMALL, stub("lose"))


def test_given_a_rate_that_cannot_be_when_run_then_the_run_is_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(many_small, "LATE_SECONDS", 0)
    fast = dataclasses.replace(SMALL, rate=10_000_000)
    with pytest.raises(BenchmarkError, match="messages took"):
        run_many_small(fast, KNOWN["nats-server"])
