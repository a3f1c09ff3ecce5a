"""Messages on the live page: found, followed, and only for those who may read them."""

import base64
import http.client
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from broker.monitor.page.page_messages import (
    FOUND_BYTES_MAX,
    FOUND_MAX,
    SHOWN_BYTES_MAX,
    TAILED_MAX,
)
from tests.support.processes import SeriatimServer
from tests.support.raw import HEADERS, QUIET, RawClient
from tests.support.reloaded import Reloaded
from tests.support.web import Page, get, http_port, monitored

OURS = {"X-Seriatim-Page": "1"}
USERS = """
[[authorization.users]]
user = "reader"
password = "a"
permissions.subscribe = ["orders.>", "$SEQ.RANGE.*.*.orders.>", "$SEQ.SINCE.*.orders.>"]
[[authorization.users]]
user = "writer"
password = "b"
"""


def encoded(text: bytes) -> str:
    return base64.b64encode(text).decode()


def login(user: str, password: str) -> dict[str, str]:
    return {
        **OURS,
        "X-Seriatim-Login": base64.b64encode(json.dumps([user, password]).encode()).decode(),
    }


def ask(port: int, headers: dict[str, str] | None = None, /, **query: Any) -> Page:
    return get(port, f"/messages?{urlencode(query)}", headers=OURS if headers is None else headers)


def numbers(page: Page) -> list[int]:
    assert page.status == 200, page.json
    return [one["number"] for one in page.json["messages"]]


def payloads(page: Page) -> list[bytes]:
    return [base64.b64decode(one["payload"]) for one in page.json["messages"]]


@pytest.fixture(scope="module")
def broker() -> Iterator[SeriatimServer]:
    with monitored("netstring", "--http_messages") as process:
        client = RawClient(process.port, HEADERS)
        for at in range(100):
            client.ask(b"PUB orders.%d 3\r\n%03d\r\n" % (at % 10, at))
        client.ask(b"HPUB odd.one answer 20 23\r\nNATS/1.0\r\nA: <b>\r\n\r\n\xff\x00x\r\n")
        client.close()
        yield process


@pytest.fixture(scope="module")
def port(broker: SeriatimServer) -> int:
    return http_port(broker)


def test_given_a_number_then_the_messages_from_it_on_are_found(port: int) -> None:
    page = ask(port, **{"from": 42, "limit": 3})
    assert numbers(page) == [42, 43, 44]
    assert payloads(page) == [b"041", b"042", b"043"]
    assert page.json["messages"][0]["subject"] == "orders.1"
    assert datetime.fromisoformat(page.json["messages"][0]["time"]).tzinfo == UTC


def test_given_nothing_then_the_newest_are_found_with_headers_reply_and_any_bytes(
    port: int,
) -> None:
    page = ask(port)
    assert numbers(page) == list(range(52, 102))
    odd = page.json["messages"][-1]
    assert (odd["subject"], odd["reply"], odd["size"]) == ("odd.one", "answer", 3)
    assert base64.b64decode(odd["payload"]) == b"\xff\x00x"
    assert base64.b64decode(odd["headers"]) == b"A: <b>"


def test_given_a_subject_then_only_its_messages_are_found(port: int) -> None:
    assert numbers(ask(port, subject="orders.3", **{"from": 1})) == list(range(4, 101, 10))
    assert numbers(ask(port, subject="nothing.here", **{"from": 1})) == []


def test_given_a_time_then_the_messages_since_are_found(port: int) -> None:
    moment = ask(port, **{"from": 7}).json["messages"][0]["time"]
    found = numbers(ask(port, since=moment[:23] + "Z"))
    assert found[0] <= 7 < found[-1]
    assert numbers(ask(port, since="1d", limit=5)) == [1, 2, 3, 4, 5]
    assert numbers(ask(port, since="2999-01-01T00:00:00Z")) == []


def test_given_a_number_that_is_not_given_yet_then_nothing_is_found_at_once(port: int) -> None:
    page = ask(port, **{"from": 5000})
    assert numbers(page) == []
    assert page.json["newest"] == 101


