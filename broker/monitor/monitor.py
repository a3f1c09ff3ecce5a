"""The monitoring service: takes HTTP requests, and reads the figures in the broker's loop.

    request thread                      the broker's loop
    route and query checked
    ask: call_soon_threadsafe  ------>  between two events: copy what is needed
    make JSON or metrics of it <------  a future's result
    answer

If the loop does not answer in time, the monitor reports that: 503.
"""

import asyncio
import concurrent.futures
import json
import logging
import threading
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator
from itertools import chain
from math import ceil
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import parse_qs

from prometheus_client.exposition import make_wsgi_app

from broker.addresses import cannot_listen, shown
from broker.cluster_state import ClusterState
from broker.monitor import metrics, views
from broker.monitor.basic_auth import CHALLENGE, BasicAuth
from broker.monitor.cluster_figures import routes_page, take_cluster
from broker.monitor.http import HttpServer
from broker.monitor.journal_pages import (
    journal_page,
    replays_page,
    take_journal,
    take_replays,
)
from broker.monitor.page.live_page import LivePage, PageAnswer
from broker.monitor.page.recent_subjects import subjects_page, take_newest
from broker.monitor.process_figures import CpuMeter
from broker.monitor.query import (
    PARAMETERS,
    BadQuery,
    HealthQuery,
    Query,
    check_parameters,
    connections_query,
    health_query,
    jetstream_query,
    page_query,
    recent_query,
    subscriptions_query,
)
from broker.monitor.stream_figures import (
    jetstream_page,
    missing_in_streams,
    take_details,
    take_series,
    take_streams,
)
from broker.monitor.system_requests import SystemRequests
from broker.runtime.loop_latency import LOOP_LATENCY
from broker.server import Server

PATIENCE_SECONDS = 5.0  # a loop that is busy for longer is not healthy
JSON = "application/json"
# For our own page and for tools, not for other sites that a browser shows: they would learn the
# subjects of messages, and paths of this machine.
OWN_PAGES = frozenset(("/journalz", "/replayz", "/recentz"))
PAGES = (*PARAMETERS, "/metrics")

if TYPE_CHECKING:
    from broker.wires.tls_contexts import ClientFacingContext

log = logging.getLogger("seriatim")
Taken = TypeVar("Taken")
Body = bytes | Iterator[bytes]
StartResponse = Callable[..., Any]
PIECE = 1 << 16


# Writes JSON in pieces while it is sent: a page of any length is never in memory as a whole.
#
# A value that is an iterator becomes a list, with one line for each entry; entries may contain
# iterators too. Memory: one piece.


def pieces(page: dict[str, Any]) -> Iterator[bytes]:
    """Yield the page in pieces of about 64 KiB."""
    waiting: list[str] = []
    size = 0
    for text in _texts(page, 2):
        waiting.append(text)
        size += len(text)
        if size >= PIECE:
            yield "".join(waiting).encode()
            waiting.clear()
            size = 0
    yield "".join([*waiting, "\n"]).encode()


def _texts(page: dict[str, Any], indent: int | None) -> Iterator[str]:
    lists = {name: value for name, value in page.items() if isinstance(value, Iterator)}
    rest = {name: value for name, value in page.items() if name not in lists}
    text = json.dumps(rest, indent=indent)
    if not lists:
        yield text
        return
    yield text[:-1].rstrip("\n")
    separator = ",\n  " if indent else ", "
    for name, items in lists.items():
        yield f"{separator if rest else ''}{json.dumps(name)}: ["
        between = "\n"
        for item in items:
            yield between
            between = ",\n"
            if isinstance(item, dict):
                yield from _texts(item, None)
            else:
                yield json.dumps(item)
        yield "]"
    yield "\n}" if indent else "}"


class Unavailable(Exception):
    """The broker's loop does not answer, or no longer runs; or the broker is not healthy."""

    status_code = 503


class NotThere(Exception):
    """The stream or the consumer that /healthz is asked about does not exist."""

    status_code = 404


