"""`seriatim check nats://...`: brokers that are well, that refuse us, and that are not brokers."""

import json
import signal
from pathlib import Path

import pytest

from seriatim.settings.usage import USAGE
from tests.seriatim.cli.command import seriatim
from tests.support.processes import STAND_IN, NatsServer, SeriatimServer, url
from tests.support.raw import QUIET, RawClient
from tests.support.scripted import Scripted
from tests.support.secured import make_certificates, nats_server, tls

pytestmark = pytest.mark.skipif(STAND_IN, reason="of our own process")


def checked(target: str, *arguments: str) -> tuple[int, dict[str, tuple[str, str]]]:
    """The status; level and text by what was checked."""
    done = seriatim("check", target, "--json", *arguments)
    assert done.stderr == b""
    checks = json.loads(done.stdout)["checks"]
    return done.returncode, {one["what"]: (one["level"], one["text"]) for one in checks}


def test_given_a_broker_then_all_that_it_says_is_well_and_nothing_is_published() -> None:
    with SeriatimServer("none") as broker, RawClient(broker.port, QUIET) as client:
        client.ask(b"SUB > 1\r\n")
        status, found = checked(url(broker))
        assert client.ask(b"") == []
    assert status == 0
    assert {what: level for what, (level, _) in found.items()} == dict.fromkeys(
        ("connection", "authorization", "ping", "journal"), "ok"
    )
    assert found["connection"][1].startswith("seriatim ")
    assert found["journal"][1] == "messages are on disk, the last number is 0"


@pytest.mark.parametrize("subject", ["a.*", "a.>", "a..b", "a b", ".a"])
def test_given_what_cannot_be_published_to_then_it_is_refused_before_connecting(
    subject: str,
) -> None:
    done = seriatim("check", "nats://127.0.0.1:1", "--publish", subject)
    assert done.returncode == USAGE
    assert b"is not a subject that can be published to" in done.stderr
    assert done.stdout == b""


def test_given_a_subject_then_a_message_is_published_there_and_its_number_shown() -> None:
    with SeriatimServer("none") as broker, RawClient(broker.port, QUIET) as client:
        client.ask(b"SUB a.b 1\r\n")
        status, found = checked(url(broker), "--publish", "a.b")
        (message,) = client.ask(b"")
    assert (status, found["publish"]) == (0, ("ok", "a.b: number 1"))
    assert message.payload == b"seriatim check"


def test_given_a_lame_duck_then_nobody_gets_in_any_more() -> None:
    with SeriatimServer("none", {"lame_duck": "300s"}) as broker:
        with RawClient(broker.port, b'CONNECT {"verbose":false,"protocol":1}\r\n') as client:
            client.ask(b"")
            broker.signal(signal.SIGUSR2)
            assert broker.await_line("Entering lame duck mode")
            status, found = checked(url(broker))
        assert status == 1
        assert found["connection"][0] == "failed"


def test_given_nats_server_then_what_it_lacks_is_a_warning() -> None:
    with NatsServer() as server:
        status, found = checked(url(server))
    assert status == 2
    assert found["connection"][1].startswith("nats-server 2.")
    assert found["journal"][0] == "warning"


def test_given_a_password_then_the_right_one_is_let_in_and_the_wrong_one_is_not(
    tmp_path: Path,
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("sesame\n")
    with nats_server(tmp_path, "authorization { user: ops, password: sesame }\n") as server:
        known = ("--user", "ops", "--password", f"file:{secret}")
        status, found = checked(url(server), *known)
        assert found["authorization"] == ("ok", "credentials accepted")
        assert found["tls"][0] == "warning"
        assert status == 2
        status, found = checked(url(server).replace("//", "//ops:sesame@"))
        assert found["authorization"][0] == "ok"
        status, found = checked(url(server).replace("//", "//ops:wrong@"))
        assert status == 1
        level, text = found["connection"]
        assert (level, "wrong" in text) == ("failed", False)
        assert "Authorization Violation" in text


def test_given_tls_then_its_version_and_the_certificate_are_shown(tmp_path: Path) -> None:
    folder = make_certificates(tmp_path)
    with nats_server(tmp_path, tls(folder)) as server:
        target = f"tls://localhost:{server.port}"
        status, found = checked(target, "--tlscacert", f"{folder}/server.pem")
        assert found["tls"] == ("ok", "TLSv1.3")
        assert found["certificate"][0] == "warning"
        assert found["certificate"][1].startswith("expires soon, on ")
        status, found = checked(target)
        assert status == 1
        assert "is not trusted" in found["connection"][1]
        assert "--tlscacert" in found["connection"][1]


def test_given_no_server_then_it_failed() -> None:
    with SeriatimServer("none") as broker:
        target = url(broker)
        broker.stop()
        status, found = checked(target)
    assert status == 1
    assert "no broker listens there" in found["connection"][1]


@pytest.mark.parametrize("answer", [b"[]", b"x", b"[" * 100_000], ids=["list", "text", "deep"])
def test_given_nonsense_about_the_journal_then_it_is_a_warning(answer: bytes) -> None:
    with Scripted(lambda peer: peer.answer_all(answer)) as peer:
        status, found = checked(f"nats://127.0.0.1:{peer.port}")
    assert status == 2
    assert found["journal"][1].startswith("cannot query it: ")
