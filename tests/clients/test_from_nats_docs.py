"""docs/from-nats.md: its programs are run, at nats-server and at ours, and its configuration."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.clients.conftest import FOLDER
from tests.seriatim.cli.command import seriatim
from tests.seriatim.cli.from_nats.oracle import judged
from tests.support.places import ROOT
from tests.support.processes import (
    STAND_IN,
    NatsServer,
    SeriatimServer,
    ServerProcess,
    url,
)
from tests.support.raw import QUIET, RawClient

pytestmark = pytest.mark.skipif(STAND_IN, reason="it is about both servers")
PAGE = (ROOT / "docs" / "from-nats.md").read_text()
AS_NATS = ["--exclude", "_INBOX.>"]
RUN_S = 120.0


def blocks(language: str) -> list[str]:
    """The page's code in this language."""
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def printed(command: list[str], server: ServerProcess) -> list[str]:
    """What a program prints that is given the address of a server."""
    done = subprocess.run(
        [*command, url(server)], capture_output=True, text=True, timeout=RUN_S, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


def in_python(folder: Path, containing: str) -> list[str]:
    (program,) = [one for one in blocks("python") if containing in one]
    (folder / "program.py").write_text(program)
    return [sys.executable, str(folder / "program.py")]


@pytest.mark.parametrize("server", ["nats-server", "none", "header"])
def test_given_a_program_for_nats_then_it_does_the_same_at_both_servers(
    server: str, tmp_path: Path
) -> None:
    command = in_python(tmp_path, "price")
    with (
        NatsServer()
        if server == "nats-server"
        else SeriatimServer(server, arguments=AS_NATS) as process
    ):
        assert printed(command, process) == ["orders.eu 10 apples 7", "42 10 apples"]


@pytest.mark.parametrize("language", ["python", "javascript"])
def test_given_the_frame_in_a_header_then_the_program_prints_number_and_payload(
    language: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if language == "python":
        command = in_python(tmp_path, "Nats-Sequence")
    else:
        (tmp_path / "node_modules").symlink_to(FOLDER / "node_modules")
        (tmp_path / "program.mjs").write_text(blocks("javascript")[0])
        command = [request.getfixturevalue("node"), str(tmp_path / "program.mjs")]
    with SeriatimServer("header", arguments=AS_NATS) as broker:
        with RawClient(broker.port, QUIET) as client:
            sent = [
                b"orders.eu 3\r\none",
                b"else 2\r\nno",
                b"_INBOX.x 2\r\nno",
                b"orders.last 3\r\ntwo",
            ]
            assert client.ask(b"".join(b"PUB %b\r\n" % one for one in sent)) == []
        assert printed(command, broker) == ["1 orders.eu one", "3 orders.last two"]


def test_given_the_configuration_then_its_translation_is_the_one_on_the_page(
    tmp_path: Path,
) -> None:
    environment = {"SHOP_PASSWORD": "geheim"}
    (config,) = blocks("conf")
    (written,) = blocks("toml")
    (tmp_path / "nats.conf").write_text(config)
    accepted, why = judged(tmp_path / "nats.conf", environment)
    assert accepted, why
    done = seriatim("config", "--from", "nats.conf", env=environment, cwd=tmp_path)
    assert done.stdout.decode() == written
    assert done.returncode == 2
    assert written.rstrip().endswith(f"# {done.stderr.decode().splitlines()[0]}")
    (tmp_path / "broker.toml").write_text(written)
    checked = seriatim("check", str(tmp_path / "broker.toml"), env=environment)
    assert b"can be used" in checked.stdout


def test_given_a_port_for_the_tools_of_nats_then_payloads_are_as_published() -> None:
    (flags,) = re.findall(r"seriatim serve (--listen 127.0.0.1):4223(,frame=none)", PAGE)
    flag, host = flags[0].split()
    with SeriatimServer("netstring", arguments=[flag, f"{host}:-1{flags[1]}"]) as broker:
        framed, plain = broker.ports
        for port, payload in ((framed, b"12:1:1,5:hello,,"), (plain, b"hello")):
            with RawClient(port, QUIET) as client:
                (heard,) = client.ask(b"SUB x 1\r\nPUB x 5\r\nhello\r\n")
                assert heard.payload == payload


@pytest.mark.parametrize("arguments", [AS_NATS, ["--listen", "127.0.0.1:-1,frame=none"]])
def test_given_what_the_page_advises_then_a_check_of_the_connection_finds_nothing(
    arguments: list[str],
) -> None:
    """`nats server check connection` sends bytes to an inbox, and compares what comes back."""
    sent = bytes(range(100))
    with (
        SeriatimServer("netstring", arguments=arguments) as broker,
        RawClient(broker.ports[-1], QUIET) as client,
    ):
        (heard,) = client.ask(b"SUB _INBOX.abc 1\r\nPUB _INBOX.abc 100\r\n" + sent + b"\r\n")
    assert heard.payload == sent
