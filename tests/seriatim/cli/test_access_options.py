"""`seriatim pub`, `sub` and `cardinal` at brokers with users, and with TLS."""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import nkeys
import pytest

from tests.seriatim.cli.command import Subscriber, refusal, seriatim
from tests.support.authority import Authority
from tests.support.processes import STAND_IN, SeriatimServer
from tests.support.secured import Vouching, nats_server

pytestmark = pytest.mark.skipif(STAND_IN, reason="of our own process")

USERS = """
[authorization]
[[authorization.users]]
user = "ops"
password = "sesame"
[[authorization.users]]
nkey = "{nkey}"
[[authorization.users]]
user = "narrow"
password = "sesame"
permissions = {{ publish = ["orders.>", "$SEQ.PUB.orders.>"], subscribe = "_INBOX.narrow.>" }}
"""
KNOWN = ("--user", "ops", "--password", "env:OPS_PASSWORD")
OPS = {"OPS_PASSWORD": "sesame"}

Start = Callable[..., SeriatimServer]


@pytest.fixture
def seed(tmp_path: Path) -> Path:
    """A file with the seed of an nkey that the brokers here know."""
    path = tmp_path / "seed"
    path.write_bytes(nkeys.encode_seed(os.urandom(32), nkeys.PREFIX_BYTE_USER))
    return path


@pytest.fixture
def start(tmp_path: Path, seed: Path) -> Iterator[Start]:
    """Starts a broker with users."""
    started: list[SeriatimServer] = []

    def begin(*arguments: str) -> SeriatimServer:
        config = tmp_path / "broker.toml"
        config.write_text(USERS.format(nkey=nkeys.from_seed(seed.read_bytes()).public_key.decode()))
        started.append(SeriatimServer("netstring", arguments=["-c", str(config), *arguments]))
        return started[-1].__enter__()

    yield begin
    for one in started:
        one.__exit__(None, None, None)


def pub(broker: SeriatimServer, *arguments: str, host: str = "127.0.0.1") -> str:
    """Publish with an acknowledgement; what the command prints."""
    where = ("-s", f"{host}:{broker.port}")
    done = seriatim("pub", "orders.new", "tea", "--ack", *where, *arguments, env=OPS)
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout.decode()


def test_given_a_user_when_published_and_listened_then_as_without(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPS_PASSWORD", "sesame")
    broker = start()
    assert pub(broker, *KNOWN) == "1\n"
    where = ("-s", f"127.0.0.1:{broker.port}")
    with Subscriber("orders.>", "--from", "1", "-n", "1", "--json", *where, *KNOWN) as sub:
        status, out, _ = sub.end()
    assert status == 0
    assert json.loads(out)["number"] == 1


def test_given_an_nkey_when_published_then_it_is_let_in(start: Start, seed: Path) -> None:
    assert pub(start(), "--nkey", str(seed)) == "1\n"


def test_given_no_or_wrong_credentials_when_published_then_the_error_says_which(
    start: Start, tmp_path: Path
) -> None:
    where = f"nats://127.0.0.1:{start().port}"
    assert refusal("pub", "a", "x", "-s", where) == (
        f"{where}: the broker requires authentication; give --user and --password, --token, --nkey"
        " or --creds"
    )
    wrong = ("--user", "ops", "--password", "hunter2")
    said = refusal("pub", "a", "x", "-s", where, *wrong)
    assert said == f"{where}: the broker refuses the login: Authorization Violation"
    assert "Violation" in refusal("sub", "a", "-s", where.replace("//", "//ops:hunter2@"))
    said = refusal("pub", "a", "x", "-s", where, "--nkey", str(tmp_path / "none"))
    assert said == f"{where}: {tmp_path}/none cannot be read: No such file or directory"


def test_given_a_user_with_its_own_inbox_when_an_ack_is_asked_for_then_it_comes_there(
    start: Start,
) -> None:
    narrow = ("--user", "narrow", "--password", "sesame")
    broker = start()
    said = refusal("pub", "orders.new", "x", "--ack", "-s", f"127.0.0.1:{broker.port}", *narrow)
    assert 'Permissions Violation for Subscription to "_INBOX.' in said
    assert said.endswith("give --inbox-prefix with a subject that this user may subscribe to")
    assert pub(broker, *narrow, "--inbox-prefix", "_INBOX.narrow") == "2\n"  # 1 had no answer


@pytest.mark.parametrize("first", [False, True])
def test_given_tls_and_our_certificate_when_published_then_it_is_let_in(
    start: Start, tmp_path: Path, first: bool
) -> None:
    authority = Authority(tmp_path)
    own = authority.issue("client", "/CN=client")
    given = ["--tlscacert", str(authority.certificate)]
    given += ["--tlscert", str(own), "--tlskey", str(own.with_suffix(".key"))]
    flags = ["--tls_first"] if first else []
    broker = start(*authority.flags(), *authority.verifying(), *flags)
    assert pub(broker, *given, *flags, *KNOWN, host="tls://localhost") == "1\n"
    untrusted = refusal("pub", "a", "x", "-s", f"tls://localhost:{broker.port}", *flags)
    assert "is not trusted" in untrusted
    assert untrusted.endswith("give --tlscacert FILE")


def test_given_certificates_to_trust_when_the_broker_has_no_tls_then_nothing_is_sent(
    start: Start, tmp_path: Path
) -> None:
    given = ("--tlscacert", str(Authority(tmp_path).certificate), "--user", "ops")
    said = refusal("pub", "a", "x", "-s", f"127.0.0.1:{start().port}", *given)
    assert "TLS is required, but the broker does not support it" in said


def test_given_a_credentials_file_when_published_then_nats_server_lets_us_in(
    tmp_path: Path,
) -> None:
    vouching = Vouching(nkeys)
    file = vouching.credentials(tmp_path / "user.creds", vouching.account)
    with nats_server(tmp_path, vouching.config) as server:
        where = f"127.0.0.1:{server.port}"
        done = seriatim("pub", "a", "x", "-s", where, "--creds", str(file))
        assert (done.returncode, done.stderr) == (0, b"")
        assert "requires authentication" in refusal("pub", "a", "x", "-s", where)


def test_given_a_user_and_tls_when_a_chain_is_published_then_it_can_be_consumed(
    start: Start, tmp_path: Path
) -> None:
    authority = Authority(tmp_path)
    broker = start(*authority.flags())
    given = ("-s", f"tls://localhost:{broker.port}", "--tlscacert", str(authority.certificate))
    lines = tmp_path / "blocks.jsonl"
    assert seriatim("cardinal", "simulate", "--lines", str(lines), "--blocks", "5").returncode == 0
    for command in (
        ("simulate", "--blocks", "5", "-a", "made"),
        ("produce", str(lines)),
        ("consume", "--once", "--brief"),
    ):
        done = seriatim("cardinal", *command, *given, *KNOWN, env=OPS)
        assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) >= 5
    said = refusal("cardinal", "consume", "--once", *given)
    assert said.endswith("the broker refuses the login")


@pytest.mark.parametrize(
    "arguments", ["consume --capture x --user a", "simulate --lines x --tlscacert a"]
)
def test_given_no_broker_when_credentials_are_given_then_they_are_refused(arguments: str) -> None:
    said = refusal("cardinal", *arguments.split())
    assert "has no effect with --" in said
    assert arguments.split()[3] in said
