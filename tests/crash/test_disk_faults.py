"""A disk that fails on command: what was told is not lost, what waits is not told, all goes on."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path

import pytest

from sequencer.journal.disk import file_system_of
from sequencer.journal.errors import StoreError, StoreLocked
from tests.crash import shim
from tests.crash.shim import Faults, preload
from tests.crash.talk import heard, is_silent, lives, pub, refusals, replay
from tests.seriatim.cli.check.test_check_broker import checked
from tests.support.jetstream import Dialogue, Step, request
from tests.support.processes import STAND_IN, SeriatimServer
from tests.support.raw import HEADERS, QUIET, Operation, RawClient
from tests.support.web import get, http_port

pytestmark = [
    pytest.mark.skipif(STAND_IN, reason="nats-server has no journal"),
    pytest.mark.skipif(shim.COMPILER is None, reason=shim.WHY_NOT),
]
VERBOSE = b'CONNECT {"verbose":true,"pedantic":false}\r\n'
AGAIN = "messages can be written again"
PROBLEM = "publishers are refused: Input/output error"
API = "$JS.API."
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
def test_given_writes_fail_then_what_was_acknowledged_is_kept_and_the_rest_is_refused(
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


def test_given_a_segment_cut_short_when_killed_then_all_that_was_acknowledged_is_there_once(
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
def test_given_always_when_a_sync_does_not_end_well_then_nobody_is_answered(
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


def answer(client: RawClient, data: bytes) -> Operation:
    """What comes next; the PONG of a PING behind it would wait for what the client published."""
    client.send(data)
    return client.operation()


@pytest.mark.parametrize("fault", ["fdatasync 5", "write 5"])
def test_given_always_when_syncs_fail_then_what_shows_no_number_is_answered_and_health_says_so(
    fault: str, start: Start, faults: Faults
) -> None:
    """Also on connections that wait for a sync, which cannot come."""
    with (
        start("always", "-m", "-1") as broker,
        RawClient(broker.port, QUIET) as ear,
        RawClient(broker.port, HEADERS) as asker,
        RawClient(broker.port, VERBOSE) as loud,
    ):
        web = f"http://127.0.0.1:{http_port(broker)}"
        ear.ask(b"SUB > 1\r\n")
        loud.ask(b"")
        asker.ask(b"SUB _INBOX.* 1\r\n")
        assert get(http_port(broker), "/healthz").status == 200
        with faults.on(fault):
            broker.suspend()  # both come before the sync of either has failed
            asker.send(pub(b"one", b"$SEQ.PUB.a", b"_INBOX.1"))
            loud.send(pub(b"two"))
            broker.signal(signal.SIGCONT)
            assert broker.await_line("publishers are refused")
            loud.send(pub(b"refused"))  # its answers stay in order
            for _ in range(3):
                refused = answer(asker, pub(b"refused", b"$SEQ.PUB.a", b"_INBOX.2"))
                assert refused.subject == b"_INBOX.2"
                assert refused.header == b"NATS/1.0 507 Journal Full\r\n\r\n"
            told = json.loads(answer(asker, pub(b"", b"$SEQ.INFO", b"_INBOX.3")).payload)
            assert (told["full"], told["last"]) == (True, 0)
            assert answer(asker, pub(b"", b"$SEQ.PUB.a", b"_INBOX.4")).payload == b"1:0,"
            assert refusals([answer(asker, pub(b"x", b"b"))]) == [(b"b", b"Input/output error")]
            asker.send(b"PING\r\n")
            assert is_silent(asker), "PONG confirms what it has published"
            assert ear.ask(b"") == [], "PING is answered, and no number is shown"
            assert is_silent(loud)
            health = get(http_port(broker), "/healthz")
            assert (health.status, health.json["error"]) == (503, PROBLEM)
            assert get(http_port(broker), "/healthz?alive=1").status == 200
            status, found = checked(web)
            assert (status, found["healthz"]) == (1, ("failed", f"503 {PROBLEM}"))
            status, found = checked(f"nats://127.0.0.1:{broker.port}")
            assert (status, found["journal"][0]) == (1, "failed")
            assert "publishers are refused" in found["journal"][1]
        assert broker.await_line(AGAIN)
        assert get(http_port(broker), "/healthz").status == 200
        assert loud.operation().verb == "+OK"
        assert loud.operation().verb == "-ERR"
        assert asker.operation().payload in (b"1:1,", b"1:2,")
        assert asker.operation().verb == "PONG"
        told = heard(one for one in ear.ask(b"") if one.subject == b"a")
        assert {payload for _, payload in told} == {b"one", b"two"}
        assert replay(broker.port) == told


@pytest.mark.parametrize("sync", ["interval", "never"])
def test_given_messages_are_refused_then_health_says_so_in_every_mode(
    sync: str, start: Start, faults: Faults
) -> None:
    with start(sync, "-m", "-1", "--segment_bytes", "65536") as broker:
        with faults.on("fallocate 28"), RawClient(broker.port, QUIET) as client:
            while not client.ask(pub(bytes(8000))):
                pass
            health = get(http_port(broker), "/healthz")
            assert health.status == 503
            assert "publishers are refused: No space left on device" in health.json["error"]
        assert broker.await_line(AGAIN)
        assert get(http_port(broker), "/healthz").status == 200


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


@contextmanager
def consumer_of_the_past(start: Start) -> Iterator[tuple[SeriatimServer, Dialogue]]:
    """A stream whose 100 messages are only in files, and a durable consumer of it."""
    with start("interval", "--jetstream") as broker:
        with closing(Dialogue(broker.port)) as dialogue:
            dialogue.ask(Step(API + "STREAM.CREATE.S", {"name": "S", "subjects": ["s.>"]}))
            config = {"stream_name": "S", "config": {"durable_name": "c", "ack_policy": "none"}}
            dialogue.ask(Step(API + "CONSUMER.DURABLE.CREATE.S.c", config))
            messages = (pub(b"%d" % number, b"s.a") for number in range(1, 101))
            dialogue.client.ask(b"".join(messages))
        broker.restart()
        with closing(Dialogue(broker.port)) as dialogue:
            yield broker, dialogue


@pytest.mark.parametrize("short_of", ["nowait 24", "nowait 12"], ids=["descriptors", "memory"])
def test_given_a_shortage_when_a_consumer_reads_then_it_waits_and_misses_nothing(
    short_of: str, start: Start, faults: Faults
) -> None:
    with consumer_of_the_past(start) as (broker, dialogue):
        pull = Step(API + "CONSUMER.MSG.NEXT.S.c", {"batch": 100, "expires": 60 * 10**9})
        with faults.on(short_of):
            dialogue.client.send(request(pull, f"{dialogue.inbox}.pull"))
            assert [one.verb for one in dialogue.client.ask(b"")] == []
            assert lives(broker.port)
        found = [dialogue.client.operation().payload for _ in range(100)]
        assert found == [b"%d" % number for number in range(1, 101)]
        assert not broker.said("cannot read")


def test_given_a_disk_that_fails_when_a_thread_reads_for_a_consumer_then_it_goes_on_behind_that(
    start: Start, faults: Faults
) -> None:
    with consumer_of_the_past(start) as (broker, dialogue):
        pull = Step(API + "CONSUMER.MSG.NEXT.S.c", {"batch": 1, "expires": 60 * 10**9})
        with faults.on("nowait 11", "read 5"):
            dialogue.client.send(request(pull, f"{dialogue.inbox}.pull"))
            assert broker.await_line("cannot read")
        dialogue.client.send(pub(b"new", b"s.a"))
        assert dialogue.client.operation().payload == b"new"


@pytest.mark.parametrize(
    "lacks",
    [
        ("flock 37",),  # ENOLCK
        ("flock 95",),  # EOPNOTSUPP
        ("fallocate 38",),  # ENOSYS
        ("fallocate 22",),  # EINVAL
        ("fdatasync 22 store",),  # of the directory
    ],
    ids=" and ".join,
)
def test_given_a_file_system_that_lacks_something_then_the_store_does_without_it(
    lacks: tuple[str, ...], start: Start, faults: Faults, tmp_path: Path
) -> None:
    with faults.on(*lacks), start("always") as broker:
        with RawClient(broker.port, QUIET) as client:
            assert heard(client.ask(b"SUB > 1\r\n" + pub(b"one"))) == [(1, b"one")]
        with pytest.raises(StoreLocked, match=f"process {broker.pid} writes this store"):
            other_start(tmp_path / "store", *lacks)
        broker.kill()
        broker.start(broker.port)
        assert replay(broker.port) == [(1, b"one")]


def other_start(store: Path, *lacks: str) -> None:
    """Another process opens the store, on the same disk. Raises what it meets."""
    faults = Faults(store.parent)
    faults.set(*lacks)
    env = {**os.environ, **preload(store, faults=faults)}
    done = subprocess.run(
        [sys.executable, "-c", OPEN, str(store)], env=env, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    kind, pid, text = done.stdout.split(" ", 2)
    raise StoreLocked(text, int(pid)) if kind == "StoreLocked" else StoreError(text)


OPEN = """
import sys
from sequencer.journal.errors import StoreError
from sequencer.journal.store import Store
try:
    Store.open(sys.argv[1], 1)
