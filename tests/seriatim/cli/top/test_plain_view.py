"""A broker without a terminal: a snapshot, a JSON document, lines; and what is refused."""

import json
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.broker.monitor.test_monitor_nats import NatsMonitored
from tests.seriatim.cli.command import COMMAND, environment, refusal, seriatim
from tests.seriatim.cli.top.watched import broker_with_pages, named, publish
from tests.support.commands import COMMAND_S, Forked
from tests.support.processes import STAND_IN, SeriatimServer
from tests.support.scripted import Peer, Scripted
from tests.support.secured import make_certificates
from tests.support.web import http_port

pytestmark = pytest.mark.skipif(STAND_IN, reason="of our own process")
HOSTILE = r"\u001b]0;pwned\u0007\u009b"


def printed(*arguments: str) -> str:
    done = seriatim("top", *arguments, "-d", "0.2")
    assert done.returncode == 0, done.stderr
    return done.stdout.decode()


def test_given_no_terminal_then_one_snapshot_is_printed_without_controls() -> None:
    subscribed = b"SUB orders.> 1\r\n"
    with (
        broker_with_pages() as (broker, pages),
        named(broker, HOSTILE, subscribed) as client,
    ):
        publish(client, 7)
        text = printed(pages)
    assert text.startswith("seriatim 0.1.0  orders-1  last number 7  ")
    assert r"1    \x1b]0;pwned\x07\x9b" in text
    assert all(one.isprintable() or one == "\n" for one in text)
    assert "Streams" not in text


def test_given_json_then_one_document_has_figures_rates_and_rows() -> None:
    with (
        broker_with_pages() as (broker, pages),
        named(broker, HOSTILE, b"SUB orders.> team 1\r\n") as client,
    ):
        publish(client, 7)
        text = printed(pages, "--json")
    found = json.loads(text)
    assert text.isascii()
    assert all(one.isprintable() or one == "\n" for one in text)
    assert found["url"] == f"http://{pages}"
    assert 0.2 <= found["seconds"] < COMMAND_S
    assert (found["broker"]["sequence"], found["broker"]["in_msgs_rate"]) == (7, 0.0)
    assert found["broker"]["journal"]["last"] == 7
    (connection,) = found["connections"]
    assert connection["name"] == "\x1b]0;pwned\x07\x9b"
    assert (connection["out_msgs"], connection["out_msgs_rate"]) == (7, 0.0)
    assert found["connections_total"] == 1
    assert [one["queue"] for one in found["subscriptions"]] == ["team"]
    assert found["members"] == found["feeds"] == found["streams"] == []


def test_given_nats_server_when_json_is_printed_then_what_it_lacks_is_null() -> None:
    with NatsMonitored() as server, named(server, "desk"):
        found = json.loads(printed(f"127.0.0.1:{http_port(server)}", "--json"))
    broker = found["broker"]
    assert broker["product"] == "nats-server"
    assert broker["sequence"] is broker["journal"] is broker["cluster"] is None
    assert [one["name"] for one in found["connections"]] == ["desk"]


def test_given_stat_then_lines_come_until_ctrl_c_and_a_break_is_one_of_them() -> None:
    with broker_with_pages() as (broker, pages):
        process = Forked(
            [COMMAND, "top", pages, "--stat", "-d", "0.2"],
            stdin=subprocess.DEVNULL,
            env=environment(),
        )
        assert process.stdout is not None
        titles = process.stdout.readline().split()
        assert titles[:3] == [b"time", b"number", b"in/s"]
        assert process.stdout.readline().split()[1:4] == [b"0", b"0", b"0"]
        broker.stop()
        while b"no answer: connection refused" not in process.stdout.readline():
            pass
        broker.start(broker.port)
        while b"no answer" in process.stdout.readline():
            pass
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=COMMAND_S)
    assert (process.wait(), said) == (0, b"")


