"""The image's HEALTHCHECK: 0 for a healthy answer, 1 and one line for everything else."""

import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.places import ROOT

TIMEOUT = "TIMEOUT = 2.0  # seconds"
SCRIPT = ROOT / "deploy/docker/healthcheck.py"


@contextmanager
def answering(answer: bytes) -> Iterator[int]:
    """Serve one connection on a free port: read the request, answer, close; give the port."""

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            request = connection.recv(4096)
            assert request.startswith(b"GET /healthz?alive=1 HTTP/1.1\r\n")
            connection.sendall(answer)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listener.getsockname()[1]
        thread.join(30)


@pytest.fixture
def patient(tmp_path: Path) -> Path:
    """The check, but that it waits: whoever answers here may be kept from it for some seconds."""
    text, made = SCRIPT.read_text(), tmp_path / "healthcheck.py"
    assert text.count(TIMEOUT) == 1
    made.write_text(text.replace(TIMEOUT, "TIMEOUT = 25.0  # seconds"))
    return made


def health(port: int, script: Path = SCRIPT) -> "subprocess.CompletedProcess[str]":
    """Run the check as the image does, with an interpreter that sees nothing of the project."""
    return subprocess.run(
        [sys.executable, "-IS", str(script), str(port)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_given_a_healthy_broker_when_checked_then_status_0_and_silence(patient: Path) -> None:
    with answering(b'HTTP/1.1 200 OK\r\nContent-Length: 15\r\n\r\n{"status":"ok"}') as port:
        result = health(port, patient)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (b"HTTP/1.1 503 Service Unavailable\r\n\r\n", "/healthz says 503 Service Unavailable"),
        (b'INFO {"server_id":"x"} \r\n', "no HTTP answer"),
        (b"HTTP/1.1\r\n", "no HTTP answer"),
        (b"", "no HTTP answer"),
    ],
    ids=["unhealthy", "another protocol", "half an answer", "closed"],
)
def test_given_another_answer_when_checked_then_status_1_and_one_line(
    answer: bytes, told: str, patient: Path
) -> None:
    with answering(answer) as port:
        result = health(port, patient)
    assert result.returncode == 1
    assert told in result.stderr
    assert result.stderr.count("\n") == 1


def test_given_nobody_listening_when_checked_then_status_1_and_one_line() -> None:
    with socket.socket() as unused:  # bound, so that nobody else listens there
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        result = health(port)
    assert result.returncode == 1
    assert result.stderr.startswith(f"no answer from 127.0.0.1:{port}: ")
    assert result.stderr.count("\n") == 1


def test_given_a_broker_that_hangs_when_checked_then_it_does_not_wait_for_long() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:  # never accepts, never answers
        result = health(listener.getsockname()[1])
    assert result.returncode == 1
    assert "timed out" in result.stderr
