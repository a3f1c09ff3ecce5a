"""`seriatim serve --signal`: a running broker is told what to do, and nothing else is."""

import subprocess
from pathlib import Path

import pytest

from tests.seriatim.cli.command import refusal, seriatim
from tests.support.processes import STAND_IN, SeriatimServer
from tests.support.raw import QUIET, RawClient
from tests.support.reloaded import Reloaded

pytestmark = pytest.mark.skipif(STAND_IN, reason="of our own process")


def told(*arguments: str) -> None:
    done = seriatim("serve", *arguments)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_given_a_pid_then_the_broker_reloads_and_stops() -> None:
    with SeriatimServer("none") as broker:
        told("--signal", f"reload={broker.pid}")
        assert broker.await_line("Reloaded server configuration")
        told(f"-sl=stop={broker.pid}")
        assert broker.wait() == 0


def test_given_a_pid_file_then_the_broker_is_a_lame_duck_and_quits(tmp_path: Path) -> None:
    file = tmp_path / "pid"
    server = SeriatimServer("none", {"lame_duck": "300s"}, ["-P", str(file)])
    with server as broker, RawClient(broker.port, QUIET) as client:
        client.ask(b"")
        told("-sl", f"ldm={file}")
        assert broker.await_line("Entering lame duck mode")
        told("-P", str(file), "--signal", "quit")
        assert broker.wait() == 0
    assert not file.exists()


def test_given_a_log_that_was_moved_away_then_it_is_reopened(tmp_path: Path) -> None:
    log, old = tmp_path / "log", tmp_path / "old"
    with Reloaded(tmp_path) as running:
        running.write(f'log_file = "{log}"\n')
        running.hang_up()
        log.rename(old)
        told("--signal", f"reopen={running.broker.pid}")
        running.hang_up()
    assert "Reloaded: log_file" in old.read_text()
    assert "Reloaded server configuration" in log.read_text()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--signal"], "needs a value; give --signal reload=PID"),
        (["--signal", "restart=1"], '"restart" is not one of reload, reopen, ldm, quit, stop'),
        (["--signal", "reload"], "to which broker? give --signal reload=PID, or a file"),
        (["--signal", "reload=/nowhere/pid"], "/nowhere/pid: No such file or directory"),
        (["--signal", "reload=2147483647"], "there is no process 2147483647"),
        (["--signal", "reload=0"], "holds no process id"),
        (["--signal", "reload=1"], "process 1 is not a broker"),  # but in a container it may be
        (["--signal", "reload=99999999999999999999"], "holds no process id"),
    ],
)
def test_given_nobody_to_tell_then_it_says_so(arguments: list[str], said: str) -> None:
    assert said in refusal("serve", *arguments)


def test_given_an_old_pid_file_then_another_process_gets_no_signal(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "60"]) as other:
        file = tmp_path / "pid"
        file.write_text(f"{other.pid}\n")
        assert f"process {other.pid} is not a broker" in refusal("serve", "-sl", f"stop={file}")
        assert other.poll() is None
        other.kill()
    (tmp_path / "text").write_text("hello")
    assert "holds no process id" in refusal("serve", "-sl", f"stop={tmp_path}/text")