except StoreError as error:
    print(type(error).__name__, getattr(error, "pid", 0), error)
"""


def test_given_a_file_system_without_any_locks_then_it_is_named_and_nothing_is_written(
    tmp_path: Path,
) -> None:
    (tmp_path / "store").mkdir()
    with pytest.raises(StoreError) as caught:
        other_start(tmp_path / "store", "flock 37", "lock 37")
    words = (
        f"the file system ({file_system_of(str(tmp_path))}) has no file locks (No locks available)"
    )
    assert words in str(caught.value)
    assert os.listdir(tmp_path / "store") == ["lock"]


REMOVALS: dict[str, Callable[[Path], object]] = {
    "the directory": lambda store: shutil.rmtree(store),
    "moved": lambda store: store.rename(store.with_name("moved")),
    "another in its place": lambda store: (
        store.rename(store.with_name("moved")),
        shutil.copytree(store.with_name("moved"), store),
    ),
    "the lock": lambda store: (store / "lock").unlink(),
    "the newest segment": lambda store: max(store.glob("*.segment")).unlink(),
    "the window": lambda store: (store / "window").unlink(),
}


@pytest.mark.parametrize(
    ("how", "sync"),
    [*((how, "interval") for how in REMOVALS), ("moved", "always"), ("moved", "never")],
)
def test_given_the_store_is_removed_or_replaced_then_publishers_are_refused(
    how: str, sync: str, tmp_path: Path
) -> None:
    store = tmp_path / "store"
    arguments = ["--sync", sync, "-m", "-1"]
    with (
        SeriatimServer("netstring", None, arguments, store=store) as broker,
        RawClient(broker.port, QUIET) as client,
    ):
        assert heard(client.ask(b"SUB > 1\r\n" + pub(b"one"))) == [(1, b"one")]
        REMOVALS[how](store)
        before = sorted(store.iterdir()) if store.exists() else None
        assert broker.await_line("publishers are refused")
        assert broker.said("was removed or replaced")
        assert refusals(client.ask(pub(b"two")))
        assert get(http_port(broker), "/healthz").status == 503
        if store.with_name("moved").exists() and not before:
            store.with_name("moved").rename(store)
            assert broker.await_line(AGAIN)
            assert heard(client.ask(pub(b"three"))) == [(2, b"three")]
        broker.stop()
        if before:
            assert sorted(store.iterdir()) == before, "nothing was written to what is not ours"
