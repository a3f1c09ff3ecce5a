"""The live page's own answers: its files, its figures once a second, and messages.

Nothing here may be read by another site (no Access-Control-Allow-Origin), unlike the pages for
tools.
"""

import re
import socket
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any, Final, NamedTuple, TypeVar
from urllib.parse import parse_qs

from broker.monitor.page.assets import ASSETS, SECURITY_POLICY, asset
from broker.monitor.page.live import Live, TooManyViewers
from broker.monitor.page.page_messages import (
    FOUND_MAX,
    NUMBER_MAX,
    InsideClient,
    Login,
    NotShown,
    check_subject,
    find,
    first_since,
    is_of_the_page,
    tail,
)
from broker.server import Server

LIVE: Final = "/live"
MESSAGES: Final = "/messages"
TAIL: Final = "/messages/tail"
EVENTS: Final = "text/event-stream; charset=utf-8"
JSON: Final = "application/json"
FEW: Final = 50  # messages in an answer, unless asked for more
OFF: Final = "messages are not shown here: the broker was started without --http_messages"
NOT_OURS: Final = (
    "only the live page at this address may read messages; open it by IP address or as localhost,"
    " or set http_user"
)
PAGE_HEADERS: Final = (
    ("Cache-Control", "no-cache"),  # asked again each time, and mostly not sent again
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Content-Security-Policy", SECURITY_POLICY),
)
Taken = TypeVar("Taken")
Body = bytes | Iterator[bytes]


class PageAnswer(NamedTuple):
    """An answer; `error` instead of a body is for the monitor to word."""

    status: str
    kind: str = JSON
    body: Body | dict[str, Any] = b""
    headers: tuple[tuple[str, str], ...] = PAGE_HEADERS
    error: str = ""


