"""The terminal after the live view: as it was before, on every way out."""

import shutil
import signal
import subprocess
import time
from contextlib import suppress

import pytest

from tests.seriatim.cli.command import COMMAND
from tests.seriatim.cli.top.watched import RESTORED, Watched, broker_with_pages
from tests.support.processes import STAND_IN

pytestmark = pytest.mark.skipif(STAND_IN, reason="of our own process")
SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


@pytest.mark.parametrize("key", ["q", "ctrl-c"])
def test_given_a_key_that_ends_it_then_the_terminal_is_restored(key: str) -> None:
    with broker_with_pages() as (_, pages), Watched(pages) as top:
        top.await_text("last number 0")
        assert top.modes_now() != top.modes
        top.press(key)
        top.await_bytes(b"\x1b[?1049l")
        assert top.modes_now() == top.modes
        assert top.end() == 0
    assert RESTORED in top.seen
    assert b"\x1b[?7h" in top.seen


@pytest.mark.parametrize("number", SIGNALS, ids=lambda one: one.name)
def test_given_a_signal_that_ends_it_then_the_terminal_is_restored(number: signal.Signals) -> None:
    with broker_with_pages() as (_, pages), Watched(pages) as top:
        top.await_text("last number 0")
        top.process.send_signal(number)
        top.await_bytes(b"\x1b[?1049l")
        assert top.modes_now() == top.modes
        assert top.end() == -number
    assert RESTORED in top.seen


def test_given_a_broker_that_hangs_when_it_is_ended_then_that_is_at_once() -> None:
    with broker_with_pages() as (broker, pages), Watched(pages, "-d", "0.2") as top:
        top.await_text("last number 0")
        broker.suspend()
        try:
            top.await_text("no answer since ")
            top.press("q")
            assert top.end() == 0
        finally:
            broker.signal(signal.SIGCONT)


def test_given_a_terminal_that_is_closed_then_it_ends() -> None:
    with broker_with_pages() as (_, pages), Watched(pages) as top:
        top.await_text("last number 0")
        top.hang_up()
        assert top.process.wait(60) in (-signal.SIGHUP, 1)


def test_given_a_terminal_that_takes_nothing_then_signals_end_it() -> None:
    with broker_with_pages() as (_, pages), Watched(pages, size=(200, 60)) as top:
        top.await_text("last number 0")
        top.press("8")
        top.await_text("auth_failures")
        top.freeze()
        for _ in range(40):  # more than a terminal keeps
            top.press("redraw")
            time.sleep(0.02)  # no event to await: nobody sees what is drawn
        while top.process.poll() is None:  # the last one may restore the screen for nobody
            top.process.send_signal(signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                top.process.wait(0.5)
        assert top.process.returncode == -signal.SIGTERM
        assert top.modes_now() == top.modes


@pytest.mark.skipif(not shutil.which("bash"), reason="a shell with jobs is needed")
def test_given_ctrl_z_then_the_shell_has_the_terminal_until_it_goes_on() -> None:
    shell = (str(shutil.which("bash")), "--norc", "--noediting", "-i")
    with broker_with_pages() as (_, pages), Watched(command=shell) as top:
        top.await_text("$")
        top.press(f"{COMMAND} top {pages}\n")
        top.await_text("last number 0")
        top.press("ctrl-z")
        top.await_text("Stopped")
        assert RESTORED in top.seen
        begun = len(top.seen)
        top.press("fg\n")
        top.await_bytes(b"\x1b[?1049h", begun)
        top.await_text("last number 0")
        top.press("q")
        top.await_bytes(b"\x1b[?1049l", begun)
        top.press("exit\n")
        assert top.end() == 0
