"""Staging, committing and publishing to a real broker, over connections that break."""

import json
import os
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_seriatim import operation_publishing
from pyspark_seriatim.client import Client
from pyspark_seriatim.errors import BrokerError, ConnectionLost, RowError
from pyspark_seriatim.operation_publishing import OperationPublisher, Transaction, WholeStage
from pyspark_seriatim.options import Options
from tests.crash.disks import fill, mounted, why_not
from tests.support.processes import NatsServer, SeriatimServer
from tests.support.raw import QUIET, RawClient
from tests.support.relay import Relay
from tests.support.secured import nats_server

QUERY = Transaction("query-1", 7)
MIB = 1 << 20


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[SeriatimServer]:
    with SeriatimServer("netstring", store=tmp_path / "journal") as server:
        yield server


def options(port: int, **more: object) -> Options:
    given: dict[str, object] = {
        "servers": f"127.0.0.1:{port}",
        "fetchOffset.retryIntervalMs": 10,
        "publishBatchBytes": 1024,
        "ackTimeoutMs": 20_000,
        **more,
    }
    return Options.parse({name: str(value) for name, value in given.items()}, "write")


@pytest.fixture
def publisher(broker: SeriatimServer) -> Iterator[OperationPublisher]:
    with OperationPublisher(options(broker.port)) as made:
        yield made


def rows(first: int, last: int, size: int = 0) -> list[bytes]:
    """Operations of numbered payloads, ten to a buffer."""
    lines = [b"%d" % n + b"x" * size for n in range(first, last)]
    wire = [b"PUB orders.eu %d\r\n%b\r\n" % (len(line), line) for line in lines]
    return [b"".join(wire[at : at + 10]) for at in range(0, len(wire), 10)]


def journal(port: int) -> list[int]:
    """The numbered payloads that were published, in their order."""
    client = Client(options(port))
    found = [
        int(bytes(row.payload).rstrip(b"x"))
        for chunk in client.read(1, max(client.info().last, 1))
        for row in chunk.columns
    ]
    client.close()
    return found


@given(parts=st.lists(st.binary(max_size=30), max_size=9), size=st.integers(1, 40))
def test_given_any_buffers_when_cut_then_pieces_have_one_size_and_all_bytes(
    parts: list[bytes], size: int
) -> None:
    pieces = [bytes(piece) for piece in operation_publishing._cut(parts, size)]
    assert b"".join(pieces) == b"".join(parts)
    assert all(len(piece) == size for piece in pieces[:-1])
    assert all(0 < len(piece) <= size for piece in pieces[-1:])


def test_given_stages_when_committed_then_their_rows_are_there_in_this_order_and_once(
    broker: SeriatimServer, publisher: OperationPublisher
) -> None:
    two = publisher.stage(QUERY, "two", rows(100, 200))
    one = publisher.stage(QUERY, "one", rows(0, 100, 500))
    lost = publisher.stage(QUERY, "loser-of-two", rows(100, 200))
    none = publisher.stage(QUERY, "none", [])
    assert (one.rows, two.rows, lost.rows) == (100, 100, 100)
    assert none == WholeStage("none", 0, 0, 0)
    assert journal(broker.port) == []
    done = publisher.commit(QUERY, [one, none, two])
    assert (done.batch, done.first, done.last, done.rows) == (7, 1, 200, 200)
    assert not done.repeated
    again = publisher.commit(QUERY, [lost])
    assert (again.repeated, again.first, again.last) == (True, 1, 200)
    assert publisher.last("query-1") == again
    assert publisher.last("query-2") is None
    assert journal(broker.port) == list(range(200))


def test_given_a_batch_without_a_row_when_committed_then_it_is_remembered(
    broker: SeriatimServer, publisher: OperationPublisher
) -> None:
    done = publisher.commit(QUERY, [publisher.stage(QUERY, "none", [])])
    assert (done.rows, done.repeated) == (0, False)
    late = publisher.stage(QUERY, "late", rows(0, 10))
    assert publisher.commit(QUERY, [late]).repeated
    assert journal(broker.port) == []


