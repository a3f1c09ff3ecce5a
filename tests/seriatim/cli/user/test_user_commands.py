"""`seriatim user`: what the commands do to a file, what they print, and every refusal."""

import json
import os
import re
import stat
from pathlib import Path

import bcrypt
import pytest

from tests.seriatim.cli.command import seriatim
from tests.seriatim.cli.user.users_files import add, done, refused, tables, user

COMMANDS = ("add", "list", "passwd", "nkey", "remove")
KEY = re.compile(r"U[A-Z2-7]{55}")
SEED = re.compile(r"SU[A-Z2-7]{56}")
OTHERS = "UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4"
RELOAD = "to apply it, run `kill -HUP PID`, or `systemctl reload seriatim`"


@pytest.fixture
def users(tmp_path: Path) -> Path:
    """A file with alice."""
    path = tmp_path / "users.toml"
    add(path, "alice")
    return path


@pytest.mark.parametrize("arguments", [[], ["-h"], ["--help"]], ids=["none", "-h", "--help"])
def test_given_no_command_when_run_then_it_lists_them(arguments: list[str]) -> None:
    run = seriatim("user", *arguments)
    assert (run.returncode, run.stderr) == (0, b"")
    assert all(f" {command} ".encode() in run.stdout for command in COMMANDS)
    assert b" user " in seriatim("--help").stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_given_a_command_when_asked_for_help_then_it_has_examples(command: str) -> None:
    run = seriatim("user", command, "--help")
    assert (run.returncode, run.stderr) == (0, b"")
    assert b"Examples" in run.stdout
    assert f"seriatim user {command}".encode() in run.stdout


def test_given_no_file_when_adding_then_a_private_one_is_made(tmp_path: Path) -> None:
    path = tmp_path / "users.toml"
    said = add(path, "alice")
    assert said == [
        f"added user alice to {path}; {RELOAD}",
        f"{path} is new: let the broker's user read it, and name it in authorization.users_file"
        " (--users_file)",
    ]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert os.listdir(tmp_path) == ["users.toml"]
    (alice,) = tables(path)["users"]
    assert alice.keys() == {"user", "password"}
    assert alice["password"].startswith("$2b$08$")
    assert bcrypt.checkpw(b"s3same", alice["password"].encode())


def test_given_no_cost_when_adding_then_it_is_that_of_nats_servers_tool(tmp_path: Path) -> None:
    path = tmp_path / "users.toml"
    done("add", "alice", "-f", str(path), "--password-stdin", stdin="s3same\n")
    assert tables(path)["users"][0]["password"].startswith("$2b$11$")


def test_given_every_option_when_adding_then_the_file_says_it_in_nats_servers_words(
    users: Path,
) -> None:
    said = add(
        users,
        "bob",
        *("--publish", "orders.>", "--publish", "jobs.*", "--deny-publish", "orders.secret"),
        *("--subscribe", "a.> workers", "--deny-subscribe", "*.x", "--allow-responses", "5"),
        *("--application", "billing", "--application", "b.*"),
        *("--publish-rate", "100", "--publish-bytes", "1MiB"),
    )
    assert said == [f"added user bob to {users}; {RELOAD}"]
    bob = tables(users)["users"][1]
    del bob["password"]
    assert bob == {
        "user": "bob",
        "applications": ["billing", "b.*"],
        "publish_rate": 100,
        "publish_bytes": "1MiB",
        "permissions": {
            "publish": {"allow": ["orders.>", "jobs.*"], "deny": ["orders.secret"]},
            "subscribe": {"allow": ["a.> workers"], "deny": ["*.x"]},
            "allow_responses": {"max": 5},
        },
    }


@pytest.mark.parametrize(
    ("options", "meant"),
    [
        (["--allow-responses"], {"allow_responses": True}),
        (["--allow-responses", "-1"], {"allow_responses": {"max": -1}}),
        (["--allow-responses=7"], {"allow_responses": {"max": 7}}),
        (
            ["--allow-responses", "--publish", "a"],
            {"publish": ["a"], "allow_responses": True},
        ),
        (["--deny-publish", ">"], {"publish": {"deny": [">"]}}),
    ],
)
def test_given_an_option_when_adding_then_it_means_this(
    tmp_path: Path, options: list[str], meant: object
) -> None:
    add(tmp_path / "u", "bob", *options)
    assert tables(tmp_path / "u")["users"][0]["permissions"] == meant


