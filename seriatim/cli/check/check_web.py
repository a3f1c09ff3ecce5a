"""`seriatim check http://...`: checks a broker's health by its monitoring pages."""

import base64
import http.client
import json
import ssl
from typing import Any, Final
from urllib.parse import SplitResult

from seriatim.cli.check.check_broker import Approach
from seriatim.cli.check.check_results import CheckResults
from seriatim.cli.check.validity import judge
from seriatim.client.errors import describe

PORTS: Final = {"http": 8222, "https": 8222}
CROWDED: Final = 0.9  # of max_connections
BODY_MAX: Final = 1 << 20  # bytes


def check_web(results: CheckResults, parts: SplitResult, approach: Approach) -> None:
    """Ask /healthz and /varz."""
    host, port = parts.hostname or "", parts.port or PORTS[parts.scheme]
    connection: http.client.HTTPConnection
    if parts.scheme == "https":
        context = approach.access.tls.context()
        connection = http.client.HTTPSConnection(
            host, port, timeout=approach.timeout, context=context
        )
    else:
        connection = http.client.HTTPConnection(host, port, timeout=approach.timeout)
    try:
        connection.connect()
        _report_certificate(results, connection)
        status, page = _get(connection, "/healthz", approach)
        if status == http.client.OK:
            results.ok("healthz", str(page.get("status", "ok")))
        else:
            results.fail("healthz", f"{status} {page.get('error', '')}".rstrip())
        _judge_varz(results, *_get(connection, "/varz", approach))
    except (OSError, http.client.HTTPException, ValueError) as error:
        why = describe(error) if isinstance(error, OSError) else f"does not speak HTTP: {error}"
        results.fail("connection", f"{host}:{port}: {why}")
    finally:
        connection.close()


def _report_certificate(results: CheckResults, connection: http.client.HTTPConnection) -> None:
    if isinstance(connection.sock, ssl.SSLSocket):
        results.ok("tls", connection.sock.version() or "?")
        judge(results, "certificate", connection.sock.getpeercert(binary_form=True) or b"")


def _get(
    connection: http.client.HTTPConnection, path: str, approach: Approach
) -> tuple[int, dict[str, Any]]:
    """A page's status, and its JSON. Raises `ValueError` if it has none."""
    headers = {}
    credentials = approach.access.credentials
    if credentials.user:
        plain = f"{credentials.user}:{credentials.password}".encode()
        headers["Authorization"] = f"Basic {base64.b64encode(plain).decode()}"
    connection.request("GET", path, headers=headers)
    with connection.getresponse() as answer:
        page = json.loads(answer.read(BODY_MAX))
        if not isinstance(page, dict):
            raise ValueError(f"{path} is not a page of a broker")
        return answer.status, page


def _judge_varz(results: CheckResults, status: int, page: dict[str, Any]) -> None:
    if status != http.client.OK:
        results.fail("varz", f"{status} {page.get('error', '')}".rstrip())
        return
    count, most = int(page.get("connections", 0)), int(page.get("max_connections", 0))
    text = f"version {page.get('version')}, up {page.get('uptime')}, {count} of {most} connections"
    if most and count >= CROWDED * most:
        results.warn("varz", f"{text}: soon clients are refused")
    else:
        results.ok("varz", text)