@pytest.mark.parametrize(("cut", "step"), [("up", 997), ("down", 31)])
def test_given_connections_that_break_when_staged_then_each_row_is_there_once(
    broker: SeriatimServer, cut: str, step: int
) -> None:
    with Relay(broker.port) as relay, OperationPublisher(options(relay.port)) as publisher:
        with RawClient(broker.port) as client:
            greeting = 2 * len(json.dumps(client.info))  # and again after CONNECT
        budgets = count(1700 if cut == "up" else greeting + 150, step)  # for one piece at least

        def buffers() -> Iterator[bytes]:
            for buffer in rows(0, 300, 300):
                relay.cut(**{cut: next(budgets)})
                yield buffer

        relay.cut(**{cut: next(budgets)})
        staged = publisher.stage(QUERY, "one", buffers())
        assert relay.connections > 5
        relay.heal()
        done = publisher.commit(QUERY, [staged])
        assert (staged.rows, done.first, done.last, done.rows) == (300, 1, 300, 300)
    assert journal(broker.port) == list(range(300))


@pytest.mark.parametrize("lost", ["request", "answer"])
def test_given_a_commit_that_is_not_answered_then_it_is_asked_again(
    broker: SeriatimServer, lost: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Relay(broker.port) as relay, OperationPublisher(options(relay.port)) as publisher:
        staged = publisher.stage(QUERY, "one", rows(0, 100))
        hang_up = relay.sever if lost == "request" else relay.unhear
        relay.when(b"$SEQ.COMMIT", before=hang_up)
        failures: list[BrokerError] = []

        def heal(_: operation_publishing._Patience, error: BrokerError) -> None:
            failures.append(error)
            relay.heal()

        monkeypatch.setattr(operation_publishing._Patience, "wait", heal)
        done = publisher.commit(QUERY, [staged])
        assert len(failures) >= 1
        assert (done.batch, done.rows) == (7, 100)
    assert journal(broker.port) == list(range(100))


def test_given_a_broker_killed_at_each_step_then_each_row_is_there_once(
    broker: SeriatimServer, publisher: OperationPublisher
) -> None:
    def buffers(kill_at: int) -> Iterator[bytes]:
        for at, buffer in enumerate(rows(0, 3000, 50)):
            if at == kill_at:
                broker.kill()
                broker.start(broker.port)
            yield buffer

    one = publisher.stage(QUERY, "one", buffers(100))
    two = publisher.stage(QUERY, "two", buffers(-1))
    broker.kill()
    broker.start(broker.port)
    done = publisher.commit(QUERY, [one, two])
    broker.kill()
    broker.start(broker.port)
    assert publisher.commit(QUERY, [one, two]).repeated
    assert done.rows == 6000
    assert journal(broker.port) == 2 * list(range(3000))


def test_given_no_broker_then_the_error_says_how_long_it_was_waited_for(
    broker: SeriatimServer,
) -> None:
    publisher = OperationPublisher(options(broker.port, ackTimeoutMs=50))
    staged = publisher.stage(QUERY, "one", rows(0, 10))
    broker.stop()
    asked: list[Callable[[], object]] = [
        lambda: publisher.stage(QUERY, "two", rows(0, 10)),
        lambda: publisher.commit(QUERY, [staged]),
        lambda: publisher.publish(rows(0, 10)),
    ]
    for ask in asked:
        with pytest.raises(ConnectionLost, match=r"50 ms \(ackTimeoutMs\).*connection refused"):
            ask()


def test_given_what_is_aborted_then_it_is_gone_and_the_error_says_what_to_do(
    broker: SeriatimServer, publisher: OperationPublisher
) -> None:
    one, two, three = (publisher.stage(QUERY, name, rows(0, 10)) for name in ("1", "2", "3"))
    assert publisher.abort(QUERY, ["1", "never-was"]) == 1
    with pytest.raises(BrokerError, match=r"404.*staging\.expiry.*it repeats the batch"):
        publisher.commit(QUERY, [one, two])
    assert publisher.abort(QUERY) == 2
    with pytest.raises(BrokerError, match="404"):
        publisher.commit(QUERY, [three])
    assert journal(broker.port) == []
    assert publisher.last("query-1") is None


def test_given_a_stage_that_is_dropped_when_it_is_written_then_no_hole_is_left_in_it(
    publisher: OperationPublisher, broker: SeriatimServer
) -> None:
    def buffers() -> Iterator[bytes]:
        for at, buffer in enumerate(rows(0, 3000)):
            if at == 200:
                with OperationPublisher(options(broker.port)) as other:
                    assert other.abort(QUERY) == 1
            yield buffer

    with pytest.raises(BrokerError, match=r"409.* 0 bytes; what was staged before is gone"):
        publisher.stage(QUERY, "one", buffers())


def test_given_other_bytes_than_were_staged_then_nothing_is_published(
    broker: SeriatimServer, publisher: OperationPublisher
) -> None:
    one = publisher.stage(QUERY, "one", rows(0, 10))
    with pytest.raises(BrokerError, match="409"):
        publisher.commit(QUERY, [WholeStage(one.stage, one.bytes, one.crc32 ^ 1, one.rows)])
    assert journal(broker.port) == []


def test_given_an_operation_that_cannot_be_then_the_broker_names_it(
    publisher: OperationPublisher,
) -> None:
    with pytest.raises(RowError, match=r"400 Row 2 of.*\$SEQ\.x"):
        publisher.stage(QUERY, "one", [b"PUB orders.eu 0\r\n\r\nPUB $SEQ.x 0\r\n\r\n"])


@pytest.mark.parametrize("before", [0, 3, 500])
@pytest.mark.parametrize("size", [1024, 7000, MIB])
def test_given_a_row_that_is_refused_among_many_pieces_then_the_error_has_its_subject(
    broker: SeriatimServer, before: int, size: int
) -> None:
    long = b"this.is.it." + b"x" * 5000
    buffers = [*rows(0, before), b"PUB a 0\r\n\r\nPUB %b re 2\r\nxx\r\n" % long, *rows(0, 100)]
    words = rf"subject 'this\.is\.it\.x+'.*400 Row {before + 2} of"
    with (
        OperationPublisher(options(broker.port, publishBatchBytes=size)) as publisher,
        pytest.raises(RowError, match=words),
    ):
        publisher.stage(QUERY, "one", buffers)


@pytest.mark.parametrize("behind", [0, 20_000])
@pytest.mark.parametrize("whose", ["seriatim", "nats-server"])
def test_given_a_row_that_is_too_long_when_published_at_once_then_it_is_named_and_not_asked_again(
    broker: SeriatimServer, whose: str, behind: int
) -> None:
    long = b"this.is.it." + b"x" * 5000
    buffers = [*rows(0, 20), b"PUB %b 2\r\nxx\r\n" % long, *rows(0, behind, 400)]
    with NatsServer() as nats:
        port = broker.port if whose == "seriatim" else nats.port
        with OperationPublisher(
            options(port, publishBatchBytes=8 * MIB, ackTimeoutMs=120_000)
        ) as publisher:
            begun = time.monotonic()
            with pytest.raises(RowError, match=r"'this\.is\.it\.x+'.* line of 5013 bytes"):
                publisher.publish(buffers)
            assert time.monotonic() - begun < 120, "ackTimeoutMs is 120 s"
            with pytest.raises(RowError, match=r"'large' has 2000021 bytes"):
                publisher.publish([*rows(0, 9), b"PUB large 2000000\r\n%b\r\n" % bytes(2_000_000)])


def test_given_an_error_of_a_rows_maker_then_it_passes_and_the_publisher_goes_on(
    broker: SeriatimServer, publisher: OperationPublisher
) -> None:
    def buffers() -> Iterator[bytes]:
        yield from rows(0, 500)
        raise RowError("row 500 has a null subject")

    with pytest.raises(RowError, match="row 500"):
        publisher.stage(QUERY, "one", buffers())
    assert publisher.abort(QUERY, ["one"]) == 1
    publisher.commit(QUERY, [publisher.stage(QUERY, "two", rows(0, 5))])
    assert journal(broker.port) == list(range(5))


def test_given_a_subject_that_a_user_may_not_publish_to_then_it_is_reported_at_once(
    tmp_path: Path,
) -> None:
    user = '{ user: me, password: x, permissions: { publish: "orders.eu" } }'
    with nats_server(tmp_path, f"authorization {{ timeout: 60, users: [ {user} ] }}") as nats:
        given = {"user": "me", "password": "x", "ackTimeoutMs": 120_000}
        with OperationPublisher(options(nats.port, **given)) as publisher:
            publisher.publish(rows(0, 10))
            begun = time.monotonic()
            with pytest.raises(
                BrokerError, match=r'Permissions Violation for Publish to "orders\.us"'
            ):
                publisher.publish([*rows(0, 10), b"PUB orders.us 1\r\nx\r\n"])
            assert time.monotonic() - begun < 120


def test_given_a_foreign_broker_then_it_can_only_be_published_to_at_once() -> None:
    with NatsServer() as nats, OperationPublisher(options(nats.port)) as publisher:
        with pytest.raises(BrokerError, match="not Seriatim"):
            publisher.stage(QUERY, "one", rows(0, 10))
        with RawClient(nats.port, QUIET) as ear:
            assert ear.ask(b"SUB orders.> 1\r\n") == []
            publisher.publish(rows(0, 10))
            assert [one.payload for one in ear.ask(b"")] == [b"%d" % n for n in range(10)]


def test_given_no_transaction_when_published_then_rows_are_there_in_order(
    broker: SeriatimServer, publisher: OperationPublisher
) -> None:
    publisher.publish(rows(0, 5000))
    assert journal(broker.port) == list(range(5000))


def test_given_a_broker_killed_when_publishing_then_no_row_is_left_out(
    broker: SeriatimServer, publisher: OperationPublisher
) -> None:
    def buffers() -> Iterator[bytes]:
        for at, buffer in enumerate(rows(0, 5000)):
            if at in (100, 300):
                broker.kill()
                broker.start(broker.port)
            yield buffer

    publisher.publish(buffers())
    found = journal(broker.port)
    assert sorted(set(found)) == list(range(5000))
    assert len(found) < 5500, "only what was on its way comes twice"


def test_given_a_subject_that_may_not_be_published_to_then_the_brokers_words_are_raised(
    publisher: OperationPublisher,
) -> None:
    with pytest.raises(BrokerError, match=r"Permissions Violation.*\$SEQ\.x"):
        publisher.publish([b"PUB $SEQ.x 0\r\n\r\n"])


@pytest.mark.skipif(bool(why_not("tmpfs")), reason=why_not("tmpfs") or "")
@pytest.mark.parametrize("how", ["staged", "at once"])
def test_given_a_full_journal_then_it_is_waited_for_and_then_it_goes_on(how: str) -> None:
    with (
        mounted("tmpfs", 24 * MIB) as disk,
        SeriatimServer("netstring", store=disk / "store") as broker,
        OperationPublisher(options(broker.port, ackTimeoutMs=300)) as publisher,
    ):
        filler = fill(disk, MIB)
        wanted = rows(0, 400, 8000)

        def put() -> None:
            if how == "at once":
                publisher.publish(wanted)
            else:
                publisher.commit(QUERY, [publisher.stage(QUERY, "one", wanted)])

        with pytest.raises(BrokerError, match=r"300 ms \(ackTimeoutMs\).*(full|disk)"):
            put()
        publisher.abort(QUERY)
        wait = operation_publishing._Patience.wait

        def make_room(self: operation_publishing._Patience, error: BrokerError) -> None:
            filler.unlink(missing_ok=True)
            self.renew()
            wait(self, error)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(operation_publishing._Patience, "wait", make_room)
            put()
        assert not filler.exists(), "it was full still"
        found = journal(broker.port)
        assert sorted(set(found)) == list(range(400))
        assert how == "at once" or found == list(range(400))


def test_given_rows_that_are_long_in_coming_when_the_connection_is_gone_then_it_is_recreated(
    broker: SeriatimServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    ahead = 0.0
    clock = SimpleNamespace(monotonic=lambda: time.monotonic() + ahead, sleep=time.sleep)
    monkeypatch.setattr(operation_publishing, "time", clock)

    def slow(relay: Relay) -> Iterator[bytes]:
        nonlocal ahead
        yield from rows(0, 100)
        relay.sever()  # as a broker does with whom it has not heard of for long
        relay.heal()
        ahead += 60  # computing, for longer than ackTimeoutMs
        yield from rows(100, 200)

    with Relay(broker.port) as relay, OperationPublisher(options(relay.port)) as publisher:
        staged = publisher.stage(QUERY, "a", slow(relay))
        publisher.commit(QUERY, [staged])
        assert relay.connections > 1
    assert journal(broker.port) == list(range(200))


def test_given_batches_of_other_names_when_written_then_they_share_a_connection(
    broker: SeriatimServer,
) -> None:
    one, two = (options(broker.port, txnAppId="a", txnVersion=n) for n in (1, 2))
    with OperationPublisher.shared(one) as publisher:
        assert OperationPublisher.shared(two) is publisher
        assert OperationPublisher.shared(options(broker.port, ackTimeoutMs=1)) is not publisher


def test_given_a_fork_when_shared_then_no_connection_is(monkeypatch: pytest.MonkeyPatch) -> None:
    publisher, client = OperationPublisher.shared(options(1)), Client.shared(options(1))
    monkeypatch.setattr(os, "getpid", lambda: 1)
    assert OperationPublisher.shared(options(1)) is not publisher
    assert Client.shared(options(1)) is not client
