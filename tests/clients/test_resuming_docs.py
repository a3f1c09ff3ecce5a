"""docs/resuming.md: its programs are run, while connections break and the broker restarts."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.clients.conftest import FOLDER
from tests.support.places import ROOT
from tests.support.processes import STAND_IN, SeriatimServer
from tests.support.raw import QUIET, RawClient
from tests.support.relay import Relay
from tests.support.web import get, http_port, monitored

pytestmark = pytest.mark.skipif(STAND_IN, reason="nats-server has no past without JetStream")
PAGE = (ROOT / "docs" / "resuming.md").read_text()
PATHS = os.pathsep.join([os.environ.get("PYTHONPATH", ""), str(ROOT)])
END_S = 60.0


def program(language: str) -> str:
    """The page's program in this language that uses a NATS client."""
    (found,) = (
        one
        for one in re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
        if "nats" in one and "seriatim.connect" not in one
    )
    return str(found)


@pytest.fixture(params=["python", "javascript"])
def command(request: pytest.FixtureRequest, tmp_path: Path) -> list[str]:
    """How the program of the page is run."""
    if request.param == "python":
        (tmp_path / "resume.py").write_text(program("python"))
        return [sys.executable, str(tmp_path / "resume.py")]
    node = request.getfixturevalue("node")
    (tmp_path / "node_modules").symlink_to(FOLDER / "node_modules")
    (tmp_path / "resume.mjs").write_text(program("javascript"))
    return [node, str(tmp_path / "resume.mjs")]


@contextmanager
def running(command: list[str], port: int, kept: Path) -> Iterator["subprocess.Popen[str]"]:
    with subprocess.Popen(
        [*command, f"nats://127.0.0.1:{port}", "orders.>", str(kept)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": PATHS},
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def heard(process: "subprocess.Popen[str]", last: str) -> list[str]:
    """What the program prints, up to a line that begins so."""
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line.rstrip("\n"))
        if line.startswith(last):
            return lines
    assert process.stderr is not None
    raise AssertionError("\n".join([*lines, process.stderr.read()]))


def publish(port: int, numbers: range) -> None:
    """Messages whose payloads are their numbers."""
    with RawClient(port, QUIET) as client:
        assert client.ask(b"".join(b"PUB orders.x 4\r\n%04d\r\n" % n for n in numbers)) == []


def test_given_breaks_restarts_and_kills_then_the_program_has_each_message_once(
    command: list[str], tmp_path: Path
) -> None:
    kept = tmp_path / "kept"
    with monitored("netstring") as broker, Relay(broker.port) as relay:
        publish(broker.port, range(1, 101))
        with running(command, relay.port, kept) as process:
            lines = heard(process, "100 ")
            for first in (101, 201, 301):
                relay.sever()
                publish(broker.port, range(first, first + 100))
                relay.heal()
                lines += heard(process, f"{first + 99} ")
            sent = get(http_port(broker), "/varz").json["out_msgs"]
            assert sent < 500, "100 to 400, a few twice, and what `$SEQ.INFO` answers"
            broker.stop()
            broker.start(broker.port)
            publish(broker.port, range(401, 501))
            lines += heard(process, "500 ")
        publish(broker.port, range(501, 601))
        with running(command, relay.port, kept) as process:
            lines += heard(process, "600 ")
    assert [line for line in lines if not line.startswith("from ")] == [
        f"{number} {number:04d}" for number in range(1, 601)
    ]
    asked = [int(line.split()[1]) for line in lines if line.startswith("from ")]
    assert asked[0] == 1
    assert {101, 201, 301, 401, 501} <= set(asked), "it asks for the rest alone"
    assert asked == sorted(asked)


def test_given_another_journal_then_the_program_ends_and_says_so(
    command: list[str], tmp_path: Path
) -> None:
    kept = tmp_path / "kept"
    with SeriatimServer("netstring", store=tmp_path / "one") as broker:
        port = broker.port
        publish(port, range(1, 3))
        with running(command, port, kept) as process:
            heard(process, "2 ")
            broker.stop()
            (tmp_path / "one").rename(tmp_path / "away")
            broker.start(port)
            _, said = process.communicate(timeout=END_S)
    assert process.returncode == 1
    assert "not the journal whose number 2 was seen" in said


def test_given_messages_that_are_gone_then_the_program_tells_and_goes_on(
    command: list[str], tmp_path: Path
) -> None:
    arguments = ["--no-journal", "--ring_bytes", "300KiB"]
    with SeriatimServer("netstring", arguments=arguments) as broker:
        publish(broker.port, range(1, 3))
        with RawClient(broker.port, QUIET) as client:
            big = b"PUB other 100000\r\n" + b"x" * 100_000 + b"\r\n"
            assert client.ask(big * 10) == []
        publish(broker.port, range(13, 14))
        with running(command, broker.port, tmp_path / "kept") as process:
            assert heard(process, "13 ") == ["from 1", "13 0013"]
            process.kill()
            _, said = process.communicate(timeout=END_S)
    assert re.match(r"numbers 1 to \d+ are gone\n", said)
