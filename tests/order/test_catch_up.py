"""Lagging subscribers are served from the journal: everything, once, in order; none is delayed."""

import itertools
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.order.lagging import COUNT, SIZE, Keeping, body, count_of, pour, take, take_until
from tests.support.depth import depth
from tests.support.processes import STAND_IN, Limit
from tests.support.raw import HEADERS, QUIET, RawClient, operations

pytestmark = pytest.mark.skipif(STAND_IN, reason="nats-server has no journal behind a subscriber")
ALL = list(range(COUNT))
MIB = 1 << 20


@pytest.fixture
def keeping() -> Iterator[Keeping]:
    with Keeping() as broker:
        yield broker


@pytest.mark.parametrize("frame", ["netstring", "header", "stamp", "none"])
def test_given_a_reader_that_lags_when_it_reads_again_then_it_has_heard_what_others_heard(
    frame: str,
) -> None:
    """To the byte: headers, replies, numbers. A reader that never lagged is the judge."""
    headers = b"NATS/1.0\r\nKey: value\r\n\r\n"
    with Keeping(frame) as broker, ThreadPoolExecutor(2) as pool:
        clients = [
            broker.deaf(b"SUB t.> 1", b"SUB t.*.a 2", connect=connect)
            for connect in (HEADERS, HEADERS, QUIET, QUIET)
        ]
        readers = [pool.submit(clients[at].until_pong) for at in (0, 2)]
        with RawClient(broker.port, HEADERS) as publisher:
            for at in range(COUNT):
                text = body(at)
                subject = b"t.%d.%b" % (at % 7, b"ab"[at % 2 : at % 2 + 1])
                reply = b" answer.%d" % at if at % 3 == 0 else b""
                words = b"%b%b" % (subject, reply)
                if at % 5:
                    publisher.send(b"PUB %b %d\r\n%b\r\n" % (words, len(text), text))
                else:
                    sizes = b"%d %d" % (len(headers), len(headers + text))
                    publisher.send(b"HPUB %b %b\r\n%b%b\r\n" % (words, sizes, headers, text))
            publisher.ask(b"")
        assert broker.figure("catchups") >= 2
        for client in clients[::2]:
            client.send(b"PING\r\n")
        for client, heard in zip(clients[1::2], readers, strict=True):
            judge = heard.result()
            assert len(judge) == COUNT + COUNT // 2
            assert take(client, len(judge)) == judge
            client.send(b"PUB t.1.a 10\r\n%b\r\n" % body(COUNT, 10))
            assert [count_of(operation) for operation in take(client, 2)] == [COUNT, COUNT]
        assert broker.awaits(lambda: broker.lags(0))
        assert broker.figure("slow_consumers") == 0


def test_given_dead_readers_then_neither_publishers_nor_others_wait_for_them() -> None:
    """Whoever did would wait as long as it may: a minute. What they cost is the processor's time.

    That is judged by the same flood at a broker without them, in turn, the best of four each.
    """

    def flood_and_read(broker: Keeping) -> float:
        before = broker.cpu_seconds
        with RawClient(broker.port, QUIET) as healthy:
            healthy.ask(b"SUB flood 1\r\n")
            reading = pool.submit(take, healthy, COUNT)
            assert pour(broker.port, b"flood") < 30
            assert [count_of(operation) for operation in reading.result()] == ALL
        return broker.cpu_seconds - before

    limits: dict[str, Limit] = {"hold_ms": 60_000}
    with (
        Keeping(limits=limits) as empty,
        Keeping(limits=limits) as keeping,
        ThreadPoolExecutor(1) as pool,
    ):
        for _ in range(12):
            keeping.deaf(b"SUB flood 1")
        pour(keeping.port, b"flood")
        assert keeping.lags(12)
        floods = [[flood_and_read(one) for one in (empty, keeping)] for _ in range(4)]
        alone, crowded = map(min, zip(*floods, strict=True))
        print(f"a flood of {COUNT} takes {alone:.2f} s, with twelve dead readers {crowded:.2f} s")
        assert crowded < 4 * alone + 0.2
        assert keeping.figure("slow_consumers") == 0


def test_given_many_dead_readers_then_memory_is_bounded(keeping: Keeping) -> None:
    pour(keeping.port, b"flood")  # whatever serving costs at all
    before = keeping.peak_memory()
    slow = [keeping.deaf(b"SUB flood 1") for _ in range(40)]
    for _ in range(3):
        pour(keeping.port, b"flood")
    assert keeping.lags(40)
    for client in slow[: depth(8, 40)]:
        taken = [count_of(operation) for operation in take(client, COUNT)]
        assert taken == ALL
    grown = keeping.peak_memory() - before
    print(f"40 dead readers of {3 * COUNT * SIZE >> 20} MiB cost {grown / MIB:.1f} MiB")
    # An outbox, and what lies with the transport; more of that, where all happens at once.
    assert grown < 40 * MIB // 2 + 16 * MIB


