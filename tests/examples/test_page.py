"""examples/page.py: a browser gets each message once, over all breaks."""

import http.client
import json
import socket
import threading
import time
from random import Random
from typing import Any

import pytest

from tests.crash.trial import SEED
from tests.examples.services import Orders, Service, assert_equal, broker, journal_of, storm, until
from tests.support.etcd_server import kept_port
from tests.support.processes import STAND_IN, SeriatimServer, ServerProcess, url
from tests.support.web import get, http_port

pytestmark = pytest.mark.skipif(STAND_IN, reason="nats-server gives no numbers")
READY = "Uvicorn running"
IDLE_S = 20.0  # more than the 15 s after which the page says that it is there


def order(at: int) -> tuple[str, bytes]:
    return f"orders.{at % 5}", f"{at} apples\n\r\u2028</script>".encode()


class Browser(threading.Thread):
    """What a browser's EventSource does: it comes back with the id of the last whole event."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self.seen: list[dict[str, Any]] = []
        self.others: list[tuple[str, str]] = []  # events with a name
        self.last_id = ""
        self.over = False
        self._port = port
        self._chance = Random(SEED)

    def run(self) -> None:
        while not self.over:
            try:
                self.visit(self._chance.randint(1, 1000))
            except (OSError, http.client.HTTPException):
                time.sleep(0.02)  # no event to await: the page is down

    def visit(self, left: int) -> None:
        """Take so many events, and leave."""
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=IDLE_S)
        headers = {"Last-Event-ID": self.last_id} if self.last_id else {}
        try:
            connection.request("GET", "/events", headers=headers)
            answer = connection.getresponse()
            assert answer.status == 200, answer.read()
            fields: dict[str, str] = {}
            while left and not self.over and (line := answer.readline()):
                if line == b"\n":
                    left -= self.take(fields)
                    fields = {}
                elif line.endswith(b"\n"):
                    name, _, value = line.decode().rstrip("\n").partition(": ")
                    fields[name] = value
        finally:
            connection.close()

    def take(self, fields: dict[str, str]) -> int:
        """Take a whole event; a comment is none."""
        self.last_id = fields.get("id", self.last_id)
        if "data" not in fields:
            return 0
        if "event" in fields:
            self.others.append((fields["event"], fields["data"]))
        else:
            self.seen.append(json.loads(fields["data"]))
        return 1


def page(server: ServerProcess, keeper: socket.socket) -> Service:
    port = keeper.getsockname()[1]
    return Service("page.py", url(server), "orders.>", "--port", port, ready=READY)


def test_given_kills_and_a_browser_that_comes_and_goes_then_it_sees_each_number_once() -> None:
    with kept_port() as keeper, broker() as server, page(server, keeper) as service:
        browser = Browser(keeper.getsockname()[1])
        orders = Orders(url(server), order, ahead=20, taken=lambda: len(browser.seen))
        orders.start()
        browser.start()
        storm(server, "page", lambda: len(browser.seen), [service])
        last = orders.end()[-1]
        until(lambda: bool(browser.seen) and browser.seen[-1]["number"] >= last, [service])
        browser.over = True
        kept = [
            {"number": one.number, "subject": one.subject, "text": one.payload.decode()}
            for one in journal_of(server, "orders.>")
        ]
        assert_equal(browser.seen, kept)
        assert browser.others == []


def test_given_another_journal_when_a_browser_comes_back_then_the_page_begins_anew() -> None:
    with kept_port() as keeper, broker() as server, page(server, keeper):
        browser = Browser(keeper.getsockname()[1])
        orders = Orders(url(server), order, ahead=1)
        orders.start()
        orders.progress.more(1)
        orders.end()
        browser.visit(1)
        port = server.port
        server.kill()
        with SeriatimServer() as other:
            other.stop()
            other.start(port)
            browser.visit(1)
        assert [name for name, _ in browser.others] == ["changed"]


def test_given_an_id_that_is_none_of_ours_when_it_is_sent_then_it_is_refused() -> None:
    with kept_port() as keeper, broker() as server, page(server, keeper):
        browser = Browser(keeper.getsockname()[1])
        for id in ("7", "x:7", "x:-7:0", "a:1:2:3", f"x:{10**30}:0"):
            browser.last_id = id
            with pytest.raises(AssertionError, match="String should match pattern"):
                browser.visit(1)


def test_given_a_browser_that_leaves_when_nothing_comes_then_its_reader_leaves_too() -> None:
    with kept_port() as keeper, broker("-m", "-1") as server, page(server, keeper):

        def connections() -> int:
            return int(get(http_port(server), "/varz").json["connections"])

        until(lambda: connections() == 1)
        with socket.create_connection(("127.0.0.1", keeper.getsockname()[1])) as browser:
            browser.sendall(b"GET /events HTTP/1.1\r\nHost: x\r\n\r\n")
            until(lambda: connections() == 2)
        until(lambda: connections() == 1)
