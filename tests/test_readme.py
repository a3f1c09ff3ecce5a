"""The README's examples do what it says: each is run against a real broker, to the letter."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.support.places import ROOT
from tests.support.processes import SeriatimServer, ServerProcess
from tests.support.raw import RawClient

README = (ROOT / "README.md").read_text()
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


def test_given_the_first_screen_when_read_then_it_says_whom_it_keeps_out() -> None:
    screen = " ".join(README.splitlines()[:24])
    assert "There is neither authentication nor TLS yet." in screen
    assert "bind it to loopback (`-a 127.0.0.1`), or keep it in a network that you trust" in screen


def test_given_claims_of_speed_when_read_then_each_says_what_is_kept() -> None:
    intro, tables = README.split("## Two commands")[0], README.split("## Speed")[1]
    (claim,) = re.findall(r"[^.;]*two thirds and a sixth[^.;]*", intro)
    assert "keeps nothing" in claim
    first = re.search(r"\|---\|.*\n(.*)", tables)
    assert first is not None
    assert first[1].startswith("| 1:1, kept |"), "the default configuration comes first"
    before, row, _ = tables.partition("| 1 publisher, no subscriber, 16 B |")
    assert row
    assert "--no-journal --ring_bytes 0" in before


def test_given_the_readme_when_read_then_its_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)]+)\)", README):
        assert (ROOT / target).exists(), target