def test_given_a_user_and_tls_then_they_are_needed(tmp_path: Path) -> None:
    made = make_certificates(tmp_path)
    given = ["--https_port", "-1", "--http_user", "ops", "--http_pass", "sesame"]
    given += ["--tlscert", str(made / "server.pem"), "--tlskey", str(made / "server.key")]
    with SeriatimServer("none", arguments=given) as broker:
        (line,) = (one for one in broker.log if "Starting https monitor on " in one)
        place = f"127.0.0.1:{line.rpartition(':')[2]}"
        trust = ("--tlscacert", str(made / "server.pem"))
        assert "not trusted" in refusal("top", f"https://{place}")
        assert refusal("top", place).endswith("closed the connection; give https:// if it has TLS")
        wrong = "401: give the right --user and --password, those of http_user"
        assert refusal("top", f"https://{place}", *trust).endswith(wrong)
        assert refusal("top", f"https://ops:bad@{place}", *trust).endswith(wrong)
        assert printed(f"https://ops:sesame@{place}", *trust).startswith("seriatim 0.1.0")
        secret = tmp_path / "secret"
        secret.write_text("sesame\n")
        user = ("--user", "ops", "--password", f"file:{secret}")
        assert printed(f"https://{place}", *trust, *user).startswith("seriatim 0.1.0")


def test_given_nobody_or_another_service_then_it_says_so() -> None:
    with socket.socket() as bound:  # it does not listen
        bound.bind(("127.0.0.1", 0))
        said = refusal("top", f"127.0.0.1:{bound.getsockname()[1]}")
    assert said.endswith("monitoring is on with `seriatim serve -m 8222`")
    with broker_with_pages() as (broker, _):
        assert "does not speak HTTP; give the port of" in refusal("top", f"127.0.0.1:{broker.port}")


@contextmanager
def pages_of(body: bytes) -> Iterator[str]:
    """Answer each request with this page; yield the address."""
    head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body)

    def talk(peer: Peer) -> None:
        while peer.expect(b"GET "):
            peer.say(head + body)

    with Scripted(talk) as peer:
        yield f"127.0.0.1:{peer.port}"


@pytest.mark.parametrize(
    "varz",
    [
        b'{"mem": 1e300, "sequence": -1e40, "in_msgs": 99999999999999999999, "cpu": -1e308}',
        b'{"a":' * 900 + b"1" + b"}" * 900,
        b'{"journal": {"journal": "j", "syncs": 1e300, "oldest": -1e300}, "now": "9999-12-31"}',
    ],
    ids=["numbers", "deep", "journal"],
)
@pytest.mark.parametrize("way", ["--once", "--json"])
def test_given_figures_that_no_broker_has_then_top_prints_what_it_can(
    varz: bytes, way: str
) -> None:
    with pages_of(varz) as place:
        assert printed(place, way)


@pytest.mark.parametrize(
    "body", [b"[1, 2]", b"<html>", b"\xff", b"[" * 100_000], ids=["list", "html", "bytes", "deep"]
)
def test_given_pages_of_something_else_then_one_line_says_so(body: bytes) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body)
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            peer, _ = server.accept()
            with peer:
                peer.recv(1 << 16)
                peer.sendall(head + body)

        thread = threading.Thread(target=answer)
        thread.start()
        said = refusal("top", f"127.0.0.1:{server.getsockname()[1]}")
        thread.join()
    assert said.endswith("these are not the pages of a broker: /varz has something else")


@pytest.mark.parametrize(
    "address", ["nats://127.0.0.1", "http://", "x:y", "http://x/varz", "http://x?a=b", "x:0"]
)
def test_given_what_is_not_the_address_of_monitoring_then_it_says_so(address: str) -> None:
    assert "is not the address of monitoring; give http://HOST:PORT" in refusal("top", address)


def test_given_two_ways_to_print_then_it_asks_for_one() -> None:
    assert refusal("top", "--once", "--json") == "give one of --once and --json, not both"
    assert "-d" in refusal("top", "-d", "0")