class Monitor:
    """Monitoring of one broker; started and stopped in the broker's loop."""

    def __init__(
        self,
        server: Server,
        loop: asyncio.AbstractEventLoop,
        host: str,
        port: int,
        patience: float = PATIENCE_SECONDS,
        context: "Callable[[], ClientFacingContext] | None" = None,
    ) -> None:
        """With `context`, monitoring is over TLS."""
        self._server = server
        self._loop = loop
        self._address = (host, port)
        self._patience = patience
        self._context = context
        self._cpu = CpuMeter()
        self._auth = BasicAuth()
        self._http: HttpServer | None = None
        self._http_port = 0
        registry = metrics.registry(
            server, lambda: self._ask(lambda: (self._state(), take_series(server)))
        )
        self._metrics = make_wsgi_app(registry)
        self._asked = dict.fromkeys(PAGES, 0)  # how often each page was asked for
        self._asking = threading.Lock()
        self._live_page = LivePage(*(server, self._ask, lambda: self._varz({}), self._client_of))
        self._pages: dict[str, Callable[[Query], dict[str, Any]]] = {
            "/varz": self._varz,
            "/connz": self._connz,
            "/subsz": self._subsz,
            "/subscriptionsz": self._subsz,
            "/portz": self._portz,
            "/routez": self._routez,
            "/journalz": self._journalz,
            "/replayz": self._replayz,
            "/recentz": self._recentz,
            "/jsz": self._jsz,
            "/leafz": self._empty(views.leafs_page),
            "/gatewayz": self._empty(views.gateways_page),
            "/accountz": self._empty(views.accounts_page),
            "/accstatz": self._empty(views.account_statistics_page),
            "/healthz": self._healthz,
        }
        self._system = SystemRequests(server, loop, self._page, self._state_asked)
        server.control.system = self._system

    def start(self) -> tuple[str, int]:
        """Listen; return the address that was bound. Raises OSError."""
        host, port = self._address
        try:
            self._http = HttpServer(host, port, self._app, self._context)
        except OSError as error:
            flags = f"--{self._scheme}_port and --http_host"
            raise cannot_listen(host, port, error, flags, "monitoring") from error
        host, self._http_port = self._http.start()
        log.info("Starting %s monitor on %s", self._scheme, shown(host, self._http_port))
        return host, self._http_port

    @property
    def _scheme(self) -> str:
        return "http" if self._context is None else "https"

    def stop(self) -> None:
        """Stop listening. May be called twice, and before `start`."""
        self._live_page.stop()
        http, self._http = self._http, None
        if http is not None:
            http.stop()
        self._system.stop()

    def _app(self, environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        """The WSGI application; never raises."""
        path = environ.get("PATH_INFO", "").rstrip("/") or "/"
        self._count(path)
        more: list[tuple[str, str]] = []
        try:
            if (refused := self._refused(path, environ)) is not None:
                (status, kind, body), header = refused
                more.append(header)
            elif path == "/metrics" and environ["REQUEST_METHOD"] == "GET":
                return self._metrics(environ, start_response)  # type: ignore[no-any-return]
            elif environ["REQUEST_METHOD"] in ("GET", "HEAD") and (
                own := self._live_page.answer(path, environ)
            ):
                return _sent(
                    *(own, environ, start_response),
                    is_admitted=lambda: self._refused(path, environ) is None,
                )
            else:
                status, kind, body = self._answer(path, environ)
        except Unavailable as error:
            status, kind, body = _refusal("503 Service Unavailable", str(error))
        except NotThere as error:
            status, kind, body = _refusal("404 Not Found", str(error), "unavailable")
        except Exception as error:
            log.error("Monitoring cannot answer %s: %r", path, error)
            status, kind, body = _refusal("500 Internal Server Error", f"a defect: {error!r}")
        headers = [
            ("Content-Type", kind),
            ("Cache-Control", "no-store"),
            ("X-Content-Type-Options", "nosniff"),
            *more,
        ]
        if path not in OWN_PAGES:
            headers.append(("Access-Control-Allow-Origin", "*"))  # as nats-server's
        if isinstance(body, bytes):
            headers.append(("Content-Length", str(len(body))))
            body = iter((body,))  # other bodies end with the connection
        start_response(status, headers)
        return [] if environ["REQUEST_METHOD"] == "HEAD" else body

    def _refused(
        self, path: str, environ: dict[str, Any]
    ) -> tuple[tuple[str, str, Body], tuple[str, str]] | None:
        """Return a refusal and a header; None: the request needs no user, or has the right one."""
        settings = self._server.settings
        if not settings.http_user or path == "/healthz":
            return None
        header, ip = environ.get("HTTP_AUTHORIZATION", ""), self._client_of(environ)
        if header:
            login, chosen = (settings.http_user, settings.http_password), settings.authorization
            pause = self._auth.judge(ip, header, login, chosen.max_attempts, chosen.timeout)
            if pause == 0:
                return None
            if pause > 0:
                why = "this address has given many wrong passwords"
                return _refusal("429 Too Many Requests", why), ("Retry-After", str(ceil(pause)))
        return _refusal("401 Unauthorized", "give http_user's password"), CHALLENGE

    def _client_of(self, environ: dict[str, Any]) -> str:
        """Return the client's address, which a proxy in front may name."""
        peer, proxies = environ.get("REMOTE_ADDR", ""), self._server.roster.proxies
        if proxies is None:
            return str(peer)
        return proxies.client(str(peer), [environ.get(proxies.variable, "")])

    def _answer(self, path: str, environ: dict[str, Any]) -> tuple[str, str, Body]:
        """Return status, content type and body of a page."""
        if environ["REQUEST_METHOD"] not in ("GET", "HEAD"):
            return _refusal("405 Method Not Allowed", "use GET")
        if path == "/metrics":
            return "200 OK", "text/plain; charset=utf-8", b""  # HEAD: the page exists
        if path not in self._pages:
            return _refusal("404 Not Found", f"there is no page {path}; / lists what there is")
        try:
            query = _query(environ.get("QUERY_STRING", ""))
            page = self._page(path, query)
        except BadQuery as error:
            return _refusal("400 Bad Request", str(error))
        written = pieces(page)
        first = next(written)
        second = next(written, None)
        return "200 OK", JSON, first if second is None else chain((first, second), written)

    def _varz(self, query: Query) -> dict[str, Any]:
        ports = {"http": 0, "https": 0, self._scheme: self._http_port}
        with self._asking:
            asked = {path: count for path, count in self._asked.items() if count}
        return views.varz_page(self._server, self._ask(self._state), ports, self._cpu, asked)

    def _connz(self, query: Query) -> dict[str, Any]:
        asked = connections_query(query)
        total, taken = self._ask(lambda: views.take_connections(self._server, asked))
        return views.connections_page(self._server, asked, total, taken)

    def _subsz(self, query: Query) -> dict[str, Any]:
        asked = subscriptions_query(query)
        state, taken = self._ask(lambda: views.take_subscriptions(self._server, asked))
        return views.subscriptions_page(self._server, asked, state, taken)

    def _portz(self, query: Query) -> dict[str, Any]:
        page = page_query(query)
        total, taken = self._ask(lambda: views.take_callers(self._server, page))
        return views.callers_page(self._server, page, time.time(), total, taken)

    def _journalz(self, query: Query) -> dict[str, Any]:
        page = page_query(query)
        taken = self._ask(lambda: take_journal(self._server, page))
        return journal_page(self._server, time.time(), page, taken)

    def _replayz(self, query: Query) -> dict[str, Any]:
        page = page_query(query)
        taken = self._ask(lambda: take_replays(self._server, page))
        return replays_page(self._server, time.time(), page, taken)

    def _recentz(self, query: Query) -> dict[str, Any]:
        after, server = recent_query(query), self._server
        readable = server.replays.journal if server.replays is not None else None
        taken = self._ask(lambda: take_newest(readable, after))
        return {**views.heading(server, time.time()), **subjects_page(taken)}

    def _jsz(self, query: Query) -> dict[str, Any]:
        asked, server = jetstream_query(query), self._server
        state = self._ask(lambda: take_streams(server))
        details, service = None, server.streams
        if service is not None and asked.streams:
            details = self._ask_task(lambda: take_details(service, asked))
        heading = views.heading(server, time.time())
        return jetstream_page(heading, state, asked, details)

    def _healthz(self, query: Query) -> dict[str, Any]:
        asked = health_query(query)
        if asked.alive:
            self._ask(lambda: None)
            return {"status": "ok"}
        cluster, problem, absent = self._ask(lambda: self._troubles(asked))
        if absent:
            raise NotThere(absent)
        if cluster is not None and cluster.unhealthy:
            raise Unavailable(cluster.unhealthy)
        if problem:
            raise Unavailable(problem)
        return {"status": "ok"}

    def _troubles(self, asked: HealthQuery) -> tuple[ClusterState | None, str, str]:
        """Return the cluster, what is wrong here, and what is not there; empty: nothing."""
        keeper, service = self._server.keeper, self._server.streams
        cluster, problem, absent = take_cluster(self._server), "", ""
        if keeper is not None and keeper.problem:
            problem = f"publishers are refused: {keeper.problem}"
        elif service is not None:
            problem = service.problem(asked.is_api or bool(asked.account))
            if not problem:
                absent = missing_in_streams(service, asked)
        return cluster, problem, absent

    def _routez(self, query: Query) -> dict[str, Any]:
        cluster = self._ask(lambda: take_cluster(self._server))
        return routes_page(self._server, views.timestamp(time.time()), cluster)

    def _empty(
        self, page: Callable[[Server, float], dict[str, Any]]
    ) -> Callable[[Query], dict[str, Any]]:
        """Make the page of a feature that only nats-server has: it is empty for any query."""
        return lambda query: page(self._server, time.time())

    def _count(self, path: str) -> None:
        if path in self._asked:
            with self._asking:
                self._asked[path] += 1

    def _page(self, path: str, query: Query) -> dict[str, Any]:
        """Return a page, in any thread but the loop's. Raises `BadQuery`, and as the page does."""
        check_parameters(path, query)
        return self._pages[path](query)

    def _state_asked(self) -> views.BrokerState:
        return self._ask(self._state)

    def _state(self) -> views.BrokerState:
        return views.take_state(self._server)

    def _ask_task(self, take: Callable[[], Coroutine[Any, Any, Taken]]) -> Taken:
        """Run what `take` returns in the broker's loop; return its result. Raises `Unavailable`."""
        taking = take()
        try:
            answer = asyncio.run_coroutine_threadsafe(taking, self._loop)
        except RuntimeError as error:
            taking.close()
            raise Unavailable("the broker has stopped") from error
        return self._await(answer)

    def _ask(self, take: Callable[[], Taken]) -> Taken:
        """Call `take` in the broker's loop; return its result. Raises `Unavailable`."""
        answer: concurrent.futures.Future[Taken] = concurrent.futures.Future()

        def run() -> None:
            begun = LOOP_LATENCY.start_timing()
            if answer.set_running_or_notify_cancel():
                try:
                    answer.set_result(take())
                except Exception as error:
                    answer.set_exception(error)
            LOOP_LATENCY.end(begun)

        try:
            self._loop.call_soon_threadsafe(run)
        except RuntimeError as error:
            raise Unavailable("the broker has stopped") from error
        return self._await(answer)

    def _await(self, answer: "concurrent.futures.Future[Taken]") -> Taken:
        try:
            return answer.result(self._patience)
        except concurrent.futures.TimeoutError as error:
            answer.cancel()
            raise Unavailable(f"the broker did not answer within {self._patience:g} s") from error


def _query(text: str) -> Query:
    """Parse the parameters of a query. Raises `BadQuery`."""
    try:
        return parse_qs(text, keep_blank_values=True, max_num_fields=64, errors="surrogateescape")
    except ValueError as error:
        raise BadQuery("the query has too many parameters") from error


class AdmittedEvents(Iterator[bytes]):
    """The events of a viewer, for as long as a new request of the same kind would be let in.

    A viewer may watch for days. `http_user` and its password can change meanwhile.
    """

    def __init__(self, events: Iterator[bytes], is_admitted: Callable[[], bool]) -> None:
        self._events = events
        self._is_admitted = is_admitted

    def __next__(self) -> bytes:
        event = next(self._events)
        if not self._is_admitted():
            raise StopIteration
        return event

    def close(self) -> None:
        """End them; WSGI calls this on every way out."""
        close = getattr(self._events, "close", None)
        if close is not None:
            close()


def _sent(
    answer: PageAnswer,
    environ: dict[str, Any],
    start_response: StartResponse,
    is_admitted: Callable[[], bool],
) -> Iterable[bytes]:
    """Send an answer of the live page; events only as long as the viewer is admitted."""
    status, kind, body, headers, error = answer
    if error:
        _, kind, body = _refusal(status, error)
    elif isinstance(body, dict):
        body = _json(body)
    more = [("Content-Type", kind)]
    if isinstance(body, bytes):
        more.append(("Content-Length", str(len(body))))
        body = iter((body,))
    else:
        body = AdmittedEvents(body, is_admitted)
    start_response(status, [*more, *headers])
    return [] if environ["REQUEST_METHOD"] == "HEAD" else body


def _refusal(status: str, reason: str, word: str = "") -> tuple[str, str, Body]:
    word = word or {"503": "unavailable"}.get(status[:3], "error")  # nats-server's, at /healthz
    return status, JSON, _json({"status": word, "status_code": int(status[:3]), "error": reason})


def _json(answer: dict[str, Any]) -> bytes:
    return json.dumps(answer, indent=2).encode() + b"\n"
