"""Colours in the log and in errors: on a terminal, if its user wants them, and nowhere else."""

import os
import pty
import re
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.runtime.colours import wants_colours
from tests.seriatim.cli.command import COMMAND, environment
from tests.support.commands import COMMAND_S
from tests.support.processes import STAND_IN

pytestmark = pytest.mark.skipif(STAND_IN, reason="of our own process")

READY = b"Server is ready"
COLOURED = b"[\x1b[32mINF\x1b[0m] "


@pytest.mark.parametrize(
    ("variables", "terminal", "pipe"),
    [
        ({}, True, False),
        ({"NO_COLOR": "1"}, False, False),
        ({"NO_COLOR": ""}, True, False),
        ({"CLICOLOR": "0"}, False, False),
        ({"CLICOLOR": "1"}, True, False),
        ({"TERM": "dumb"}, False, False),
        ({"FORCE_COLOR": "1"}, True, True),
        ({"FORCE_COLOR": "1", "TERM": "dumb", "CLICOLOR": "0"}, True, True),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, False, False),
    ],
)
def test_given_variables_then_a_terminal_and_a_pipe_get_colours_or_not(
    variables: dict[str, str], terminal: bool, pipe: bool
) -> None:
    assert wants_colours(True, variables) is terminal
    assert wants_colours(False, variables) is pipe


def colourful(**more: str) -> dict[str, str]:
    found = environment({"TERM": "xterm-256color", **more})
    if "NO_COLOR" not in more:
        del found["NO_COLOR"]
    return found


def said_on_a_terminal(
    arguments: list[str], env: dict[str, str], is_said: Callable[[bytes], bool]
) -> bytes:
    """What a command writes to a terminal until `is_said`; it is ended then."""
    ours, its = pty.openpty()
    process = subprocess.Popen([COMMAND, *arguments], stdout=its, stderr=its, env=env)
    os.close(its)
    said = b""
    try:
        while not is_said(said):
            said += os.read(ours, 1 << 16)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(COMMAND_S)
        os.close(ours)
    return said


def serving(folder: Path, *more: str) -> list[str]:
    return ["serve", "-a", "127.0.0.1", "-p", "-1", "-sd", str(folder / "store"), *more]


@pytest.mark.parametrize(
    ("more", "arguments", "has_colours"),
    [
        ({}, [], True),
        ({"NO_COLOR": "1"}, [], False),
        ({}, ["--log_format", "json"], False),
    ],
    ids=["terminal", "NO_COLOR", "json"],
)
def test_given_a_terminal_when_a_broker_logs_then_levels_are_coloured_if_wanted(
    tmp_path: Path, more: dict[str, str], arguments: list[str], has_colours: bool
) -> None:
    begun = serving(tmp_path, *arguments)
    said = said_on_a_terminal(begun, colourful(**more), lambda text: READY in text)
    lines = [line for line in said.splitlines() if READY in line]
    assert all((COLOURED in line) is has_colours for line in lines)
    assert (b"\x1b" in said) is has_colours


def test_given_a_pipe_or_a_file_when_a_broker_logs_then_there_are_no_colours(
    tmp_path: Path,
) -> None:
    file = tmp_path / "log"
    for arguments, env in (([], colourful()), (["-l", str(file)], colourful(FORCE_COLOR="1"))):
        process = subprocess.Popen(
            [COMMAND, *serving(tmp_path, *arguments)], stderr=subprocess.PIPE, env=env
        )
        assert process.stderr is not None
        if arguments:
            while not file.exists() or READY not in file.read_bytes():
                assert process.poll() is None
                time.sleep(0.01)  # no event to await
        else:
            while READY not in (line := process.stderr.readline()):
                assert b"\x1b" not in line
        process.terminate()
        _, rest = process.communicate(timeout=COMMAND_S)
        assert b"\x1b" not in rest
    assert b"\x1b" not in file.read_bytes()


def test_given_an_error_when_it_is_shown_on_a_terminal_then_its_beginning_is_red() -> None:
    def is_said(text: bytes) -> bool:
        return text.endswith(b"\n")

    said = said_on_a_terminal(["stream", "lss"], colourful(), is_said)
    assert said.startswith(b"\x1b[31mseriatim:\x1b[0m No such command")
    said = said_on_a_terminal(["stream", "lss"], colourful(CLICOLOR="0"), is_said)
    assert re.match(rb"seriatim: No such command 'lss'", said)