def test_given_a_generated_password_then_it_is_printed_once_and_only_its_hash_is_kept(
    users: Path,
) -> None:
    for command in ("add", "passwd"):
        printed, _ = done(command, "bob", "-f", str(users), "--generate", "--cost", "8")
        password = printed.removesuffix("\n")
        assert re.fullmatch(r"[\w-]{24}", password)
        assert password not in users.read_text()
        assert bcrypt.checkpw(password.encode(), tables(users)["users"][1]["password"].encode())


def test_given_no_password_when_wanted_then_the_certificate_is_the_proof(users: Path) -> None:
    done("add", "carol@example.com", "-f", str(users), "--no-password")
    assert tables(users)["users"][1] == {"user": "carol@example.com"}


@pytest.mark.parametrize(
    ("arguments", "password", "why"),
    [
        (
            ["alice"],
            "x",
            "{path} has a user alice already; `seriatim user passwd` changes a password",
        ),
        ([""], "x", "the name is empty; give one"),
        (["a\x1b[31mb"], "x", "the name 'a\\x1b[31mb' has a character that cannot be printed"),
        (["a\nb"], "x", "the name 'a\\nb' has a character that cannot be printed"),
        (["bob"], "", "the password is empty; give one"),
        (["bob"], "\n", "the password is empty; give one"),
        (
            ["bob"],
            "one\ntwo\n",
            "the password has a character that cannot be printed, such as a line end; leave it out",
        ),
        (
            ["bob"],
            "ü" * 37,
            "the password has 74 bytes; bcrypt takes only the first 72 into account, so give a"
            " shorter one",
        ),
        (
            ["bob", "--generate"],
            "x",
            "give one of --password-stdin and --generate, not both",
        ),
        (
            ["bob", "--no-password"],
            "x",
            "--no-password means that there is none; leave out the other flag",
        ),
        (
            ["bob", "--publish", "a..b"],
            "x",
            '--publish: "a..b" is not a valid subject: a word between its dots is empty',
        ),
        (
            ["bob", "--deny-publish", "a q"],
            "x",
            '--deny-publish: "a q" has a space; queue groups go with subscribe',
        ),
        (
            ["bob", "--subscribe", "a b c"],
            "x",
            '--subscribe: "b c" is not a valid subject; give words joined by dots, without spaces',
        ),
        (
            ["bob", "--application", ""],
            "x",
            '--application: "" is not a valid subject; give words joined by dots, without spaces',
        ),
        (
            ["bob", "--allow-responses", "0"],
            "x",
            "--allow-responses: give 1 or more, or -1 for any number",
        ),
        (
            ["bob", "--allow-responses", "-2"],
            "x",
            "--allow-responses: max is -2; give a whole number up to 1000000000, -1 for no limit",
        ),
        (
            ["bob", "--publish-rate", "fast"],
            "x",
            '--publish-rate: "fast" is not a whole number; give a whole number',
        ),
        (
            ["bob", "--publish-bytes", "1M"],
            "x",
            '--publish-bytes: "1M" is ambiguous; give 1MiB (of 1024) or 1MB (of 1000)',
        ),
        (
            ["bob", "--cost", "7"],
            "x",
            "--cost: 7 is out of range; give 8 to 16; see `seriatim user add --help`",
        ),
        (["bob", "s3same"], "x", None),
    ],
)
def test_given_a_wrong_argument_when_adding_then_it_says_so_and_the_file_stays(
    users: Path, arguments: list[str], password: str, why: str | None
) -> None:
    before = users.read_bytes()
    said = refused("add", *arguments, "-f", str(users), "--password-stdin", stdin=password)
    if why is None:
        assert "unexpected argument: " in said
    else:
        assert said == why.replace("{path}", str(users))
    assert users.read_bytes() == before


def test_given_a_password_of_72_bytes_when_adding_then_it_is_taken(users: Path) -> None:
    add(users, "bob", password="ü" * 36)


def test_given_a_pipe_when_a_password_would_be_asked_for_then_it_says_what_to_give(
    users: Path,
) -> None:
    assert refused("add", "bob", "-f", str(users), stdin="s3same") == (
        "standard input is not a terminal to ask for the password; give --password-stdin to read it"
        " there, or --generate"
    )
    assert refused("passwd", stdin="s3same").startswith("standard input is not a terminal")


