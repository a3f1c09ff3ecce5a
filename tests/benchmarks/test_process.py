"""A server under test as a process: its CPU clock, its memory, and its refusal to start."""

import os
from pathlib import Path

import pytest

from benchmarks.connection import Connection
from benchmarks.errors import BenchmarkError
from benchmarks.process import ServerProcess, copy_sources
from benchmarks.servers import KNOWN, Server, server_from_option
from benchmarks.wire import Frame


def test_given_a_server_that_worked_when_asked_then_its_clock_agrees_with_the_kernels_ticks() -> (
    None
):
    with ServerProcess(KNOWN["nats-server"]) as process, Connection(process.port) as connection:
        connection.settle(b"PUB a 4\r\nwork\r\n" * 200_000)
        before = process.cpu_seconds()
        words = Path(f"/proc/{process.process.pid}/stat").read_text().rpartition(")")[2].split()
        ticks = (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")
        assert before - 0.05 < ticks < process.cpu_seconds() + 0.05  # it may be at work meanwhile
        assert process.peak_bytes() > 1 << 20


def test_given_a_command_that_does_not_exist_when_started_then_one_line_says_so() -> None:
    with pytest.raises(BenchmarkError, match="ghost cannot be started"):
        ServerProcess(Server("ghost", "none", "/nonexistent/server {port}")).__enter__()


def test_given_a_command_that_ends_at_once_when_started_then_its_last_words_are_shown() -> None:
    command = "{bin}/python -c 'raise SystemExit(\"no port {port} for me\")'"
    with pytest.raises(BenchmarkError, match=r"did not start: no port \d+ for me"):
        ServerProcess(Server("shy", "none", command)).__enter__()


def test_given_our_sources_when_copied_then_no_compiled_module_comes_along(tmp_path: Path) -> None:
    copy_sources(tmp_path)
    assert (tmp_path / "parser" / "machine.py").exists()
    assert not list(tmp_path.rglob("*.so"))


@pytest.mark.parametrize(
    ("text", "name", "frame"),
    [
        ("seriatim=x {port}", "seriatim", "netstring"),
        ("nats-server=x {port}", "nats-server", "none"),
        ("trial:header=x {port}", "trial", "header"),
    ],
)
def test_given_a_server_option_when_read_then_name_frame_and_command_are_known(
    text: str, name: str, frame: Frame, tmp_path: Path
) -> None:
    server = server_from_option(text)
    assert (server.name, server.frame) == (name, frame)
    assert server.arguments(9, 10, tmp_path) == ["x", "9"]


@pytest.mark.parametrize(
    ("text", "keeps"),
    [
        ("seriatim=x {port}", "journal"),
        ("jetstream=x {port}", "jetstream"),
        ("trial=x {port} {store}", "journal"),
        ("trial=x {port}", ""),
    ],
)
def test_given_a_server_option_when_read_then_it_is_known_what_it_keeps(
    text: str, keeps: str
) -> None:
    assert server_from_option(text).keeps == keeps


def test_given_a_server_with_a_file_of_settings_when_started_then_the_file_is_there(
    tmp_path: Path,
) -> None:
    words = KNOWN["jetstream-always"].arguments(9, 10, tmp_path)
    assert words[-1] == str(tmp_path / "config")
    written = (tmp_path / "config").read_text()
    assert 'listen: "127.0.0.1:9"' in written
    assert f'store_dir: "{tmp_path / "store"}"' in written


@pytest.mark.parametrize(
    ("name", "takes", "feeds"),
    [
        ("seriatim-cq-netstring", "netstring", True),
        ("seriatim-feed", "nats", True),
        ("x", "nats", 0),
    ],
)
def test_given_a_server_option_when_read_then_it_is_known_how_it_is_given_messages(
    name: str, takes: str, feeds: bool
) -> None:
    server = server_from_option(f"{name}=x {{port}} {'{feed_port}' if feeds else ''}")
    assert (server.takes, server.feeds) == (takes, feeds)


@pytest.mark.parametrize("text", ["trial", "trial=x", "=x {port}", "trial:odd=x {port}"])
def test_given_a_wrong_server_option_when_read_then_the_remedy_is_shown(text: str) -> None:
    with pytest.raises(BenchmarkError, match="write NAME"):
        server_from_option(text)
