"""The live page over HTTP: its files, and its figures once a second for those who look."""

import http.client
import json
import os
import re
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from broker.monitor.monitor import PAGES
from broker.monitor.page.assets import ASSETS, KINDS
from broker.monitor.page.live import CHARTED, VIEWERS_MAX
from tests.support.places import ROOT
from tests.support.processes import SeriatimServer
from tests.support.raw import QUIET, RawClient
from tests.support.reloaded import Reloaded
from tests.support.set_clock import SetClock
from tests.support.web import get, http_port, monitored

STATIC = ROOT / "broker" / "monitor" / "page" / "static"
WAIT_S = 60.0


class Viewer:
    """One who looks: a connection to /live, and its events."""

    def __init__(self, port: int) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=WAIT_S)
        self.connection.request("GET", "/live")
        self.answer = self.connection.getresponse()

    def event(self) -> tuple[str, dict[str, Any]]:
        """The next event; its name is empty at the end."""
        name, content = "", {}
        while line := self.answer.readline():
            word, _, rest = line.decode().rstrip("\n").partition(": ")
            if word == "event":
                name = rest
            elif word == "data":
                content = json.loads(rest)
            elif not word and name:
                return name, content
        return "", {}

    def close(self) -> None:
        self.answer.close()
        self.connection.close()


@contextmanager
def looking(port: int) -> Iterator[Viewer]:
    deadline = time.monotonic() + WAIT_S
    viewer = Viewer(port)
    while viewer.answer.status == 503 and time.monotonic() < deadline:
        viewer.close()  # those of the test before have gone, but that was not noticed yet
        viewer = Viewer(port)
    try:
        yield viewer
    finally:
        viewer.close()


def threads(process: SeriatimServer) -> int:
    """How many threads the broker has."""
    return len(os.listdir(f"/proc/{process.pid}/task"))


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with monitored("netstring") as process:
        yield http_port(process)


@pytest.mark.parametrize("path", list(ASSETS))
def test_given_a_file_of_the_page_when_asked_for_then_it_is_sent_and_may_load_nothing_else(
    port: int, path: str
) -> None:
    page = get(port, path)
    assert page.status == 200
    assert page.body == (STATIC / ASSETS[path]).read_bytes()
    assert page.headers["Content-Type"] == KINDS[ASSETS[path].rpartition(".")[2]]
    policy = page.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "Access-Control-Allow-Origin" not in page.headers
    again = get(port, path, headers={"If-None-Match": page.headers["ETag"]})
    assert (again.status, again.body) == (304, b"")


def test_given_the_files_then_each_is_sent_and_none_names_another_host() -> None:
    sent = {STATIC / name for name in ASSETS.values()} | {STATIC / "vendor" / "uplot.LICENSE"}
    assert sent == {path for path in STATIC.rglob("*") if path.is_file()}
    for path in sent - {STATIC / "vendor" / "uplot.LICENSE"}:
        hosts = set(re.findall(rb"(?:https?:)?//([a-z0-9.-]+\.[a-z]{2,})", path.read_bytes()))
        assert hosts <= {b"github.com", b"www.w3.org"}, path  # uPlot's comment; a name of SVG
        if path.suffix in (".js", ".html") and path.parent == STATIC:
            assert not re.search(
                rb"innerHTML|outerHTML|insertAdjacent|document\.write|\bon[a-z]+=|style=",
                path.read_bytes(),
            ), path


def test_given_no_javascript_then_the_page_lists_the_pages_for_tools(port: int) -> None:
    listed = set(re.findall(r'<a href="([a-z]+)">/\1</a>', get(port, "/").body.decode()))
    assert {f"/{name}" for name in listed} == set(PAGES)


def test_given_viewers_when_they_look_then_each_has_the_past_and_a_sample_a_second(
    port: int,
) -> None:
    with looking(port) as first:
        name, past = first.event()
        assert (name, past["fields"]) == ("history", ["time", *CHARTED])
        rows = []
        for _ in range(2):
            name, sample = first.event()
            assert name == "sample"
            rows.append(sample["row"])
        assert sample["varz"]["messages"] == {"are_shown": False, "login": False}
        assert rows[0][0] < rows[1][0] < rows[0][0] + WAIT_S
        with looking(port) as second:
            assert second.event()[1]["rows"][-2:] == rows


