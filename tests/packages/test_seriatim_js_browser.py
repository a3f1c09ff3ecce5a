"""The npm package in a browser: bundled, over WebSocket, with the client of NATS for browsers."""

import subprocess
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from tests.packages.runtimes import runtime_of
from tests.support.browser import Visit, browser
from tests.support.etcd_server import kept_port
from tests.support.processes import STAND_IN, SeriatimServer
from tests.support.raw_secured import web_port

pytestmark = pytest.mark.skipif(STAND_IN, reason="nats-server gives no numbers")
BUNDLE_S = 120


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        """Nobody reads it."""


@pytest.fixture(scope="module")
def origin(node: str, laid: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the page, bundled as users bundle their applications."""
    folder = tmp_path_factory.mktemp("site")
    bundler = runtime_of("bun", node).run[0]
    done = subprocess.run(
        [bundler, "build", "page.mjs", "--target=browser", f"--outfile={folder / 'page.js'}"],
        cwd=laid,
        capture_output=True,
        text=True,
        timeout=BUNDLE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    made = (folder / "page.js").read_text()
    assert "node:" not in made, "nothing of node is in the bundle"
    (folder / "index.html").write_text(
        '<!doctype html><meta charset="utf-8"><title>Orders</title>'
        '<link rel="icon" href="data:,"><script type="module" src="page.js"></script>'
    )
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=folder)) as server:
        server.daemon_threads = True
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


def rows(first: int, count: int) -> list[str]:
    return [f"{first + at} {at} äpfel" for at in range(count)]


def test_given_a_browser_when_the_broker_is_killed_and_the_page_loads_again_then_it_goes_on(
    origin: str,
) -> None:
    with browser() as started, kept_port() as keeper:
        flags = ["--websocket_port", str(keeper.getsockname()[1])]
        with SeriatimServer("netstring", arguments=flags) as broker:
            visit = Visit(started)
            page = visit.page
            page.goto(f"{origin}#ws://127.0.0.1:{web_port(broker)}")
            page.wait_for_function("window.publish")
            assert page.evaluate("publish(100)") == list(range(1, 101))
            page.wait_for_function("seen.length >= 100")
            assert "connect(options, wsconnect)" in page.evaluate("withoutClient()")
            assert "give position as { load, save }" in page.evaluate("withFile()")
            broker.kill()
            page.evaluate("void (window.sent = publish(100))")
            broker.start(broker.port)
            assert page.evaluate("sent") == list(range(101, 201))
            page.wait_for_function("seen.length >= 200")
            assert page.evaluate("seen") == rows(1, 100) + rows(101, 100)
            page.reload()
            page.wait_for_function("window.publish")
            assert page.evaluate("publish(10)") == list(range(201, 211))
            page.wait_for_function("seen.length >= 10")
            assert page.evaluate("seen") == rows(201, 10), "it began where it was"
            # Of the time without a broker, and nothing else.
            assert [one for one in visit.complaints if "WebSocket connection" not in one] == []
            visit.close()
