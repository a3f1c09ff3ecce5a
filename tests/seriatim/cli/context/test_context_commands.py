"""`seriatim context`, and commands that connect by one: at our broker, and at nats-server."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import nkeys
import pytest

from tests.seriatim.cli.command import refusal, seriatim
from tests.support.authority import Authority
from tests.support.processes import STAND_IN, SeriatimServer, url
from tests.support.secured import Vouching, nats_server

pytestmark = pytest.mark.skipif(STAND_IN, reason="of our own process")

USERS = """
[authorization]
[[authorization.users]]
user = "ops"
password = "sesame"
[[authorization.users]]
user = "narrow"
password = "sesame"
permissions = { publish = ["orders.>", "$SEQ.PUB.orders.>"], subscribe = "_INBOX.narrow.>" }
"""
# What the command line of NATS writes: every field, most of them empty.
OF_NATS = {
    "description": "",
    "url": "nats://127.0.0.1:4222",
    "socks_proxy": "",
    "token": "",
    "user": "",
    "password": "",
    "creds": "",
    "nkey": "",
    "cert": "",
    "key": "",
    "ca": "",
    "nsc": "",
    "jetstream_domain": "",
    "jetstream_api_prefix": "",
    "jetstream_event_prefix": "",
    "inbox_prefix": "",
    "user_jwt": "",
    "user_seed": "",
    "color_scheme": "",
    "tls_first": False,
    "windows_cert_store": "",
    "windows_cert_match_by": "",
    "windows_cert_match": "",
    "windows_ca_certs_match": None,
}


class ConfigHome:
    """A folder of settings with contexts, and commands that use it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.env = {"XDG_CONFIG_HOME": str(folder)}

    def write(self, name: str, **fields: Any) -> Path:
        """Write a context as the command line of NATS does."""
        path = self.folder / "nats" / "context" / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({**OF_NATS, **fields}, indent=2))
        return path

    def select(self, name: str) -> None:
        (self.folder / "nats" / "context.txt").write_text(name)

    def fields(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.path(name).read_text())
        return found

    def path(self, name: str) -> Path:
        return self.folder / "nats" / "context" / f"{name}.json"

    def run(self, *arguments: str, env: Mapping[str, str] | None = None) -> str:
        """Run a command that succeeds; what it prints, on either stream."""
        done = seriatim(*arguments, env={**self.env, **(env or {})})
        assert done.returncode == 0, done.stderr
        return (done.stdout + done.stderr).decode()

    def refusal(self, *arguments: str, env: Mapping[str, str] | None = None) -> str:
        return refusal(*arguments, env={**self.env, **(env or {})})


@pytest.fixture
def home(tmp_path: Path) -> ConfigHome:
    return ConfigHome(tmp_path / "config")


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[SeriatimServer]:
    config = tmp_path / "broker.toml"
    config.write_text(USERS)
    with SeriatimServer("netstring", arguments=["-c", str(config)]) as server:
        yield server


PUB = ("pub", "orders.new", "tea", "--ack")


def test_given_contexts_of_nats_when_selected_or_named_then_they_are_used(
    home: ConfigHome, broker: SeriatimServer
) -> None:
    where = f"127.0.0.1:{broker.port}"
    home.write("ops", url=f"nats://{where}", user="ops", password="sesame", user_seed="unused")
    home.write("wrong", url=f"nats://{where}", user="ops", password="hunter2")
    assert home.run(*PUB, "--context", "ops") == "1\n"
    home.select("ops\n")
    assert home.run(*PUB) == "2\n"
    home.select("wrong")
    said = home.refusal(*PUB)
    assert (
        said
        == f"nats://{where} (context wrong): the broker refuses the login: Authorization Violation"
    )
    assert home.run(*PUB, env={"NATS_CONTEXT": "ops"}) == "3\n"
    assert home.run(*PUB, "--context", "ops", env={"NATS_CONTEXT": "wrong"}) == "4\n"
    assert home.run(*PUB, "--user", "ops", "--password", "sesame") == "5\n"
    assert "(context wrong)" in home.refusal("cardinal", "consume", "--once")
    assert "(context wrong)" in home.refusal("stream", "ls")


