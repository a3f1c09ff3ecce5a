"""What can be changed in a running broker, as its clients see it."""

import json
import re
import shutil
import socket
import ssl
from contextlib import ExitStack
from pathlib import Path

import pytest

from broker.reloading.reloadable import RELOADABLE
from broker.settings.catalog import SETTINGS
from seriatim.client.bulk_connection import BulkConnection, ConnectOptions
from seriatim.client.tls import TlsSettings
from tests.support.authority import Authority
from tests.support.cquencer_clients import answer, port_of
from tests.support.processes import STAND_IN
from tests.support.raw import QUIET, TIMEOUT_S, Operation, RawClient
from tests.support.raw_secured import WiredClient, way
from tests.support.reloaded import Reloaded
from tests.support.secured import make_certificates
from tests.support.web import get, http_port

pytestmark = pytest.mark.skipif(STAND_IN, reason="of our own process")

MODERN = b'CONNECT {"verbose":false,"protocol":1}\r\n'
FULL = b"-ERR 'maximum connections exceeded'\r\n"


def test_given_any_setting_then_it_is_declared_whether_a_reload_changes_it() -> None:
    declared = {path for path, setting in SETTINGS.items() if setting.reload}
    tables = {"authorization.users", "authorization.default_permissions"}
    assert set(RELOADABLE) == declared | tables


def greet(client: RawClient) -> None:
    """Until it has got the INFO that follows the first PONG."""
    client.send(b"PING\r\n")
    assert [client.operation().verb for _ in range(2)] == ["PONG", "INFO"]


def verbs(found: list[Operation]) -> list[str]:
    return [one.verb for one in found]


def test_given_a_lower_max_payload_then_info_says_so_and_larger_messages_are_refused(
    tmp_path: Path,
) -> None:
    with Reloaded(tmp_path) as running, RawClient(running.broker.port, MODERN) as client:
        greet(client)
        said = running.reload("[limits]\nmax_payload = 10\n")
        assert said == [
            "INF: Reloaded: limits.max_payload = 10",
            "INF: Reloaded server configuration",
        ]
        info = client.operation()
        assert (info.verb, json.loads(info.text)["max_payload"]) == ("INFO", 10)
        client.send(b"PUB a 11\r\n12345678901\r\n")
        assert client.until_closed() == b"-ERR 'Maximum Payload Violation'\r\n"
        with RawClient(running.broker.port, QUIET) as later:
            assert later.info["max_payload"] == 10


def test_given_a_higher_max_payload_then_an_earlier_client_may_send_more(tmp_path: Path) -> None:
    with (
        Reloaded(tmp_path, "[limits]\nmax_payload = 10\n") as running,
        RawClient(running.broker.port, QUIET) as client,
    ):
        client.ask(b"SUB a 1\r\n")
        running.reload("[limits]\nmax_payload = 20\n")
        (message,) = client.ask(b"PUB a 11\r\n12345678901\r\n")
        assert message.payload == b"12345678901"


def test_given_another_max_control_line_then_it_counts_for_earlier_clients(
    tmp_path: Path,
) -> None:
    """Also for one that has sent half of a line that becomes too long, or is long enough now."""
    with (
        Reloaded(tmp_path, "[limits]\nmax_control_line = 512\n") as running,
        RawClient(running.broker.port, QUIET) as first,
        RawClient(running.broker.port, QUIET) as second,
    ):
        first.ask(b"")
        second.ask(b"")
        said = running.reload('[limits]\nmax_control_line = "64KiB"\n')
        assert said[0] == "INF: Reloaded: limits.max_control_line = 64KiB"
        subject = b".".join([b"x" * 60] * 1000)
        for at in range(0, len(subject), 10_000):  # in several reads
            first.send((b"SUB " if at == 0 else b"") + subject[at : at + 10_000])
        assert first.ask(b" 1\r\nPUB a 1\r\nx\r\n") == []
        second.ask(b"PUB a 1\r\nx\r\n")
        running.reload("[limits]\nmax_control_line = 1024\n")
        assert first.ask(b"PUB a 1\r\nx\r\n") == []
        second.send(b"SUB " + b"y" * 2000 + b" 1\r\n")
        assert second.until_closed() == b"-ERR 'maximum control line exceeded'\r\n"


def test_given_a_max_payload_then_cquencers_port_has_it_too(tmp_path: Path) -> None:
    arguments = ("--sequencer_port", "-1", "--sequencer_framing", "netstring")
    with Reloaded(tmp_path, "", arguments) as running:
        place = ("127.0.0.1", port_of(running.broker))
        with socket.create_connection(place, TIMEOUT_S) as client:
            running.reload("[limits]\nmax_payload = 10\n")
            assert answer(client, b"10:1234567890,") == b"1:1,"
            assert b"Maximum Payload Violation" in answer(client, b"11:12345678901,")


