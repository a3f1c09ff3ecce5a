"""A headless Chromium that runs tests/clients/browser/page.mjs, and the server of that page."""

import base64
import hashlib
import json
import os
import queue
import shutil
import ssl
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).parent / "browser"
CLIENT = Path(__file__).parent / "npm" / "node_modules" / "nats.ws" / "esm" / "nats.js"
FILES = {
    "/page.html": (PAGE / "page.html", "text/html"),
    "/page.mjs": (PAGE / "page.mjs", "text/javascript"),
    "/nats.js": (CLIENT, "text/javascript"),
}
BROWSER_S = 120  # a bound for what hangs
INSTALL_S = 600


def chromium() -> str:
    """Where Chromium is; installed with apt-get if it may be, or the test is skipped."""
    found = shutil.which("chromium")
    if found is None and os.geteuid() == 0 and shutil.which("apt-get") is not None:
        install = ["apt-get", "install", "-y", "--no-install-recommends", "chromium"]
        for command in (["apt-get", "update"], install):
            subprocess.run(command, capture_output=True, timeout=INSTALL_S, check=False)
        found = shutil.which("chromium")
    if found is None:
        pytest.skip("Chromium is not installed, and could not be with apt-get")
    return found


class Page:
    """The page's server: tells it what to do, and hears how it went."""

    def __init__(self) -> None:
        self.task: dict[str, Any] = {}
        self.done: queue.Queue[str] = queue.Queue()
        page = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                path, kind = FILES.get(self.path, (None, "application/json"))
                data = path.read_bytes() if path else json.dumps(page.task).encode()
                self.send_response(200)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def do_POST(self) -> None:
                page.done.put(self.rfile.read(int(self.headers["Content-Length"])).decode())
                self.send_response(204)
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:
                """Nobody reads it."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()
        self.origin = f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@contextmanager
def page_server() -> Iterator[Page]:
    page = Page()
    try:
        yield page
    finally:
        page.close()


def browse(program: str, page: Page, certificate: Path, **task: Any) -> str:
    """Run a scenario in a new browser, which trusts this one certificate; what the page said."""
    page.task = task
    with tempfile.TemporaryDirectory(prefix="seriatim-browser-") as profile:
        command = [
            *(program, "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run"),
            *("--disable-dev-shm-usage", "--disable-background-networking", "--disable-sync"),
            f"--user-data-dir={profile}",
            f"--ignore-certificate-errors-spki-list={_fingerprint(certificate)}",
            f"{page.origin}/page.html",
        ]
        with open(Path(profile) / "said", "w+") as said:
            process = subprocess.Popen(command, stdout=said, stderr=said, start_new_session=True)
            try:
                return page.done.get(timeout=BROWSER_S)
            except queue.Empty:
                said.seek(0)
                raise AssertionError(f"the page says nothing: {said.read()[-3000:]}") from None
            finally:
                _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the browser with all its processes."""
    os.killpg(process.pid, 9)
    process.wait()


def _fingerprint(certificate: Path) -> str:
    """What Chromium calls a certificate: the hash of its public key."""
    command = ["openssl", "x509", "-in", str(certificate), "-noout", "-pubkey"]
    pem = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    lines = pem.strip().splitlines()[1:-1]
    key = base64.b64decode("".join(lines))
    assert ssl.PEM_cert_to_DER_cert(certificate.read_text()), "it is one certificate"
    return base64.b64encode(hashlib.sha256(key).digest()).decode()