def test_given_a_limit_beyond_the_most_then_the_most_is_found(port: int) -> None:
    assert len(numbers(ask(port, limit=10**6, **{"from": 1}))) == 101 < FOUND_MAX


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ({"subject": "a b"}, "without spaces"),
        ({"subject": "a\r\nPUB x 0"}, "without spaces"),
        ({"subject": "a..b"}, "not a subject that can be subscribed to"),
        ({"from": "x"}, "'x' is not a number"),
        ({"from": "9" * 30}, "is not a number"),
        ({"from": "9" * 5000}, "is not a number"),
        ({str(at): "x" for at in range(20)}, "too many parameters"),
        ({"since": "yesterday"}, "is not a time"),
        ({"since": "2026-01-31T12:00:00"}, "no time zone"),
    ],
)
def test_given_a_wrong_query_then_the_answer_says_what_is_wrong(
    port: int, query: dict[str, str], why: str
) -> None:
    page = ask(port, **query)
    assert page.status == 403
    assert why in page.json["error"]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 403),  # another site can send this
        ({"X-Seriatim-Page": "1", "Host": "evil.example:8222"}, 403),  # or have its name lead here
        ({"X-Seriatim-Page": "1", "Host": "localhost:8222"}, 200),
        ({"X-Seriatim-Page": "1", "Host": "[::1]:8222"}, 200),
        ({"X-Seriatim-Page": "1", "Host": "10.0.0.1"}, 200),
        ({"X-Seriatim-Page": "1", "Host": ""}, 403),
    ],
)
def test_given_a_request_of_another_site_then_it_gets_no_message(
    port: int, headers: dict[str, str], status: int
) -> None:
    page = ask(port, headers)
    assert page.status == status
    assert "Access-Control-Allow-Origin" not in page.headers


def test_given_the_setting_is_off_then_there_are_no_messages() -> None:
    with monitored("netstring") as process:
        page = ask(http_port(process))
        assert page.status == 404
        assert "--http_messages" in page.json["error"]


def test_given_users_then_each_viewer_finds_what_its_user_may_read(tmp_path: Path) -> None:
    (tmp_path / "broker.toml").write_text(USERS)
    with monitored("netstring", "--http_messages", "-c", str(tmp_path / "broker.toml")) as process:
        port = http_port(process)
        client = RawClient(process.port, b'CONNECT {"user":"writer","pass":"b"}\r\n')
        client.ask(b"PUB orders.1 1\r\nx\r\nPUB secret 1\r\ny\r\n")
        client.close()
        assert ask(port).status == 403
        assert "Authorization" in ask(port).json["error"]
        assert "Authorization" in ask(port, login("reader", "wrong")).json["error"]
        assert payloads(ask(port, login("reader", "a"), subject="orders.>", **{"from": 1})) == [
            b"x"
        ]
        refused = ask(port, login("reader", "a"), subject=">", **{"from": 1})
        assert "Permissions Violation" in refused.json["error"]
        assert numbers(ask(port, login("writer", "b"), **{"from": 1})) == [1, 2]
        for header in ("no base64", *map(encoded, (b'{"a":1}', b"5", b"null", b"[" * 40_000))):
            assert ask(port, {**OURS, "X-Seriatim-Login": header}).status == 403


def test_given_a_long_message_then_its_beginning_is_shown(
    port: int, broker: SeriatimServer
) -> None:
    client = RawClient(broker.port, QUIET)
    size = SHOWN_BYTES_MAX + 10
    client.ask(b"PUB long %d\r\n%b\r\n" % (size, b"x" * size))
    client.close()
    (found,) = ask(port, subject="long", **{"from": 1}).json["messages"]
    assert found["size"] == size
    assert len(base64.b64decode(found["payload"])) == SHOWN_BYTES_MAX