def test_given_a_reader_that_lags_again_and_again_then_it_misses_nothing(keeping: Keeping) -> None:
    with keeping.deaf(b"SUB flood 1") as slow:
        for turn in range(4):
            before = keeping.figure("catchups")
            pour(keeping.port, b"flood", first=2 * turn * COUNT)
            assert keeping.figure("catchups") > before
            heard = take(slow, COUNT // 3)
            pour(keeping.port, b"flood", first=(2 * turn + 1) * COUNT)
            heard += take(slow, 2 * COUNT - len(heard))
            start = 2 * turn * COUNT
            assert [count_of(one) for one in heard] == list(range(start, start + 2 * COUNT))
            assert slow.ask(b"") == []
            assert keeping.awaits(lambda: keeping.lags(0))


def test_given_a_pause_beyond_the_write_deadline_then_a_reader_is_not_cut_off() -> None:
    with (
        Keeping(limits={"write_deadline": "100ms"}) as broker,
        broker.deaf(b"SUB flood 1") as slow,
    ):
        pour(broker.port, b"flood")
        assert not broker.await_line("Slow Consumer", 0.5)
        assert [count_of(operation) for operation in take(slow, COUNT)] == ALL
        assert slow.ask(b"PUB flood 9\r\n00000000 \r\n") != []


@pytest.mark.parametrize("sync", ["always", "interval"])
def test_given_a_disk_that_is_waited_for_then_a_reader_that_lags_gets_all(sync: str) -> None:
    with Keeping(arguments=["--sync", sync]) as broker, broker.deaf(b"SUB flood 1") as slow:
        with RawClient(broker.port, QUIET) as healthy, ThreadPoolExecutor(1) as pool:
            healthy.ask(b"SUB flood 1\r\n")
            reading = pool.submit(take, healthy, COUNT)
            pour(broker.port, b"flood")
            assert [count_of(operation) for operation in reading.result()] == ALL
        assert [count_of(operation) for operation in take(slow, COUNT)] == ALL


def test_given_a_reader_that_goes_while_it_catches_up_then_nothing_of_it_stays(
    keeping: Keeping,
) -> None:
    def go(at: int) -> None:
        client = keeping.deaf(b"SUB flood 1")
        ready.append(client)

    ready: list[RawClient] = []
    for at in range(10):
        go(at)
    pour(keeping.port, b"flood")
    assert keeping.lags(10)
    for at, client in enumerate(ready):
        take(client, 30 * at)
        if at % 2:
            client.reset()
        else:
            client.close()
    assert keeping.awaits(lambda: keeping.lags(0))
    assert keeping.figure("replays_active") == 0
    assert keeping.awaits(lambda: keeping.figure("connections") == 0)


def test_given_a_reader_that_lags_when_it_asks_then_it_is_answered(keeping: Keeping) -> None:
    with (
        keeping.deaf(b"SUB flood 1", b"SUB inbox.> 2", connect=HEADERS) as slow,
        RawClient(keeping.port, HEADERS + b"SUB service 1\r\n") as service,
    ):
        service.ask(b"")
        pour(keeping.port, b"flood")
        assert keeping.lags(1)
        slow.send(b"PUB $SEQ.INFO inbox.info 0\r\n\r\n")
        for at in range(20):
            slow.send(b"PUB service inbox.%d 4\r\nhelp\r\n" % at)
            asked = service.operation()
            service.ask(b"PUB %b 4\r\ndone\r\n" % asked.reply)
        heard = take_until(slow, b"inbox.19")
        answers = [one.subject for one in heard if one.sid == b"2"]
        assert sorted(answers) == sorted([b"inbox.info", *(b"inbox.%d" % at for at in range(20))])
        assert [count_of(one) for one in heard if one.sid == b"1"] == ALL


def test_given_echo_false_when_it_lags_then_it_hears_all_but_itself(keeping: Keeping) -> None:
    deaf_to_itself = b'CONNECT {"verbose":false,"pedantic":false,"echo":false}\r\n'
    with keeping.deaf(b"SUB flood 1", connect=deaf_to_itself) as slow:
        for at in range(40):
            if at % 4:
                pour(keeping.port, b"flood", 1, first=at)
            else:
                slow.send(b"PUB flood 9\r\n%b\r\n" % body(at, 9))
        pour(keeping.port, b"flood", first=40)
        slow.send(b"PUB flood 9\r\n%b\r\n" % body(0, 9))
        assert keeping.lags(1)
        others = [at for at in range(40) if at % 4] + list(range(40, 40 + COUNT))
        assert [count_of(operation) for operation in take(slow, len(others))] == others
        assert slow.ask(b"") == []


def test_given_a_journal_that_forgets_what_a_reader_needs_then_it_is_cut_off_with_the_reason() -> (
    None
):
    arguments = ["--segment_bytes", "1MiB", "--retain_bytes", "2MiB"]
    with Keeping(arguments=arguments) as broker, broker.deaf(b"SUB flood 1") as slow:
        pour(broker.port, b"flood", 3 * COUNT)
        later = itertools.count(3 * COUNT)

        def forgets() -> bool:
            # A flood may end in a long segment, which waits for a sync; one more message ends it.
            pour(broker.port, b"flood", 1, first=next(later))
            return broker.figure("journal_bytes") <= 2 * MIB

        assert broker.awaits(forgets)
        said = operations(slow.until_closed())
        assert (said[-1].verb, said[-1].text) == ("-ERR", b"'Slow Consumer'")
        heard = [count_of(operation) for operation in said[:-1]]
        assert heard == list(range(len(heard)))
        assert len(heard) < 3 * COUNT
        assert broker.figure("catchups_given_up") == 1
        assert broker.figure("slow_consumers") == 1
        assert broker.await_line("were deleted before it read them")
        assert broker.awaits(lambda: broker.lags(0))


def test_given_a_crowd_of_readers_that_lag_when_all_read_then_each_has_all(
    keeping: Keeping,
) -> None:
    """One with many wishes, some with few, all at once, while publishers go on."""
    slow = [keeping.deaf(b"SUB flood 1", b"SUB > 2") for _ in range(depth(6, 12))]
    pour(keeping.port, b"flood")
    with ThreadPoolExecutor(14) as pool:
        reading = [pool.submit(take, client, 4 * COUNT) for client in slow]
        pour(keeping.port, b"flood", first=COUNT)
        for done in reading:
            heard = done.result()
            for sid in (b"1", b"2"):
                counts = [count_of(one) for one in heard if one.sid == sid]
                assert counts == list(range(2 * COUNT))
