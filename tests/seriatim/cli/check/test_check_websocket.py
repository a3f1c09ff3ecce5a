"""`seriatim check ws://...` and `wss://...`: listeners that are well, refuse us, or are others."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import nkeys
import pytest

from tests.seriatim.cli.check.test_check_broker import checked
from tests.seriatim.cli.command import refusal
from tests.support.authority import Authority
from tests.support.processes import STAND_IN, SeriatimServer, ServerProcess
from tests.support.raw import QUIET, RawClient
from tests.support.raw_secured import Way, way, web_port
from tests.support.secured import make_past_certificate, nats_server
from tests.support.web import http_port

pytestmark = pytest.mark.skipif(STAND_IN, reason="of our own process")

PAIR = nkeys.from_seed(nkeys.encode_seed(bytes(range(32)), nkeys.PREFIX_BYTE_USER))
USERS = f"""
[[authorization.users]]
user = "ops"
password = "sesame"

[[authorization.users]]
nkey = "{PAIR.public_key.decode()}"
"""
PAGE = "https://app.example"
OTHER = "it speaks HTTP, but is not a WebSocket listener"
PLAIN = ("connection", "websocket", "authorization", "ping", "journal")


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    made = Authority(tmp_path_factory.mktemp("authority"))
    made.issue("server")
    made.issue("alice", "/CN=alice", "email:alice")
    return made


@pytest.fixture(params=["ws", "wss"])
def entry(request: pytest.FixtureRequest, authority: Authority) -> Way:
    return way(request.param, authority)


class Asked:
    """One way in to one broker, and how to check it."""

    def __init__(self, entry: Way, authority: Authority, broker: ServerProcess) -> None:
        self.place = f"127.0.0.1:{web_port(broker)}"
        self._name = entry.name
        self._trusted = ["--tlscacert", str(authority.certificate)]

    def checked(self, *arguments: str, who: str = "") -> tuple[int, dict[str, tuple[str, str]]]:
        target = f"{self._name}://{who}{self.place}"
        return checked(target, *(self._trusted if self._name == "wss" else []), *arguments)

    def failure(self, *arguments: str, who: str = "") -> str:
        """What is said of a connection that failed; it is the only finding."""
        status, found = self.checked(*arguments, who=who)
        assert (status, list(found)) == (1, ["connection"])
        level, text = found["connection"]
        assert level == "failed"
        assert text.startswith(f"{self.place}: ")
        return text.partition(": ")[2]


def failure(target: str, *arguments: str) -> str:
    """What is said of a connection that failed."""
    status, found = checked(target, *arguments)
    assert status == 1
    level, text = found["connection"]
    assert level == "failed"
    return text


def test_given_a_listener_then_all_that_it_says_is_well_and_nothing_is_published(
    entry: Way, authority: Authority
) -> None:
    with entry.broker() as broker, entry.client(broker, QUIET) as client:
        client.ask(b"SUB > 1\r\n")
        status, found = Asked(entry, authority, broker).checked()
        assert client.ask(b"") == []
    if entry.name == "wss":
        assert found.pop("tls") == ("ok", "TLSv1.3")
        level, text = found.pop("certificate")  # it is valid for two days
        assert (level, text[:16]) == ("warning", "expires soon, on")
    assert status == (2 if entry.name == "wss" else 0)
    assert {what: level for what, (level, _) in found.items()} == dict.fromkeys(PLAIN, "ok")
    assert found["connection"][1].startswith("seriatim ")
    assert found["websocket"][1] == "it accepts clients without an origin"
    assert found["journal"][1] == "messages are on disk, the last number is 0"


def test_given_a_subject_then_a_message_is_published_there_and_its_number_shown(
    entry: Way, authority: Authority
) -> None:
    with entry.broker() as broker, entry.client(broker, QUIET) as client:
        client.ask(b"SUB a.b 1\r\n")
        _, found = Asked(entry, authority, broker).checked("--publish", "a.b")
        (message,) = client.ask(b"")
    assert found["publish"] == ("ok", "a.b: number 1")
    assert message.payload == b"seriatim check"


def test_given_users_then_the_right_one_is_let_in_and_the_wrong_one_is_not(
    entry: Way, authority: Authority, tmp_path: Path
) -> None:
    config, seed = tmp_path / "broker.toml", tmp_path / "ops.nk"
    config.write_text(USERS)
    seed.write_text(PAIR.seed.decode())
    with entry.broker("-c", str(config)) as broker:
        asked = Asked(entry, authority, broker)
        credentials = (["--user", "ops", "--password", "sesame"], ["--nkey", str(seed)])
        for given, who in ((credentials[0], ""), (credentials[1], ""), ([], "ops:sesame@")):
            status, found = asked.checked(*given, who=who)
            assert found["authorization"] == ("ok", "credentials accepted")
            assert found["tls"][0] == ("ok" if entry.name == "wss" else "warning")
            assert status == 2
        text = asked.failure(who="ops:wrong@")
        assert text == "the broker refuses the login: Authorization Violation"


def test_given_origins_then_pages_of_others_are_refused(entry: Way, authority: Authority) -> None:
    with entry.broker("--websocket_origins", PAGE) as broker:
        asked = Asked(entry, authority, broker)
        _, found = asked.checked("--origin", PAGE)
        assert found["websocket"] == ("ok", f"it accepts pages of {PAGE}")
        assert asked.failure("--origin", "https://other.example") == (
            "the WebSocket is refused: 403 Forbidden: "
            "origin not allowed: it is not in websocket.allowed_origins"
        )
        assert broker.await_line("origin not allowed")


def test_given_a_certificate_that_is_not_trusted_then_it_says_how_to_trust_it(
    authority: Authority, tmp_path: Path
) -> None:
    with way("wss", authority).broker() as broker:
        text = failure(f"wss://localhost:{web_port(broker)}")
    assert "the broker's certificate is not trusted" in text
    assert text.endswith("; give --tlscacert FILE")
    pem, key = make_past_certificate(tmp_path)
    flags = ["--tlscert", str(pem), "--tlskey", str(key), "--websocket_port", "-1"]
    with SeriatimServer(arguments=flags) as broker:
        target = f"wss://localhost:{web_port(broker)}"
        assert "certificate has expired" in failure(target, "--tlscacert", str(pem))


def test_given_a_listener_that_wants_certificates_then_ours_lets_us_in(
    authority: Authority,
) -> None:
    flags = [*authority.flags(), "--tlscacert", str(authority.certificate), "--tls_map"]
    with SeriatimServer(arguments=[*flags, "--user", "alice", "--websocket_port", "-1"]) as broker:
        target = f"wss://localhost:{web_port(broker)}"
        trusted = ("--tlscacert", str(authority.certificate))
        own = [f"{authority.folder}/alice.{kind}" for kind in ("pem", "key")]
        _, found = checked(target, *trusted, "--tlscert", own[0], "--tlskey", own[1])
        assert found["authorization"] == ("ok", "credentials accepted")
        assert "certificate required" in failure(target, *trusted)


def test_given_input_that_is_no_websocket_listener_then_it_says_what_is_there(
    authority: Authority,
) -> None:
    trusted = ("--tlscacert", str(authority.certificate))
    with way("wss", authority).broker("-m", "-1") as broker:
        here = f"127.0.0.1:{web_port(broker)}"
        assert failure(f"ws://{here}").endswith("; if it speaks TLS there, give wss://")
        here = f"127.0.0.1:{broker.port}"
        assert failure(f"ws://{here}") == (
            f"{here}: NATS clients connect there, not WebSockets: give nats:// or tls://"
        )
        assert failure(f"wss://{here}", *trusted) == f"{here}: it does not speak TLS there"
        here = f"127.0.0.1:{http_port(broker)}"
        assert failure(f"ws://{here}").startswith(f"{here}: {OTHER}: ")
    with way("ws", authority).broker() as broker:
        here = f"127.0.0.1:{web_port(broker)}"
        assert failure(f"wss://{here}", *trusted) == f"{here}: it does not speak TLS there"
        broker.stop()
        assert "no broker listens there" in failure(f"ws://{here}")


@contextmanager
def saying(answer: bytes) -> Iterator[str]:
    """Somebody who says this to whoever has asked, and closes; where that is."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            client, _ = listener.accept()
            with client:
                client.recv(1 << 16)
                client.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"ws://127.0.0.1:{listener.getsockname()[1]}"
        thread.join()


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"\x15\x03\x01\x00\x02\x02\x46", "it speaks TLS there: give wss://"),
        (b"220 mail.example\r\n", "it does not speak HTTP, so it is not a WebSocket listener"),
        (b"HTTP/1.1 401 Who\r\n\r\n", "the WebSocket is refused: 401 Who"),
        (b"HTTP/1.1 403 No\r\n\r\n\n\x1b[2Jno\nway", "the WebSocket is refused: 403 No: \x1b[2Jno"),
        (b"HTTP/1.0 400 Bad\r\n\r\nno\n", f"{OTHER}: 400 Bad"),
        (b"HTTP/1.1 400 Bad\r\n\r\nuse https\n", f"{OTHER}: 400 Bad: use https"),
        (b"HTTP/1.1 502 Bad\r\n\r\n<html>", f"{OTHER}: 502 Bad"),
        (b"HTTP/1.1 101 Yes\r\n\r\n", f"{OTHER}: missing Connection header"),
        (b"HTTP/1.1 101 Y", f"{OTHER}: 101 Y"),
    ],
)
def test_given_another_answer_to_the_handshake_then_it_is_reported(
    answer: bytes, said: str
) -> None:
    with saying(answer) as target:
        text = failure(target)
    assert text.partition(": ")[2] == said


