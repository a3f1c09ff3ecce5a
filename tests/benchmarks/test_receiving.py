"""Receivers of multicast, in Python and in C: both count every message, and say so alike."""

import os

import pytest

from benchmarks import process
from benchmarks.errors import BenchmarkError
from benchmarks.programs import Process, Program
from benchmarks.receiving import receiver, run_receiving
from benchmarks.scenarios import Receiving
from benchmarks.servers import GROUP, KNOWN, Server
from tests.support.readable import is_readable

RECEIVERS = pytest.mark.parametrize("name", ["receiver", "listener"])


@RECEIVERS
@pytest.mark.parametrize("packed", [1, 10])
def test_given_a_steady_rate_when_received_then_every_message_is_counted(
    name: str, packed: int
) -> None:
    receiving = Receiving(name="x", about="", messages=300, size=128, rate=3000, packed=packed)
    sample = run_receiving(receiving, KNOWN[name])
    assert (sample.messages, sample.sent, sample.received_percent) == (300, 300, 100)
    assert sample.seconds >= 0.9 * 300 / packed / 3000
    assert sample.server_cpu_seconds > 0


@RECEIVERS
def test_given_a_part_of_the_numbers_when_received_then_both_say_the_same(name: str) -> None:
    port = process.free_port()
    with (
        receiver(KNOWN[name], port) as ours,
        Program("floor", GROUP, port, 7, 9, 1, 2, 0) as sender,
    ):
        sender.run()
        counts = ours.run()
    assert counts.pop("cpu") > 0
    first = 10**9
    assert counts == {
        "datagrams": 4, "messages": 7, "missing": 0, "first": first, "last": first + 6,
    }  # fmt: skip


def test_given_a_receiver_that_hears_nothing_when_measured_then_the_run_is_an_error() -> None:
    deaf = Server("deaf", "netstring", "listener 239.255.42.23 {feed_port}", takes="multicast")
    receiving = Receiving(name="x", about="", messages=10, size=128, rate=0)
    with pytest.raises(BenchmarkError, match="got 0 messages of 10: it cannot keep up"):
        run_receiving(receiving, deaf)


def test_given_a_receiver_that_cannot_start_when_started_then_its_last_line_is_reported() -> None:
    nowhere = Server("nowhere", "netstring", "receiver 10.0.0.1 {feed_port}", takes="multicast")
    with pytest.raises(
        BenchmarkError, match=r"^\S*GroupError: 10\.0\.0\.1 is not a multicast group"
    ):
        receiver(nowhere, 9).__enter__()


def test_given_a_process_that_says_another_word_when_started_then_it_is_an_error() -> None:
    with pytest.raises(BenchmarkError, match="echo said 'hello' instead of ready"):
        Process("echo", ["echo", "hello"]).__enter__()


def test_given_a_program_when_its_context_ends_then_it_has_ended() -> None:
    with Program("listener", GROUP, process.free_port()) as listener:
        ended = os.pidfd_open(listener.process.pid)
    assert is_readable(ended, 0)
    os.close(ended)
