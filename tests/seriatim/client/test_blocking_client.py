"""The client without asyncio: threads that share it, interrupts, and every way to end it."""

import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self

import pytest

import seriatim
from seriatim import (
    BlockingClient,
    ClientEvent,
    ConnectionLost,
    Expect,
    InvalidArgument,
    JournalChanged,
    Lost,
    Message,
    NoAnswer,
    NoResponders,
    NotAllPublished,
    NotFound,
    Position,
    Refused,
    Unconfirmed,
    WrongLastNumber,
)
from seriatim.client import blocking_client, stream_publishing
from tests.support.depth import depth
from tests.support.places import ROOT
from tests.support.processes import NatsServer, SeriatimServer, ServerProcess, url

PATIENCE_S = 30.0


@pytest.fixture(scope="module")
def broker() -> Iterator[ServerProcess]:
    with SeriatimServer() as server:
        yield server


@pytest.fixture(autouse=True)
def _no_thread_left() -> Iterator[None]:
    """Each test ends its clients, and with them their threads."""
    yield
    left = [one for one in threading.enumerate() if one.name == "seriatim-client"]
    for one in left:
        one.join(PATIENCE_S)
    assert [one for one in left if one.is_alive()] == []


def payloads(stream: BlockingClient, subject: str = ">") -> list[bytes]:
    return [message.payload for message in stream.read(subject, until="now")]


# The same words


def test_given_the_words_of_the_client_then_each_blocks_until_it_is_done(
    broker: ServerProcess,
) -> None:
    told: list[ClientEvent] = []
    with seriatim.connect(url(broker), on_event=told.append) as stream:
        number = stream.publish("a.x", b"first", headers={"Mine": "x"})
        assert stream.publish("a.x", b"second", id="2") == number + 1
        assert stream.publish("a.x", b"again", id="2") == number + 1
        with pytest.raises(WrongLastNumber) as wrong:
            stream.publish("a.x", b"third", expect=Expect(last=number))
        assert wrong.value.last == number + 1
        assert stream.get(number).payload == b"first"
        assert stream.last("a.x").payload == b"second"
        assert stream.last("a.none") is None
        assert stream.info().last == number + 1
        assert len(stream.table(number)) == 2
        with pytest.raises(NotFound):
            stream.get(10**6)
        with stream.batch() as batch:
            batch.publish("a.y", b"in a batch")
        assert (batch.first, batch.last, batch.rows, batch.is_repeated) == (
            *(number + 2, number + 2, 1, False),
        )
        with pytest.raises(InvalidArgument), stream.batch() as batch:
            batch.publish("a y", b"never")
        assert payloads(stream, "a.*") == [b"first", b"second", b"in a batch"]
        sent = [stream.send("a.z", b"%d" % at) for at in range(500)]
        assert [one.result() for one in sent] == list(range(number + 3, number + 503))
        subscription = stream.subscribe("b.*")
        stream.publish_unconfirmed("b.x", b"plain", reply="r", headers={"Mine": "y"})
        message = subscription.next(PATIENCE_S)
        assert (message.payload, message.reply, message.headers) == (b"plain", "r", {"Mine": "y"})
        with pytest.raises(NoAnswer):
            subscription.next(0.01)
        subscription.unsubscribe(after=3)
        for at in range(3):
            stream.publish_unconfirmed("b.x", b"%d" % at)
        assert [one.payload for one in subscription] == [b"0", b"1"]
        stream.subscribe("service", lambda message: stream.respond(message, message.payload * 2))
        assert stream.request("service", b"ab").payload == b"abab"
        with pytest.raises(NoResponders):
            stream.request("nobody")
        with pytest.raises(Refused) as refused:
            stream.subscribe("$SEQ.INFO")
        assert refused.value.subject == "$SEQ.INFO"
        stream.flush()
        assert stream.is_connected
        assert stream.new_inbox().startswith("_INBOX.")
        assert "connected" in repr(stream)
        assert stream.max_payload == stream.server["max_payload"]
    assert stream.is_closed
    assert told[0].kind == "connected"
    assert not {event.kind for event in told} & {"disconnected", "refused", "slow"}