def test_given_silence_then_it_ends_after_the_timeout() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        target = f"ws://127.0.0.1:{listener.getsockname()[1]}"
        assert failure(target, "--timeout", "0.2").endswith("no answer in time")


def test_given_a_path_of_nats_server_then_it_is_checked_as_well(
    tmp_path: Path,
) -> None:
    config = 'websocket { listen: "127.0.0.1:-1", no_tls: true, same_origin: true }\n'
    with nats_server(tmp_path, config) as server, RawClient(server.port):
        target = f"ws://127.0.0.1:{web_port(server)}"
        status, found = checked(f"{target}/some/path")
        assert status == 2
        assert found["connection"][1].startswith("nats-server 2.")
        assert found["websocket"][0] == "ok"
        assert found["journal"][0] == "warning"
        assert "the WebSocket is refused: 403" in failure(target, "--origin", PAGE)


@pytest.mark.parametrize("url", ["ws://", "ws://x:y", "ws://x:0", "ws://x/a b", "ws://x/?a=b"])
def test_given_what_is_not_the_address_of_a_listener_then_it_says_so(url: str) -> None:
    assert "is not the address of a broker; give ws://HOST:PORT" in refusal("check", url)


@pytest.mark.parametrize("origin", ["app.example", "https://", "https://a/b", "https://a\r\nX: y"])
def test_given_what_is_not_an_origin_then_it_says_so(origin: str) -> None:
    told = refusal("check", "ws://x", "--origin", origin)
    assert told == "--origin is not the origin of a page; give https://HOST"
    assert refusal("check", "nats://x", "--origin", PAGE) == "--origin is for ws:// and wss://"
