"""A users' file is replaced as a whole, by one command at a time, or stays as it was."""

import fcntl
import os
import stat
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from seriatim.cli.errors import CliError
from seriatim.cli.user import users_change
from seriatim.cli.user.users_change import change
from seriatim.cli.user.users_place import UsersPlace
from tests.seriatim.cli.command import COMMAND, environment
from tests.seriatim.cli.user.users_files import add, done, refused, tables
from tests.support.places import ROOT

NOBODY = 65534


def test_given_a_file_when_changed_then_mode_and_owner_stay(tmp_path: Path) -> None:
    path = tmp_path / "users.toml"
    add(path, "alice")
    path.chmod(0o640)
    if os.geteuid() == 0:
        os.chown(path, NOBODY, NOBODY)
    before, owner = path.stat(), path.stat().st_uid
    add(path, "bob")
    after = path.stat()
    assert after.st_ino != before.st_ino, "it is another file, in the place of the old one"
    assert (stat.S_IMODE(after.st_mode), after.st_uid, after.st_gid) == (
        0o640,
        owner,
        before.st_gid,
    )
    assert os.listdir(tmp_path) == ["users.toml"]


def test_given_a_link_when_changed_then_its_target_is_changed(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    path = tmp_path / "real" / "users.toml"
    link = tmp_path / "link.toml"
    link.symlink_to("real/users.toml")
    assert add(link, "alice")[0].startswith(f"added user alice to {path};")
    add(link, "bob")
    assert link.is_symlink()
    assert len(tables(path)["users"]) == 2


def test_given_a_relative_path_when_changed_then_the_whole_one_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert add(Path("users.toml"), "alice")[0].startswith(f"added user alice to {tmp_path}/users.")


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        (
            "missing/users.toml",
            None,
            "its folder cannot be opened: No such file or directory; make it, or give another file",
        ),
        (
            "file/users.toml",
            None,
            "its folder cannot be opened: Not a directory; make it, or give another file",
        ),
        ("users.toml", b"user = alice", "is not TOML: there is a mistake at line 1, column 8"),
        ("users.toml", b"\xff", "is not TOML: it is not text"),
        ("folder", None, "cannot be read: Is a directory"),
        ("pipe", None, "is not a regular file; give a file of TOML"),
    ],
)
def test_given_a_file_that_cannot_be_one_of_users_when_changed_then_it_says_why(
    tmp_path: Path, name: str, content: bytes | None, why: str
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    os.mkfifo(tmp_path / "pipe")
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    said = refused("add", "bob", "-f", str(path), "--no-password")
    assert said == f"{path}: {why}"


@pytest.mark.parametrize(
    ("before", "why"),
    [
        (
            '[[users]]\nuser = "bob"\npasswd = "s3same"\n',
            "users[1].passwd in {path}: there is no such setting; did you mean password?",
        ),
        (
            '[[users]]\nnkey = "U"\n',
            "user 1: the nkey is not the public key of a user: U and 55 letters or digits 2-7",
        ),
        (
            '[[users]]\nuser = "bob"\npassword = "$2b$s3same"\n',
            'user "bob": is not a bcrypt hash, but begins like one; `seriatim user passwd` makes'
            " one",
        ),
        (
            '[[users]]\nuser = "bob"\npassword = "x"\n[[users]]\nuser = "bob"\npassword = "y"\n',
            'user "bob": is there twice; leave out one of them',
        ),
        ("[user]\n", "user in {path}: a file of users has [[users]] and [default_permissions]"),
        ("users = 5\n", None),
    ],
)
def test_given_a_file_that_the_broker_refuses_when_changed_then_it_stays_and_the_reason_is_shown(
    tmp_path: Path, before: str, why: str | None
) -> None:
    path = tmp_path / "users.toml"
    path.write_text(before)
    said = refused("add", "alice", "-f", str(path), "--no-password")
    expected = f"{path} is not changed: {why}" if why else f"users in {path}: is a list of tables;"
    assert said.startswith(expected.replace("{path}", str(path)))
    assert "s3same" not in said
    assert path.read_text() == before


def test_given_a_wrong_user_when_mended_by_a_command_then_it_is_done(tmp_path: Path) -> None:
    path = tmp_path / "users.toml"
    path.write_text('[[users]]\nuser = "bob"\npassword = "$2b$x"\n[[users]]\nuser = "al"\n')
    given = ("-f", str(path), "--password-stdin", "--cost", "8")
    done("passwd", "bob", *given, stdin="x")
    assert "[[users]]" in path.read_text()


def test_given_secrets_in_other_places_when_changed_then_they_need_not_be_readable_here(
    tmp_path: Path,
) -> None:
    path = tmp_path / "users.toml"
    lines = ('user = "a"', 'password = "env:NOT_HERE"', "[[users]]", 'user = "b"')
    path.write_text("\n".join(("[[users]]", *lines, 'pass = "file:/run/not/here"', "")))
    add(path, "carol")
    assert [one.get("password", one.get("pass"))[:4] for one in tables(path)["users"]] == [
        "env:",
        "file",
        "$2b$",
    ]


# It changes a file of its own first: what it loads for that, it may not read as somebody else.
CHANGE_AS_NOBODY = """
import os, sys
from seriatim.cli.errors import CliError
from seriatim.cli.user.users_change import change
from seriatim.cli.user.users_place import UsersPlace
def edit(layout):
    return layout.with_user({"user": "bob"})
change(UsersPlace(sys.argv[2]), edit, may_be_missing=True)
if os.getuid() == 0:
    os.setgroups([]), os.setgid(65534), os.setuid(65534)
try:
    change(UsersPlace(sys.argv[1]), edit)
except CliError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("mode", "folder_mode", "why"),
    [
        (0o444, 0o777, "you may not write this file; change its mode, or be its owner"),
        (0o000, 0o777, "cannot be read: Permission denied"),
        (0o666, 0o555, "cannot be written: Permission denied"),
        (0o666, 0o000, "its folder cannot be opened: Permission denied; make it, or give another"),
        pytest.param(
            *(0o666, 0o777, "cannot be written: Operation not permitted"),
            marks=pytest.mark.skipif(os.geteuid() != 0, reason="the file is our own"),
        ),
    ],
)
def test_given_no_right_to_a_file_when_changed_then_it_says_so_and_leaves_nothing(
    tmp_path: Path, mode: int, folder_mode: int, why: str
) -> None:
    with tempfile.TemporaryDirectory() as made:  # others cannot reach pytest's own folders
        folder = Path(made).resolve()
        path = folder / "users.toml"
        add(path, "alice")
        path.chmod(mode)
        folder.chmod(folder_mode)
        own = str(tmp_path / "users.toml")
        command = [sys.executable, "-c", CHANGE_AS_NOBODY, str(path), own]
        run = subprocess.run(command, capture_output=True, cwd=ROOT, text=True, check=False)
        folder.chmod(0o755)
        assert (run.returncode, run.stderr) == (0, "")
        assert run.stdout.startswith(f"{path}: {why}")
        assert os.listdir(folder) == ["users.toml"]
        path.chmod(0o600)
        assert len(tables(path)["users"]) == 1


def test_given_another_command_that_does_not_end_when_changed_then_it_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(users_change, "LOCK_S", 0.0)
    holder = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(holder, fcntl.LOCK_EX)
    place = UsersPlace(str(tmp_path / "users.toml"))
    with pytest.raises(CliError) as caught:
        change(place, lambda layout: layout.with_user({"user": "a"}), may_be_missing=True)
    assert str(caught.value) == (
        f"{place.path}: another command is changing it, and does not end; try again later"
    )
    os.close(holder)
    change(place, lambda layout: layout.with_user({"user": "a"}), may_be_missing=True)


def test_given_many_commands_at_once_when_they_add_users_then_none_is_lost(tmp_path: Path) -> None:
    path = tmp_path / "users.toml"
    names = [f"user-{at}" for at in range(8)]

    def run(name: str) -> int:
        command = [COMMAND, "user", "add", name, "-f", str(path), "--no-password"]
        return subprocess.run(command, capture_output=True, env=environment()).returncode

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(run, names)) == [0] * 8
    assert sorted(one["user"] for one in tables(path)["users"]) == names
    assert os.listdir(tmp_path) == ["users.toml"]


def test_given_a_full_disk_when_changed_then_the_file_stays_and_nothing_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "users.toml"
    add(path, "alice")
    before = path.read_bytes()

    def full(descriptor: int) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(CliError) as caught:
        change(UsersPlace(str(path)), lambda layout: layout.with_user({"user": "bob"}))
    assert str(caught.value) == f"{path}: cannot be written: No space left on device"
    assert (path.read_bytes(), os.listdir(tmp_path)) == (before, ["users.toml"])
