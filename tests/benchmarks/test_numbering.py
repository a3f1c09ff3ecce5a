"""Numbers and feeds on real servers: every answer is checked, every datagram counted."""

from pathlib import Path

import pytest

from benchmarks import numbering
from benchmarks.errors import BenchmarkError
from benchmarks.feeding import run_feeding
from benchmarks.numbering import PIPELINED_TIMES, run_numbering
from benchmarks.scenarios import Feeding, Numbering
from benchmarks.servers import KNOWN, Server, Takes

FEW = Numbering(name="few", about="", messages=200, size=128, connections=3)
FED = Feeding(name="fed", about="", messages=400, size=128)


def stub(fault: str = "none", takes: Takes = "recv") -> Server:
    script = Path(__file__).with_name("stub_sequencer.py")
    command = f"{{bin}}/python '{script}' {{port}} {{group}} {{feed_port}} {takes} {fault}"
    return Server("stub", "netstring", command, takes=takes)


@pytest.mark.parametrize("server", [stub(), KNOWN["seriatim-cq"]], ids=lambda one: one.name)
@pytest.mark.parametrize("connections", [1, 3])
def test_given_clients_that_wait_when_run_then_all_have_their_numbers(
    server: Server, connections: int
) -> None:
    sample = run_numbering(
        Numbering(name="x", about="", messages=200, size=128, connections=connections), server
    )
    assert (sample.messages, sample.deliveries) == (200, 0)
    assert sample.server_cpu_seconds > 0
    assert 0 < sample.p50_us <= sample.p99_us


@pytest.mark.parametrize(
    "server",
    [stub(takes="netstring"), KNOWN["seriatim-cq-netstring"]],
    ids=lambda one: one.name,
)
def test_given_a_window_when_the_server_takes_netstrings_then_there_are_more_messages(
    server: Server,
) -> None:
    sample = run_numbering(
        Numbering(name="x", about="", messages=200, size=128, connections=3, window=50), server
    )
    assert (sample.messages, sample.p50_us) == (200 * PIPELINED_TIMES, 0)


def test_given_a_window_when_the_server_cannot_have_one_then_its_clients_wait() -> None:
    sample = run_numbering(
        Numbering(name="x", about="", messages=200, size=128, connections=3, window=50), stub()
    )
    assert sample.messages == 200


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("repeat", "the answer 4 came"),
        ("word", "expected the netstring of a number, got 'oops,'"),
        ("early", "the answer 5 came"),
        ("end", "it said: nothing goes any more"),
    ],
)
def test_given_a_sequencer_when_it_errs_then_the_run_is_an_error(
    fault: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if fault == "end":  # it may take its time for that
        monkeypatch.setattr(numbering, "ENDING_SECONDS", 30)
    with pytest.raises(BenchmarkError, match=said):
        run_numbering(FEW, stub(fault))


@pytest.mark.parametrize(
    "name",
    ["seriatim-feed", "seriatim-feed-plain", "seriatim-feed-packed", "floor", "floor-segmented"],
)
def test_given_a_feed_when_flooded_then_the_receiver_has_all_that_it_had_room_for(
    name: str,
) -> None:
    sample = run_feeding(FED, KNOWN[name])
    assert sample.messages == 400
    assert sample.received_percent == 100  # so few have room
    assert sample.server_cpu_seconds > 0


@pytest.mark.parametrize(("fault", "count"), [("none", 20), ("lose", 19)])
def test_given_clients_that_wait_when_their_messages_are_fed_then_a_loss_is_no_error(
    fault: str, count: int
) -> None:
    sample = run_feeding(FED, stub(fault))
    assert (sample.messages, sample.deliveries) == (400 // PIPELINED_TIMES, count)


def test_given_a_server_without_a_feed_when_a_feed_is_measured_then_the_run_is_an_error() -> None:
    with pytest.raises(BenchmarkError, match="the receiver got 0 messages of 400"):
        run_feeding(FED, KNOWN["seriatim-no-journal"])
