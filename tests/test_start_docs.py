"""docs/start.md: all that it tells to type is typed, in its order, at one broker."""

import shlex
import subprocess
from pathlib import Path

import pytest

from tests.support.pages import blocks, in_shell, is_what, programs, shell, start, steps
from tests.support.places import ROOT
from tests.support.processes import STAND_IN, SeriatimServer
from tests.support.raw import RawClient

pytestmark = pytest.mark.skipif(STAND_IN, reason="nats-server gives no numbers")
PAGE = "docs/start.md"
CLIENT_VERBS = ("CONNECT", "SUB", "PUB", "12 apples")


def test_given_the_page_when_all_is_typed_then_the_broker_answers_as_printed(
    tmp_path: Path,
) -> None:
    install, serve, listen, *typed = steps(PAGE)
    make, _, version = install[0].splitlines()
    assert (make, version) == ("make install", "seriatim version")
    assert "\ninstall:" in (ROOT / "Makefile").read_text()
    program, command, *arguments = shlex.split(serve[0])
    assert (program, command) == ("seriatim", "serve")
    heard = next(text for _, text in blocks(PAGE) if text.startswith("seriatim: listening"))
    with SeriatimServer("netstring", arguments=arguments) as broker:
        shell(version, broker.port, tmp_path)
        with subprocess.Popen(
            ["bash", "-c", f"exec {listen[0]}"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=in_shell(broker.port),
            text=True,
        ) as listener:
            assert listener.stdout is not None
            greeting, *messages = heard.splitlines(keepends=True)
            assert listener.stdout.readline() == greeting
            for script, printed in typed:
                said = shell(script, broker.port, tmp_path)
                assert is_what(printed, said), said
            assert [listener.stdout.readline() for _ in messages] == messages
            listener.kill()
        broker.restart()
        again, printed = typed[-1]
        assert is_what(printed, shell(again, broker.port, tmp_path))
        by_hand(broker.port)
        ((_, printed),) = steps(PAGE, "python")
        with start(programs(PAGE)[0], broker.port, tmp_path) as process:
            assert process.communicate() == (printed, "")


def by_hand(port: int) -> None:
    """Type the client's lines, and hear the broker's."""
    (session,) = [text for _, text in blocks(PAGE) if text.startswith("CONNECT")]
    connect, *lines = session.splitlines()
    with RawClient(port, connect.encode() + b"\r\n") as client:
        for line in lines:
            if line.startswith(CLIENT_VERBS):
                client.send(line.encode() + b"\r\n")
            else:
                assert client.line() == line.encode() + b"\r\n"
