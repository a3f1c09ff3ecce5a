"""`$SYS.REQ.SERVER.` requests: answered as nats-server does, to users with that right by name."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.processes import STAND_IN, NatsServer, SeriatimServer, ServerProcess
from tests.support.raw import RawClient
from tests.support.web import get, http_port, monitored

USERS = """
[[authorization.users]]
user = "ops"
password = "s"
[authorization.users.permissions]
publish = ["$SYS.REQ.SERVER.>"]
subscribe = ["_INBOX.>"]
[[authorization.users]]
user = "all"
password = "s"
[authorization.users.permissions]
publish = [">"]
[[authorization.users]]
user = "plain"
password = "s"
"""
ACCOUNTS = (
    "accounts { $SYS { users: [{user: ops, pass: s}] }, A { users: [{user: all, pass: s}] } }"
)
PING = "$SYS.REQ.SERVER.PING"
WORDS = ["VARZ", "CONNZ", "SUBSZ", "ROUTEZ", "GATEWAYZ", "LEAFZ", "ACCOUNTZ", "JSZ", "HEALTHZ"]
# What only nats-server has to say, there and at its pages of HTTP.
LACKS = {"feature_flags", "system_account", "config_digest", "disk_io_wait_stats"}

pytestmark = pytest.mark.skipif(STAND_IN, reason="both are started here")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    file = tmp_path_factory.mktemp("system") / "broker.toml"
    file.write_text(USERS)
    with monitored("none", "-c", str(file)) as process:
        yield process


@pytest.fixture(scope="module")
def peer() -> Iterator[ServerProcess]:
    with NatsServer(more=ACCOUNTS) as process:
        yield process


class Asker:
    """A client that asks, and takes one answer to each question."""

    def __init__(self, server: ServerProcess, user: str = "ops") -> None:
        options: dict[str, Any] = {"verbose": False, "headers": True, "no_responders": True}
        if user:
            options |= {"user": user, "pass": "s"}
        self.client = RawClient(server.port, b"CONNECT %b\r\n" % json.dumps(options).encode())
        self.client.ask(b"SUB _INBOX.a 1\r\n")

    def __enter__(self) -> "Asker":
        return self

    def __exit__(self, *error: object) -> None:
        self.client.close()

    def send(self, subject: str, body: str = "") -> None:
        text = body.encode()
        self.client.send(b"PUB %b _INBOX.a %d\r\n%b\r\n" % (subject.encode(), len(text), text))

    def ask(self, subject: str, body: str = "") -> dict[str, Any]:
        """The answer; empty if nobody is there."""
        self.send(subject, body)
        operation = self.client.operation()
        if operation.verb == "HMSG":
            assert b"503" in operation.header
            return {}
        assert operation.verb == "MSG", operation
        found: dict[str, Any] = json.loads(operation.payload)
        return found


@pytest.mark.parametrize("word", ["", *WORDS, "STATSZ"])
def test_given_a_word_when_asked_then_the_answer_has_what_nats_server_says(
    broker: ServerProcess, peer: ServerProcess, word: str
) -> None:
    subject = f"{PING}.{word}" if word else PING
    with Asker(broker) as ours, Asker(peer) as theirs:
        own, other = ours.ask(subject), theirs.ask(subject)
    assert set(other) == set(own)
    for part in other:
        assert set(other[part]) - set(own[part]) <= LACKS, part
    assert own["server"]["ver"] == other["server"]["ver"]
    assert type(own["server"]["seq"]) is int


def test_given_an_id_when_asked_then_only_that_server_answers(broker: ServerProcess) -> None:
    with Asker(broker) as asker:
        known = asker.ask(f"{PING}.IDZ")
        varz = asker.ask(f"$SYS.REQ.SERVER.{known['id']}.VARZ")
        assert varz["data"]["server_id"] == varz["server"]["id"] == known["id"]
        assert varz["data"]["connections"] == 1
        assert asker.ask(f"$SYS.REQ.SERVER.{known['id']}.NOPE") == {}
        assert asker.ask("$SYS.REQ.SERVER.NX.VARZ") == {}
        assert asker.ask(f"{PING}.PROFILEZ") == {}


@pytest.mark.parametrize("user", ["all", "plain"])
def test_given_a_user_without_the_right_by_name_then_nobody_is_there(
    broker: ServerProcess, user: str
) -> None:
    before = get(http_port(broker), "/varz").json["sequence"]
    with Asker(broker, user) as asker:
        assert asker.ask(PING) == {}
        assert asker.ask(f"{PING}.CONNZ") == {}
    assert get(http_port(broker), "/varz").json["sequence"] == before, "it gets no number"


def test_given_no_users_then_nobody_is_there() -> None:
    with monitored("none") as broker, Asker(broker, "") as asker:
        assert asker.ask(PING) == {}


def test_given_no_monitoring_then_the_subject_is_one_like_all_others() -> None:
    with SeriatimServer("none") as broker, RawClient(broker.port, b"CONNECT {}\r\n") as client:
        client.ask(b"SUB $SYS.> 1\r\n")
        client.send(b"PUB $SYS.REQ.SERVER.PING 1\r\nx\r\n")
        while client.operation().payload != b"x":
            pass


def test_given_options_when_asked_then_the_page_is_the_one_of_http(broker: ServerProcess) -> None:
    options = {"limit": 1, "sort": "subs", "auth": True, "subscriptions": True, "state": 0}
    with Asker(broker, "plain"), Asker(broker) as asker:
        data = asker.ask(f"{PING}.CONNZ", json.dumps(options))["data"]
        assert (data["limit"], data["total"], len(data["connections"])) == (1, 2, 1)
        assert data["connections"][0]["subscriptions_list"] == ["_INBOX.a"]
        detailed = asker.ask(f"{PING}.CONNZ", '{"user": "ops", "subscriptions_detail": true}')
        (own,) = detailed["data"]["connections"]
        assert own["subscriptions_list_detail"][0]["sid"] == "1"
        page = get(http_port(broker), "/connz?user=ops").json
        assert set(own) - {"subscriptions_list_detail"} == set(page["connections"][0])


@pytest.mark.parametrize(
    ("body", "code", "why"),
    [
        ('{"sort": "wrong"}', 400, "sort: cannot sort by 'wrong'"),
        ('{"limit": [1]}', 400, "limit: give a number, a text, or true"),
        ('{"offset": -1}', 400, "offset: '-1' is not a number"),
        ('{"state": 7}', 400, "state: give 0 for open connections"),
        ("nojson", 400, "Expecting value"),
        ("[" * 4096, 400, ""),
        ("[" * 4097, 400, "the options have 4097 bytes, of 4096"),
        ("[]", 400, "the options must be a JSON object"),
    ],
)
def test_given_wrong_options_then_the_answer_says_what_is_wrong(
    broker: ServerProcess, body: str, code: int, why: str
) -> None:
    with Asker(broker) as asker:
        answer = asker.ask(f"{PING}.CONNZ", body)
    assert "data" not in answer
    assert answer["error"]["code"] == code
    assert why in answer["error"]["description"]


@pytest.mark.parametrize(
    "options",
    [
        {"server_name": "other"},
        {"cluster": "c"},
        {"host": "example.com"},
        {"tags": ["a"]},
        {"domain": "d"},
        {"server_name": "N", "exact_match": True},
    ],
    ids=str,
)
def test_given_a_filter_that_does_not_fit_then_the_broker_is_silent(
    broker: ServerProcess, peer: ServerProcess, options: dict[str, Any]
) -> None:
    for server in (broker, peer):
        with Asker(server) as asker:
            asker.send(f"{PING}.VARZ", json.dumps(options))
            assert set(asker.ask(f"{PING}.IDZ")) == {"name", "host", "id"}, "the first is of this"


def test_given_a_filter_that_fits_then_it_answers(broker: ServerProcess) -> None:
    with Asker(broker) as asker:
        name = asker.ask(f"{PING}.IDZ")["name"]
        for options in ({"server_name": name[3:9]}, {"server_name": name, "exact_match": True}):
            assert asker.ask(f"{PING}.VARZ", json.dumps(options))["server"]["name"] == name


def test_given_a_broker_that_is_not_well_then_healthz_says_so(tmp_path: Path) -> None:
    file = tmp_path / "broker.toml"
    file.write_text(USERS)
    with monitored("none", "-c", str(file), "-js") as broker, Asker(broker) as asker:
        options = '{"account": "$G", "stream": "none"}'
        data = asker.ask(f"{PING}.HEALTHZ", options)["data"]
    assert (data["status"], data["status_code"]) == ("unavailable", 404)
    assert "not found" in data["error"]


def test_given_an_answer_that_is_too_long_then_the_error_says_so(tmp_path: Path) -> None:
    file = tmp_path / "broker.toml"
    file.write_text(f"{USERS}\n[limits]\nmax_payload = 1024\n")
    with monitored("none", "-c", str(file)) as broker, Asker(broker) as asker:
        assert "max_payload" in asker.ask(f"{PING}.VARZ")["error"]["description"]
        assert asker.ask(f"{PING}.IDZ")["id"]