def test_given_an_address_when_a_context_is_selected_then_its_secrets_do_not_go_there(
    home: ConfigHome, broker: SeriatimServer
) -> None:
    where = f"nats://127.0.0.1:{broker.port}"
    home.write("ops", url="nats://127.0.0.1:1", user="ops", password="sesame")
    home.select("ops")
    assert "requires authentication" in home.refusal(*PUB, "-s", where)
    assert "requires authentication" in home.refusal(*PUB, env={"SERIATIM_URL": where})
    done = seriatim("check", where, env=home.env)
    assert done.returncode == 1
    assert b"context" not in done.stdout
    assert home.run(*PUB, "-s", where, "--context", "ops") == "1\n"
    assert home.run(*PUB, env={"SERIATIM_URL": where, "NATS_CONTEXT": "ops"}) == "2\n"
    with_login = where.replace("//", "//ops:wrong@")
    assert "Violation" in home.refusal(*PUB, "-s", with_login, "--context", "ops")


def test_given_a_context_with_its_own_inbox_when_an_ack_is_asked_for_then_it_comes_there(
    home: ConfigHome, broker: SeriatimServer
) -> None:
    given = ("-s", f"127.0.0.1:{broker.port}", "--user", "narrow", "--password", "sesame")
    home.run("context", "add", "narrow", *given, "--inbox-prefix", "_INBOX.narrow", "--select")
    assert home.run(*PUB) == "1\n"
    assert "Violation for Subscription" in home.refusal(*PUB, "--inbox-prefix", "_INBOX.other")


def test_given_the_files_of_a_context_when_they_have_variables_then_nats_server_lets_us_in(
    home: ConfigHome, tmp_path: Path
) -> None:
    vouching = Vouching(nkeys)
    file = vouching.credentials(tmp_path / "user.creds", vouching.account)
    env = {"HOME": str(tmp_path), "CREDS_OF_A_TEST": str(tmp_path)}
    with nats_server(tmp_path, vouching.config) as server:
        where = f"127.0.0.1:{server.port},nats://127.0.0.1:1"
        for text in (str(file), "~/user.creds", "${CREDS_OF_A_TEST}/user.creds", f"file://{file}"):
            home.write("creds", url=where, creds=text)
            home.run("pub", "a", "x", "--context", "creds", env=env)
        home.write("creds", url=where, creds="$NOT_SET_AT_ALL/user.creds")
        said = home.refusal("pub", "a", "x", "--context", "creds")
        assert "/user.creds cannot be read: No such file" in said


def test_given_certificates_in_a_context_when_published_then_they_are_used(
    home: ConfigHome, tmp_path: Path
) -> None:
    authority = Authority(tmp_path)
    own = authority.issue("client", "/CN=client")
    files = {
        "ca": str(authority.certificate),
        "cert": str(own),
        "key": str(own.with_suffix(".key")),
    }
    flags = [*authority.flags(), *authority.verifying(), "--tls_first"]
    with SeriatimServer("netstring", arguments=flags) as broker:
        home.write("tls", url=f"tls://localhost:{broker.port}", tls_first=True, **files)
        assert home.run(*PUB, "--context", "tls") == "1\n"
        found = seriatim("check", "--context", "tls", env=home.env).stdout.decode()
        words = [line.split()[:2] for line in found.splitlines()]
        assert words[:3] == [["ok", "context"], ["ok", "connection"], ["ok", "tls"]]


def test_given_secrets_elsewhere_when_a_context_refers_to_them_then_they_are_read(
    home: ConfigHome, broker: SeriatimServer, tmp_path: Path
) -> None:
    (tmp_path / "secret").write_text("sesame\n")
    where = f"127.0.0.1:{broker.port}"
    for text in ("env://SECRET_OF_A_TEST", f"file://{tmp_path}/secret"):
        home.write("ops", url=where, user="ops", password=text)
        home.run(*PUB, "--context", "ops", env={"SECRET_OF_A_TEST": "sesame"})
    home.write("ops", url=where, user="ops", password="env://SECRET_OF_A_TEST")
    said = home.refusal(*PUB, "--context", "ops")
    assert said == (
        'context ops: password: the environment variable "SECRET_OF_A_TEST" is not set, or empty'
    )


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"user_jwt": "ey"}, "user_jwt"),
        ({"nsc": "nsc://o/a/u"}, "nsc"),
        ({"nsc": "nsc://o/a/u", "url": ""}, "nsc"),
        ({"socks_proxy": "socks5://h"}, "socks_proxy"),
        ({"creds": "nsc://o/a/u"}, "creds: nsc://"),
        ({"user": "a", "password": "op://v/i/f"}, "password: op://"),
    ],
    ids=["jwt", "nsc", "nsc-url", "proxy", "creds", "password"],
)
def test_given_a_context_that_only_nats_can_use_when_connecting_then_the_field_is_named(
    home: ConfigHome, fields: dict[str, str], named: str
) -> None:
    home.write("prod", **fields)
    said = home.refusal("pub", "a", "x", "--context", "prod")
    assert said.startswith(f"context prod has {named}, which only `nats` can use; ")
    assert "which only" in home.refusal("check", "nats://127.0.0.1:1", "--context", "prod")