def test_given_a_plain_nats_server_then_plain_words_work() -> None:
    with NatsServer() as server, seriatim.connect(url(server)) as stream:
        subscription = stream.subscribe("a")
        stream.publish_unconfirmed("a", b"x")
        assert next(subscription).payload == b"x"
        with pytest.raises(seriatim.NotSeriatim):
            stream.publish("a")


def test_given_callbacks_then_each_has_a_thread_and_leaving_waits_for_them(
    broker: ServerProcess, caplog: pytest.LogCaptureFixture
) -> None:
    found: list[tuple[bytes, str]] = []

    def work(message: Message) -> None:
        time.sleep(0.01)  # no event to await: a slow callback
        found.append((message.payload, threading.current_thread().name))
        if message.payload == b"3":
            raise ZeroDivisionError

    with (
        caplog.at_level(logging.ERROR, "seriatim.client"),
        seriatim.connect(url(broker)) as stream,
    ):
        stream.subscribe("c", work)
        for at in range(10):
            stream.publish_unconfirmed("c", b"%d" % at)
    assert [payload for payload, _ in found] == [b"%d" % at for at in range(10)]
    assert {name for _, name in found}.isdisjoint({"MainThread", "seriatim-client"})
    assert [record.getMessage() for record in caplog.records] == ["A callback for c failed"]


def test_given_losses_then_they_are_raised_or_yielded_and_reading_goes_on(
    broker: ServerProcess,
) -> None:
    with seriatim.connect(url(broker)) as stream:
        stream.publish("losses")
        other = Position("0" * 16, 5)
        reader = stream.read("losses", start=other, until="now")
        with pytest.raises(JournalChanged) as changed:
            next(reader)
        assert changed.value.before[:2] == other[:2]
        assert len(list(reader)) == 1
        items = list(stream.read("losses", start=other, until="now", losses="yield"))
        assert [type(item) for item in items] == [JournalChanged, Message]
        assert not any(isinstance(item, Lost) for item in items)

        async def load() -> None:
            return None

        for place in ((load, lambda position: None), (lambda: 7, lambda position: None)):
            with pytest.raises(InvalidArgument):
                next(stream.read("losses", position=place))


# Threads


def test_given_threads_that_share_a_client_then_each_has_its_own_answers_in_its_order(
    broker: ServerProcess,
) -> None:
    each = 300

    def work(name: int) -> tuple[list[int], list[int]]:
        if name % 2:
            sent = [stream.send(f"t.{name}", b"%d" % at) for at in range(each)]
            numbers = [one.result() for one in sent]
        else:
            numbers = [stream.publish(f"t.{name}", b"%d" % at) for at in range(each)]
        read = [message.number for message in stream.read(f"t.{name}", until=numbers[-1])]
        return numbers, read

    with seriatim.connect(url(broker)) as stream:
        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(work, range(8)))
        for numbers, read in found:
            assert numbers == sorted(numbers) == read
        assert len({number for numbers, _ in found for number in numbers}) == 8 * each


def test_given_a_send_that_its_user_cancels_then_the_others_are_sent() -> None:
    with SeriatimServer() as server, seriatim.connect(url(server)) as stream:
        stream.publish("a")
        port = server.port
        server.stop()
        sent = [stream.send("a", b"%d" % at) for at in range(200)]
        for one in sent[::3]:
            one.cancel()
        server.start(port)
        numbers = [one.result() for one in sent if not one.cancelled()]
        assert numbers == sorted(numbers)
        assert stream.publish("a") > numbers[-1]


def test_given_no_room_in_time_then_the_message_was_not_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(blocking_client, "OPEN_MAX", 3)
    with SeriatimServer() as server, seriatim.connect(url(server)) as stream:
        server.suspend()
        sent = [stream.send("a") for _ in range(3)]
        with pytest.raises(Unconfirmed, match="it was not sent"):
            stream.publish("a", timeout=0.05)
        server.signal(signal.SIGCONT)
        assert sorted(one.result() for one in sent) == [1, 2, 3]
        assert stream.publish("a") == 4


