"""`seriatim sendr`: lines to cquencer's port from a prompt and from a pipe."""

import io
import os
import pty
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Self

import pytest

from seriatim.cli.cquencer import sendr as command
from seriatim.cli.errors import CliError
from testkit.model_frame import split_frame
from tests.seriatim.cli.command import COMMAND, environment, refusal, seriatim
from tests.support.cquencer_clients import port_of
from tests.support.processes import SeriatimServer
from tests.support.raw import QUIET, RawClient
from tests.support.readable import is_readable

WAIT_S = 60.0


@pytest.fixture(scope="module", params=["recv", "netstring"])
def broker(request: pytest.FixtureRequest) -> Iterator[tuple[SeriatimServer, str]]:
    arguments = ["--sequencer_port", "-1", "--sequencer_framing", request.param, "--no-journal"]
    with SeriatimServer("netstring", arguments=arguments) as process:
        yield process, request.param


def sendr(broker: tuple[SeriatimServer, str], stdin: bytes) -> "subprocess.CompletedProcess[bytes]":
    process, framing = broker
    return seriatim("sendr", str(port_of(process)), "--framing", framing, stdin=stdin)


class Prompt:
    """The command on a terminal of its own."""

    def __init__(self, *arguments: str, state: Path) -> None:
        self.terminal, side = pty.openpty()
        self.process = subprocess.Popen(
            [COMMAND, "sendr", *arguments],
            stdin=side,
            stdout=side,
            stderr=subprocess.PIPE,
            env=environment({"XDG_STATE_HOME": str(state)}),
            start_new_session=True,
        )
        os.close(side)
        self.shown = b""

    def until(self, text: bytes) -> bytes:
        """What it shows up to this text."""
        while text not in self.shown:
            assert is_readable(self.terminal, WAIT_S), self.shown
            self.shown += os.read(self.terminal, 4096)
        before, self.shown = self.shown.split(text, 1)
        return before + text

    def type(self, text: bytes) -> None:
        os.write(self.terminal, text)

    def end(self) -> tuple[int, str]:
        """Its status, and what it said on standard error."""
        _, said = self.process.communicate(timeout=WAIT_S)
        return self.process.returncode, said.decode()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate()
        os.close(self.terminal)


def test_given_a_pipe_then_every_line_is_a_message_and_every_answer_a_line(
    broker: tuple[SeriatimServer, str],
) -> None:
    process, _ = broker
    with RawClient(process.port, QUIET) as ear:
        ear.ask(b"SUB cq 1\r\n")
        before = int(sendr(broker, b"\n").stdout.split(b":")[1].rstrip(b",\n"))
        done = sendr(broker, b"hello world\na\n\nlast, without an end")
        heard = [split_frame(one.payload) for one in ear.ask(b"")]
    assert (done.returncode, done.stderr) == (0, b"")
    answers = [b"%d" % (before + n) for n in (1, 2, 2, 3)]
    assert done.stdout == b"".join(b"%d:%b,\n" % (len(one), one) for one in answers)
    payloads = [b"hello world", b"a", b"last, without an end"]
    assert heard == list(enumerate(payloads, before + 1))


def test_given_many_lines_with_netstrings_then_all_are_answered_in_order() -> None:
    arguments = ["--sequencer_port", "-1", "--sequencer_framing", "netstring", "--no-journal"]
    with SeriatimServer("netstring", arguments=arguments) as process:
        lines = b"".join(b"line %d\n" % number for number in range(20_000))
        done = sendr((process, "netstring"), lines)
    assert (done.returncode, done.stderr) == (0, b"")
    answers = [line.split(b":")[1] for line in done.stdout.splitlines()]
    assert answers == [b"%d," % number for number in range(1, 20_001)]


def test_given_bytes_of_any_kind_then_they_arrive_as_they_are(
    broker: tuple[SeriatimServer, str],
) -> None:
    line = bytes(byte for byte in range(256) if byte != 10) + b"\xff"
    with RawClient(broker[0].port, QUIET) as ear:
        ear.ask(b"SUB cq 1\r\n")
        assert sendr(broker, line + b"\n").returncode == 0
        (heard,) = ear.ask(b"")
    assert split_frame(heard.payload)[1] == line


def test_given_refusals_in_a_pipe_then_they_are_reported_with_their_line_and_the_status_is_1() -> (
    None
):
    for framing in ("recv", "netstring"):
        arguments = ["--sequencer_port", "-1", "--sequencer_framing", framing, "--no-journal"]
        with SeriatimServer("none", {"max_payload": 10}, arguments) as process:
            done = sendr((process, framing), b"short\n" + b"x" * 20 + b"\nshort\n")
        assert (done.returncode, done.stdout) == (1, b"1:1,\n1:2,\n")
        assert done.stderr == b"seriatim: line 2: -ERR 'Maximum Payload Violation'\n"