def test_given_fields_that_do_not_matter_when_connecting_then_they_are_ignored(
    home: ConfigHome, broker: SeriatimServer, tmp_path: Path
) -> None:
    where = f"127.0.0.1:{broker.port}"
    other = {"jetstream_domain": "hub", "color_scheme": "yellow", "cert": "/none", "new": [1]}
    login = {"user": "ops", "password": "sesame", "user_jwt": "ey"}
    home.write("ops", url=where, **login, **other)
    assert home.run(*PUB, "--context", "ops") == "1\n"
    home.write("jwt", url=where, user_jwt="ey")
    own = ("--user", "ops", "--password", "sesame")
    assert home.run(*PUB, "--context", "jwt", *own) == "2\n"
    home.select("gone")  # what is wrong with it matters only where a broker is needed
    home.run("cardinal", "simulate", "--blocks", "2", "--lines", str(tmp_path / "blocks"))
    assert home.refusal("pub", "a", "x").startswith('the selected context "gone" does not exist')


def test_given_a_context_when_added_then_only_its_owner_reads_it_and_nats_knows_it(
    home: ConfigHome, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    given = ("-s", "h:4222", "--user", "ops", "--password", "env:SECRET_OF_A_TEST")
    env = {"SECRET_OF_A_TEST": "sesame", "SERIATIM_URL": "nats://other", "NATS_CONTEXT": "none"}
    said = home.run("context", "add", "prod", *given, "--tlscacert", "ca.pem", env=env)
    assert said == f"added context prod in {home.path('prod')}\n"
    assert home.fields("prod") == {
        "description": "",
        "url": "nats://h:4222",
        "user": "ops",
        "password": "sesame",
        "ca": str(tmp_path / "ca.pem"),
    }
    assert home.path("prod").stat().st_mode & 0o777 == 0o600
    assert (home.folder / "nats").stat().st_mode & 0o777 == 0o700


def test_given_a_context_of_nats_when_changed_then_the_rest_of_it_stays(home: ConfigHome) -> None:
    before = {**OF_NATS, "user": "ops", "password": "sesame", "jetstream_domain": "hub"}
    home.write("prod", **before)
    said = home.run("context", "add", "prod", "--token", "t", "--description", "the exchange")
    assert said.startswith("changed context prod")
    left = {one: value for one, value in before.items() if one not in ("user", "password")}
    after = {**left, "token": "t", "description": "the exchange"}
    assert {one: value for one, value in home.fields("prod").items() if value} == {
        one: value for one, value in after.items() if value
    }


def test_given_contexts_when_listed_and_shown_then_no_secret_is_printed(home: ConfigHome) -> None:
    assert "no contexts yet" in home.run("context", "ls")
    home.write("a", url="nats://u:hunter2@h,nats://v:hunter2@i", user="u", password="hunter2")
    home.write("b", token="hunter2", user_jwt="hunter2", user_seed="hunter2", description="spare")
    (home.folder / "nats" / "context" / "empty.json").touch()
    home.select("b")
    listed = home.run("context", "ls")
    assert [line.split() for line in listed.splitlines()] == [
        ["NAME", "URL", "DESCRIPTION"],
        ["a", "nats://h,nats://i"],
        ["*", "b", "nats://127.0.0.1:4222", "spare"],
    ]
    found = json.loads(home.run("context", "ls", "--json"))
    assert [(one["name"], one["selected"]) for one in found] == [("a", False), ("b", True)]
    shown = [home.run("context", "show", *more) for more in (("a",), (), ("--json",))]
    assert "hunter2" not in listed + "".join(shown)
    assert json.loads(shown[2])["file"] == str(home.path("b"))
    assert home.run("context", "show", "a", "--show-secrets").count("hunter2") == 3


def test_given_contexts_when_selected_and_removed_then_nats_finds_the_same(
    home: ConfigHome,
) -> None:
    home.write("a")
    home.write("b")
    home.run("context", "select", "a")
    home.run("context", "select", "b")
    texts = [(home.folder / "nats" / f"{one}context.txt").read_text() for one in ("", "previous-")]
    assert texts == ["b", "a"]
    assert "b is the selected context; select another" in home.refusal("context", "rm", "b", "-y")
    assert "give --yes" in home.refusal("context", "rm", "a")
    home.run("context", "rm", "a", "--yes")
    home.run("context", "rm", "b", "--yes")  # the last one may go
    assert not (home.folder / "nats" / "context.txt").exists()
    assert list((home.folder / "nats" / "context").iterdir()) == []
    home.write("a")
    home.run("context", "select", "a")
    home.run("context", "select", "--none")
    assert "no context is selected" in home.refusal("context", "show")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("add a.b", '"a.b" cannot name a context; give one without spaces, dots, slashes and'),
        ("add ../a", '"../a" cannot name a context'),
        ("add a -s http://h", '"http://h" is not the address of a broker'),
        ("add a --user u --token t", "give one of --user and --token, not both"),
        ("add a --password x", "--password needs --user"),
        ("show prud", 'there is no context "prud"; did you mean prod?'),
        ("show ../context/prod", 'there is no context "../context/prod"; `seriatim context ls`'),
        ("select x", 'there is no context "x"; `seriatim context ls` lists them'),
        ("select", "give the name of a context, or --none"),
        ("rm prud --yes", 'there is no context "prud"; did you mean prod?'),
        ("show broken", "broken.json: is not JSON: "),
        ("show deep", "deep.json: is not JSON: "),
        ("show list", "list.json: is not a context: it is not an object of JSON"),
    ],
)
def test_given_something_wrong_when_run_then_one_line_says_so(
    home: ConfigHome, arguments: str, said: str
) -> None:
    folder = home.write("prod").parent
    (folder / "broken.json").write_bytes(b"{\xff")
    (folder / "deep.json").write_text("[" * 100_000)
    (folder / "list.json").write_text("[]")
    found = home.refusal("context", *arguments.split())
    assert said in found
    assert "\n" not in found


