"""`seriatim check http://...`: checks a broker's health by its monitoring pages."""

import base64
import http.client
import ssl
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import Any, Final
from urllib.parse import SplitResult, unquote

from seriatim.cli.check.check_broker import Approach
from seriatim.cli.check.check_results import CheckResults
from seriatim.cli.check.validity import judge
from seriatim.cli.errors import CliError
from seriatim.client.credentials import Credentials
from seriatim.client.errors import describe
from seriatim.client.peer_json import read_object

PORTS: Final = {"http": 8222, "https": 8222}
CROWDED: Final = 0.9  # of max_connections
BODY_MAX: Final = 1 << 20  # bytes


class NoWebAnswer(Exception):
    """Monitoring cannot be reached, or does not answer as a broker does; the text says why."""


def web_address(parts: SplitResult, approach: Approach) -> tuple[SplitResult, Approach]:
    """The address of monitoring, and how to connect with the credentials in it.

    Raises `CliError`.
    """
    try:
        named = bool(parts.hostname) and parts.port != 0
    except ValueError:  # the port is not a number
        named = False
    if not named or parts.path.strip("/") or parts.query:
        raise CliError("this is not the address of monitoring; give http://HOST:PORT")
    if parts.username and not approach.access.credentials.user:
        own = Credentials(unquote(parts.username), unquote(parts.password or ""))
        approach = replace(approach, access=replace(approach.access, credentials=own))
    return parts, approach


def check_web(results: CheckResults, parts: SplitResult, approach: Approach) -> None:
    """Ask /healthz and /varz."""
    try:
        with web_connection(parts, approach) as connection:
            _report_certificate(results, connection)
            status, page = web_page(connection, "/healthz", approach)
            if status == http.client.OK:
                results.ok("healthz", str(page.get("status", "ok")))
            else:
                results.fail("healthz", f"{status} {page.get('error', '')}".rstrip())
            _judge_varz(results, *web_page(connection, "/varz", approach))
    except NoWebAnswer as error:
        results.fail("connection", str(error))


@contextmanager
def web_connection(parts: SplitResult, approach: Approach) -> Iterator[http.client.HTTPConnection]:
    """Connect to monitoring. Raises `NoWebAnswer`, also for what fails inside."""
    host, port = parts.hostname or "", parts.port or PORTS[parts.scheme]
    made: http.client.HTTPConnection
    if parts.scheme == "https":
        context = approach.access.tls.context()
        made = http.client.HTTPSConnection(host, port, timeout=approach.timeout, context=context)
    else:
        made = http.client.HTTPConnection(host, port, timeout=approach.timeout)
    with closing(made):
        try:
            made.connect()
            yield made
        except (OSError, http.client.HTTPException, ValueError) as error:
            why = describe(error) if isinstance(error, OSError) else f"does not speak HTTP: {error}"
            raise NoWebAnswer(f"{host}:{port}: {why}") from error


def _report_certificate(results: CheckResults, connection: http.client.HTTPConnection) -> None:
    if isinstance(connection.sock, ssl.SSLSocket):
        results.ok("tls", connection.sock.version() or "?")
        judge(results, "certificate", connection.sock.getpeercert(binary_form=True) or b"")


def web_page(
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
        try:
            return answer.status, read_object(answer.read(BODY_MAX))
        except ValueError:
            raise ValueError(f"{path} is not a page of a broker") from None


def _judge_varz(results: CheckResults, status: int, page: dict[str, Any]) -> None:
    if status != http.client.OK:
        results.fail("varz", f"{status} {page.get('error', '')}".rstrip())
        return
    count, most = _whole(page, "connections"), _whole(page, "max_connections")
    text = f"version {page.get('version')}, up {page.get('uptime')}, {count} of {most} connections"
    if most and count >= CROWDED * most:
        results.warn("varz", f"{text}: soon clients are refused")
    else:
        results.ok("varz", text)


def _whole(page: dict[str, Any], name: str) -> int:
    value = page.get(name)
    return value if isinstance(value, int) else 0
