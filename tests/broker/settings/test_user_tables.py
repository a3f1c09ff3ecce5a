"""Users in the configuration and in a file of their own: what is read, and every complaint."""

import os
from pathlib import Path
from typing import Any

import pytest

from broker.settings.authorization_settings import PermissionSettings, UserSettings
from broker.settings.errors import WrongSettings
from broker.settings.resolve import Effective, resolve
from broker.settings.user_tables import read_users_file

HASH = "$2b$08$PwCAK91q2gMjHDncpdHUyOKiYCKzdRtf0pyuN1FgEIypi0Z1aiNFK"
KEY = "UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4"


def users_file(folder: Path, text: str | bytes) -> Path:
    path = folder / "users.toml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def read(folder: Path, text: str | bytes) -> tuple[Any, list[str]]:
    """The users and default permissions of a file, and what is wrong with it; its name left out."""
    problems: list[str] = []
    path = str(users_file(folder, text))
    return read_users_file(path, problems), [one.replace(path, "FILE") for one in problems]


def test_given_a_file_with_every_setting_when_read_then_all_is_taken(tmp_path: Path) -> None:
    (users, defaults), problems = read(
        tmp_path,
        f"""
        [default_permissions]
        publish = []
        [[users]]
        user = "alice"
        password = "{HASH}"
        applications = ["billing", "b.*"]
        publish_rate = 100
        publish_bytes = "1MiB"
        permissions = {{ publish = "a" }}
        [[users]]
        username = "bob"
        pass = "s3same"
        permission = {{ sub = "b" }}
        [[users]]
        nkey = "{KEY}"
        """,
    )
    assert problems == []
    assert defaults == PermissionSettings(publish_allow=())
    assert users == (
        UserSettings(
            user="alice",
            password=HASH,
            applications=("billing", "b.*"),
            publish_rate=100,
            publish_bytes=1 << 20,
            permissions=PermissionSettings(publish_allow=("a",)),
        ),
        UserSettings(
            user="bob", password="s3same", permissions=PermissionSettings(subscribe_allow=("b",))
        ),
        UserSettings(nkey=KEY),
    )


def test_given_a_file_with_a_byte_order_mark_when_read_then_it_is_taken(tmp_path: Path) -> None:
    (users, _), problems = read(tmp_path, b'\xef\xbb\xbf[[users]]\nuser = "a"\npassword = "b"\n')
    assert (len(users), problems) == (1, [])


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("users = 5", "users in FILE: is a list of tables; write [[users]]"),
        ('users = ["a"]', "users in FILE: is a list of tables; write [[users]]"),
        ("[users]", "users in FILE: is a list of tables; write [[users]]"),
        ("[user]", "user in FILE: a file of users has [[users]] and [default_permissions]"),
        (
            "default_permissions = 1",
            "default_permissions in FILE: is a table with publish, subscribe and allow_responses",
        ),
        (
            '[[users]]\npasswords = "s3same"',
            "users[1].passwords in FILE: there is no such setting; did you mean password?",
        ),
        (
            '[[users]]\nxyz = "s3same"',
            "users[1].xyz in FILE: there is no such setting; a user has user, password, nkey,"
            " applications, publish_rate, publish_bytes",
        ),
        (
            '[[users]]\n"\\u001b[31m" = 1',
            "users[1].'\\x1b[31m' in FILE: there is no such setting; a user has user, password,"
            " nkey, applications, publish_rate, publish_bytes",
        ),
        (
            '[[users]]\nuser = "a"\nusername = "b"',
            "users[1].username in FILE: is the same as user; leave out one of them",
        ),
        (
            '[[users]]\npassword = "s3same"\npass = "s4same"',
            "users[1].pass in FILE: is the same as password; leave out one of them",
        ),
        (
            "[[users]]\npassword = 34573",
            "users[1].password in FILE: this value is not a string; give a string, or env:NAME or"
            " file:PATH that holds it",
        ),
        (
            '[[users]]\npassword = "env:NOT_SET"',
            'users[1].password in FILE: the environment variable "NOT_SET" is not set, or empty',
        ),
        (
            '[[users]]\nuser = "a\\nb"',
            "users[1].user in FILE: 'a\\nb' holds a character that cannot be printed; leave it out",
        ),
        (
            '[[users]]\nuser = "a"\n[[users]]\npublish_rate = -1',
            "users[2].publish_rate in FILE: -1 is below 0; give 0 to 1000000000",
        ),
        (
            '[[users]]\napplications = "billing"',
            'users[1].applications in FILE: "billing" is not a list; give a list of strings',
        ),
        (
            "[[users]]\npermissions = 5",
            "users[1].permissions in FILE: is a table with publish, subscribe and allow_responses",
        ),
        (
            "[[users]]\nauthorization = { publish = 5 }",
            "users[1].authorization.publish in FILE: 5 is not a string; give a subject in quotes",
        ),
        (
            "[[users]]\npassword = s3same",
            "FILE: is not TOML: there is a mistake at line 2, column 12",
        ),
        (
            '[[users]]\npassword = "s3same',
            "FILE: is not TOML: there is a mistake at end of document",
        ),
        (b"\xff\xfes3same", "FILE: is not TOML: it is not text"),
        ("a = " + "[" * 5000, "FILE: is not TOML: its values are nested too deeply"),
        ("a = " + "9" * 5000, "FILE: is not TOML: a value is too large"),
    ],
)
def test_given_a_wrong_file_when_read_then_it_says_what_and_where_and_shows_no_secret(
    tmp_path: Path, text: str | bytes, why: str
) -> None:
    problems = read(tmp_path, text)[1]
    assert problems == [why]
    assert "s3same" not in problems[0]


