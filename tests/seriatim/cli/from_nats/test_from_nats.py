"""`seriatim config --from`: the command, and a broker that is started from what it prints."""

import asyncio
import contextlib
import ssl
import tomllib
from pathlib import Path
from typing import Any

import bcrypt
import nats
import pytest
from nats.aio.client import Client
from nats.errors import Error, NoRespondersError

from seriatim.cli.from_nats.translated_file import INCOMPLETE
from seriatim.settings.usage import USAGE
from tests.clients.served import run
from tests.seriatim.cli.command import refusal, seriatim
from tests.seriatim.cli.from_nats.oracle import judged
from tests.support.authority import Authority
from tests.support.processes import STAND_IN, SeriatimServer
from tests.support.secured import nats_server

WAIT_S = 30
CONFIG = """
# Orders, as nats-server has them.
server_name: orders-1
max_payload: 64K, max_subs: 3
ping_interval: "1m"
write_deadline: 5s     // seconds
include 'users.inc'
no_auth_user: guest

tls {
  cert_file: "%(folder)s/server.pem"
  key_file: "%(folder)s/server.key"
  timeout: 5
}
"""
USERS = """
READ_ONLY {
  publish: {deny: ">"}
  subscribe: ["news.>", "_INBOX.>"]
}
authorization {
  timeout: 60
  default_permissions: $READ_ONLY
  users = [
    {user: guest, password: nothing}
    {user: alice, password: $ALICES, permissions {
      publish { allow: ["orders.>", "ask"], deny: "orders.secret" }
      subscribe: ["orders.>", "_INBOX.>"]
    }}
    {user: bob, password: %(hash)s, permissions {
      subscribe: "ask", allow_responses: {max: 1, expires: "1m"}
    }}
  ]
}
"""
ALICE = {"user": "alice", "password": "wonderland"}
BOB = {"user": "bob", "password": "builder"}
ENVIRONMENT = {"ALICES": "wonderland"}


class Noted:
    """The errors that clients are told, each as soon as it comes; and that one was closed."""

    def __init__(self) -> None:
        self.queue: asyncio.Queue[str] = asyncio.Queue()
        self.closed = asyncio.Event()

    async def close(self) -> None:
        self.closed.set()

    async def note(self, error: Exception) -> None:
        await self.queue.put(str(error))

    async def next(self) -> str:
        return await asyncio.wait_for(self.queue.get(), WAIT_S)


@pytest.mark.skipif(STAND_IN, reason="nats-server reads no TOML")
def test_given_a_configuration_then_a_broker_from_its_translation_does_as_nats_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = Authority(tmp_path / "certificates")
    authority.issue("server")
    hash_ = bcrypt.hashpw(BOB["password"].encode(), bcrypt.gensalt(4, b"2a")).decode()
    (tmp_path / "nats.conf").write_text(CONFIG % {"folder": authority.folder})
    (tmp_path / "users.inc").write_text(USERS % {"hash": hash_})
    accepted, why = judged(tmp_path / "nats.conf", ENVIRONMENT)
    assert accepted, why

    done = seriatim("config", "--from", "nats.conf", env=ENVIRONMENT, cwd=tmp_path)
    assert (done.returncode, done.stderr.decode()) == (0, "")
    assert "wonderland" not in done.stdout.decode(), "the broker reads the variable itself"
    translated = tmp_path / "broker.toml"
    translated.write_bytes(done.stdout)
    assert seriatim("check", str(translated), env=ENVIRONMENT).returncode in (0, 2)

    monkeypatch.setenv("ALICES", ENVIRONMENT["ALICES"])
    context = authority.context()
    for server in (
        nats_server(tmp_path, (tmp_path / "nats.conf").read_text()),
        SeriatimServer(arguments=["-c", str(translated)]),
    ):
        with server:
            run(_uses(server.port, context))


async def _answered(client: Client) -> bytes:
    """Ask until somebody is there: nats-server may know of a subscription later on than it says."""
    while True:
        with contextlib.suppress(NoRespondersError):
            return (await client.request("ask", b"?", timeout=WAIT_S)).data


async def _uses(port: int, context: ssl.SSLContext) -> None:
    async def connected(noted: Noted, **who: Any) -> Client:
        return await nats.connect(
            f"tls://127.0.0.1:{port}",
            tls=context,
            connect_timeout=WAIT_S,
            allow_reconnect=False,
            error_cb=noted.note,
            closed_cb=noted.close,
            **who,
        )

    with pytest.raises(Error, match=r"(?i)authorization violation"):
        await connected(Noted(), user="alice", password="wrong")
    noted = Noted()
    alice, bob, guest = [await connected(noted, **who) for who in (ALICE, BOB, {})]
    assert alice.max_payload == 64000, "K is 1000 in nats-server"
    assert alice._server_info["server_name"] == "orders-1"

    # Its rights: payloads come as they were published, answers are allowed, the rest is not.
    orders = await alice.subscribe("orders.>")
    await alice.publish("orders.secret", b"no")
    assert 'publish to "orders.secret"' in await noted.next()
    await alice.publish("orders.eu", b"yes")
    assert (await orders.next_msg(WAIT_S)).data == b"yes"
    ask = await bob.subscribe("ask")
    await bob.flush(WAIT_S)
    answer = asyncio.create_task(_answered(alice))
    await (await ask.next_msg(WAIT_S)).respond(b"!")
    assert await answer == b"!"
    await bob.publish("orders.eu", b"no")
    assert 'publish to "orders.eu"' in await noted.next()
    await guest.subscribe("orders.>")
    assert 'subscription to "orders.>"' in await noted.next()

    # Its limits: nats-py closes itself, because of the one that is too many.
    for _ in range(3):
        await guest.subscribe("news.x")
    await guest.flush(WAIT_S)
    assert not noted.closed.is_set()
    await guest.subscribe("news.x")
    await asyncio.wait_for(noted.closed.wait(), WAIT_S)
    assert "maximum subscriptions exceeded" in str(guest.last_error).lower()
    for client in (alice, bob):
        await client.close()


