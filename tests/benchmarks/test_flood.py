"""Floods on real servers: everything is counted, and what is missing or wrong is an error."""

from pathlib import Path

import pytest

from benchmarks.errors import BenchmarkError
from benchmarks.flood import run_flood
from benchmarks.scenarios import Flood
from benchmarks.servers import KNOWN, Server

NATS = KNOWN["nats-server"]
FEW = Flood(name="few", about="", messages=20, size=16, subscribers=1)


def stub(fault: str) -> Server:
    script = Path(__file__).with_name("stub_broker.py")
    return Server("stub", "netstring", f"{{bin}}/python '{script}' {{port}} {fault}")


def test_given_nats_server_when_flooded_by_one_for_one_then_all_is_counted() -> None:
    flood = Flood(name="x", about="", messages=30_000, size=128, subscribers=1, burden=20)
    sample = run_flood(flood, NATS)
    assert sample.messages == sample.deliveries
    assert 29_900 < sample.messages <= 30_000  # equal blocks only
    assert sample.server_cpu_seconds > 0
    assert sample.peak_bytes > 1 << 20


def test_given_nats_server_when_four_flood_four_with_many_subjects_then_all_is_counted() -> None:
    flood = Flood(
        name="x", about="", messages=8_000, size=128, publishers=4, subscribers=4, subjects=100
    )
    sample = run_flood(flood, NATS)
    assert (sample.messages, sample.deliveries) == (8_000, 32_000)


@pytest.mark.parametrize("server", ["floor-journal", "floor-bare"])
@pytest.mark.parametrize(("subscribers", "publishers"), [(0, 1), (1, 1), (2, 3)])
def test_given_a_floor_when_flooded_then_it_sends_what_a_broker_would(
    server: str, subscribers: int, publishers: int
) -> None:
    flood = Flood(
        name="x", about="", messages=60_000, size=100, subscribers=subscribers,
        publishers=publishers,
    )  # fmt: skip
    sample = run_flood(flood, KNOWN[server])
    assert sample.messages > 59_000
    assert sample.deliveries == subscribers * sample.messages


@pytest.mark.parametrize("server", ["seriatim", "seriatim-header", "seriatim-stamp", "nats-server"])
def test_given_headers_when_flooded_then_each_byte_is_as_expected(server: str) -> None:
    flood = Flood(name="x", about="", messages=12_000, size=100, subscribers=1, headers=True)
    sample = run_flood(flood, KNOWN[server])
    assert sample.messages == sample.deliveries > 11_000


def test_given_nats_server_when_nobody_subscribes_then_nothing_is_delivered() -> None:
    sample = run_flood(Flood(name="x", about="", messages=1000, size=16), NATS)
    assert (sample.messages, sample.deliveries) == (1000, 0)


@pytest.mark.parametrize("fault", ["none", "ping"])
def test_given_a_numbering_broker_when_nothing_is_wrong_then_the_run_counts(fault: str) -> None:
    flood = Flood(name="x", about="", messages=2000, size=64, subscribers=2, subjects=20)
    assert run_flood(flood, stub(fault)).deliveries == 4000


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("lose", "a subscriber got"),
        ("repeat", "a gap"),
        ("damage", "damaged"),
        ("close", "closed the connection|reset by peer"),
    ],
)
def test_given_a_numbering_broker_when_it_errs_then_the_run_is_an_error(
    fault: str, words: str
) -> None:
    with pytest.raises(BenchmarkError, match=words):
        run_flood(FEW, stub(fault))


def test_given_a_framing_broker_when_plain_messages_are_expected_then_the_run_is_an_error() -> None:
    server = Server("stub", "none", stub("none").command)
    with pytest.raises(BenchmarkError, match="a subscriber got"):
        run_flood(FEW, server)
