"""A password that is asked for on a terminal, as a person at it sees it."""

import os
import pty
import subprocess
import sys
import termios
from pathlib import Path

import bcrypt
import pytest

from tests.seriatim.cli.command import COMMAND, environment
from tests.seriatim.cli.user.users_files import tables

# The command gets the terminal as its own, as a shell does it.
ON_A_TERMINAL = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""


def typed(arguments: list[str], *answers: tuple[str, bytes]) -> tuple[int, str, str]:
    """Answer each prompt; the status, what the terminal shows, and standard output."""
    master, terminal = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", ON_A_TERMINAL, COMMAND, "user", *arguments],
        stdin=terminal,
        stdout=subprocess.PIPE,
        stderr=terminal,
        env=environment(),
        start_new_session=True,
    )
    os.close(terminal)
    shown = b""
    left = list(answers)
    while True:
        try:
            piece = os.read(master, 1024)
        except OSError:  # nobody has the terminal any more
            piece = b""
        if not piece:
            break
        shown += piece
        if left and shown.endswith(left[0][0].encode()):
            assert not termios.tcgetattr(master)[3] & termios.ECHO
            os.write(master, left.pop(0)[1])
    out, _ = process.communicate(timeout=60)
    os.close(master)
    assert left == [], shown
    return process.returncode, shown.decode().replace("\r\n", "\n"), out.decode()


def test_given_a_terminal_when_a_user_is_added_then_the_password_is_asked_for_and_not_shown(
    tmp_path: Path,
) -> None:
    path = tmp_path / "users.toml"
    arguments = ["add", "alice", "-f", str(path), "--cost", "8"]
    status, shown, out = typed(arguments, ("Password: ", b"s3same\n"), ("Again: ", b"s3same\n"))
    assert (status, out) == (0, "")
    assert shown.startswith(f"Password: \nAgain: \nseriatim: added user alice to {path};")
    assert "s3same" not in shown
    assert bcrypt.checkpw(b"s3same", tables(path)["users"][0]["password"].encode())


def test_given_a_terminal_when_a_hash_is_wanted_then_only_that_is_printed() -> None:
    answers = (("Password: ", "grüß\n".encode()), ("Again: ", "grüß\n".encode()))
    status, shown, out = typed(["passwd", "--cost", "8"], *answers)
    assert (status, shown) == (0, "Password: \nAgain: \n")
    assert bcrypt.checkpw("grüß".encode(), out.strip().encode())


@pytest.mark.parametrize(
    ("answers", "status", "why"),
    [
        (
            [("Password: ", b"one\n"), ("Again: ", b"two\n")],
            1,
            "seriatim: the two passwords differ; nothing is changed\n",
        ),
        ([("Password: ", b"\n")], 1, "seriatim: the password is empty; give one\n"),
        (
            [("Password: ", b"x" * 73 + b"\n")],
            1,
            "seriatim: the password has 73 bytes; bcrypt takes only the first 72 into account, so"
            " give a shorter one\n",
        ),
        (
            [("Password: ", b"a\x1bb\n")],
            1,
            "seriatim: the password has a character that cannot be printed, such as a line end;"
            " leave it out\n",
        ),
        ([("Password: ", b"\xff\n")], 1, "seriatim: the password is not UTF-8\n"),
        ([("Password: ", b"\x03")], 130, ""),
        ([("Password: ", b"\x04")], 130, ""),
    ],
    ids=["differ", "empty", "long", "control", "bytes", "ctrl-c", "ctrl-d"],
)
def test_given_a_wrong_answer_when_asked_then_it_says_so_and_there_is_no_file(
    tmp_path: Path, answers: list[tuple[str, bytes]], status: int, why: str
) -> None:
    path = tmp_path / "users.toml"
    found, shown, out = typed(["add", "alice", "-f", str(path)], *answers)
    assert (found, out) == (status, "")
    assert shown.endswith(f"\n{why}")
    assert not path.exists()


def test_given_a_known_name_when_added_then_no_password_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "users.toml"
    path.write_text('[[users]]\nuser = "alice"\npassword = "x"\n')
    status, shown, _ = typed(["add", "alice", "-f", str(path)])
    assert status == 1
    assert shown.startswith(f"seriatim: {path} has a user alice already;")