def test_given_lines_without_an_equivalent_then_they_are_named_twice_and_the_status_says_so(
    tmp_path: Path,
) -> None:
    (tmp_path / "nats.conf").write_text("port: 4333\ncluster {\n  port: 6222\n}\n'fo\no': 1\n")
    done = seriatim("config", "--from", "nats.conf", cwd=tmp_path)
    said = done.stderr.decode().splitlines()
    assert done.returncode == INCOMPLETE
    assert said[0].startswith(
        "nats.conf:2-4: cluster: members of a cluster find each other by etcd"
    )
    assert said[1].startswith("nats.conf:5-6: fo\\no: nats-server has no such setting")
    assert said[2:] == ["seriatim: nats.conf is not translated completely: 2 lines above"]
    written = done.stdout.decode()
    assert f"\n# Not as in nats.conf:\n# {said[0]}\n# {said[1]}\n" in written
    assert "port = 4333  # nats.conf:1\n" in written
    (tmp_path / "broker.toml").write_text(written)
    assert seriatim("config", "-c", str(tmp_path / "broker.toml")).returncode == 0


def test_given_users_that_cannot_be_translated_then_the_broker_does_not_start_open(
    tmp_path: Path,
) -> None:
    (tmp_path / "nats.conf").write_text(
        "accounts { A { users [{user: a, pass: b}] }, B { users [{user: c, pass: d}] } }"
    )
    done = seriatim("config", "--from", "nats.conf", cwd=tmp_path)
    assert done.returncode == INCOMPLETE
    assert "a broker would refuse the result: users.toml: cannot be read" in done.stderr.decode()
    (tmp_path / "broker.toml").write_bytes(done.stdout)
    assert "users.toml: cannot be read" in refusal("serve", "-c", str(tmp_path / "broker.toml"))


def test_given_more_users_than_a_file_of_settings_may_have_then_that_is_said(
    tmp_path: Path,
) -> None:
    users = "\n".join(f"{{user: u{at}, password: {at:090}x}}" for at in range(8000))
    (tmp_path / "nats.conf").write_text(f"authorization {{ users: [\n{users}\n] }}")
    done = seriatim("config", "--from", "nats.conf", cwd=tmp_path)
    assert done.returncode == INCOMPLETE
    said = done.stderr.decode()
    assert said.startswith("a broker would refuse the result: it is longer than 1 MiB; move the us")
    tables = tomllib.loads(done.stdout.decode())
    assert len(tables["authorization"]["users"]) == 8000


def test_given_a_file_that_cannot_be_read_then_one_line_says_where(tmp_path: Path) -> None:
    (tmp_path / "nats.conf").write_text("port: 1\nserver_name: 'x\n")
    told = refusal("config", "--from", str(tmp_path / "nats.conf"))
    assert told == f"{tmp_path}/nats.conf:2: the value that begins here has no ' at its end"
    told = refusal("config", "--from", str(tmp_path / "none.conf"))
    assert told == f"{tmp_path}/none.conf: cannot be read: No such file or directory"


@pytest.mark.parametrize(
    "more", [["-p", "5"], ["--all"], ["--format", "toml"], ["-c", "x"], ["--nope"]]
)
def test_given_other_flags_as_well_then_they_are_refused(more: list[str]) -> None:
    done = seriatim("config", "--from", "nats.conf", *more)
    assert done.returncode == USAGE
    assert (
        done.stderr.decode() == "seriatim: --from translates one file, and takes no other flags\n"
    )


# `serve` with such a file.


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("broker.toml", "port: 4222\n", "is not TOML, but looks like a configuration of nats-ser"),
        ("broker.toml", "# x\nauthorization {\n  user: a\n}\n", "is not TOML, but looks like"),
        ("broker.toml", '{ "port": 4222 }\n', "is not TOML, but looks like"),
        ("broker.toml", "include 'x.conf'\n", "is not TOML, but looks like"),
        ("nats.conf", "port: 4222\n", "is not TOML, but looks like"),
        ("it is.conf", 'listen = "0.0.0.0:4222"\n', "if it is a configuration of nats-server"),
    ],
)
def test_given_a_configuration_of_nats_server_when_served_then_the_command_is_told(
    tmp_path: Path, name: str, text: str, said: str
) -> None:
    path = tmp_path / name
    path.write_text(text)
    told = refusal("serve", "-c", str(path))
    shown = f"'{path}'" if " " in name else str(path)
    assert f"{path}: {said}" in told
    assert f"translate it: `seriatim config --from {shown} > broker.toml`" in told
