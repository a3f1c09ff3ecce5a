"""Which file is changed, and what the settings beside it forbid."""

from pathlib import Path

import pytest

from seriatim.cli.errors import CliError
from seriatim.cli.user.users_place import find_place
from tests.seriatim.cli.command import seriatim
from tests.seriatim.cli.user.users_files import add, done, refused, tables

VARIABLE = "SERIATIM_AUTHORIZATION_USERS_FILE"
CONFIG_USERS = '[[authorization.users]]\nuser = "carol"\npassword = "s3same"\n'


def config(folder: Path, text: str = "", top: str = "") -> Path:
    """A file of settings that names users.toml beside it."""
    path = folder / "broker.toml"
    users = f'[authorization]\nusers_file = "{folder}/users.toml"\n'
    path.write_text(f"{top}\n{users}{text}")
    return path


def test_given_a_file_when_named_then_no_settings_are_read(tmp_path: Path) -> None:
    wrong = {"SERIATIM_PORT": "many"}
    place = find_place(str(tmp_path / "u"), None, environment=wrong)
    assert (place.path, place.values, place.config) == (str(tmp_path / "u"), {}, "")


def test_given_no_file_when_asked_then_it_is_that_of_the_settings(tmp_path: Path) -> None:
    settings = str(config(tmp_path))
    for place in (
        find_place(None, settings, environment={}),
        find_place(None, None, environment={"SERIATIM_CONFIG": settings}),
    ):
        assert (place.path, place.config) == (str(tmp_path / "users.toml"), settings)
    place = find_place(None, None, environment={VARIABLE: str(tmp_path / "u")})
    assert (place.path, place.config) == (str(tmp_path / "u"), "")
    place = find_place(str(tmp_path / "u"), settings, environment={})
    assert (place.path, place.config) == (str(tmp_path / "u"), settings)


def test_given_neither_when_asked_then_it_says_how_to_name_one() -> None:
    with pytest.raises(CliError, match=r"^which file of users\? Give --file FILE, or let the"):
        find_place(None, None, environment={})
    assert find_place(None, None, needed=False, environment={}).path == ""


def test_given_wrong_settings_when_the_file_is_theirs_then_they_are_reported(
    tmp_path: Path,
) -> None:
    path = tmp_path / "broker.toml"
    path.write_text("port = 'many'\n")
    assert refused("list", "-c", str(path)).startswith(f'port in {path}: "many" is not ')


def test_given_a_pid_file_in_the_settings_when_changed_then_it_is_named(tmp_path: Path) -> None:
    path = config(tmp_path, top='pid_file = "/run/the broker.pid"')
    _, said = done("add", "a", "-c", str(path), "--password-stdin", "--cost", "8", stdin="x")
    assert said == [
        f"added user a to {tmp_path}/users.toml; to apply it, run `kill -HUP $(cat"
        " '/run/the broker.pid')`, or `systemctl reload seriatim`",
        f"{tmp_path}/users.toml is new: let the broker's user read it",
    ]


@pytest.mark.parametrize("command", ["add", "passwd", "remove"])
def test_given_a_user_of_the_configuration_when_changed_then_it_says_where_to_change_it(
    tmp_path: Path, command: str
) -> None:
    path = config(tmp_path, CONFIG_USERS)
    add(tmp_path / "users.toml", "alice")
    stdin = [] if command == "remove" else ["--password-stdin"]
    assert refused(command, "carol", "-c", str(path), *stdin, stdin="x") == (
        f"user carol is in {path}, which this command does not change; change it there (`seriatim"
        " user passwd` without a name prints a hash)"
    )


@pytest.mark.parametrize(
    ("text", "users", "arguments", "why"),
    [
        (
            'token = "t0ken"',
            "",
            ["add", "alice", "--no-password"],
            'user "alice": has no password; `seriatim user passwd` makes one',
        ),
        (
            'token = "t0ken"',
            "",
            ["nkey"],
            "authorization.token: there are users as well; give this one as a user among them",
        ),
        (
            "[sequencer]\nport = 3001",
            "",
            ["nkey"],
            "sequencer.user: is missing; cquencer's clients cannot authenticate, so say which user"
            " they are: give --sequencer_user NAME, or turn the port off",
        ),
        (
            'no_auth_user = "bob"',
            "alice bob",
            ["remove", "bob"],
            'authorization.no_auth_user: "bob" is not one of the users; add it, or give another',
        ),
        (
            "",
            "alice",
            ["remove", "alice"],
            "it would have no user, so everybody could do everything; to turn authentication off,"
            " take authorization.users_file out of the settings",
        ),
    ],
)
def test_given_settings_that_forbid_a_change_when_changed_then_the_file_stays(
    tmp_path: Path, text: str, users: str, arguments: list[str], why: str
) -> None:
    path = config(tmp_path, text)
    file = tmp_path / "users.toml"
    for name in users.split():
        add(file, name)
    before = file.read_bytes() if users else None
    said = refused(*arguments, "-c", str(path))
    assert said.startswith(f"{file} is not changed: ")
    assert why in said
    assert (file.read_bytes() if users else None) == before
    assert file.exists() is bool(users)


def test_given_the_last_user_of_the_file_when_the_configuration_has_others_then_it_can_go(
    tmp_path: Path,
) -> None:
    path = config(tmp_path, CONFIG_USERS)
    add(tmp_path / "users.toml", "alice")
    done("remove", "alice", "-c", str(path))
    assert tables(tmp_path / "users.toml") == {}
    assert seriatim("config", "-c", str(path)).returncode == 0


def test_given_settings_that_were_wrong_before_when_changed_then_it_is_done_and_said(
    tmp_path: Path,
) -> None:
    path = config(tmp_path, 'no_auth_user = "guest"\n[sequencer]\nport = 3001\nuser = "port"')
    said = done("add", "guest", "-c", str(path), "--password-stdin", "--cost", "8", stdin="x")[1]
    assert said[1] == (
        'the broker still refuses its settings: sequencer.user: "port" is not one of the users;'
        " add it, or give another"
    )
    done("add", "port", "-c", str(path), "--password-stdin", "--cost", "8", stdin="x")
    assert seriatim("config", "-c", str(path)).returncode == 0
