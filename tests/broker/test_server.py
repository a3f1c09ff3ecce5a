"""A real broker process: how it starts, what it reports, and how it is stopped."""

import os
import re
import signal
import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from broker.version import NATS_VERSION, VERSION, is_compiled
from testkit.model_frame import split_frame
from tests.seriatim.cli.command import COMMAND_S, seriatim
from tests.support.processes import STAND_IN, STOP_S, SeriatimServer
from tests.support.raw import QUIET, RawClient, operations

pytestmark = pytest.mark.skipif(STAND_IN, reason="of our own process")

LINE = re.compile(r"\[(\d+)\] \d{4}/\d\d/\d\d \d\d:\d\d:\d\d\.\d{6} \[(INF|WRN)\] (.+)")


def texts(log: list[str]) -> list[str]:
    """The log without times and ids, which every line must have."""
    found = [LINE.fullmatch(line) for line in log]
    assert all(found), log
    return [match[3] for match in found if match]


def test_given_a_start_then_the_log_says_what_runs_where_and_that_it_is_ready() -> None:
    with SeriatimServer() as broker:
        said = texts(broker.log)
        pids = {match[1] for line in broker.log if (match := LINE.fullmatch(line))}
        assert pids == {str(broker.pid)}
        port = broker.port
    build = "compiled" if is_compiled() else "uncompiled"
    loop = os.environ.get("SERIATIM_LOOP", "asyncio")
    assert said[0] == f"Starting seriatim {VERSION} ({build}, {loop})"
    warned = any("Running uncompiled" in text for text in said)
    assert warned is not is_compiled()
    assert f"Listening for client connections on 127.0.0.1:{port}" in said
    assert said[-1] == "Server is ready"


def test_given_listeners_when_started_then_the_log_says_which_frame_their_payloads_come_in() -> (
    None
):
    arguments = ["--listen", "127.0.0.1:-1,frame=none", "--listen", "127.0.0.1:-1,frame=header"]
    with SeriatimServer("netstring", arguments=arguments) as broker:
        own, plain, header = broker.ports
        said = texts(broker.log)
    assert [text for text in said if text.startswith("Payloads to clients on ")] == [
        f"Payloads to clients on 127.0.0.1:{own}: netstring frames that hold the number"
        " (--frame header leaves payloads unchanged)",
        f"Payloads to clients on 127.0.0.1:{plain}: unchanged, without the number",
        f"Payloads to clients on 127.0.0.1:{header}: unchanged, the number is in the header"
        " Nats-Sequence",
    ]


def test_given_a_stop_then_the_log_says_so_and_the_status_is_0() -> None:
    broker = SeriatimServer()
    with broker:
        log = broker.log
        assert broker.stop() == 0
    assert texts(log)[-2:] == ["Stopping: delivering what was accepted", "Server stopped"]


def test_given_a_connection_then_info_says_who_we_are_and_nothing_we_are_not() -> None:
    with SeriatimServer("netstring") as broker, RawClient(broker.port) as client:
        info = client.info
    assert set(info) == {
        "server_id",
        "server_name",
        "version",
        "seriatim",
        "proto",
        "git_commit",
        "go",
        "host",
        "port",
        "headers",
        "max_payload",
        "client_id",
        "client_ip",
        "frame",
    }
    assert re.fullmatch(r"N[A-Z2-7]{55}", info["server_id"])
    assert info["server_name"] == info["server_id"]
    assert (info["version"], info["seriatim"]) == (NATS_VERSION, VERSION)
    assert info["go"] == f"CPython {sys.version.split()[0]}"
    assert (info["host"], info["port"]) == ("127.0.0.1", broker.ports[0])
    assert (info["proto"], info["headers"], info["max_payload"]) == (1, True, 1 << 20)
    assert (info["client_id"], info["client_ip"], info["frame"]) == (1, "127.0.0.1", "netstring")


def test_given_a_client_of_protocol_1_then_it_is_greeted_once_after_its_first_pong() -> None:
    with SeriatimServer() as broker:
        with RawClient(
            broker.port, b'PING\r\nCONNECT {"verbose":false,"protocol":1}\r\n'
        ) as client:
            said = client.answer(b"PING\r\nPING\r\n", 3)[0]
        with RawClient(broker.port, QUIET) as client:
            assert client.answer(b"PING\r\n", 1)[0] == b"PONG\r\n"
    found = operations(said)
    assert [one.verb for one in found] == ["PONG", "PONG", "INFO", "PONG"]
    assert b'"connect_info":true,"remote_account":"$G"' in found[2].text


def test_given_listeners_with_frames_then_one_message_comes_in_each_of_them() -> None:
    arguments = ["--listen", "127.0.0.1:-1,frame=none", "--listen", "127.0.0.1:-1,frame=header"]
    arguments += ["--listen", "127.0.0.1:-1,frame=stamp"]
    with SeriatimServer("netstring", arguments=arguments) as broker, ExitStack() as stack:
        headed = b'CONNECT {"verbose":false,"headers":true}\r\n'
        places = [(port, QUIET) for port in broker.ports]
        places += [(port, headed) for port in broker.ports[2:]]
        clients = [stack.enter_context(RawClient(*place)) for place in places]
        framed, bare, header, _, heads, stamps = clients
        assert [client.info["frame"] for client in clients] == [
            "netstring",
            "none",
            *["header", "stamp"] * 2,
        ]
        assert [client.info["port"] for client in clients[:4]] == broker.ports
        for client in clients:
            client.ask(b"SUB a 1\r\n")
        bare.ask(b"PUB a 005\r\nhello\r\n")  # bare hears its own, before its PONG
        heard = [client.operation() for client in (framed, header, heads, stamps)]
    assert split_frame(heard[0].payload) == (1, b"hello")
    assert (heard[1].verb, heard[1].sizes, heard[1].payload) == ("MSG", b"005", b"hello")
    assert heard[2].header == b"NATS/1.0\r\nNats-Sequence: 1\r\n\r\n"
    assert heard[3].header.startswith(b"NATS/1.0\r\nNats-Sequence: 1\r\nNats-Time-Stamp: 20")


