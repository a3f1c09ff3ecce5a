"""The pid file: a broker that cannot start leaves that of the one that runs."""

import os
from pathlib import Path

import pytest

from broker.runtime.pid_file import PidFile
from tests.seriatim.cli.command import seriatim
from tests.support.processes import SeriatimServer


def test_given_a_broker_when_a_second_one_cannot_start_then_the_pid_file_is_still_the_firsts(
    tmp_path: Path,
) -> None:
    pid = tmp_path / "pid"
    arguments = ["--store_dir", str(tmp_path / "store"), "--pid", str(pid)]
    with SeriatimServer("header", arguments=arguments) as first:
        done = seriatim("serve", "-a", "127.0.0.1", "-p", "-1", *arguments)
        assert done.returncode == 1
        assert b"writes this store; stop it first" in done.stderr
        assert pid.read_text() == f"{first.pid}\n"
        assert seriatim("serve", "--signal", f"stop={pid}").returncode == 0
        assert first.wait() == 0
    assert not pid.exists()


@pytest.mark.parametrize("left", ["", "2147483646\n", "not a number", "-1", "\0", "9" * 40])
def test_given_what_a_dead_broker_left_then_it_is_replaced_and_goes_at_the_end(
    tmp_path: Path, left: str
) -> None:
    path = tmp_path / "pid"
    path.write_text(left)
    file = PidFile(str(path))
    file.write()
    assert path.read_text() == f"{os.getpid()}\n"
    file.remove()
    assert not path.exists()


def test_given_a_file_of_another_broker_by_now_then_it_stays(tmp_path: Path) -> None:
    path = tmp_path / "pid"
    file = PidFile(str(path))
    file.write()
    path.write_text("1\n")
    file.remove()
    assert path.read_text() == "1\n"


def test_given_no_place_for_the_file_then_it_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        PidFile(str(tmp_path / "none" / "pid")).write()
