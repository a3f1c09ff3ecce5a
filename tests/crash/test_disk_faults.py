"""A disk that fails on command: what was told is not lost, what waits is not told, all goes on."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from tests.crash import shim
from tests.crash.shim import Faults, preload
from tests.crash.talk import heard, is_silent, lives, pub, refusals, replay
from tests.support.processes import STAND_IN, SeriatimServer
from tests.support.raw import HEADERS, QUIET, Operation, RawClient

pytestmark = [
    pytest.mark.skipif(STAND_IN, reason="nats-server has no journal"),
    pytest.mark.skipif(shim.COMPILER is None, reason=shim.WHY_NOT),
]
VERBOSE = b'CONNECT {"verbose":true,"pedantic":false}\r\n'
AGAIN = "messages can be written again"
Start = Callable[..., AbstractContextManager[SeriatimServer]]


@pytest.fixture
def faults(tmp_path: Path) -> Faults:
    return Faults(tmp_path)


@pytest.fixture
def start(tmp_path: Path, faults: Faults) -> Start:
    """Starts a broker on the disk that `faults` rules."""

    @contextmanager
    def start(sync: str = "interval", *more: str) -> Iterator[SeriatimServer]:
        arguments = ["--sync", sync, *more]
        server = SeriatimServer("netstring", None, arguments, store=tmp_path / "store")
        server.env |= preload(tmp_path / "store", faults=faults)
        with server:
            yield server

    return start


@pytest.mark.parametrize("fault", ["write 28", "write 5", "write short"])
def test_given_writes_fail_then_what_was_told_is_kept_and_the_rest_is_refused(
    fault: str, start: Start, faults: Faults
) -> None:
    with start() as broker, RawClient(broker.port, QUIET) as ear:
        ear.ask(b"SUB > 1\r\n")
        with (
            RawClient(broker.port, QUIET) as quiet,
            RawClient(broker.port, VERBOSE) as loud,
        ):
            loud.ask(b"")
            quiet.ask(pub(b"one"))
            assert heard(ear.ask(b"")) == [(1, b"one")]
            with faults.on(fault):
                assert [one.verb for one in loud.ask(pub(b"two"))] == ["+OK"]
                assert heard(ear.ask(b"")) == [(2, b"two")]
                assert broker.await_line("publishers are refused")
                refused = refusals(quiet.ask(pub(b"three") + pub(b"four", b"b")))
                assert refused[0][0] == b"a"
                assert lives(broker.port)
            assert broker.await_line(AGAIN)
            assert quiet.ask(pub(b"five")) == []
        assert heard(ear.ask(b"")) == [(3, b"five")]
        broker.kill()
        broker.start(broker.port)
        assert replay(broker.port) == [(1, b"one"), (2, b"two"), (3, b"five")]


def test_given_a_write_to_a_segment_cut_short_when_killed_then_all_that_was_told_is_there_once(
    start: Start, faults: Faults
) -> None:
    big = b"x" * 5000
    with start() as broker:
        with RawClient(broker.port, QUIET) as client, faults.on("write short"):
            assert heard(client.ask(b"SUB > 1\r\n" + pub(big))) == [(1, big)]
            assert broker.await_line("publishers are refused")
            broker.kill()
        broker.start(broker.port)
        with RawClient(broker.port, QUIET) as client:
            assert heard(client.ask(b"SUB > 1\r\n" + pub(b"one"))) == [(2, b"one")]
        assert replay(broker.port) == [(1, big), (2, b"one")]


@pytest.mark.parametrize(
    "fault",
    ["fdatasync stall", "fdatasync 5", "fdatasync 28", "write stall", "write 5", "write short"],
)
def test_given_always_when_a_sync_does_not_end_well_then_nobody_is_told_anything(
    fault: str, start: Start, faults: Faults
) -> None:
    with (
        start("always") as broker,
        RawClient(broker.port, QUIET) as ear,
        RawClient(broker.port, HEADERS) as late,
        RawClient(broker.port, QUIET) as quiet,
        RawClient(broker.port, VERBOSE) as loud,
        RawClient(broker.port, HEADERS) as asker,
    ):
        ear.ask(b"SUB > 1\r\n")
        loud.ask(b"")
        asker.ask(b"SUB _INBOX.1 1\r\n")
        with faults.on(fault):
            quiet.ask(pub(b"one"))
            if fault.endswith("stall"):
                loud.send(pub(b"two"))
                asker.send(pub(b"three", b"$SEQ.PUB.a", b"_INBOX.1"))
                late.send(b"SUB $SEQ.FROM.1.a 1\r\n")
            else:
                assert broker.await_line("publishers are refused")
                refusals(quiet.ask(pub(b"refused")))
            for client in (ear, loud, asker, late):
                assert is_silent(client)
            assert lives(broker.port)
        if fault.endswith("stall"):
            assert loud.operation().verb == "+OK"
            assert asker.operation().payload == b"1:3,"
            told = [(1, b"one"), (2, b"two"), (3, b"three")]
        else:
            assert broker.await_line(AGAIN)
            told = [(1, b"one")]
            late.send(b"SUB $SEQ.FROM.1.a 1\r\n")
        assert heard(late.operation() for _ in told) == told
        own = [one for one in ear.ask(b"") if one.subject != b"_INBOX.1"]
        assert heard(own) == told
        assert replay(broker.port) == told


@pytest.mark.parametrize("sync", ["interval", "never"])
def test_given_interval_when_a_sync_hangs_then_nobody_waits_for_it(
    sync: str, start: Start, faults: Faults
) -> None:
    with start(sync) as broker, faults.on("fdatasync stall"):
        with RawClient(broker.port, QUIET) as client:
            assert heard(client.ask(b"SUB > 1\r\n" + pub(b"one"))) == [(1, b"one")]
            assert heard(client.ask(pub(b"two"))) == [(2, b"two")]
        faults.set()


@pytest.mark.parametrize("fault", ["fallocate 28", "fallocate 5", "open 28", "rename 5"])
def test_given_no_room_is_to_be_had_then_no_number_is_burnt_and_all_goes_on(
    fault: str, start: Start, faults: Faults
) -> None:
    body = b"x" * 8000
    question = pub(body, b"$SEQ.PUB.a", b"_INBOX.1")
    with (
        start("interval", "--segment_bytes", "65536") as broker,
        RawClient(broker.port, QUIET) as ear,
        RawClient(broker.port, HEADERS) as asker,
    ):
        ear.ask(b"SUB a 1\r\n")
        asker.ask(b"SUB _INBOX.1 1\r\n")
        with faults.on(fault), RawClient(broker.port, QUIET) as client:
            said: list[Operation] = []
            taken = 0
            while not said:
                said = client.ask(pub(b"%d " % taken + body))
                taken += not said
                assert taken < 20 or fault == "rename 5", "one segment holds eight"
                assert taken < 2000, "a segment has its name when it is synced"
            assert refusals(said)[0][0] == b"a"
            status = asker.ask(question)
            assert [one.header[:12] for one in status] == [b"NATS/1.0 507"]
            assert lives(broker.port)
            assert len(replay(broker.port)) == taken, "replay goes on"
        assert broker.await_line(AGAIN)
        assert asker.ask(question)[0].payload == b"%d:%d," % (
            len(b"%d" % (taken + 1)),
            taken + 1,
        )
        told = heard(ear.ask(b""))
        assert [number for number, _ in told] == list(range(1, taken + 2))
        assert replay(broker.port) == told


def test_given_no_descriptor_for_a_new_segment_then_the_last_one_grows_on_and_nobody_is_refused(
    start: Start, faults: Faults
) -> None:
    body = b"x" * 8000
    with (
        start("interval", "--segment_bytes", "65536") as broker,
        RawClient(broker.port, QUIET) as client,
    ):
        with faults.on("open 24"):
            for at in range(40):  # one segment holds eight
                assert client.ask(pub(b"%d " % at + body)) == []
            assert lives(broker.port)
        assert client.ask(pub(body)) == []
        assert [number for number, _ in replay(broker.port)] == list(range(1, 42))
        broker.restart()
        assert [number for number, _ in replay(broker.port)] == list(range(1, 42))


@pytest.mark.parametrize("fault", ["nowait short", "nowait 11", "nowait 95"])
def test_given_a_cold_cache_then_replay_misses_nothing(
    fault: str, start: Start, faults: Faults
) -> None:
    sizes = [(at * 37) % 9000 for at in range(600)]
    with start() as broker:
        with RawClient(broker.port, QUIET) as client:
            client.ask(b"".join(pub(b"x" * size) for size in sizes))
        broker.restart()
        with faults.on(fault):
            run = replay(broker.port)
        assert [number for number, _ in run] == list(range(1, 601))
        assert [len(payload) for _, payload in run] == sizes
        assert not broker.said("damaged")
