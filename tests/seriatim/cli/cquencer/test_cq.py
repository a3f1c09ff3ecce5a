"""`seriatim cq`: the broker as cquencer's command, with its port, one feed, and no NATS."""

import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sequencer.netstring import encode_frame
from seriatim.cli.cquencer.cq import settings_of
from testkit.model_frame import split_frame
from tests.seriatim.cli.command import COMMAND, COMMAND_S, environment, refusal
from tests.support.cquencer_clients import answer
from tests.support.descriptors import open_files
from tests.support.multicast import Ear, new_group
from tests.support.processes import STOP_S
from tests.support.raw import QUIET, RawClient

LOOPBACK = ("--interface", "127.0.0.1", "-a", "127.0.0.1")


def port_in(said: list[str], whose: str) -> int:
    """Where it listens for these."""
    (line,) = [line for line in said if f"Listening for {whose} on " in line]
    return int(line.rpartition(":")[2])


@contextmanager
def running(*arguments: str) -> Iterator[tuple[int, tuple[str, int], list[str]]]:
    """The command: its TCP port, its group, and what it has said when it was ready."""
    with started(*arguments) as (_, group, said):
        yield port_in(said, "cquencer's clients"), group, said


@contextmanager
def started(
    *arguments: str,
) -> Iterator[tuple[subprocess.Popen[str], tuple[str, int], list[str]]]:
    """The same, and its process."""
    group = new_group()
    command = [COMMAND, "cq", "-1", group[0], str(group[1]), *LOOPBACK, *arguments]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, env=environment(), text=True)
    assert process.stderr is not None
    said: list[str] = []
    try:
        while not said or "Server is ready" not in said[-1]:
            said.append(process.stderr.readline())
            assert said[-1], said
        yield process, group, said
        process.send_signal(signal.SIGTERM)
        assert process.wait(STOP_S) == 0
    finally:
        process.kill()
        process.communicate()


def test_given_the_command_when_it_serves_then_its_own_modules_are_gone_from_its_memory() -> None:
    with running() as (port, _, said):
        pid = int(said[0].partition("]")[0].strip("["))
        with socket.create_connection(("127.0.0.1", port)):
            command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            assert not any("seriatim-settings" in file for file in open_files(pid))
    assert command[-5:-2] == [b"-m", b"broker", b"--settings-fd"]


def test_given_the_three_arguments_then_it_is_cquencer_and_nothing_else() -> None:
    with running() as (port, group, said), Ear(group) as ear:
        with socket.create_connection(("127.0.0.1", port)) as client:
            assert answer(client, b"\n") == b"1:0,"
            assert answer(client, b"hello world") == b"1:1,"
            assert answer(client, b"a\0") == b"1:2,"
        assert ear.take(2) == [encode_frame(1, b"hello world"), encode_frame(2, b"a")]
    text = "".join(said)
    assert f"Listening for cquencer's clients on 127.0.0.1:{port}" in text
    assert f"Feed {group[0]}:{group[1]} to {group[0]}:{group[1]}" in text
    assert "client connections" not in text, "NATS clients have no way in"
    assert "Journal" not in text


def test_given_sigusr2_then_it_lists_its_clients_and_goes_on() -> None:
    """As cquencer does, whose lines have no address by mistake."""
    with started("-p", "-1") as (process, _, said):
        nats_port = port_in(said, "client connections")
        port = port_in(said, "cquencer's clients")
        with (
            socket.create_connection(("127.0.0.1", port)) as client,
            RawClient(nats_port, QUIET) as nats,
        ):
            assert answer(client, b"?") == b"1:0,"
            assert nats.ask(b"") == []
            process.send_signal(signal.SIGUSR2)
            assert process.stderr is not None
            lines = [process.stderr.readline().partition("[INF] ")[2] for _ in range(3)]
            assert answer(client, b"?") == b"1:0,"
            ports = [client.getsockname()[1], nats.socket.getsockname()[1]]
    assert lines[0] == "2 clients are connected\n"
    for line, own in zip(lines[1:], ports, strict=True):
        place, since = line.split()
        assert place == f"127.0.0.1:{own}"
        assert abs(int(since) - time.time()) < 600