def test_given_a_field_of_another_type_when_connecting_then_it_is_named(home: ConfigHome) -> None:
    path = home.write("prod", url=4222)
    assert home.refusal("pub", "a", "x", "--context", "prod") == f"{path}: url is not a string"
    assert "prod" in home.run("context", "ls")


def test_given_a_context_that_cannot_be_written_when_added_then_the_old_one_is_whole(
    home: ConfigHome,
) -> None:
    path = home.write("prod")
    before = path.read_bytes()
    path.with_name("prod.json.tmp").mkdir()  # where the new file would be made
    assert str(path) in home.refusal("context", "add", "prod", "--token", "t")
    assert path.read_bytes() == before


def test_given_a_page_of_monitoring_when_a_context_is_selected_then_its_secrets_do_not_go_there(
    home: ConfigHome,
) -> None:
    home.write("ops", url="nats://127.0.0.1:1", user="ops", password="sesame")
    home.select("ops")
    users = ("--http_user", "ops", "--http_pass", "sesame")
    with SeriatimServer("netstring", arguments=["-m", "-1", *users]) as broker:
        (line,) = (one for one in broker.log if "Starting http monitor on " in one)
        page = f"127.0.0.1:{line.rpartition(':')[2].strip()}"
        assert "401" in home.refusal("top", page, "--once")
        own = ("--user", "ops", "--password", "sesame")
        assert home.run("top", page, "--once", *own).startswith("seriatim ")


def test_given_a_home_that_cannot_be_read_then_commands_do_without_contexts(tmp_path: Path) -> None:
    nats = tmp_path / "nats"
    (nats / "context.txt").mkdir(parents=True)  # a folder in its place: as bad as another user's
    with SeriatimServer("none") as broker:
        places = (tmp_path, Path("/nowhere"), tmp_path / "nats" / "context.txt")
        for place in places:
            home = {"XDG_CONFIG_HOME": str(place), "SERIATIM_URL": url(broker)}
            assert seriatim("pub", "a", "x", env=home).returncode == 0
            said = refusal("pub", "a", "x", "--context", "absent", env=home)
            assert "absent" in said