def test_given_many_messages_then_one_call_publishes_them_behind_those_that_were_sent() -> None:
    with SeriatimServer() as server, seriatim.connect(url(server)) as stream:
        assert stream.publish_all([]) == []
        sent = [stream.send("before", b"%d" % at) for at in range(1000)]
        # The messages are made in the thread that calls, which may use the client for them.
        count = 2 * blocking_client.PIECE_MESSAGES + 3
        many = (
            ("all", b"%d" % stream.info().last if at % 500 == 0 else b"x") for at in range(count)
        )
        numbers = stream.publish_all(many)
        assert sent[-1].result() < numbers[0]
        assert numbers == list(range(numbers[0], numbers[0] + count))
        assert stream.get(numbers[0]).payload == b"%d" % sent[-1].result()
        large = stream.publish_all(("large", bytes(100_000)) for _ in range(50))
        assert len(list(stream.read("large", until="now"))) == len(large) == 50
        taken: list[int] = []
        bad = (
            ("all", b"x") if taken.append(at) or at != 5 else ("a b", b"x") for at in range(10**6)
        )
        with pytest.raises(NotAllPublished, match=r"messages\[5\]: 'a b' is not valid") as told:
            stream.publish_all(bad)
        assert [number > large[-1] for number in told.value.numbers] == [True] * 5 + [False]
        assert len(taken) <= blocking_client.PIECE_MESSAGES


@pytest.mark.parametrize("word", ["close", "drain"])
def test_given_another_thread_that_ends_the_client_then_all_who_wait_learn_it(word: str) -> None:
    def end(stream: BlockingClient, delay: float) -> None:
        stream.publish("a")
        subscription = stream.subscribe("b")
        silent = stream.subscribe("silent")
        calls: list[Callable[[], Any]] = [
            lambda: list(stream.read("b")),
            lambda: list(subscription),
            lambda: silent.next(),
            lambda: stream.request("silent", timeout=PATIENCE_S),
            lambda: [stream.publish("a") for _ in iter(int, 1)],
            lambda: [stream.send("a").result() for _ in iter(int, 1)],
            lambda: stream.publish_all(("a", b"") for _ in iter(int, 1)),
            lambda: [stream.get(1) for _ in iter(int, 1)],
            lambda: [stream.flush() for _ in iter(int, 1)],
            getattr(stream, word),
            stream.close,
        ]
        with ThreadPoolExecutor(len(calls)) as pool:
            futures = [pool.submit(call) for call in calls]
            time.sleep(delay)  # no event to await: at any moment
            getattr(stream, word)()
            errors = [one.exception(PATIENCE_S) for one in futures]
        # A stream that was ended ends its loops; calls fail with an error of the client's.
        assert all(error is None or isinstance(error, seriatim.BrokerError) for error in errors)
        assert isinstance(errors[4], ConnectionLost | Unconfirmed)
        assert stream.is_closed

    with SeriatimServer() as server:
        for delay in (0.0, 0.001, 0.01, 0.05):
            end(seriatim.connect(url(server)).open(), delay)


def test_given_a_client_that_is_closed_when_used_then_each_word_says_so(
    broker: ServerProcess,
) -> None:
    stream = seriatim.connect(url(broker)).open()
    stream.publish("d")
    reader, subscription = stream.read("d"), stream.subscribe("d")
    assert next(reader).subject == "d"
    stream.close()
    stream.close()
    stream.drain()
    calls: list[Callable[[], Any]] = [
        lambda: stream.publish("d"),
        lambda: stream.send("d"),
        lambda: stream.publish_all([("d", b"")]),
        lambda: stream.publish_unconfirmed("d"),
        lambda: stream.batch().__enter__().publish("d"),
        lambda: stream.read("d"),
        lambda: stream.table(),
        lambda: stream.get(1),
        lambda: stream.last("d"),
        lambda: stream.info(),
        lambda: stream.subscribe("d"),
        lambda: stream.request("d"),
        lambda: stream.flush(),
        lambda: subscription.next(),
    ]
    for call in calls:
        with pytest.raises(ConnectionLost, match="closed"):
            call()
    with pytest.raises((ConnectionLost, StopIteration)):
        next(reader)
    reader.close()
    assert stream.new_inbox()