def test_given_a_lower_max_connections_then_the_newest_are_informed_and_closed(
    tmp_path: Path,
) -> None:
    with Reloaded(tmp_path) as running, ExitStack() as stack:
        port = running.broker.port
        clients = [stack.enter_context(RawClient(port, QUIET)) for _ in range(150)]
        for client in clients:
            client.ask(b"")
        said = running.reload("[limits]\nmax_connections = 20\n")
        assert "INF: Closing 130 clients to fall within limits.max_connections" in said
        assert [client.until_closed() for client in clients[20:]] == [FULL] * 130
        assert [client.ask(b"") for client in clients[:20]] == [[]] * 20
        refused = stack.enter_context(RawClient(port))
        assert refused.until_closed() == FULL


def test_given_two_reloads_at_once_then_the_limit_of_the_last_one_counts(tmp_path: Path) -> None:
    with Reloaded(tmp_path) as running, ExitStack() as stack:
        port = running.broker.port
        clients = [stack.enter_context(RawClient(port, QUIET)) for _ in range(200)]
        for client in clients:
            client.ask(b"")
        running.reload("[limits]\nmax_connections = 150\n")
        running.reload("[limits]\nmax_connections = 20\n")
        assert [client.until_closed() for client in clients[20:]] == [FULL] * 180
        assert [client.ask(b"") for client in clients[:20]] == [[]] * 20


def test_given_a_lower_max_subscriptions_then_those_there_stay_and_more_are_refused(
    tmp_path: Path,
) -> None:
    with Reloaded(tmp_path) as running, RawClient(running.broker.port, QUIET) as client:
        client.ask(b"SUB a 1\r\nSUB b 2\r\n")
        running.reload("[limits]\nmax_subscriptions = 1\n")
        found = client.ask(b"SUB c 3\r\nPUB b 1\r\nx\r\n")
        assert verbs(found) == ["-ERR", "MSG"]
        assert found[0].text == b"'maximum subscriptions exceeded'"
        running.reload("[limits]\nmax_subscriptions = 3\n")
        assert client.ask(b"SUB c 3\r\n") == []


def test_given_a_limit_of_matches_and_none_again_then_it_counts_in_between(tmp_path: Path) -> None:
    def subscribe(first: int) -> bytes:
        return b"".join(b"SUB a %d\r\n" % sid for sid in range(first, first + 10))

    with Reloaded(tmp_path) as running, RawClient(running.broker.port, QUIET) as client:
        assert client.ask(subscribe(0)) == []
        running.reload("[limits]\nmax_matches = 15\n")
        assert verbs(client.ask(subscribe(10))) == ["-ERR"] * 5
        running.reload("[limits]\nmax_matches = 0\n")
        assert client.ask(subscribe(20)) == []
        assert client.ask(b"UNSUB 20\r\n") == []


def test_given_another_address_to_advertise_then_clients_are_informed(tmp_path: Path) -> None:
    with Reloaded(tmp_path) as running, RawClient(running.broker.port, MODERN) as client:
        greet(client)
        running.reload('client_advertise = "broker.example.com:99"\n')
        info = json.loads(client.operation().text)
        assert (info["host"], info["port"]) == ("broker.example.com", 99)
        running.reload('client_advertise = "[fd00::1]"\n')
        info = json.loads(client.operation().text)
        assert (info["host"], info["port"]) == ("fd00::1", running.broker.port)


def test_given_trace_for_a_while_then_the_log_has_what_clients_send_and_no_credentials(
    tmp_path: Path,
) -> None:
    with Reloaded(tmp_path) as running, RawClient(running.broker.port) as client:
        broker = running.broker
        client.send(b'PING\r\nCONNECT {"verbose":false,"pass":"sesa')  # torn where tracing begins
        assert client.operation().verb == "PONG"
        running.reload("trace = true\n")
        assert client.ask(b'me"}\r\nSUB a.b 1\r\n') == []
        assert broker.await_line("SUB a.b 1")
        assert [line for line in broker.log if "sesa" in line or 'me"' in line] == []
        running.reload("trace = false\n")
        before = len(broker.log)
        client.ask(b"SUB c.d 2\r\n")
        running.reload("trace = true\n")
        assert not any("SUB c.d" in line for line in broker.log[before:])


def test_given_other_certificates_in_the_same_files_then_new_clients_get_them(
    tmp_path: Path,
) -> None:
    folder = make_certificates(tmp_path)
    text = f'[tls]\ncert_file = "{folder}/cert.pem"\nkey_file = "{folder}/key.pem"\n'

    def install(name: str) -> None:
        shutil.copy(folder / f"{name}.pem", folder / "cert.pem")
        shutil.copy(folder / f"{name}.key", folder / "key.pem")

    def served() -> str:
        with BulkConnection.connect(f"tls://127.0.0.1:{running.broker.port}", trusting()) as client:
            return ssl.DER_cert_to_PEM_cert(client.certificate)

    def of(name: str) -> str:
        return (folder / f"{name}.pem").read_text()

    install("server")
    with Reloaded(tmp_path, text) as running:
        place = f"tls://127.0.0.1:{running.broker.port}"
        with BulkConnection.connect(place, trusting()) as before:
            assert served() == of("server")
            install("client")
            assert served() == of("server")
            loaded, done = running.reload(text)
            assert loaded.startswith(f"INF: TLS: loaded the certificate in {folder}/cert.pem (CN=")
            assert re.search(r", valid until \d{4}-\d\d-\d\d \d\d:\d\d UTC\)$", loaded)
            assert done == "INF: Reloaded server configuration"
            assert served() == of("client")
            (folder / "cert.pem").write_text("damaged")
            said = running.reload(text)
            assert said[0].startswith("ERR: Cannot reload: tls.cert_file: ")
            assert "holds no PEM certificate" in said[0]
            assert served() == of("client")
            install("client")
            shutil.copy(folder / "server.key", folder / "other.pem")
            said = running.reload(text.replace("key.pem", "other.pem"))
            assert said[0].startswith("ERR: Cannot reload: tls.cert_file, tls.key_file: ")
            assert said[0].endswith("(all as before)")
            assert said[1:] == [
                "INF: Reloaded server configuration, but for tls.cert_file, tls.key_file"
            ]
            assert served() == of("client")
            before.flush()  # it is still there
            said = running.reload("")
            assert "TLS cannot be turned on or off while the broker runs" in said[0]


