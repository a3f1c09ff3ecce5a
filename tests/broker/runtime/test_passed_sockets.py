"""Sockets that systemd passes: clients wait at them while the broker restarts."""

import asyncio
import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import nats
import pytest

from broker.runtime.passed_sockets import passed_sockets
from tests.support.processes import READY_S, STAND_IN, NotReadyError, SeriatimServer
from tests.support.raw import QUIET, RawClient
from tests.support.readable import is_readable

pytestmark = pytest.mark.skipif(STAND_IN, reason="of our own process")

# Like systemd: descriptors from 3 on, and the process's own id, which stays over exec.
LAUNCHER = """
import fcntl, os, sys
passed = [int(fd) for fd in sys.argv[1].split(",")]
aside = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 64) for fd in passed]
for fd in passed:
    os.close(fd)
for at, fd in enumerate(aside):
    os.dup2(fd, 3 + at)
os.environ |= {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": str(len(passed)), "LISTEN_FDNAMES": ""}
os.execv(sys.argv[2], sys.argv[2:])
"""


class Activated(SeriatimServer):
    """A broker that is started with sockets, as by a .socket unit."""

    by_command = True

    def __init__(self, sockets: list[socket.socket], *arguments: str) -> None:
        super().__init__(arguments=list(arguments))
        self.sockets = sockets

    def _spawn(
        self, command: list[str], env: Mapping[str, str], inherits: tuple[int, ...] = ()
    ) -> "subprocess.Popen[bytes]":
        fds = tuple(one.fileno() for one in self.sockets)
        launcher = [sys.executable, "-c", LAUNCHER, ",".join(map(str, fds))]
        return subprocess.Popen(
            [*launcher, *command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=env,
            pass_fds=fds,
        )


def listening(host: str = "127.0.0.1", port: int = 0, backlog: int = 7) -> socket.socket:
    return socket.create_server((host, port), backlog=backlog)


def test_given_a_socket_then_it_is_served_and_stays_open_over_a_restart() -> None:
    with listening() as door:
        port = door.getsockname()[1]
        with Activated([door]).start(port) as broker:
            with RawClient(port, QUIET) as client:
                assert client.info["port"] == port
                assert client.ask(b"SUB a 1\r\n") == []
            broker.stop()
            with socket.create_connection(("127.0.0.1", port)) as waiting:  # nobody is there
                broker.start(port)
                assert is_readable(waiting, READY_S)
                assert waiting.recv(4) == b"INFO"


def test_given_a_client_that_tries_twice_in_50_ms_then_it_survives_restarts() -> None:
    """What nats.go does with `ReconnectWait(25ms)` and `MaxReconnects(2)`."""

    def connect(port: int) -> socket.socket:
        for _ in range(2):
            with contextlib.suppress(OSError):
                client = socket.create_connection(("127.0.0.1", port))
                client.settimeout(READY_S)
                if client.recv(4096).startswith(b"INFO"):
                    client.sendall(b'CONNECT {"verbose":false}\r\nPING\r\n')
                    return client
            select.poll().poll(25)
        raise AssertionError("it gave up")

    with listening() as door:
        port = door.getsockname()[1]
        with Activated([door]).start(port) as broker:
            client = connect(port)
            for _ in range(2):
                broker.signal(signal.SIGTERM)
                while client.recv(4096):  # until it is closed
                    continue
                client.close()
                assert broker.wait() == 0
                broker.start(port)
                client = connect(port)
            client.close()


def test_given_a_client_of_nats_py_with_two_attempts_then_it_survives_a_restart() -> None:
    async def scenario(broker: Activated, port: int) -> None:
        back = asyncio.Event()

        async def reconnected() -> None:
            back.set()

        client = await nats.connect(
            f"nats://127.0.0.1:{port}",
            max_reconnect_attempts=2,
            reconnect_time_wait=0.025,
            connect_timeout=READY_S,
            reconnected_cb=reconnected,
        )
        got = await client.subscribe("a")
        await client.flush()
        await asyncio.to_thread(broker.stop)
        await asyncio.to_thread(broker.start, port)
        await asyncio.wait_for(back.wait(), READY_S)
        await client.publish("a", b"x")
        assert (await got.next_msg(READY_S)).subject == "a"
        await client.close()

    with listening() as door:
        port = door.getsockname()[1]
        with Activated([door]).start(port) as broker:
            asyncio.run(scenario(broker, port))


def test_given_sockets_of_several_ports_then_each_has_its_protocol() -> None:
    with listening() as main, listening() as web, listening() as cq:
        ports = [one.getsockname()[1] for one in (main, web, cq)]
        broker = Activated(
            [cq, web, main],
            *("--websocket_port", str(ports[1]), "--websocket_no_tls"),
            *("--sequencer_port", str(ports[2])),
        )
        with broker.start(ports[0]):
            with RawClient(ports[0]) as client:
                assert client.info["port"] == ports[0]
            with socket.create_connection(("127.0.0.1", ports[1])) as client:
                client.sendall(b"GET /x HTTP/1.0\r\n\r\n")
                assert client.recv(4096).startswith(b"HTTP/1.1 ")
            with socket.create_connection(("127.0.0.1", ports[2])) as client:
                client.sendall(b"one")
                assert client.recv(4096)


def test_given_a_socket_that_no_setting_listens_on_then_the_start_fails_and_names_both() -> None:
    with listening() as door, listening() as other:
        port = other.getsockname()[1]
        broker = Activated([door, other])
        with pytest.raises(NotReadyError, match=rf"socket for 127.0.0.1:{port}.*ListenStream="):
            broker.start(door.getsockname()[1])


@pytest.mark.parametrize("kind", ["unix", "udp", "connection"])
def test_given_what_no_client_can_connect_to_then_the_start_fails(
    kind: str, tmp_path: Path
) -> None:
    with contextlib.ExitStack() as stack:
        if kind == "unix":
            made = stack.enter_context(socket.socket(socket.AF_UNIX))
            made.bind(str(tmp_path / "socket"))
            made.listen()
        elif kind == "udp":
            made = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
            made.bind(("127.0.0.1", 0))
        else:
            door = stack.enter_context(listening())
            made = stack.enter_context(socket.create_connection(door.getsockname()))
        with pytest.raises(NotReadyError, match="no TCP socket that listens"):
            Activated([made]).start()


OWN = str(os.getpid())


@pytest.mark.parametrize(
    ("variables", "why"),
    [
        ({"LISTEN_FDS": "one", "LISTEN_PID": OWN}, 'LISTEN_FDS="one" is not a number'),
        ({"LISTEN_FDS": "-1", "LISTEN_PID": OWN}, 'LISTEN_FDS="-1" is not a number'),
        ({"LISTEN_FDS": "1", "LISTEN_PID": "me"}, 'LISTEN_PID="me" is not a number'),
        ({"LISTEN_FDS": "9" * 30, "LISTEN_PID": OWN}, "is more than the"),
    ],
)
def test_given_strange_variables_then_the_error_names_them(
    variables: dict[str, str], why: str
) -> None:
    with pytest.raises(OSError, match=why):
        passed_sockets(variables)
    assert variables == {}


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"LISTEN_FDS": "0", "LISTEN_PID": OWN},
        {"LISTEN_FDS": "1", "LISTEN_PID": "1"},  # those of a parent
        {"LISTEN_FDS": "1"},
        {"LISTEN_PID": OWN, "LISTEN_FDNAMES": "x"},
    ],
)
def test_given_nothing_for_this_process_then_there_are_none(variables: dict[str, str]) -> None:
    assert passed_sockets(variables) == []
    assert variables == {}


def test_given_fewer_descriptors_than_promised_then_the_error_names_the_first_missing() -> None:
    code = (
        "import os; from broker.runtime.passed_sockets import passed_sockets;"
        "passed_sockets({'LISTEN_PID': str(os.getpid()), 'LISTEN_FDS': '1'})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "descriptor 3 is a socket, but it is not open" in done.stderr