def test_given_many_long_messages_then_an_answer_has_some_of_them(
    port: int, broker: SeriatimServer
) -> None:
    client = RawClient(broker.port, QUIET)
    size = SHOWN_BYTES_MAX
    for _ in range(FOUND_MAX):
        client.ask(b"PUB many 65536\r\n%b\r\n" % bytes(size))
    client.close()
    found = numbers(ask(port, subject="many", limit=FOUND_MAX, **{"from": 1}))
    assert FOUND_BYTES_MAX // size // 2 < len(found) <= FOUND_BYTES_MAX // size
    assert found == list(range(found[0], found[0] + len(found)))


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_given_a_viewer_then_connz_names_its_address_also_behind_a_proxy(loop: str) -> None:
    proxy = ("--proxy_header", "X-Forwarded-For", "--trusted_proxies", "127.0.0.1")
    with monitored("netstring", "--http_messages", "--loop", loop, *proxy) as process:
        port = http_port(process)
        assert ask(port).status == ask(port, {**OURS, "X-Forwarded-For": "10.1.2.3"}).status == 200
        while len(closed := get(port, "/connz?state=closed").json["connections"]) < 2:
            pass
        assert {one["ip"] for one in closed} == {"127.0.0.1", "10.1.2.3"}
        assert {one["name"] for one in closed} == {"live page"}


def test_given_a_broker_with_no_room_then_a_viewer_is_told_so() -> None:
    process = monitored("netstring", "--http_messages")
    process.env["SERIATIM_LIMITS_MAX_CONNECTIONS"] = "1"
    with process, RawClient(process.port, QUIET) as client:
        client.ask(b"")
        for _ in range(10):
            page = ask(http_port(process))
            assert (page.status, page.json["error"]) == (403, "maximum connections exceeded")


class Tail:
    """One who follows."""

    def __init__(self, port: int, subject: str) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        self.connection.request(
            "GET", f"/messages/tail?{urlencode({'subject': subject})}", headers=OURS
        )
        self.answer = self.connection.getresponse()
        assert self.answer.status == 200
        assert self.batch() is None  # it has begun

    def batch(self) -> list[bytes] | None:
        """The payloads of one second; None for another event."""
        while line := self.answer.readline():
            if line.startswith(b"data: "):
                content = json.loads(line[6:])
                if "messages" not in content:
                    return None
                return [base64.b64decode(one["payload"]) for one in content["messages"]]
        raise EOFError

    def close(self) -> None:
        self.answer.close()
        self.connection.close()


def test_given_new_messages_then_one_who_follows_gets_each_and_in_order() -> None:
    with monitored("netstring", "--http_messages") as process:
        tail = Tail(http_port(process), "a.*")
        client = RawClient(process.port, QUIET)
        while not (process_subscriptions(process)):
            pass
        got: list[bytes] = []
        for at in range(3 * TAILED_MAX):
            client.ask(b"PUB a.%d 4\r\n%04d\r\nPUB b 1\r\nx\r\n" % (at, at))
            if at % TAILED_MAX == TAILED_MAX - 1:
                while len(got) <= at:
                    got += tail.batch() or []
        assert got == [b"%04d" % at for at in range(3 * TAILED_MAX)]
        client.close()
        tail.close()
        while process_subscriptions(process):  # it is gone when it cannot be written to
            pass


def test_given_more_than_can_be_shown_then_a_second_shows_some_and_goes_on() -> None:
    with monitored("netstring", "--http_messages") as process:
        tail = Tail(http_port(process), ">")
        client = RawClient(process.port, QUIET)
        while not process_subscriptions(process):
            pass
        client.ask(b"PUB a 1\r\nx\r\n" * 1000)
        while not (got := tail.batch()):
            pass
        assert len(got) == TAILED_MAX
        client.ask(b"")
        while not process_subscriptions(process):
            pass
        client.ask(b"PUB a 4\r\nlast\r\n")
        while (got := tail.batch()) != [b"last"]:
            assert got == []
        client.close()
        tail.close()


def test_given_one_who_follows_when_messages_are_turned_off_then_it_gets_no_more(
    tmp_path: Path,
) -> None:
    with Reloaded(tmp_path, "http_port = -1\nhttp_messages = true\n") as reloaded:
        tail = Tail(http_port(reloaded.broker), ">")
        reloaded.reload("http_port = -1\n")
        client = RawClient(reloaded.broker.port, QUIET)
        client.ask(b"PUB a 6\r\nsecret\r\n")
        client.close()
        while (got := tail.batch()) is not None:
            assert got == []
        with pytest.raises(EOFError):
            tail.batch()
        tail.close()


def process_subscriptions(process: SeriatimServer) -> int:
    page = get(http_port(process), "/subsz").json
    return int(page["num_subscriptions"])