def test_given_a_file_that_cannot_be_read_then_it_says_why(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with open(tmp_path / "large", "wb") as large:
        large.truncate((64 << 20) + 1)
    reasons = {
        "missing": "cannot be read: No such file or directory; `seriatim user add` makes it",
        ".": "cannot be read: Is a directory",
        "pipe": "is not a regular file; give a file of TOML",
        "large": "is longer than 64 MiB, so it is not a file of users",
        "large/x": "cannot be read: Not a directory",
    }
    for name, why in reasons.items():
        path, problems = str(tmp_path / name), list[str]()
        assert read_users_file(path, problems) == ((), None)
        assert problems == [f"{path}: {why}"]


def configured(folder: Path, text: str, users: str = "") -> Effective:
    """The settings of a file, and of a users' file if there are users."""
    config = folder / "broker.toml"
    config.write_text(text)
    flags = {"authorization.users_file": str(users_file(folder, users))} if users else {}
    return resolve(flags, {}, str(config))


ALICE = '[[authorization.users]]\nuser = "alice"\npassword = "a"\n'
BOB = '[[users]]\nuser = "bob"\npassword = "b"\n'


def test_given_users_in_both_files_when_resolved_then_they_come_together(tmp_path: Path) -> None:
    effective = configured(tmp_path, ALICE, BOB + "[default_permissions]\npublish = []\n")
    settings = effective.settings.authorization
    assert [one.user for one in settings.users] == ["alice", "bob"]
    assert settings.default_permissions == PermissionSettings(publish_allow=())
    assert effective.origins["authorization.users"] == (
        f"authorization.users in {tmp_path}/broker.toml, and users in {tmp_path}/users.toml"
    )
    assert effective.origins["authorization.default_permissions"] == (
        f"default_permissions in {tmp_path}/users.toml"
    )


def test_given_default_permissions_in_both_files_when_resolved_then_refused(
    tmp_path: Path,
) -> None:
    defaults = "[authorization.default_permissions]\npublish = []\n"
    with pytest.raises(WrongSettings) as caught:
        configured(tmp_path, defaults, BOB + "[default_permissions]\nsubscribe = []\n")
    assert caught.value.problems == [
        f"{tmp_path}/users.toml: default_permissions are in the configuration, too; leave out one"
        " of them"
    ]


def test_given_wrong_users_in_the_configuration_when_resolved_then_their_place_is_named(
    tmp_path: Path,
) -> None:
    with pytest.raises(WrongSettings) as caught:
        configured(tmp_path, ALICE + '[[authorization.users]]\nuser = 5\nnkeys = "U"\n')
    config = f"{tmp_path}/broker.toml"
    assert caught.value.problems == [
        f"authorization.users[2].user in {config}: 5 is not a string; give a string",
        f"authorization.users[2].nkeys in {config}: there is no such setting; did you mean nkey?",
    ]
