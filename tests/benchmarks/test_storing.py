"""Storing, replaying and reading on real servers: only what was kept counts, and all of it."""

import dataclasses

import pytest

from benchmarks import storing
from benchmarks.connection import Connection
from benchmarks.consuming import run_consuming
from benchmarks.errors import BenchmarkError
from benchmarks.keepers import SUBJECT, ask, keeper_of, unasked
from benchmarks.process import ServerProcess
from benchmarks.reading import run_reading
from benchmarks.replaying import run_replaying
from benchmarks.scenarios import KEPT, STREAMS, Consuming, Reading, Replaying, Storing
from benchmarks.servers import KNOWN, Server
from benchmarks.storing import run_storing
from benchmarks.window import Waiting, publish_all

FEW = Storing(name="few", about="", messages=3000, size=128)
every = pytest.mark.parametrize(
    "server", [KNOWN[name] for name in (*KEPT, "seriatim-js")], ids=lambda one: one.name
)
streams = pytest.mark.parametrize(
    "server", [KNOWN[name] for name in STREAMS], ids=lambda one: one.name
)
always = [KNOWN["seriatim-always"], KNOWN["jetstream-always"]]


@every
def test_given_a_flood_when_nobody_acknowledges_then_what_is_kept_is_counted(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storing, "STILL_SECONDS", 20)  # whoever stands still has dropped nothing
    sample = run_storing(FEW, server)
    assert 0 < sample.messages <= sample.sent == 3000
    assert sample.kept_percent == sample.messages / 30
    assert sample.server_cpu_seconds > 0


@every
def test_given_a_window_when_all_is_acknowledged_then_all_is_kept(server: Server) -> None:
    sample = run_storing(dataclasses.replace(FEW, window=100, publishers=3), server)
    assert (sample.messages, sample.sent, sample.p50_us) == (3000, 3000, 0)


@pytest.mark.parametrize("server", always, ids=lambda one: one.name)
def test_given_publishers_that_each_wait_when_run_then_their_waits_are_known(
    server: Server,
) -> None:
    waiting = dataclasses.replace(FEW, messages=300, window=1, publishers=10)
    sample = run_storing(waiting, server)
    assert sample.messages == 300
    assert 0 < sample.p50_us <= sample.p99_us


@every
@pytest.mark.parametrize("messages", [100, 30_000])
def test_given_kept_messages_when_replayed_then_each_is_there_once(
    server: Server, messages: int
) -> None:
    replaying = Replaying(name="x", about="", messages=messages, size=128)
    assert run_replaying(replaying, server).deliveries == messages


@streams
@pytest.mark.parametrize("acked", [False, True], ids=["ordered", "acked"])
@pytest.mark.parametrize("messages", [100, 30_000])
def test_given_a_stream_when_consumed_then_each_message_is_there_once(
    server: Server, acked: bool, messages: int
) -> None:
    consuming = Consuming(name="x", about="", messages=messages, size=128, acked=acked)
    sample = run_consuming(consuming, server)
    assert sample.messages == sample.deliveries == messages
    assert sample.server_cpu_seconds > 0 or messages < 1000  # it is counted in ticks


@pytest.mark.parametrize("messages", [100, 70_000])
def test_given_kept_messages_when_read_in_columns_then_each_is_there_once(messages: int) -> None:
    reading = Reading(name="x", about="", messages=messages, size=128)
    assert run_reading(reading, KNOWN["seriatim"]).messages == messages


@every
def test_given_a_store_that_was_used_when_begun_then_what_is_kept_is_seen(server: Server) -> None:
    keeper = keeper_of(server)
    with ServerProcess(server) as process, Connection(process.port) as connection:
        keeper.begin(connection)
        assert keeper.kept(connection) == 0
        publish_all([Waiting(connection, keeper, b"hello", 7, window=2)])
        assert keeper.kept(connection) == 7


def test_given_a_journal_that_is_not_empty_when_begun_then_the_run_is_an_error() -> None:
    server = KNOWN["seriatim"]
    with ServerProcess(server) as process, Connection(process.port) as connection:
        connection.settle(unasked(b"hello"))
        with pytest.raises(BenchmarkError, match="not empty"):
            keeper_of(server).begin(connection)


def test_given_a_stream_that_refuses_when_published_to_then_the_run_is_an_error() -> None:
    server = KNOWN["jetstream"]
    keeper = keeper_of(server)
    with ServerProcess(server) as process, Connection(process.port) as connection:
        ask(
            connection,
            b"$JS.API.STREAM.CREATE.BENCH",
            b'{"name":"BENCH","subjects":["%b"],"storage":"file","max_msg_size":3}' % SUBJECT,
        )
        with pytest.raises(BenchmarkError, match="refused"):
            publish_all([Waiting(connection, keeper, b"hello", 7, window=2)])


def test_given_a_wrong_request_when_asked_then_the_answers_error_is_reported() -> None:
    with (
        ServerProcess(KNOWN["jetstream"]) as process,
        Connection(process.port) as connection,
        pytest.raises(BenchmarkError, match="stream not found"),
    ):
        ask(connection, b"$JS.API.STREAM.INFO.BENCH")
