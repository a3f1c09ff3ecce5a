"""The README's examples do what it says: each is run against a real broker, to the letter."""

import asyncio
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator

import nats
import pytest
from nats.aio.msg import Msg

from tests.support.places import ROOT
from tests.support.processes import SeriatimServer, ServerProcess
from tests.support.raw import RawClient

README = (ROOT / "README.md").read_text()
PERFORMANCE = (ROOT / "docs" / "performance.md").read_text()
RUN_S = 120.0  # a bound for what hangs
CLIENT_VERBS = ("CONNECT", "PING", "SUB", "PUB", "UNSUB", "Hello", "Again")


@pytest.fixture
def broker() -> Iterator[ServerProcess]:
    with SeriatimServer(frame="netstring") as process:
        yield process


def block(containing: str) -> str:
    """The README's one code block that holds these words."""
    blocks = re.findall(r"```\w*\n(.*?)```", README, re.DOTALL)
    found = [str(text) for text in blocks if containing in text]
    assert len(found) == 1, f"one block with {containing!r}"
    return found[0]


def test_given_the_telnet_session_when_typed_then_the_broker_answers_as_printed(
    broker: ServerProcess,
) -> None:
    with RawClient(broker.port) as client:
        converse(client, block("telnet localhost").splitlines()[2:])
    broker.restart()
    with RawClient(broker.port, b"CONNECT {}\r\n") as client:
        assert client.line() == b"+OK\r\n"
        converse(client, block("SUB $SEQ.FROM").splitlines())


def converse(client: RawClient, lines: list[str]) -> None:
    """Say the client's lines, and hear the broker's."""
    for line in lines:
        if line.startswith(CLIENT_VERBS):
            client.send(line.encode() + b"\r\n")
        else:
            assert client.line() == line.encode() + b"\r\n"


def test_given_the_python_example_when_run_then_it_prints_what_it_says(
    broker: ServerProcess,
) -> None:
    source = block("import nats").replace("4222", str(broker.port))
    paths = os.pathsep.join([os.environ.get("PYTHONPATH", ""), str(ROOT)])
    done = subprocess.run(
        [sys.executable, "-c", source],
        capture_output=True,
        text=True,
        timeout=RUN_S,
        env=os.environ | {"PYTHONPATH": paths},
    )
    assert done.stderr == ""
    assert done.stdout == "1 orders.eu b'hello world'\nb'1:2,'\n"


def test_given_a_nats_application_when_served_as_the_readme_says_then_it_sees_no_difference() -> (
    None
):
    (command,) = block("--exclude").splitlines()
    program, *arguments = shlex.split(command)
    assert (program, arguments[0]) == ("seriatim", "serve")
    with SeriatimServer("netstring", arguments=arguments[1:]) as broker:
        asked, answered = asyncio.run(request(f"nats://127.0.0.1:{broker.port}"))
    assert (asked.data, asked.headers) == (b"question", {"Nats-Sequence": "1"})
    assert (answered.data, answered.headers) == (b"answer", None)


async def request(url: str) -> tuple[Msg, Msg]:
    """A request and its reply, as an application that knows nothing of numbers sees them."""
    client = await nats.connect(url)
    service = await client.subscribe("service")
    await client.flush()
    answer = asyncio.ensure_future(client.request("service", b"question", timeout=RUN_S))
    asked = await service.next_msg(timeout=RUN_S)
    await client.publish(asked.reply, b"answer")
    answered = await answer
    await client.close()
    return asked, answered


def test_given_the_readme_when_read_then_it_says_whom_it_keeps_out_before_the_first_command() -> (
    None
):
    intro = " ".join(README.split("## Run it")[0].split())
    assert "```" not in intro
    assert "Anyone who reaches the port may read and publish everything" in intro
    assert "Give it users" in intro
    assert "or bind it to loopback (`-a 127.0.0.1`)" in intro


def test_given_the_commands_of_make_when_looked_up_then_there_are_such() -> None:
    targets = set(re.findall(r"^([a-z-]+):.*##", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"\bmake ([a-z-]+)", README))
    assert {"serve", "test"} <= named <= targets


def test_given_claims_of_speed_when_read_then_each_says_what_is_kept() -> None:
    claims = README.split("## Speed")[1]
    before, head, after = claims.partition("| scenario | Seriatim, which keeps every message | ")
    assert head
    assert "the default, `seriatim serve`, with every message kept" in " ".join(before.split())
    rows = [line for line in after.splitlines() if line.startswith("| ")]
    assert len(rows) >= 10
    for row in rows:
        ours, theirs, ratio = (float(cell.split()[0]) for cell in row.split("|")[2:5])
        assert ratio == pytest.approx(theirs / ours, rel=0.06), row
    first, *others = re.findall(r"^## .*?(?=^## |\Z)", PERFORMANCE, re.MULTILINE | re.DOTALL)
    assert first.startswith("## The default: every message is kept"), "the default comes first"
    (nothing,) = [
        section for section in others if "| 1 publisher, no subscriber, 16 B |" in section
    ]
    assert "--no-journal --ring_bytes 0" in nothing
    for table in re.findall(r"^\| scenario .*?\n\n", PERFORMANCE, re.MULTILINE | re.DOTALL):
        head, _, *rows = table.strip().splitlines()
        column = head.split("|").index(" what is kept ")
        assert all(row.split("|")[column].strip() for row in rows)