def test_given_an_event_when_its_function_asks_the_client_then_it_is_told_and_nothing_hangs(
    broker: ServerProcess,
) -> None:
    errors: list[BaseException] = []
    streams: list[BlockingClient] = []

    def told(event: ClientEvent) -> None:
        if event.kind != "refused":
            return
        (stream,) = streams
        words: list[Callable[[], Any]] = [
            lambda: stream.publish("e"),
            lambda: stream.send("e"),
            stream.info,
            stream.close,
            stream.drain,
        ]
        for word in words:
            try:
                word()
            except InvalidArgument as error:
                errors.append(error)
        done.set()

    done = threading.Event()
    with seriatim.connect(url(broker), on_event=told) as stream:
        streams.append(stream)
        stream.publish_unconfirmed("$SEQ.nothing")
        assert done.wait(PATIENCE_S)
        assert len(errors) == 5
        assert stream.publish("e") > 0


def test_given_a_running_loop_then_a_blocking_client_refuses_to_stop_it(
    broker: ServerProcess,
) -> None:
    async def scenario() -> None:
        with pytest.raises(InvalidArgument, match="use `async with`"):
            seriatim.connect(url(broker)).open()

    import asyncio

    asyncio.run(scenario())


def test_given_no_broker_then_connecting_fails_and_leaves_no_thread() -> None:
    for _ in range(3):
        with pytest.raises(ConnectionLost, match="refused"):
            seriatim.connect("127.0.0.1:1").open()


def test_given_a_child_process_when_it_uses_the_client_then_it_is_told(
    broker: ServerProcess,
) -> None:
    with seriatim.connect(url(broker)) as stream:
        reader = stream.read()
        child = os.fork()
        if not child:
            told = 0
            for call in (stream.info, lambda: stream.send("f"), lambda: next(reader), stream.close):
                try:
                    call()
                except InvalidArgument as error:
                    told += "child process" in str(error)
            os._exit(told)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 4
        assert stream.publish("f") > 0


# Interrupts


PROGRAM = """
import signal, sys, seriatim
{before}
def work(stream):
    print("ready", flush=True)
    {body}

try:
    with seriatim.connect({address!r}, wait={wait}) as stream:
        work(stream)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""
BODIES = {
    "publish": "while True: stream.publish('s', b'x')",
    "send": "while True: stream.send('s', b'x' * 100)",
    "read": "for message in stream.read('s.nothing'): pass",
    "past": "while True: [message for message in stream.read('s', until='now')]",
    "subscribe": "for message in stream.subscribe('s.nothing'): pass",
    "request": "stream.request('s.silent', timeout=600)",
    "batch": "\n    while 1:\n        with stream.batch() as one: one.publish('s', bytes(600_000))",
    "callback": "stream.subscribe('s', print); stream.subscribe('s.nothing').next()",
}


def program_of(body: str, address: str, wait: bool = False, before: str = "") -> str:
    return PROGRAM.format(body=body, address=address, wait=wait, before=before)


@pytest.fixture
def silent(broker: ServerProcess) -> Iterator[None]:
    """Somebody who gets requests, and does not answer."""
    with seriatim.connect(url(broker)) as stream:
        stream.subscribe("s.silent", lambda message: None)
        yield


@pytest.mark.usefixtures("silent")
@pytest.mark.parametrize("body", BODIES)
def test_given_an_interrupt_at_any_moment_then_the_program_ends(
    broker: ServerProcess, body: str
) -> None:
    program = program_of(BODIES[body], url(broker))
    for delay in (0.0, 0.02, 0.1)[: depth(2, 3)]:
        interrupt(program, delay)


def test_given_an_interrupt_while_it_connects_then_the_program_ends() -> None:
    program = program_of("pass", "nats://127.0.0.1:1", wait=True)
    interrupt("print('ready', flush=True)\n" + program, 0.3)


STRUCK = """
import threading, time