def test_given_bytes_that_are_no_text_when_read_as_a_password_then_refused(users: Path) -> None:
    run = seriatim("user", "passwd", "--password-stdin", stdin=b"\xff")
    assert run.stderr == b"seriatim: the password on standard input is not UTF-8\n"


def test_given_a_user_when_its_password_is_changed_then_only_that_changes(users: Path) -> None:
    add(users, "bob", "--publish", "a")
    before = users.read_text()
    old = tables(users)["users"][1]["password"]
    printed, said = done("passwd", "bob", "-f", str(users), "--password-stdin", stdin="other")
    new = tables(users)["users"][1]["password"]
    assert (printed, said) == ("", [f"changed the password of user bob in {users}; {RELOAD}"])
    assert users.read_text() == before.replace(old, new)
    assert bcrypt.checkpw(b"other", new.encode())


def test_given_no_name_when_a_password_is_made_then_its_hash_is_only_printed() -> None:
    printed, said = done("passwd", "--password-stdin", stdin="s3same")
    assert said == []
    assert bcrypt.checkpw(b"s3same", printed.strip().encode())
    printed, said = done("passwd", "--generate", "--cost", "8")
    found = re.fullmatch(r"password  (\S+)\nhash      (\$2b\$08\$\S+)\n", printed)
    assert found is not None
    assert bcrypt.checkpw(found[1].encode(), found[2].encode())


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["passwd", "alise"], '{path} has no user "alise"; did you mean alice?'),
        (["remove", "zoe"], '{path} has no user "zoe"; `seriatim user list` lists them'),
        (["remove", ""], '{path} has no user ""; `seriatim user list` lists them'),
        (["remove", "a\x1bb"], "{path} has no user 'a\\x1bb'; `seriatim user list` lists them"),
        (
            ["passwd", "backup"],
            "user backup in {path} has a key, and no password; to change that, remove the user and"
            " add it again",
        ),
        (
            ["remove", "alice"],
            "{path} is not changed: it would have no user, so everybody could do everything; to"
            " turn authentication off, take authorization.users_file out of the settings",
        ),
    ],
)
def test_given_a_user_that_is_not_there_when_changed_then_it_says_so(
    users: Path, arguments: list[str], why: str
) -> None:
    if "backup" in arguments:
        done("nkey", "backup", "-f", str(users))
    stdin = ["--password-stdin"] if arguments[0] == "passwd" else []
    said = refused(*arguments, "-f", str(users), *stdin, stdin="x")
    assert said == why.replace("{path}", str(users))


def test_given_a_file_without_a_name_when_a_password_is_made_then_it_asks_whose(
    users: Path,
) -> None:
    assert refused("passwd", "-f", str(users)) == (
        "whose password? Give the name of a user, or leave out the file"
    )


def test_given_a_user_when_removed_then_it_is_gone(users: Path) -> None:
    before = users.read_text()
    add(users, "bob", "--publish", "a")
    printed, said = done("remove", "bob", "-f", str(users))
    assert (printed, said) == ("", [f"removed user bob from {users}; {RELOAD}"])
    assert users.read_text() == before


def test_given_nothing_when_a_pair_of_keys_is_made_then_it_is_only_printed() -> None:
    printed, said = done("nkey")
    assert said == []
    assert re.fullmatch(rf"public key  {KEY.pattern}\nseed        {SEED.pattern}\n", printed)


def test_given_a_file_when_a_key_is_made_then_the_public_one_is_added(users: Path) -> None:
    printed, said = done("nkey", "backup", "-f", str(users), "--subscribe", ">")
    key, seed = KEY.findall(printed)[0], SEED.findall(printed)[0]
    assert said == [f"added user backup, with key {key}, to {users}; {RELOAD}"]
    assert tables(users)["users"][1] == {"nkey": key, "permissions": {"subscribe": [">"]}}
    assert f'nkey = "{key}" # backup\n' in users.read_text()
    assert seed not in users.read_text()
    assert refused("nkey", "backup", "-f", str(users)) == (
        f"{users} has a user backup already; `seriatim user passwd` changes a password"
    )
    done("remove", "backup", "-f", str(users))
    assert key not in users.read_text()


def test_given_a_key_that_somebody_else_has_made_when_added_then_nothing_is_printed(
    users: Path,
) -> None:
    printed, said = done("nkey", "-f", str(users), "--public", OTHERS)
    assert (printed, said) == ("", [f"added user {OTHERS} to {users}; {RELOAD}"])
    assert tables(users)["users"][1] == {"nkey": OTHERS}
    done("remove", OTHERS, "-f", str(users))