def test_given_messages_when_looked_at_then_the_number_ticks(port: int) -> None:
    with monitored("netstring") as process, looking(http_port(process)) as viewer:
        client = RawClient(process.port, QUIET)
        viewer.event()
        assert viewer.event()[1]["varz"]["sequence"] == 0
        client.ask(b"PUB a 1\r\nx\r\n" * 3)
        while (sample := viewer.event()[1])["varz"]["sequence"] != 3:
            assert sample["varz"]["sequence"] == 0
        assert sample["row"][1 + CHARTED.index("sequence")] == 3
        client.close()


def test_given_nobody_who_looks_then_nothing_is_sampled_and_the_past_is_kept() -> None:
    with monitored("netstring") as process:
        port = http_port(process)
        alone = threads(process)
        with looking(port) as viewer:
            newest = [viewer.event()[1] for _ in range(3)][-1]
            assert threads(process) >= alone + 2  # the viewer's, and the sampler's
        while threads(process) > alone:
            pass
        with looking(port) as viewer:
            rows = viewer.event()[1]["rows"]
            assert newest["row"] in rows
            # One who has gone is noticed by the second sample that cannot be sent, at the latest.
            assert len(rows) - rows.index(newest["row"]) <= 4


def test_given_as_many_viewers_as_may_be_then_one_more_is_refused_and_told_why(port: int) -> None:
    with ExitStack() as stack:
        viewers = [stack.enter_context(looking(port)) for _ in range(VIEWERS_MAX)]
        for viewer in viewers:
            assert viewer.event()[0] == "history"
        refused = get(port, "/live")
        assert refused.status == 503
        assert f"{VIEWERS_MAX} pages are open" in refused.json["error"]
        viewers[0].close()
        with looking(port) as viewer:  # as soon as it is noticed
            assert viewer.answer.status == 200


def test_given_viewers_when_the_broker_stops_then_it_does_not_wait_for_them() -> None:
    with ExitStack() as stack, monitored("netstring") as process:
        viewer = stack.enter_context(looking(http_port(process)))
        assert viewer.event()[0] == "history"
        begun = time.monotonic()
        assert process.stop() == 0
        assert time.monotonic() - begun < WAIT_S
        while viewer.event()[0]:
            pass  # to the end of the connection


def test_given_a_viewer_who_reads_nothing_then_others_go_on(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port)) as deaf:
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        deaf.sendall(b"GET /live HTTP/1.0\r\n\r\n")
        with looking(port) as viewer:
            assert [viewer.event()[0] for _ in range(3)] == ["history", "sample", "sample"]


@pytest.mark.parametrize("method", ["POST", "DELETE", "OPTIONS"])
@pytest.mark.parametrize("path", ["/live", "/messages", "/page/main.js"])
def test_given_another_method_then_it_is_refused(port: int, path: str, method: str) -> None:
    assert get(port, path, method).status in (405, 501)


def test_given_a_password_then_the_page_needs_it_too() -> None:
    arguments = ("--http_user", "ops", "--http_pass", "secret")
    with monitored("netstring", *arguments) as process:
        for path in ("/", "/live", "/page/main.js", "/messages"):
            assert get(http_port(process), path).status == 401


def test_given_a_clock_that_is_set_back_then_the_past_begins_anew(tmp_path: Path) -> None:
    clock = SetClock(tmp_path / "clock")
    process = SeriatimServer("none", arguments=["-m", "-1"])
    process.env.update(clock.env)
    with process:
        with looking(http_port(process)) as viewer:
            samples = [viewer.event() for _ in range(3)][1:]
            clock.ahead(-3600)
            while samples[-1][1]["row"][0] >= samples[0][1]["row"][0]:
                samples.append(viewer.event())
        with looking(http_port(process)) as viewer:
            times = [row[0] for row in viewer.event()[1]["rows"]]
    assert times == sorted(times)
    assert times[0] < samples[0][1]["row"][0]


def test_given_a_viewer_when_a_password_is_set_then_it_sees_no_more(tmp_path: Path) -> None:
    with Reloaded(tmp_path, "http_port = -1\n") as reloaded:
        with looking(http_port(reloaded.broker)) as viewer:
            assert viewer.event()[0] == "history"
            reloaded.reload('http_port = -1\nhttp_user = "ops"\nhttp_password = "guess"\n')
            assert "" in [viewer.event()[0] for _ in range(5)]  # it has ended
        assert get(http_port(reloaded.broker), "/live").status == 401