def strike(ident=threading.get_ident()):
    waiting, before = 0, None
    while waiting < 20:  # it sleeps, and is not about to
        time.sleep(0.01)  # no event to await: another thread begins to sleep
        frame = sys._current_frames()[ident]
        waiting = waiting + 1 if frame is before else 0
        before = frame
    signal.pthread_kill(threading.get_ident(), signal.SIGINT)

threading.Thread(target=strike, daemon=True).start()
"""


@pytest.mark.usefixtures("silent")
@pytest.mark.parametrize("body", ["read", "subscribe", "request"])
def test_given_an_interrupt_that_another_thread_gets_then_the_program_ends(
    broker: ServerProcess, body: str
) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", program_of(BODIES[body], url(broker), before=STRUCK)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        timeout=PATIENCE_S,
    )
    assert (ended.stdout, ended.stderr, ended.returncode) == ("ready\ninterrupted\n", "", 0)


def interrupt(program: str, delay: float) -> None:
    """Run a program, interrupt it a little later, and see it end by itself."""
    running = subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert running.stdout is not None
    assert running.stdout.readline() == "ready\n"
    time.sleep(delay)  # no event to await: at any moment
    try:
        running.send_signal(signal.SIGINT)
        try:
            out, err = running.communicate(timeout=PATIENCE_S / 2)
        except subprocess.TimeoutExpired:
            # Python prints and forgets one that comes while it deletes an object.
            running.send_signal(signal.SIGINT)
            out, err = running.communicate(timeout=PATIENCE_S)
            assert "Exception ignored in" in err
    finally:
        running.kill()
    assert "interrupted\n" in out
    assert not err or "Exception ignored in" in err
    assert running.returncode == 0


class Interrupts:
    """Raises KeyboardInterrupt again and again, once each time that it is armed.

    Python prints and forgets one that comes while it deletes an object: then the next one counts.
    """

    def __init__(self) -> None:
        self.count = 0
        self.is_armed = False

    def __enter__(self) -> Self:
        self._before = signal.signal(signal.SIGALRM, self._interrupt)
        self._hook, sys.unraisablehook = sys.unraisablehook, self._forgotten
        signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
        return self

    def __exit__(self, *error: object) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, self._before)
        sys.unraisablehook = self._hook

    def _forgotten(self, what: "sys.UnraisableHookArgs") -> None:
        if what.exc_type is KeyboardInterrupt:
            self.is_armed = True
        else:
            self._hook(what)

    def _interrupt(self, number: int, frame: object) -> None:
        if self.is_armed:
            self.is_armed = False
            self.count += 1
            raise KeyboardInterrupt


def test_given_interrupts_while_reading_then_what_was_on_its_way_is_not_lost(
    broker: ServerProcess,
) -> None:
    count = 20_000
    with seriatim.connect(url(broker)) as stream:
        for at in range(count):
            sent = stream.send("interrupts", b"%d" % at)
        sent.result()
        found: list[int] = []
        reader = stream.read("interrupts", until="now")
        is_over = False
        with Interrupts() as interrupts:
            while not is_over:
                try:
                    interrupts.is_armed = True
                    for message in reader:
                        found.append(int(message.payload))
                    interrupts.is_armed = False
                    is_over = True
                except KeyboardInterrupt:
                    continue
        assert interrupts.count > 2
        assert found == sorted(set(found))
        # One may come between a step and the body: then Python has dropped what was handed over.
        assert len(found) >= count - interrupts.count


def test_given_a_position_file_then_the_last_place_is_written_when_the_reader_ends(
    broker: ServerProcess, tmp_path: Path
) -> None:
    assert stream_publishing.OPEN_MAX > 100
    with seriatim.connect(url(broker)) as stream:
        for at in range(10):
            stream.publish("position", b"%d" % at)
        place = tmp_path / "place"
        with stream.read("position", until="now", position=place) as reader:
            for _ in range(4):
                next(reader)
        with stream.read("position", until="now", position=place) as reader:
            assert [message.payload for message in reader] == [b"%d" % at for at in range(4, 10)]
