"""A stop during work: what was accepted is delivered, and what is delivered was accepted."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from broker.settings.settings import Settings, settings_to_json
from tests.support.processes import STAND_IN, STOP_S, SeriatimServer
from tests.support.raw import QUIET, RawClient, operations
from tests.support.stopped_at_work import stopped_at_work

pytestmark = pytest.mark.skipif(STAND_IN, reason="of our own process")

LOUD = b'CONNECT {"verbose":true,"pedantic":false}\r\n'
BODY = b"x" * 20_000
LIMITS: dict[str, str | int] = {"drain_timeout": "300s", "hold_ms": 60_000}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda one: one.name)
@pytest.mark.parametrize("journal", [[], ["--no-journal"]], ids=["caught up", "held"])
def test_given_a_reader_far_behind_when_stopped_then_what_was_acknowledged_is_delivered(
    number: signal.Signals, journal: list[str]
) -> None:
    with SeriatimServer("netstring", LIMITS, journal) as broker:
        line = "Stopping: delivering what was accepted"
        delivered = stopped_at_work(broker, number, line)
    if journal:
        assert delivered < 1000, "the publisher was held"


def test_given_an_unfinished_message_when_stopped_then_it_is_not_delivered() -> None:
    with SeriatimServer("none") as broker:
        with (
            RawClient(broker.port, QUIET) as ear,
            RawClient(broker.port, QUIET) as publisher,
        ):
            ear.ask(b"SUB a 1\r\n")
            publisher.ask(b"")
            publisher.send(b"PUB a 4\r\nhalf")
            broker.signal(signal.SIGTERM)
            assert ear.until_closed() == b""
            assert publisher.until_closed() == b""
        assert broker.wait() == 0


def test_given_a_client_in_the_middle_of_a_long_message_when_stopped_then_it_gets_its_output() -> (
    None
):
    wire = b"PUB a %d\r\n%b\r\n" % (len(BODY), BODY)
    with SeriatimServer("none", LIMITS) as broker:
        with (
            RawClient(broker.port, QUIET, receive_buffer=4096) as behind,
            RawClient(broker.port, QUIET) as publisher,
        ):
            behind.ask(b"SUB a 1\r\n")
            publisher.send_split(wire * 100, [])
            first = behind.operation()
            behind.send(b"PUB b 900000\r\n" + b"x" * 100_000)
            broker.signal(signal.SIGTERM)
            assert broker.await_line("Stopping: delivering what was accepted")
            behind.send(b"x" * 800_000 + b"\r\n")
            heard = [first, *operations(behind.until_closed())]
            assert publisher.until_closed() == b""
        log = broker.log
        assert broker.wait() == 0
    assert 1 <= len(heard) <= 100
    assert not any("[ERR]" in line or "Traceback" in line for line in log)


def test_given_two_signals_then_the_second_changes_nothing() -> None:
    wire = b"PUB a %d\r\n%b\r\n" % (len(BODY), BODY)
    with SeriatimServer("none", LIMITS) as broker:
        with (
            RawClient(broker.port, QUIET, receive_buffer=4096) as behind,
            RawClient(broker.port, QUIET) as publisher,
        ):
            behind.ask(b"SUB a 1\r\n")
            publisher.ask(wire * 20)
            broker.signal(signal.SIGTERM)
            assert broker.await_line("Stopping: delivering what was accepted")
            broker.signal(signal.SIGINT)  # amid the stop, which waits for slow readers
            assert len(operations(behind.until_closed())) == 20
            assert publisher.until_closed() == b""
        assert broker.wait() == 0


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_given_one_more_signal_when_all_is_done_then_the_stop_is_still_a_clean_one(
    tmp_path: Path, loop: str
) -> None:
    late = "import atexit, os, runpy, signal\n" + "".join(
        f"atexit.register(os.kill, os.getpid(), signal.{name})\n" for name in ("SIGTERM", "SIGINT")
    )
    settings = Settings(host="127.0.0.1", port=-1, loop=loop, store_dir=str(tmp_path / "store"))
    with open(tmp_path / "settings", "w+") as file:
        file.write(settings_to_json(settings))
        file.seek(0)
        run = "runpy.run_module('broker', run_name='__main__', alter_sys=True)"
        process = subprocess.Popen(
            [sys.executable, "-c", late + run, "--settings-fd", str(file.fileno())],
            stderr=subprocess.PIPE,
            pass_fds=[file.fileno()],
        )
    with process:
        assert process.stderr is not None
        log = iter(process.stderr.readline, b"")
        assert any(b"Server is ready" in line for line in log)
        process.terminate()
        assert b"Server stopped" in list(log)[-1]
        assert process.wait(STOP_S) == 0