def test_given_verify_and_map_for_a_while_then_the_certificate_says_in_between_who_one_is(
    tmp_path: Path,
) -> None:
    authority = Authority(tmp_path / "authority")
    own = authority.issue("alice", "/CN=alice", "email:alice@example.com")
    entry = way("tls", authority, "alice")
    text = f"""[tls]
cert_file = "{own.with_name("server.pem")}"
key_file = "{own.with_name("server.key")}"
ca_file = "{authority.certificate}"
verify_and_map = MAPPED
timeout = "1m"  # on a busy machine, 2 s may be over before a client is let in
[authorization]
timeout = "1m"
[[authorization.users]]
user = "alice@example.com"
password = "sesame"
[[authorization.users]]
user = "bob"
password = "sesame"
permissions = {{ publish = "a" }}
"""
    bob = b'CONNECT {"verbose":false,"user":"bob","pass":"sesame"}\r\n'
    refused = b"-ERR 'Authorization Violation'\r\n"
    forbidden = b"-ERR 'Permissions Violation for Publish to \"b\"'\r\nPONG\r\n"

    def come(connect: bytes) -> bytes:
        """What the broker says to one who publishes to b."""
        with WiredClient(running.broker.port, way=entry) as client:
            return client.answer(connect + b"PUB b 1\r\nx\r\nPING\r\n", 1)[0]

    password = text.replace("MAPPED", "false")
    with Reloaded(tmp_path, password) as running:
        for _ in range(2):
            assert (come(bob), come(QUIET)) == (forbidden, refused)
            running.reload(text.replace("MAPPED", "true"))
            assert come(bob) == come(QUIET) == b"PONG\r\n", "both are alice"
            running.reload(password)


def trusting() -> ConnectOptions:
    """A client that takes any certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return ConnectOptions(tls=TlsSettings(context=lambda: context))


def test_given_retention_then_old_segments_go(tmp_path: Path) -> None:
    text = '[journal]\nsegment_bytes = "64KiB"\nretain_bytes = "1GiB"\n'
    with Reloaded(tmp_path, text) as running, RawClient(running.broker.port, QUIET) as client:
        client.ask(b"".join(b"PUB a 60000\r\n%b\r\n" % (b"x" * 60_000) for _ in range(20)))
        running.reload(text.replace("1GiB", "256KiB"))
        assert running.broker.await_line("by the retention limits")


def test_given_messages_on_the_live_page_for_a_while_then_they_are_shown_in_between(
    tmp_path: Path,
) -> None:
    ours = {"X-Seriatim-Page": "1"}
    with Reloaded(tmp_path, "", ("-m", "-1")) as running:
        port = http_port(running.broker)
        assert get(port, "/messages", headers=ours).status == 404
        running.reload("http_messages = true\n")
        assert get(port, "/messages", headers=ours).status == 200
        running.reload("")
        assert get(port, "/messages", headers=ours).status == 404


def test_given_another_log_file_and_format_then_lines_go_there(tmp_path: Path) -> None:
    one, two = tmp_path / "one.log", tmp_path / "two.log"
    with Reloaded(tmp_path) as running:
        running.write(f'log_file = "{one}"\n')
        running.hang_up()
        running.write(f'log_file = "{two}"\nlog_format = "json"\n')
        running.hang_up()
        running.write(f'log_file = "{two}"\ndebug = true\n')
        running.hang_up()
    assert "[INF] Reloaded: log_file = " in one.read_text()
    first, *more = two.read_text().splitlines()
    assert json.loads(first)["message"] == f"Reloaded: log_file = {two}"
    assert any("[INF] Reloaded: debug = true" in line for line in more)
    assert "Reloaded" not in "".join(running.broker.log)


def test_given_a_log_file_that_cannot_be_made_then_the_old_one_stays(tmp_path: Path) -> None:
    with Reloaded(tmp_path) as running:
        said = running.reload(f'log_file = "{tmp_path}"\n')
        assert said[0].startswith("ERR: Cannot reload: log_file: [Errno 21] Is a directory")
        assert said[0].endswith('(still "")')
