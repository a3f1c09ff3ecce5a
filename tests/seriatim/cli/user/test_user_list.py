"""`seriatim user list`: who there is and what they may do, without a secret or an escape."""

import json
from pathlib import Path
from typing import Any

from tests.seriatim.cli.user.users_files import add, done, refused

KEY = "UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4"
SECRETS = ("s3same", "$2b$", "NOT_HERE", "/run/not/here", "t0ken")
USERS = f"""\
[default_permissions]
publish = {{ deny = "admin.>" }}

[[users]]
user = "bob"
password = "s3same"
permissions = {{ publish = ["a\\u001b[31m"], subscribe = {{ allow = ["b.> q"], deny = "b.c" }} }}

[[users]]
user = "carol"
password = "env:NOT_HERE"
applications = ["billing", "b.*"]
publish_rate = 1000
publish_bytes = "1MiB"

[[users]]
user = "dave"
password = "file:/run/not/here"
permissions = {{ allow_responses = {{ max = 5, expires = "1m30s" }} }}

[[users]]
nkey = "{KEY}" # backup
permissions = {{ allow_responses = {{ max = -1, expires = -1 }}, subscribe = [] }}

[[users]]
user = "erin@example.com"
"""


def files(folder: Path, more: str = "") -> tuple[Path, Path]:
    """A users' file, and a configuration that names it and has a user, too."""
    users, config = folder / "users.toml", folder / "broker.toml"
    users.write_text(USERS)
    alice = '[[authorization.users]]\nuser = "alice"\npassword = "s3same"\n'
    config.write_text(f'[authorization]\nusers_file = "{users}"\n{more or alice}')
    return users, config


def listed(*arguments: str) -> list[dict[str, Any]]:
    printed, said = done("list", *arguments, "--json")
    assert not any(secret in printed + "".join(said) for secret in SECRETS)
    found: list[dict[str, Any]] = json.loads(printed)
    return found


def test_given_users_when_listed_as_json_then_each_is_whole(tmp_path: Path) -> None:
    users, config = files(tmp_path)
    found = {one["name"]: one for one in listed("-c", str(config))}
    proofs = {name: one["proof"] for name, one in found.items()}
    assert proofs == {
        "bob": "plain",
        "carol": "env",
        "dave": "file",
        KEY: "nkey",
        "erin@example.com": "certificate",
        "alice": "plain",
    }
    assert {one["file"] for name, one in found.items() if name != "alice"} == {str(users)}
    assert found["alice"]["file"] == str(config)
    assert found[KEY]["label"] == "backup"
    assert found["bob"] | {"file": ""} == {
        "name": "bob",
        "label": "",
        "proof": "plain",
        "publish": {"allow": ["a\x1b[31m"], "deny": []},
        "subscribe": {"allow": ["b.> q"], "deny": ["b.c"]},
        "default_permissions": False,
        "responses": 0,
        "response_expires": 120.0,
        "applications": [],
        "publish_rate": 0,
        "publish_bytes": 0,
        "file": "",
    }
    carol = found["carol"]
    assert (carol["publish"], carol["default_permissions"]) == (
        {"allow": None, "deny": ["admin.>"]},
        True,
    )
    assert (carol["applications"], carol["publish_rate"], carol["publish_bytes"]) == (
        ["billing", "b.*"],
        1000,
        1 << 20,
    )
    assert (found["dave"]["responses"], found["dave"]["response_expires"]) == (5, 90.0)
    assert found["alice"]["publish"] == {"allow": None, "deny": ["admin.>"]}


def test_given_users_when_listed_for_a_person_then_a_line_says_all_of_each(tmp_path: Path) -> None:
    users, config = files(tmp_path)
    printed, said = done("list", "-c", str(config))
    lines = [" ".join(line.split()) for line in printed.splitlines()]
    everything = "everything except admin.> (default) everything (default)"
    assert lines == [
        "user proof publish subscribe responses applications rate file",
        f"bob plain a\\x1b[31m b.> q except b.c - - - {users}",
        f"carol env {everything} - billing, b.* 1,000/s, 1MiB/s {users}",
        f"dave file nothing everything 5 in 1m30s - - {users}".replace("1m30s", "90s"),
        f"{KEY} (backup) nkey nothing nothing any number - - {users}",
        f"erin@example.com certificate {everything} - - - {users}",
        f"alice plain {everything} - - - {config}",
    ]
    assert said == [
        "anyone who can read the file knows the password of bob, alice; `seriatim user passwd NAME`"
        " stores a hash instead"
    ]
    assert not any(secret in printed for secret in SECRETS)


def test_given_a_single_user_in_the_settings_when_listed_then_it_is_there(tmp_path: Path) -> None:
    config = tmp_path / "broker.toml"
    config.write_text('[authorization]\nuser = "ops"\npassword = "s3same"\n')
    (ops,) = listed("-c", str(config))
    assert (ops["name"], ops["proof"], ops["file"]) == ("ops", "plain", str(config))


def test_given_nobody_when_listed_then_it_says_so(tmp_path: Path) -> None:
    config = tmp_path / "broker.toml"
    config.write_text("")
    assert done("list", "-c", str(config)) == ("", ["there are no users"])
    assert done("list", "-c", str(config), "--json") == ("[]\n", [])


def test_given_a_file_that_cannot_be_used_when_listed_then_every_reason_is_reported(
    tmp_path: Path,
) -> None:
    path = tmp_path / "users.toml"
    assert refused("list", "-f", str(path)) == (
        f"{path}: cannot be read: No such file or directory; `seriatim user add` makes it"
    )
    path.write_text("[[users]]\nuser = 1\n[[users]]\npassword = 2\n")
    assert refused("list", "-f", str(path)) == (
        f"{path} cannot be used:\n"
        f"  users[1].user in {path}: 1 is not a string; give a string\n"
        f"  users[2].password in {path}: this value is not a string; give a string, or env:NAME or"
        " file:PATH that holds it"
    )


def test_given_a_hash_when_listed_then_there_is_no_warning(tmp_path: Path) -> None:
    path = tmp_path / "users.toml"
    add(path, "alice")
    printed, said = done("list", "-f", str(path))
    assert said == []
    assert "bcrypt" in printed
