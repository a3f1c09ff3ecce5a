"""Starting real servers: the time until the first connection, and what a kill leaves."""

import dataclasses

import pytest

from benchmarks.errors import BenchmarkError
from benchmarks.keepers import keeper_of
from benchmarks.scenarios import Starting
from benchmarks.servers import KNOWN
from benchmarks.starting import run_starting

EMPTY = Starting(name="x", about="")
FILLED = Starting(name="x", about="", messages=5000)


@pytest.mark.parametrize("server", ["seriatim", "nats-server"])
def test_given_a_server_when_started_then_its_time_and_its_cpu_are_known(server: str) -> None:
    sample = run_starting(EMPTY, KNOWN[server])
    assert sample.start_ms > 0
    assert sample.cpu_ms > 0
    assert sample.peak_mib > 1


@pytest.mark.parametrize("stopped", [False, True])
def test_given_a_filled_journal_when_killed_or_stopped_and_started_then_it_has_all_of_it(
    stopped: bool,
) -> None:
    sample = run_starting(dataclasses.replace(FILLED, stopped=stopped), KNOWN["seriatim"])
    assert sample.messages == 5000
    assert sample.start_ms > 0


def test_given_a_server_that_has_other_messages_after_a_kill_then_the_run_is_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    keeper = keeper_of(KNOWN["seriatim"])
    counts = iter((5000, 4999))
    monkeypatch.setattr(type(keeper), "begin", lambda self, connection: None)
    monkeypatch.setattr(type(keeper), "kept", lambda self, connection: next(counts))
    with pytest.raises(BenchmarkError, match="5000 messages were kept, and 4999 after the start"):
        run_starting(FILLED, KNOWN["seriatim"])


def test_given_more_messages_than_the_disk_takes_then_the_run_is_an_error_that_says_so() -> None:
    vast = dataclasses.replace(FILLED, messages=1 << 50)
    with pytest.raises(BenchmarkError, match="set TMPDIR to a place with more"):
        run_starting(vast, KNOWN["seriatim"])