def test_given_a_store_and_a_port_then_numbers_go_on_and_nats_clients_come_in(
    tmp_path: Path,
) -> None:
    more = ("--framing", "netstring", "--store_dir", str(tmp_path / "store"), "--subject", "orders")
    for first in (1, 3):
        with running(*more, "-p", "-1") as (port, group, said), Ear(group) as ear:
            with RawClient(port_in(said, "client connections"), QUIET) as nats:
                nats.ask(b"SUB orders 1\r\n")
                with socket.create_connection(("127.0.0.1", port)) as client:
                    assert answer(client, b"0:,") == b"1:%d," % (first - 1)
                    client.sendall(b"1:a,2:bc,")
                heard = [split_frame(nats.operation().payload) for _ in range(2)]
            assert heard == [(first, b"a"), (first + 1, b"bc")]
            assert ear.take(2) == [encode_frame(*one) for one in heard]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("70000 239.0.0.1 1234", "TCP_PORT: 70000 is above 65535; give 1 to 65535, or -1"),
        (
            "0 239.0.0.1 1234",
            "TCP_PORT: 0 is not a port to listen on; give 1 to 65535, or -1 for any",
        ),
        ("x 239.0.0.1 1234", 'TCP_PORT: "x" is not a port; give 1 to 65535, or -1 for any free'),
        ("0 239.0.0.1 1234 --framing netstring --subject a", "TCP_PORT: 0 is not a port to li"),
        ("-1 10.0.0.1 1234", "the feed: "),
        ("--ttl 2 -1 239.0.0.1 1234 --codec none", "the feed: "),
        ("-1 239.0.0.1 1234 --framin x", "unexpected argument: --framin x"),
        ("-2 239.0.0.1 1234", "No such option: -2"),
        ("3001 239.0.0.1 1234 --framin x", "No such option: --framin"),
        ("3001 239.0.0.1 1234 --interface ::1", 'the feed 239.0.0.1:1234: "::1"'),
        ("3001 239.0.0.1 0", "the feed: "),
        ("3001 239.0.0.1 1234 --framing line", '--framing: "line" is not one of recv, netstring'),
        ("3001 239.0.0.1 1234 --codec none", "the feed: "),
        ("3001 239.0.0.1 1234 --subject a.*", "--subject: "),
        ("3001 239.0.0.1 1234 --subject $SEQ.x", "--subject: "),
        ("3001 239.0.0.1", "Missing argument 'MCAST_PORT'"),
        ("3001 239.0.0.1 1234 -p 3001", "3001"),
    ],
)
def test_given_wrong_arguments_then_they_are_reported_by_the_names_they_have_here(
    arguments: str, said: str
) -> None:
    told = refusal("cq", *arguments.split())
    assert said in told
    assert "--sequencer" not in told
    assert "--feed" not in told
    assert "for none" not in told, "without the port there is nothing"
    assert "does nothing" not in told


def test_given_several_wrong_arguments_then_all_are_reported_at_once() -> None:
    told = refusal("cq", "0", "1.2.3.4", "99999", "--framing", "x", "-m", "y")
    assert told.startswith("4 settings are wrong:")


def test_given_a_taken_port_then_one_line_and_status_1() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port, group = taken.getsockname()[1], new_group()
        command = [COMMAND, "cq", str(port), group[0], str(group[1]), *LOOPBACK]
        done = subprocess.run(command, capture_output=True, env=environment(), timeout=COMMAND_S)
    assert done.returncode == 1
    assert b"for cquencer's clients: Address already in use" in done.stderr


def test_given_variables_then_they_count_where_the_command_says_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SERIATIM_LIMITS_MAX_PAYLOAD", "100")
    monkeypatch.setenv("SERIATIM_PORT", "4222")
    flags = {"sequencer.port": "3001", "port": "0", "feeds": ["239.0.0.1:1234"]}
    settings = settings_of(flags).settings
    assert (settings.limits.max_payload, settings.port) == (100, 0)