class LivePage:
    """The live page of one broker."""

    def __init__(
        self,
        server: Server,
        ask: Callable[[Callable[[], Any]], Any],
        figures: Callable[[], dict[str, Any]],
        client_of: Callable[[dict[str, Any]], str],
    ) -> None:
        """`ask` calls something in the broker's loop; `figures` returns the page /varz.

        `client_of` returns the address of who sends a request, which a proxy may name.
        """
        self._server = server
        self._ask = ask
        self._figures = figures
        self._client_of = client_of
        self._live = Live(self._sample)

    def stop(self) -> None:
        """End what is being watched."""
        self._live.stop()

    def answer(self, path: str, environ: dict[str, Any]) -> PageAnswer | None:
        """Answer a request; None: the path is not one of the live page's."""
        if path in ASSETS:
            return self._asset(path, environ)
        if path == LIVE:
            return self._watch(environ)
        if path in (MESSAGES, TAIL):
            try:
                return self._messages(path, environ)
            except NotShown as error:
                return PageAnswer("403 Forbidden", error=str(error))
        return None

    def _asset(self, path: str, environ: dict[str, Any]) -> PageAnswer:
        file = asset(path)
        headers = (*PAGE_HEADERS, ("ETag", file.tag))
        if environ.get("HTTP_IF_NONE_MATCH") == file.tag:
            return PageAnswer("304 Not Modified", file.kind, b"", headers)
        return PageAnswer("200 OK", file.kind, file.content, headers)

    def _watch(self, environ: dict[str, Any]) -> PageAnswer:
        if environ["REQUEST_METHOD"] == "HEAD":
            return PageAnswer("200 OK", EVENTS)
        try:
            return PageAnswer("200 OK", EVENTS, self._live.watch())
        except TooManyViewers as error:
            return PageAnswer("503 Service Unavailable", error=str(error))

    def _sample(self) -> dict[str, Any]:
        settings = self._server.settings
        shown = {"are_shown": settings.http_messages, "login": settings.authorization.is_required}
        return {**self._figures(), "messages": shown}

    def _messages(self, path: str, environ: dict[str, Any]) -> PageAnswer:
        """Answer a request for messages. Raises `NotShown`."""
        settings = self._server.settings
        if not settings.http_messages:
            return PageAnswer("404 Not Found", error=OFF)
        if not is_of_the_page(environ, bool(settings.http_user)):
            return PageAnswer("403 Forbidden", error=NOT_OURS)
        if environ["REQUEST_METHOD"] == "HEAD":
            return PageAnswer("200 OK")
        try:
            asked = parse_qs(environ.get("QUERY_STRING", ""), max_num_fields=16, errors="replace")
        except ValueError:
            raise NotShown("the query has too many parameters") from None
        subject = (asked.get("subject") or [">"])[-1]
        check_subject(subject)
        client = self._inside_client(environ)
        if path == TAIL:
            return PageAnswer("200 OK", EVENTS, tail(client, subject, self._refusal))
        with client:
            return PageAnswer("200 OK", JSON, self._found(client, subject, asked))

    def _refusal(self) -> str:
        """Return why messages are not shown any more; empty: they are."""
        return "" if self._server.settings.http_messages else OFF

    def _found(
        self, client: InsideClient, subject: str, asked: dict[str, list[str]]
    ) -> dict[str, Any]:
        """Return the messages that were asked for, by number, by time, or the newest."""
        first, newest, newest_ns = self._ask(self._bounds)
        most = min(_number(asked, "limit") or FEW, FOUND_MAX)
        page = {"first": first, "newest": newest, "begin": 0}
        if "since" in asked:
            ms = _time_ms(asked["since"][-1])
            begin = first_since(client, subject, ms) if ms * 1_000_000 <= newest_ns else 0
            if not begin:
                return page | {"messages": [], "lost": [], "is_whole": True}
        else:
            begin = _number(asked, "from") or max(newest - most + 1, 1)
        last = min(_number(asked, "to") or NUMBER_MAX, newest)
        return page | {"begin": begin, **find(client, subject, begin, last, most)}

    def _bounds(self) -> tuple[int, int, int]:
        """Return the first and last number that can be read, and the time of the last in ns."""
        replays = self._server.replays
        if replays is None:
            return 1, 0, 0
        journal = replays.journal
        return journal.first, journal.last, journal.newest_time

    def _inside_client(self, environ: dict[str, Any]) -> InsideClient:
        """Connect to the broker as the viewer. Raises `NotShown`."""
        login = Login.parse(environ.get("HTTP_X_SERIATIM_LOGIN", ""))
        ours, theirs = socket.socketpair()
        try:
            ip = self._client_of(environ)
            self._ask(lambda: self._server.listening.join_inside(theirs, ip))
        except BaseException:
            ours.close()  # the other one may be with the loop already, which sees the end of it
            raise
        return InsideClient(ours, login)


def _number(asked: dict[str, list[str]], name: str) -> int:
    """Return a number of the query, 0 if it is not given. Raises `NotShown`."""
    text = (asked.get(name) or ["0"])[-1].replace(",", "").replace(" ", "")
    if not (text.isascii() and text.isdigit()) or len(text) > 19 or int(text) > NUMBER_MAX:
        raise NotShown(f"{name}: {text[:40]!r} is not a number")
    return int(text)


def _time_ms(text: str) -> int:
    """Return a time as ms since 1970: RFC 3339, or how long ago (90s, 15m, 2h, 1d)."""
    if ago := re.fullmatch(r"(\d{1,9})(s|m|h|d)", text.strip()):
        unit = {"s": 1, "m": 60, "h": 3600, "d": 86_400}[ago[2]]
        return max(int((time.time() - int(ago[1]) * unit) * 1000), 0)
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        why = "give 2026-01-31T12:00:00Z, or how long ago: 90s, 15m, 2h, 1d"
        raise NotShown(f"since: {text[:40]!r} is not a time; {why}") from None
    if moment.tzinfo is None:
        raise NotShown(f"since: {text[:40]!r} has no time zone; append Z for UTC")
    return max(int(moment.timestamp() * 1000), 0)