def test_given_a_port_in_use_by_a_second_listener_then_one_line_and_status_1() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = seriatim("serve", "-a", "127.0.0.1", "-p", "-1", "--listen", f"127.0.0.1:{port}")
    *before, last = done.stderr.decode().splitlines()
    assert done.returncode == 1
    why = "Address already in use: another process has the port"
    assert f"[FTL] cannot listen on 127.0.0.1:{port}: {why}" in last
    assert all("[INF]" in line or "[WRN]" in line for line in before)


@pytest.mark.parametrize(
    ("host", "why"),
    [
        (
            "no.such.host.invalid",
            ": the name cannot be resolved; choose another address with --port",
        ),
        ("192.0.2.1", ": this machine has no such address; choose another address with --port"),
    ],
)
def test_given_an_address_that_is_not_here_then_the_reason_is_the_right_one(
    host: str, why: str
) -> None:
    done = seriatim("serve", "-a", host, "-p", "-1", "--no-journal")
    assert done.returncode == 1
    last = done.stderr.decode().splitlines()[-1]
    assert f"[FTL] cannot listen on any free port of {host}: " in last
    assert why in last
    assert "another process" not in last


def test_given_a_log_file_that_cannot_be_made_then_it_is_called_by_its_own_name(
    tmp_path: Path,
) -> None:
    done = seriatim("serve", "-p", "-1", "-l", "none/log", "-P", "pid", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr == b"seriatim: log file none/log: No such file or directory\n"


def test_given_a_log_file_when_the_start_fails_then_the_error_is_also_on_the_terminal(
    tmp_path: Path,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = seriatim("serve", "-a", "127.0.0.1", "-p", str(port), "-l", str(tmp_path / "log"))
    assert done.returncode == 1
    assert done.stderr.startswith(b"seriatim: cannot listen on 127.0.0.1:%d: Address" % port)
    assert done.stderr.count(b"\n") == 1
    assert f"[FTL] cannot listen on 127.0.0.1:{port}" in (tmp_path / "log").read_text()


def test_given_a_log_file_and_a_pid_file_then_they_are_written_and_the_log_can_be_moved_away(
    tmp_path: Path,
) -> None:
    log, old, pid = tmp_path / "log", tmp_path / "log.1", tmp_path / "pid"
    store = ["--store_dir", str(tmp_path / "store")]
    command = [*SeriatimServer(arguments=store).command, "-a", "127.0.0.1", "-p", "-1"]
    process = subprocess.Popen(
        [*command, "-l", str(log), "-P", str(pid)], stderr=subprocess.PIPE, stdin=subprocess.DEVNULL
    )
    try:
        port = _port_said_in(log, process)
        assert pid.read_text() == f"{process.pid}\n"
        log.rename(old)
        process.send_signal(signal.SIGUSR1)
        while not log.exists():  # of signals that wait together the order is lost
            assert process.poll() is None
        process.send_signal(signal.SIGHUP)
        with RawClient(port, QUIET) as client:  # served behind the signals
            assert client.ask(b"") == []
        process.terminate()
        assert process.wait(STOP_S) == 0
        assert process.stderr is not None
        assert process.stderr.read() == b""
    finally:
        process.kill()
        process.communicate()
    assert texts(old.read_text().splitlines())[-1] == "Server is ready"
    assert texts(log.read_text().splitlines()) == [
        "Reloaded server configuration",
        "Stopping: delivering what was accepted",
        "Server stopped",
    ]
    assert not pid.exists()


def _port_said_in(log: Path, process: "subprocess.Popen[bytes]") -> int:
    """Wait for a broker that logs to a file; the port it listens on."""
    while True:
        text = log.read_text() if log.exists() else ""
        if "Server is ready" in text:
            found = re.search(r"connections on 127\.0\.0\.1:(\d+)", text)
            assert found is not None
            return int(found[1])
        assert process.poll() is None, process.communicate()


def test_given_debug_and_trace_then_the_log_tells_connections_and_bytes() -> None:
    with SeriatimServer(arguments=["-DV"]) as broker:
        with RawClient(broker.port, QUIET) as client:
            client.ask(b"SUB a..b 1\r\n")
        assert broker.await_line("cid:1 - Client connection closed")
        log = "\n".join(broker.log)
    assert "cid:1 - Client connection created" in log
    assert re.search(r"cid:1 - <<- '.*SUB a\.\.b 1\\r\\nPING\\r\\n'", log)
    assert 'cid:1 - InvalidSubject: subscription to "a..b"' in log


@pytest.mark.parametrize(
    ("flags", "arguments", "told"),
    [
        ([], [], "this is the broker's own process; run: seriatim serve"),
        ([], ["--settings-fd", "x"], "this is the broker's own process; run: seriatim serve"),
        (["-O"], [], "python -O is refused: assertions guard the order"),
    ],
)
def test_given_the_process_started_by_hand_then_one_line_and_status_1(
    flags: list[str], arguments: list[str], told: str
) -> None:
    command = [sys.executable, *flags, "-m", "broker", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=COMMAND_S, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"seriatim: {told}\n"