def test_given_a_terminal_then_it_prompts_answers_and_remembers(
    broker: tuple[SeriatimServer, str], tmp_path: Path
) -> None:
    process, framing = broker
    arguments = (str(port_of(process)), "--framing", framing)
    with Prompt(*arguments, state=tmp_path) as prompt:
        prompt.until(b"? ")
        prompt.type(b"\n")
        first = int(prompt.until(b"? ").split(b"# ")[1].split(b":")[1].split(b",")[0])
        prompt.type(b"hello\n")
        number = b"%d" % (first + 1)
        assert b"# %d:%b,\r\n" % (len(number), number) in prompt.until(b"? ")
        prompt.type(b"\x04")
        assert prompt.end() == (0, "")
    assert "hello" in (tmp_path / "seriatim" / "sendr_history").read_text()
    with Prompt(*arguments, state=tmp_path) as again:
        again.until(b"? ")
        again.type(b"\x1b[A\n")  # the line before, by the arrow
        number = b"%d" % (first + 2)
        assert b"# %d:%b,\r\n" % (len(number), number) in again.until(b"? ")
        again.type(b"\x04")
        assert again.end() == (0, "")


def test_given_a_terminal_when_interrupted_then_it_ends_without_a_traceback(
    broker: tuple[SeriatimServer, str], tmp_path: Path
) -> None:
    with Prompt(str(port_of(broker[0])), "--framing", broker[1], state=tmp_path) as prompt:
        prompt.until(b"? ")
        prompt.process.send_signal(signal.SIGINT)
        with suppress(OSError):  # it has ended, as nearly always
            prompt.type(b"\n")  # Python's readline keeps one that comes just before it waits
        status, said = prompt.end()
    assert (status, said) == (130, "")


def test_given_no_server_then_it_says_so() -> None:
    with socket.socket() as unused:  # bound, so that nobody else listens there
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        said = refusal("sendr", str(port), stdin=b"hello\n")
    assert said == f"127.0.0.1:{port}: connection refused: nothing listens there"


@pytest.mark.parametrize("arguments", [["99999"], ["x"], []])
def test_given_no_port_then_it_is_reported(arguments: list[str]) -> None:
    assert "PORT" in refusal("sendr", *arguments)


def test_given_an_unknown_framing_then_it_is_reported() -> None:
    said = refusal("sendr", "3001", "--framing", "lines")
    assert said == '--framing: "lines" is not one of recv, netstring'


def test_given_a_line_too_long_for_one_recv_then_the_error_says_what_to_use() -> None:
    with socket.create_server(("127.0.0.1", 0)) as stub:
        port = stub.getsockname()[1]
        said = refusal("sendr", str(port), stdin=b"x" * 40_000 + b"\n")
    assert said.startswith("line 1 has 40000 bytes")
    assert "--framing netstring" in said


@pytest.mark.parametrize("framing", ["recv", "netstring"])
@pytest.mark.parametrize("parting", [b"", b"1:1,", b"HTTP/1.1 400\r\n"])
def test_given_a_server_that_closes_or_is_another_then_it_is_reported(
    framing: str, parting: bytes
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(100)
                connection.sendall(parting)

        thread = threading.Thread(target=serve)
        thread.start()
        port = server.getsockname()[1]
        done = seriatim("sendr", str(port), "--framing", framing, stdin=b"hello\nyou\n")
        thread.join()
    assert done.returncode == 1
    assert b"Traceback" not in done.stderr
    if parting.startswith(b"HTTP"):
        assert b"which is not a netstring" in done.stderr
    else:
        assert b"the connection was closed before everything was answered" in done.stderr
        assert done.stdout == (parting + b"\n" if parting else b"")


@pytest.mark.parametrize("netstrings", [False, True])
def test_given_a_server_that_never_answers_then_it_is_reported_and_does_not_hang(
    netstrings: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "ANSWER_SECONDS_MAX", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        line = command.Line("127.0.0.1", silent.getsockname()[1], netstrings)
        answers = command.AnswerPrinter(io.BytesIO())
        talk = command._pour if netstrings else command._one_by_one
        with line, pytest.raises(CliError, match="no answer in time"):
            talk(line, io.BytesIO(b"hello\n"), answers)