def test_given_a_seed_file_when_a_key_is_made_then_the_seed_is_there_and_not_printed(
    tmp_path: Path, users: Path
) -> None:
    seeds = [tmp_path / "alone.nk", tmp_path / "added.nk"]
    printed = done("nkey", "--seed", str(seeds[0]))[0]
    printed += done("nkey", "-f", str(users), "--seed", str(seeds[1]))[0]
    assert [bool(KEY.fullmatch(line)) for line in printed.splitlines()] == [True, True]
    for seed in seeds:
        assert SEED.fullmatch(seed.read_text())
        assert stat.S_IMODE(seed.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--public", OTHERS, "--seed", "s"], "--public has no seed to write; leave out --seed"),
        (
            ["--public", "SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY"],
            "--public: the nkey is a seed, which is secret; give the public key, U...",
        ),
        (
            ["--public", f"{OTHERS[:-1]}5"],
            "--public: the nkey has a letter that is wrong: its checksum does not fit",
        ),
        (["two\nlines"], "the name 'two\\nlines' has a character that cannot be printed"),
        (
            ["--seed", "{folder}/users.toml"],
            "--seed {folder}/users.toml: exists already; give the name of a new file",
        ),
        (
            ["--seed", "{folder}/missing/s"],
            "--seed {folder}/missing/s: cannot be made: No such file or directory",
        ),
    ],
)
def test_given_a_wrong_argument_when_a_key_is_made_then_it_says_so_and_the_file_stays(
    users: Path, arguments: list[str], why: str
) -> None:
    before = users.read_bytes()
    folder = str(users.parent)
    given = [one.replace("{folder}", folder) for one in arguments]
    assert refused("nkey", "-f", str(users), *given) == why.replace("{folder}", folder)
    assert users.read_bytes() == before


def test_given_a_file_that_refuses_a_key_when_it_has_a_seed_file_then_that_is_not_left(
    tmp_path: Path, users: Path
) -> None:
    users.write_text(users.read_text() + '[[users]]\nuser = "bob"\npasswords = "x"\n')
    said = refused("nkey", "-f", str(users), "--seed", str(tmp_path / "s.nk"))
    assert "there is no such setting; did you mean password?" in said
    assert not (tmp_path / "s.nk").exists()


def test_given_no_file_anywhere_when_run_then_it_says_how_to_name_one() -> None:
    for command in (["add", "a"], ["list"], ["passwd", "a"], ["nkey", "a"], ["remove", "a"]):
        assert refused(*command) == (
            "which file of users? Give --file FILE, or let the settings name it:"
            " authorization.users_file in the file of --config, or"
            " SERIATIM_AUTHORIZATION_USERS_FILE"
        )


def test_given_users_when_listed_as_json_then_it_is_what_a_program_can_read(users: Path) -> None:
    printed, said = done("list", "-f", str(users), "--json")
    assert said == []
    (alice,) = json.loads(printed)
    assert (alice["name"], alice["proof"], alice["file"]) == ("alice", "bcrypt", str(users))
    assert "$2b$" not in printed


def test_given_help_of_a_user_when_usage_is_wrong_then_the_command_is_named() -> None:
    assert user("frob").stderr.decode().startswith("seriatim: No such command 'frob'")


def test_given_a_secret_of_a_file_or_a_variable_when_adding_then_it_is_the_password(
    users: Path, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("s3same\n")
    for number, (given, warned) in enumerate(
        [(f"file:{secret}", False), ("env:SECRET_OF_BOB", False), ("s3same", True)]
    ):
        where = ("-f", str(users), "--cost", "8", "--password", given)
        run = seriatim("user", "add", f"bob{number}", *where, env={"SECRET_OF_BOB": "s3same"})
        assert run.returncode == 0, run.stderr
        assert (b"can see a password on the command line" in run.stderr) == warned
        hashed = tables(users)["users"][-1]["password"]
        assert bcrypt.checkpw(b"s3same", hashed.encode())
        assert b"s3same" not in run.stderr + run.stdout
    said = refused("add", "eve", "-f", str(users), "--password", f"file:{tmp_path}/none")
    assert said.startswith('--password: "')
    assert said.endswith('" cannot be read: No such file or directory')
    said = refused("passwd", "bob0", "-f", str(users), "--password", "env:X", "--generate")
    assert said == "give one of --password and --generate, not both"
