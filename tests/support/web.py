"""HTTP as monitoring tools use it, and a broker that is monitored."""

import json
import re
import urllib.error
import urllib.request
from typing import Any

from tests.support.processes import SeriatimServer, ServerProcess

WEB_S = 60.0
Headers = dict[str, str]


class Page:
    """An answer: its status, its headers, its body."""

    def __init__(self, status: int, headers: Any, body: bytes) -> None:
        self.status = status
        self.headers = headers
        self.body = body

    @property
    def json(self) -> dict[str, Any]:
        assert self.headers["Content-Type"] == "application/json"
        found: dict[str, Any] = json.loads(self.body)
        return found


def get(port: int, path: str, method: str = "GET", headers: Headers | None = None) -> Page:
    """Ask for a page; an error status is an answer too."""
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}{path}", method=method, headers=headers or {}
    )
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=WEB_S) as answer:
            return Page(answer.status, answer.headers, answer.read())
    except urllib.error.HTTPError as error:
        with error:
            return Page(error.code, error.headers, error.read())


def http_port(process: ServerProcess) -> int:
    """The port that the process says it serves monitoring on."""
    (line,) = (said for said in process.log if "Starting http monitor on " in said)
    return int(line.rpartition(":")[2])


def monitored(frame: str = "netstring", *arguments: str) -> SeriatimServer:
    """A broker with monitoring on a free port; not started yet."""
    return SeriatimServer(frame, arguments=["-m", "-1", *arguments])


def metrics(port: int) -> dict[str, float]:
    """Every sample of /metrics by its name with labels."""
    text = get(port, "/metrics").body.decode()
    samples = re.findall(r"^([a-z]\S*?(?:\{.*\})?) (\S+)$", text, re.MULTILINE)
    return {name: float(value) for name, value in samples}
